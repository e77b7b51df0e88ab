#pragma once
// How long a product by tiles takes, by bytes, rounds and fixed costs: what the choice of a tile goes by. Nothing here
// knows a shape by name.

#include <algorithm>

#include "ops/gemm/tile_configs.hpp"

namespace monotile::ops::tiles {

/// What the cost model knows of a configuration. Figures of an H200, of 16-bit tiles: fitted to 50 shapes of models and to
/// 211 random ones on 2026-12-01 (docs/notes/gemm-h200.md).
struct TileShape {
  lang::schedule kind;
  int bm, bn, bk, cluster;
  /// Microseconds of a step along k and of the rest of a tile (filling the ring, storing what is not hidden), while all
  /// multiprocessors work.
  double step_us, per_tile_us;
  /// Bytes of memory per microsecond that its rings keep moving.
  double bytes_per_us = 4.2e6;
  int operand_bytes = 2;  ///< of an element
};
template <uint32_t C>
constexpr TileShape shape_of(double step_us, double per_tile_us, double bytes_per_us = 4.2e6) {
  using Cfg = config_at<C>;
  return {Cfg::kind, Cfg::bm, Cfg::bn, Cfg::bk, Cfg::cluster, step_us, per_tile_us, bytes_per_us};
}
constexpr TileShape eight_bits(TileShape s) {
  s.operand_bytes = 1;
  return s;
}
inline constexpr TileShape kShapes[kConfigs] = {
    shape_of<kPlain>(100, 0),
    shape_of<kPlain16>(100, 0),
    shape_of<kPlain8>(100, 0),
    shape_of<kRing>(1.0, 4.0),
    shape_of<kWide>(0.657, 5.0, 3.5e6),
    shape_of<kBroad>(0.504, 3.0, 3.5e6),
    shape_of<kSquare>(0.346, 2.98, 3.5e6),
    shape_of<kNarrow>(0.198, 3.13, 3.2e6),
    shape_of<kSplit>(0.337, 6.1, 3.5e6),
    shape_of<kStaged>(0.5, 4.0),
    // Of as many bytes as above. kWide8 and kSquare8 and those beside it fitted to 4096^3 and 8192^3 on 2026-12-01.
    eight_bits(shape_of<kRing8>(1.0, 4.0)),
    eight_bits(shape_of<kWide8>(0.519, 3.0, 3.5e6)),
    eight_bits(shape_of<kSquare8>(0.338, 3.1, 3.5e6)),
    eight_bits(shape_of<kNarrow8>(0.31, 0.5, 3.5e6)),
    eight_bits(shape_of<kSplit8>(0.34, 8.8, 3.5e6)),
    eight_bits(shape_of<kStaged8>(0.5, 4.0)),
    // As many bytes, as many instructions of the same length as the 16-bit tiles; not measured.
    eight_bits(shape_of<kWideInts>(0.657, 5.0, 3.5e6)),
    eight_bits(shape_of<kSquareInts>(0.353, 1.8, 3.5e6)),
    eight_bits(shape_of<kNarrowInts>(0.187, 4.0, 3.5e6)),
    shape_of<kFewRing>(0.5, 3.0),  // not measured
    shape_of<kFew16>(0.209, 1.62, 4.6e6),
    shape_of<kFew64>(0.27, 3.84, 4.2e6),
    shape_of<kFewSplit16>(0.24, 2.86, 4.3e6),
    shape_of<kFewSplit64>(0.27, 2.9, 4.1e6),
    shape_of<kFewStaged>(0.25, 3.0),  // not measured
    eight_bits(shape_of<kFewRing8>(0.5, 3.0)),  // these six not measured either
    eight_bits(shape_of<kFew16Ints>(0.24, 2.0, 4.6e6)),
    eight_bits(shape_of<kFew64Ints>(0.27, 2.8, 4.2e6)),
    eight_bits(shape_of<kFewSplit16Ints>(0.24, 2.86, 4.3e6)),
    eight_bits(shape_of<kFewSplit64Ints>(0.27, 2.9, 4.1e6)),
    eight_bits(shape_of<kFewStaged8>(0.25, 3.0)),
    // Not measured. Counted from the rates of instructions (docs/notes/gemm-h200.md): what is unpacked adds to a step, products by lanes bound it.
    shape_of<kRingMixed>(1.6, 5.0),
    shape_of<kStagedMixed>(0.8, 5.0),
    shape_of<kRingF32>(3.0, 6.0),
    shape_of<kStagedF32>(1.5, 6.0),
    shape_of<kRingTf32>(1.4, 5.0),
};
/// Products so long that power limits the clock: there two warpgroups that share a tile lose against two that take
/// turns.
inline constexpr double kLongProduct = 2e11, kHotCooperative = 1.035;

/// Operands whose rows lie off 16 bytes come to a ring element by element, one wait for memory after the other: 16 rounds of a lane and step. Estimated from
/// the sweep of 2026-11-30, where such products took 0.04 to 0.08 of cuBLASLt's rate and a ring of whole vectors 0.39.
inline constexpr double kElementStep = 6.5;
/// Microseconds of a copy of an operand with aligned rows: read once, written once, at a rate that is assumed.
inline double packing_us(int64_t bytes) {
  constexpr double kLaunchUs = 3.0, kBytesPerUs = 3.0e6;
  return kLaunchUs + 2.0 * static_cast<double>(bytes) / kBytesPerUs;
}

/// Programs that run at one time. A cluster lies within one group of 14 to 18 multiprocessors, and larger ones leave
/// some of it empty: 32 clusters of four took two rounds on 132 multiprocessors (128 programs of `split`, 56 steps:
/// 59 us; twice 56 steps and the rest are 54 and the launch).
inline int64_t programs_at_once(int64_t units, int cluster) {
  constexpr int64_t kGroup = 16;
  const int64_t lost = cluster > 2 ? units / kGroup * (cluster / 4) : 0;
  return std::max<int64_t>(1, (units - lost) / cluster) * cluster;
}

/// Microseconds of a product whose tiles run along `rows` and `cols`, on `units` multiprocessors: rounds of tiles, and
/// no less than all bytes take.
inline double predicted_us(const TileShape& s, int split, int64_t rows, int64_t cols, int64_t k, bool across,
                           int64_t units, int64_t batch = 1, bool by_elements = false) {
  constexpr double kLaunchUs = 3.0, kFillUs = 2.0;
  const auto pieces = [](int64_t n, int64_t of) { return (n + of - 1) / of; };
  const int64_t down = pieces(rows, s.bm), right = pieces(cols, s.bn);
  const int64_t programs = pieces(down, s.cluster) * s.cluster * right * split * batch;
  const auto rounds = static_cast<double>(pieces(programs, programs_at_once(units, split > 1 ? split : s.cluster)));
  const double m = static_cast<double>(rows), n = static_cast<double>(cols), depth = static_cast<double>(k);
  const bool hot = s.kind == lang::schedule::cooperative && 2 * m * n * depth * static_cast<double>(batch) > kLongProduct;
  const double steps = static_cast<double>(pieces(pieces(k, s.bk), split));
  const double tiles_us = rounds * (steps * s.step_us * (hot ? kHotCooperative : by_elements ? kElementStep : 1.0) + s.per_tile_us);
  // Across, the weights are what is long: each tile of columns has them streamed once more.
  const double streamed = across ? m * depth * static_cast<double>(right) : m * depth;
  const double bytes_us = static_cast<double>(batch) * (s.operand_bytes * (streamed + n * depth) + 2.0 * m * n) / s.bytes_per_us;
  // Programs of a cluster come and go together: each round of them fills its rings anew.
  const double fill_us = split > 1 ? rounds * s.per_tile_us : kFillUs;
  return kLaunchUs + std::max(tiles_us, bytes_us + fill_us);
}

/// What a choice gives away before a multiprocessor does anything slowly: shares of the time that the model expects.
struct Losses {
  int64_t programs = 0, places = 0, steps = 0;  ///< programs of the launch, those that run at one time, steps of each along k
  double empty = 0;                             ///< places without a program in the last round, of all rounds
  double edges = 0;                             ///< cells of tiles that the result does not have
  double filling = 0;                           ///< of a tile's time: filling the ring and storing what is not hidden
};
inline Losses losses_of(uint32_t config, int split, int64_t m, int64_t n, int64_t k, int64_t units) {
  const TileShape& s = kShapes[config];
  const bool across = lies_across(config);
  const int64_t rows = across ? n : m, cols = across ? m : n;
  const auto pieces = [](int64_t extent, int64_t of) { return (extent + of - 1) / of; };
  const int64_t down = pieces(pieces(rows, s.bm), s.cluster) * s.cluster, right = pieces(cols, s.bn);
  Losses lost;
  lost.programs = down * right * split;
  lost.places = programs_at_once(units, split > 1 ? split : s.cluster);
  lost.steps = pieces(pieces(k, s.bk), split);
  lost.empty = 1.0 - static_cast<double>(lost.programs) / static_cast<double>(pieces(lost.programs, lost.places) * lost.places);
  lost.edges = 1.0 - static_cast<double>(rows * cols) / static_cast<double>(down * s.bm * right * s.bn);
  lost.filling = s.per_tile_us / (s.per_tile_us + static_cast<double>(lost.steps) * s.step_us);
  return lost;
}

/// How many programs may share the steps of a tile.
inline constexpr int kSplits[] = {1, 2, 3, 4, 8};

struct Pick {
  uint32_t config = kConfigs;
  int split = 1;
  double us = 0;
};

/// The fastest of the configurations that `built` has: any alignment, or what suits the copy engine too (`engine`). `mixed`: operands must be converted. `only_split`: that many
/// programs to a tile alone. `by_elements`: rows of operands lie off 16 bytes.
template <class Built>
Pick pick_tile(int64_t m, int64_t n, int64_t k, bool engine, int64_t units, Built built, bool mixed = false, int64_t batch = 1,
               int only_split = 0, bool by_elements = false) {
  Pick best;
  for (uint32_t c = 0; c < kConfigs; ++c) {
    const TileShape& s = kShapes[c];
    const bool any_alignment = s.kind == schedule::plain || s.kind == schedule::ring || s.kind == schedule::staged;
    const bool across = lies_across(c);
    if ((!any_alignment && !engine) || (across && m > kMostFewRows) || converts(c) != mixed || !built(c)) continue;
    for (const int split : kSplits) {
      if ((split > 1) != (s.kind == schedule::split) || (only_split != 0 && split != only_split)) continue;
      if (split > 1 && (k + s.bk - 1) / s.bk < 4 * split) break;  // too few steps to share
      const double us =
          across ? predicted_us(s, split, n, m, k, true, units, batch, by_elements) : predicted_us(s, split, m, n, k, false, units, batch, by_elements);
      if (best.config == kConfigs || us < best.us) best = {c, split, us};
    }
  }
  return best;
}

}  // namespace monotile::ops::tiles
