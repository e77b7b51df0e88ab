#include "runtime/thread_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "monotile/device.hpp"

namespace monotile {
namespace {

/// Restores the number of threads when a test ends.
struct Threads {
  explicit Threads(int n) { set_cpu_threads(n); }
  ~Threads() { set_cpu_threads(before); }
  int before = cpu_threads();
};

template <class Body>
void parallel(int64_t count, int64_t grain, const Body& body) {
  parallel_for(
      count, grain,
      [](const void* context, int64_t begin, int64_t end, int thread) {
        (*static_cast<const Body*>(context))(begin, end, thread);
      },
      &body);
}

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, EachIndexOnceWithValidChunksAndThreads) {
  const Threads threads(GetParam());
  for (const int64_t count : {0, 1, 2, 3, 7, 64, 1000, 4097}) {
    for (const int64_t grain : {0, 1, 3, 100, 5000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      std::atomic<bool> valid{true};
      parallel(count, grain, [&](int64_t begin, int64_t end, int thread) {
        if (begin >= end || end > count || thread < 0 || thread >= GetParam()) valid = false;
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      EXPECT_TRUE(valid);
      for (const auto& times : seen) ASSERT_EQ(times, 1) << "count " << count << ", grain " << grain;
    }
  }
}

TEST_P(ThreadPoolTest, ManyLaunchesWithIdleTimeBetween) {
  const Threads threads(GetParam());
  int64_t sum = 0;
  for (int launch = 0; launch < 3000; ++launch) {
    std::atomic<int64_t> part{0};
    parallel(5, 1, [&](int64_t begin, int64_t end, int) { part += end - begin; });
    sum += part;
    if (launch % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the workers fall asleep
  }
  EXPECT_EQ(sum, 15000);
}

TEST_P(ThreadPoolTest, FirstExceptionReachesTheCaller) {
  const Threads threads(GetParam());
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> started{0};
    EXPECT_THROW(parallel(1 << 20, 1,
                          [&](int64_t, int64_t, int) {
                            ++started;
                            throw std::runtime_error("body");
                          }),
                 std::runtime_error);
    EXPECT_LE(started, GetParam());  // the rest is not started
    std::atomic<int> after{0};
    parallel(10, 1, [&](int64_t begin, int64_t end, int) { after += static_cast<int>(end - begin); });
    EXPECT_EQ(after, 10);
  }
}

TEST_P(ThreadPoolTest, NestedCallsRunInTheirThread) {
  const Threads threads(GetParam());
  std::atomic<int> inner{0};
  std::atomic<bool> same{true};
  parallel(8, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      parallel(10, 1, [&](int64_t b, int64_t e, int inner_thread) {
        inner += static_cast<int>(e - b);
        if (inner_thread != thread) same = false;
      });
    }
  });
  EXPECT_EQ(inner, 80);
  EXPECT_TRUE(same);
}

TEST_P(ThreadPoolTest, SeveralCallers) {
  const Threads threads(GetParam());
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int launch = 0; launch < 200; ++launch) {
        std::atomic<int64_t> own{0};
        parallel(50, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) own += i;
        });
        if (own == 1225) ++sum;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 800);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolTest, testing::Values(1, 2, 5));

TEST(ThreadPool, AllThreadsTakePart) {
  const Threads threads(3);
  std::atomic<int> arrived{0};
  std::atomic<bool> complete{true};
  parallel(3, 1, [&](int64_t, int64_t, int) {  // no chunk can end before all three have begun
    ++arrived;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 3 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    if (arrived < 3) complete = false;
  });
  EXPECT_TRUE(complete);
}

TEST(ThreadPool, ResizeIsCheckedAndSeenByTheDevice) {
  const Threads threads(3);
  EXPECT_EQ(cpu_threads(), 3);
  EXPECT_EQ(device_info({}).units, 3);
  for (const int bad : {0, -1, 1025}) {
    try {
      set_cpu_threads(bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bad)), std::string::npos);
    }
  }
  std::atomic<bool> refused{false};
  parallel(1, 1, [&](int64_t, int64_t, int) {
    try {
      set_cpu_threads(2);
    } catch (const Error&) {
      refused = true;
    }
  });
  EXPECT_TRUE(refused);
  EXPECT_EQ(cpu_threads(), 3);
}

TEST(ThreadPool, ScratchIsAlignedGrowsAndBelongsToOneThread) {
  const Threads threads(4);
  std::atomic<bool> good{true};
  parallel(64, 1, [&](int64_t begin, int64_t, int thread) {
    const size_t bytes = 1000 + static_cast<size_t>(begin) * 100;
    auto* const scratch = static_cast<unsigned char*>(thread_scratch(thread, bytes));
    if (reinterpret_cast<uintptr_t>(scratch) % 64 != 0) good = false;
    const auto mark = static_cast<unsigned char>(begin);
    std::memset(scratch, mark, bytes);
    std::this_thread::yield();
    for (size_t i = 0; i < bytes; ++i) {
      if (scratch[i] != mark) good = false;
    }
    if (thread_scratch(thread, bytes / 2) != scratch) good = false;  // large enough already
  });
  EXPECT_TRUE(good);
}

}  // namespace
}  // namespace monotile
