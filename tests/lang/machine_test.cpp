// The model of sm_90a that emulated lanes run on: what the PTX ISA says of its barriers, copies and products, instruction by instruction; and what is
// refused. The loops that stand on it are in warpgroups.cpp.

#include "monotile/lang/backend/emulated/machine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "monotile/error.hpp"
#include "monotile/lang/backend/emulated/fibre.hpp"
#include "monotile/lang/box_view.hpp"
#include "monotile/lang/matrix_view.hpp"
#include "monotile/numeric.hpp"

namespace monotile {
namespace {

using namespace emulated;  // NOLINT

/// Body of one lane: body(thread, first byte of shared memory on 1024, its address). What it threw, if it did.
template <class Body>
std::string run(int threads, Body body, int cluster = 1) {
  try {
    run_cluster(0, cluster, cluster, threads, 64 * 1024, [&](const LanePlace& at) {
      unsigned char* const base = at.scratch + (-reinterpret_cast<uintptr_t>(at.scratch) & 1023);
      body(at.thread, base, shared_address(base));
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
bool says(const std::string& text, const char* what) { return text.find(what) != std::string::npos; }

TEST(MachineEmulated, BarriersCountArrivalsAndBytes) {
  int order = 0, seen[64] = {};
  EXPECT_EQ(run(64,
                [&](int thread, unsigned char*, uint32_t at) {
                  if (thread == 0) barrier_init(at, 33);
                  program_barrier();
                  for (uint32_t phase = 0; phase < 3; ++phase) {  // the second wave waits for the first
                    if (thread < 32) {
                      ++order;
                      barrier_arrive(at);
                      if (thread == 0) barrier_arrive(at);
                    } else {
                      barrier_wait(at, phase & 1);
                      seen[thread] = order;
                      EXPECT_GE(order, 32 * static_cast<int>(phase + 1));
                    }
                    program_barrier();
                  }
                }),
            "");
  EXPECT_EQ(seen[63], 96);
  EXPECT_TRUE(says(run(32, [](int, unsigned char*, uint32_t at) { barrier_wait(at, 0); }), "none was made"));
  EXPECT_TRUE(says(run(32,
                       [](int thread, unsigned char*, uint32_t at) {
                         if (thread == 0)
                           barrier_init(at, 1), barrier_expect(at, 16), barrier_arrive(at), barrier_arrive(at);
                       }),
                   "more arrivals"));
  EXPECT_TRUE(says(run(32,
                       [](int thread, unsigned char*, uint32_t at) {
                         if (thread == 0) barrier_init(at, 1);
                         program_barrier();
                         barrier_wait(at, 0);
                       }),
                   "all lanes wait: 32 lanes of wave 0"));
  EXPECT_TRUE(
      says(run(64, [](int thread, unsigned char*,
                      uint32_t) { wave_together(thread % 32 < 16 ? "one thing" : "another", nullptr, nullptr); }),
           "some lanes of a wave"));
}

/// 10 x 70 values of 16 bits, i + 1 each; rows of 72.
struct Source {
  alignas(16) uint16_t values[10 * 72];
  lang::matrix_view view;
  Source() {
    for (int i = 0; i < 10 * 72; ++i) values[i] = static_cast<uint16_t>(i + 1);
    view.data = values;
    view.rows = 10, view.cols = 70, view.stride = 72, view.dtype = DType::bf16;
    encode_map(view, 8);
  }
};

TEST(MachineEmulated, BoxesComeSwizzledWithZerosAndLate) {
  Source source;
  EXPECT_EQ(run(32,
                [&](int thread, unsigned char* base, uint32_t at) {
                  const uint32_t barrier = at + 8192;
                  if (thread != 0) return;
                  barrier_init(barrier, 1);
                  barrier_expect(barrier, 8 * 128);
                  copy_box(at, source.view.map, barrier, {64, 4, 0, 0});
                  barrier_arrive(barrier);
                  uint16_t early;
                  std::memcpy(&early, base, 2);
                  EXPECT_EQ(early, 0xffff) << "nothing is there before the barrier says so";
                  EXPECT_FALSE(barrier_ready(barrier, 0));
                  barrier_wait(barrier, 0);
                  for (int r = 0; r < 8; ++r) {
                    for (int c = 0; c < 64; ++c) {
                      uint16_t got;
                      std::memcpy(&got, base + r * 128 + ((c / 8 ^ r) * 16 + c % 8 * 2), 2);
                      EXPECT_EQ(got, 4 + r < 10 && c < 6 ? (4 + r) * 72 + 64 + c + 1 : 0) << r << " " << c;
                    }
                  }
                }),
            "");
  // Back again, another place: what does not exist is not written.
  EXPECT_EQ(run(32,
                [&](int thread, unsigned char* base, uint32_t at) {
                  if (thread != 0) return;
                  for (int i = 0; i < 8 * 64; ++i) reinterpret_cast<uint16_t*>(base)[i] = 7;
                  store_box(source.view.map, at, {64, 8, 0, 0});
                  close_stores();
                  wait_stores_read(0);
                }),
            "");
  EXPECT_EQ(source.values[8 * 72 + 64], 7);
  EXPECT_EQ(source.values[8 * 72 + 70], 8 * 72 + 71);
  EXPECT_EQ(source.values[7 * 72 + 64], 7 * 72 + 65);
  EXPECT_TRUE(says(run(32,
                       [&](int, unsigned char*, uint32_t at) {
                         store_box(source.view.map, at, {0, 0, 0, 0}), close_stores();
                       }),
                   "while its stores"));
  EXPECT_TRUE(says(run(32,
                       [&](int, unsigned char*, uint32_t at) {
                         copy_box(at + 16, source.view.map, at, {0, 0, 0, 0});
                       }),
                   "128 bytes"));
  source.view.stride = 71;
  EXPECT_THROW(encode_map(source.view, 8), Error);
}

TEST(MachineEmulated, ACopyForAllOfACluster) {
  Source source;
  EXPECT_EQ(run(
                32,
                [&](int thread, unsigned char* base, uint32_t at) {
                  const uint32_t barrier = at + 8192;
                  if (thread == 0) barrier_init(barrier, 1);
                  cluster_sync();
                  if (thread == 0) {
                    barrier_expect(barrier, 8 * 128);
                    if (cluster_rank() == 1) copy_box(at, source.view.map, barrier, {0, 0, 0, 0}, 3);
                    barrier_arrive(barrier);
                    barrier_wait(barrier, 0);
                    EXPECT_EQ(*reinterpret_cast<uint16_t*>(base), 1);
                  }
                  cluster_sync();
                },
                2),
            "");
}

/// A warpgroup's product of 64 x 16 (bf16, along k in swizzled rows of 128 bytes, from column 16 on) with 16 columns.
TEST(MachineEmulated, ProductsReadDescribedOperands) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  float a[64][64], b[16][64], c[64][16];
  const auto value = [&] { return to_float(from_float<bfloat16_t>(uniform(random))); };
  for (auto& row : a) {
    for (float& v : row) v = value();
  }
  for (auto& row : b) {
    for (float& v : row) v = value();
  }
  const auto body = [&](int thread, unsigned char* base, uint32_t at, bool fence, bool alike) {
    const auto put = [&](int offset, const auto& matrix, int rows) {
      for (int r = 0; r < rows; ++r) {
        for (int k = 0; k < 64; ++k) {
          const bfloat16_t v = from_float<bfloat16_t>(matrix[r][k]);
          std::memcpy(base + offset + r * 128 + ((k / 8 ^ r % 8) * 16 + k % 8 * 2), &v, 2);
        }
      }
    };
    if (thread == 0) put(0, a, 64), put(8192, b, 16);
    program_barrier();
    const auto descriptor = [&](uint32_t address) {
      return uint64_t{1} << 62 | uint64_t{1024 / 16} << 32 | uint64_t{1} << 16 | address / 16;
    };
    float d[8];
    for (float& v : d) v = 1.0f;
    if (fence) products_begin();
    for (int step = 0; step < 2; ++step) {
      const auto k = static_cast<uint32_t>(32 + 32 * step);
      issue_product(DType::bf16, 16, d, descriptor(at + k + (alike || thread < 32 ? 0 : 1024)),
                    descriptor(at + 8192 + k), true);
    }
    products_close();
    EXPECT_TRUE(std::isnan(d[0]) && std::isnan(d[7])) << "registers that are being written";
    products_wait(0);
    // PTX ISA: lane / 4 is the row of a warp's 16, and eight rows on for the second pair; lane % 4 a pair of columns.
    for (int e = 0; e < 8; ++e)
      c[thread / 32 * 16 + thread % 32 / 4 + e / 2 % 2 * 8][e / 4 * 8 + thread % 4 * 2 + e % 2] = d[e];
  };
  EXPECT_EQ(run(128, [&](int thread, unsigned char* base, uint32_t at) { body(thread, base, at, true, true); }), "");
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < 16; ++n) {
      float sum = 1.0f;
      for (int k = 16; k < 48; ++k) sum += a[m][k] * b[n][k];
      ASSERT_NEAR(c[m][n], sum, 1e-4) << m << " " << n;
    }
  }
  EXPECT_TRUE(says(run(128, [&](int thread, unsigned char* base, uint32_t at) { body(thread, base, at, false, true); }),
                   "without a fence"));
  EXPECT_TRUE(says(run(128, [&](int thread, unsigned char* base, uint32_t at) { body(thread, base, at, true, false); }),
                   "different orders"));
}

/// While a program is examined, what nothing orders is noticed, whoever comes first.
TEST(MachineEmulated, RacesAreNoticed) {
  Source source;
  for (const bool fences : {true, false}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const Examination examination(seed);
      const std::string what = run(64, [&](int thread, unsigned char*, uint32_t at) {
        const uint32_t barrier = at + 8192, other = at + 8200;
        const auto copy = [&](uint32_t to, uint32_t when) {
          barrier_expect(when, 8 * 128);
          copy_box(to, source.view.map, when, {0, 0, 0, 0});
          barrier_arrive(when);
        };
        if (thread == 0) barrier_init(barrier, 1), barrier_init(other, 1);
        program_barrier();
        if (thread == 0) copy(at, barrier);
        if (thread < 32) return;
        barrier_wait(barrier, 0);
        uint32_t words[4];
        ldmatrix4(words, at + static_cast<uint32_t>(thread % 8) * 128, false);
        note_shared_write(at + 4096, 16);
        if (fences) fence_for_copies();
        wave_together("wait for each other", nullptr, nullptr);
        if (thread == 32) copy(at + 4096, other);
        if (thread == 32) barrier_wait(other, 0);
      });
      if (fences) {
        EXPECT_EQ(what, "") << "seed " << seed;
      } else {
        EXPECT_TRUE(says(what, "without a fence")) << "seed " << seed << ": " << what;
      }
    }
  }
  const Examination examination(1);
  EXPECT_TRUE(says(run(64,
                       [&](int thread, unsigned char*, uint32_t at) {
                         if (thread % 32 == 0) note_shared_write(at, 16);  // two waves, the same bytes
                       }),
                   "race"));
}

}  // namespace
}  // namespace monotile
