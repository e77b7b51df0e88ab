// Fibres of the emulator: each wave of a program has a stack of its own; a barrier hands over to the next wave that can run.

#include "monotile/lang/backend/emulated/fibre.hpp"
#include "monotile/lang/backend/emulated/shared_memory.hpp"

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "monotile/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace monotile::emulated {
namespace {

constexpr size_t kStackBytes = 512 * 1024;

struct Scheduler;

struct Fibre {
  ucontext_t context{};
  std::unique_ptr<unsigned char[]> stack;
  Scheduler* scheduler = nullptr;
  int wave = 0;
  bool done = false;
  bool waiting = false;
};

struct Scheduler {
  ucontext_t caller{};
  std::vector<Fibre> fibres;
  const std::function<void(int, void*)>* body = nullptr;
  std::exception_ptr failure;
  void* caller_fake_stack = nullptr;
  const void* caller_stack = nullptr;
  size_t caller_stack_bytes = 0;
};

// AddressSanitizer must be told of every change of stack.
void enter(Scheduler& s, Fibre& f) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&s.caller_fake_stack, f.stack.get(), kStackBytes);
#endif
  swapcontext(&s.caller, &f.context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(s.caller_fake_stack, nullptr, nullptr);
#endif
}
void leave(Fibre& f, bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack, f.scheduler->caller_stack, f.scheduler->caller_stack_bytes);
#endif
  swapcontext(&f.context, &f.scheduler->caller);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, &f.scheduler->caller_stack, &f.scheduler->caller_stack_bytes);
#endif
  (void)for_good;
}

void start(unsigned high, unsigned low) {
  auto* f = reinterpret_cast<Fibre*>((static_cast<uintptr_t>(high) << 32) | low);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &f->scheduler->caller_stack, &f->scheduler->caller_stack_bytes);
#endif
  try {
    (*f->scheduler->body)(f->wave, f);
  } catch (...) {
    if (!f->scheduler->failure) f->scheduler->failure = std::current_exception();
  }
  f->done = true;
  leave(*f, true);
}

}  // namespace

void wait_at_barrier(void* fibre) {
  auto& f = *static_cast<Fibre*>(fibre);
  f.waiting = true;
  leave(f, false);
}

void run_waves(int waves, const std::function<void(int, void*)>& body) {
  // Stacks are kept per thread: making one costs more than running a small program on it.
  thread_local std::vector<std::unique_ptr<unsigned char[]>> stacks;
  while (stacks.size() < static_cast<size_t>(waves)) stacks.push_back(std::unique_ptr<unsigned char[]>(new unsigned char[kStackBytes]));
  Scheduler s;
  s.body = &body;
  s.fibres.resize(static_cast<size_t>(waves));
  for (int w = 0; w < waves; ++w) {
    Fibre& f = s.fibres[static_cast<size_t>(w)];
    f.scheduler = &s;
    f.wave = w;
    f.stack = std::move(stacks[static_cast<size_t>(w)]);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStackBytes;
    f.context.uc_link = nullptr;
    const auto address = reinterpret_cast<uintptr_t>(&f);
    makecontext(&f.context, reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
  }
  bool stuck = false;
  for (;;) {
    int done = 0, waiting = 0;
    for (Fibre& f : s.fibres) {
      if (!f.done) enter(s, f);
      done += f.done ? 1 : 0;
      waiting += !f.done && f.waiting ? 1 : 0;
    }
    if (done == waves) break;
    if (done != 0 && !s.failure) stuck = true;  // some ended while others wait for them
    if (s.failure || stuck) break;              // the waiting stacks are given up; they hold plain data only
    for (Fibre& f : s.fibres) f.waiting = false;
  }
  for (int w = 0; w < waves; ++w) stacks[static_cast<size_t>(w)] = std::move(s.fibres[static_cast<size_t>(w)].stack);
  if (s.failure) std::rethrow_exception(s.failure);
  if (stuck) throw Error(ErrorCode::internal, "emulated: some waves of a program wait at a barrier that others never reach");
}

namespace {
std::atomic<uint64_t> shared_passes{0}, shared_needed{0};
}

void count_shared_access(const unsigned char* const* addresses, int lanes, int bytes) {
  // A bank serves one word of four bytes per pass; lanes that want the same word share it.
  constexpr int kBanks = 32, kMostWords = 64 * 4;
  uintptr_t words[kMostWords];
  int count = 0;
  for (int l = 0; l < lanes; ++l) {
    for (int w = 0; w < bytes / 4; ++w) words[count++] = reinterpret_cast<uintptr_t>(addresses[l]) / 4 + static_cast<uintptr_t>(w);
  }
  std::sort(words, words + count);
  const int distinct = static_cast<int>(std::unique(words, words + count) - words);
  int load[kBanks] = {};
  for (int i = 0; i < distinct; ++i) ++load[words[i] % kBanks];
  shared_passes += static_cast<uint64_t>(*std::max_element(load, load + kBanks));
  shared_needed += static_cast<uint64_t>((distinct + kBanks - 1) / kBanks);
}

SharedAccesses take_shared_accesses() { return {shared_passes.exchange(0), shared_needed.exchange(0)}; }

void fail_misaligned(const void* p) {
  std::fprintf(stderr, "emulated: a 16-byte access at %p, which is not a multiple of 16\n", p);
  std::abort();
}

}  // namespace monotile::emulated
