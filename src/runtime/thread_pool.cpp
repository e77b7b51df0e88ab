#include "runtime/thread_pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "monotile/device.hpp"

namespace monotile {
namespace {

using Clock = std::chrono::steady_clock;

// A worker looks for new work this long before it sleeps: longer than the host needs between two operators of a decode
// step, short enough not to burn the core of a process that has stopped asking.
constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr int kPausesPerClockRead = 32;
constexpr int kPausesBeforeYield = 2000;
constexpr int kMostThreads = 1024;
// More chunks than threads, so that a thread which was interrupted does not hold up the others.
constexpr int64_t kChunksPerThread = 8;

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Threads that this process may keep busy: its affinity mask, bounded by a container's processor quota.
int usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int threads = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                            : static_cast<int>(std::thread::hardware_concurrency());
  if (std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    long long quota = 0, period = 0;
    if (std::fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0) {
      threads = static_cast<int>(std::min<long long>(threads, (quota + period - 1) / period));
    }
    std::fclose(file);
  }
  return std::clamp(threads, 1, 64);
}

/// Index of this thread inside the body that it runs, or -1 outside of any.
thread_local int current_thread = -1;

struct Job {
  void (*body)(const void*, int64_t, int64_t, int) = nullptr;
  const void* context = nullptr;
  int64_t count = 0;
  int64_t chunk = 1;
};

// How a launch goes. The caller fills `job_`, opens it and advances `epoch_`. A worker that sees a new epoch first
// counts itself in (`inside_`), then looks whether the job is open, and takes chunks if it is. The caller takes chunks
// too; when none are left it closes the job and waits until nobody is inside. So a worker that wakes late costs
// nothing: it finds a closed job, or already the next one.
class Pool {
 public:
  static Pool& instance() {
    static Pool* const pool = new Pool;  // never destroyed: a worker may outlive the statics of this library
    return *pool;
  }

  int threads() const { return threads_.load(std::memory_order_relaxed); }

  void resize(int n) {
    const std::lock_guard launch(launch_mutex_);
    stop();
    start(n);
  }

  void run(const Job& job) {
    const std::lock_guard launch(launch_mutex_);
    job_ = job;
    next_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    error_ = nullptr;
    open_.store(true, std::memory_order_seq_cst);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) {
      { const std::lock_guard sleep(sleep_mutex_); }
      wake_.notify_all();
    }
    take_chunks(0);
    open_.store(false, std::memory_order_seq_cst);
    for (int pauses = 0; inside_.load(std::memory_order_seq_cst) != 0; ++pauses) {
      if (pauses < kPausesBeforeYield) {
        pause_cpu();
      } else {
        sched_yield();
      }
    }
    if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(error_);
  }

 private:
  Pool() { start(usable_threads()); }

  void start(int n) {
    stopping_ = false;
    threads_.store(n, std::memory_order_relaxed);
    // Signals such as Ctrl-C belong to the threads of the program, never to ours.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const uint64_t seen = epoch_.load();
    try {
      for (int i = 1; i < n; ++i) workers_.emplace_back([this, i, seen] { work(i, seen); });
    } catch (const std::exception&) {  // fewer threads than wished: the work is done by those that exist
      threads_.store(static_cast<int>(workers_.size()) + 1, std::memory_order_relaxed);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void stop() {
    stopping_ = true;
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    { const std::lock_guard sleep(sleep_mutex_); }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  void work(int index, uint64_t seen) {
    for (;;) {
      seen = wait_for_change(seen);
      if (stopping_) return;
      inside_.fetch_add(1, std::memory_order_seq_cst);
      if (open_.load(std::memory_order_seq_cst)) take_chunks(index);
      inside_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  uint64_t wait_for_change(uint64_t seen) {
    const auto begin = Clock::now();
    do {
      for (int i = 0; i < kPausesPerClockRead; ++i) {
        if (const uint64_t now = epoch_.load(std::memory_order_seq_cst); now != seen) return now;
        pause_cpu();
      }
    } while (Clock::now() - begin < kSpinTime);
    std::unique_lock sleep(sleep_mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_.wait(sleep, [&] { return epoch_.load(std::memory_order_seq_cst) != seen; });
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return epoch_.load(std::memory_order_seq_cst);
  }

  void take_chunks(int index) {
    const Job job = job_;
    current_thread = index;
    try {
      for (;;) {
        const int64_t begin = next_.fetch_add(job.chunk, std::memory_order_relaxed);
        if (begin >= job.count) break;
        job.body(job.context, begin, begin + std::min(job.chunk, job.count - begin), index);
      }
    } catch (...) {
      next_.store(job.count, std::memory_order_relaxed);  // the rest is not started
      if (!failed_.exchange(true, std::memory_order_acq_rel)) error_ = std::current_exception();
    }
    current_thread = -1;
  }

  std::mutex launch_mutex_;  // one launch at a time: a second caller waits, since all cores are busy anyway
  Job job_;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint64_t> epoch_{0};
  std::atomic<bool> open_{false};
  alignas(64) std::atomic<int> inside_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> threads_{1};
  std::vector<std::thread> workers_;
};

void run_serially(int64_t count, void (*body)(const void*, int64_t, int64_t, int), const void* context) {
  const int before = current_thread;
  current_thread = std::max(before, 0);
  struct Restore {
    int value;
    ~Restore() { current_thread = value; }
  } restore{before};
  body(context, 0, count, current_thread);
}

struct Scratch {
  void* data = nullptr;
  size_t bytes = 0;
  ~Scratch() { ::operator delete (data, std::align_val_t{64}); }
};

}  // namespace

void parallel_for(int64_t count, int64_t grain,
                  void (*body)(const void* context, int64_t begin, int64_t end, int thread), const void* context) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  Pool& pool = Pool::instance();
  const int threads = pool.threads();
  if (threads == 1 || count <= grain || current_thread >= 0) return run_serially(count, body, context);
  const int64_t wanted = count / (threads * kChunksPerThread);
  const int64_t chunk = std::max((wanted / grain) * grain, grain);
  pool.run(Job{body, context, count, chunk});
}

void* thread_scratch(int, size_t bytes) {
  thread_local Scratch scratch;
  if (scratch.bytes < bytes) {
    const size_t wanted = std::max(bytes, 2 * scratch.bytes);
    void* const grown = ::operator new (wanted, std::align_val_t{64}, std::nothrow);
    if (grown == nullptr)
      throw Error(ErrorCode::out_of_memory, "cpu: scratch of " + std::to_string(wanted) + " bytes for one thread");
    ::operator delete (scratch.data, std::align_val_t{64});
    scratch.data = grown;
    scratch.bytes = wanted;
  }
  return scratch.data;
}

int cpu_threads() { return Pool::instance().threads(); }

void set_cpu_threads(int n) {
  if (n < 1 || n > kMostThreads) {
    throw Error(ErrorCode::invalid_argument,
                "set_cpu_threads: n: " + std::to_string(n) + "; allowed: 1 to " + std::to_string(kMostThreads));
  }
  if (current_thread >= 0)
    throw Error(ErrorCode::invalid_argument, "set_cpu_threads: called by work that runs on the pool");
  if (n == cpu_threads()) return;
  Pool::instance().resize(n);
  detail::note_cpu_threads(cpu_threads());
}

}  // namespace monotile
