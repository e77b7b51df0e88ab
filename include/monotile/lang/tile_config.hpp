#pragma once
// The numbers that a matrix kernel is compiled with. Kernels only read bm, bn and bk; the rest is the backend's.

#include "monotile/lang/matrix_view.hpp"

namespace monotile::lang {

/// How a program overlaps copies, products and results.
enum class schedule {
  plain,        ///< one thread: pack, multiply (CPU)
  ring,         ///< all waves copy ahead into a ring of stages and multiply (cp.async, mma.sync)
  staged,       ///< all waves copy the next step into registers, multiply this one, then write it to the one stage (CDNA)
  cooperative,  ///< one warpgroup copies, two share each tile (sm_90a)
  pingpong,     ///< one warpgroup copies, two take turns, each with a tile of its own (sm_90a)
  split,        ///< as cooperative, but the programs of a cluster share the steps of one tile (sm_90a)
  stream,       ///< chained products of few rows: two warps copy, the others take blocks in turn (sm_90a)
  turned        ///< chained products of codes of 8 bits: two warps copy, two turn the second operand (sm_90a)
};

/// The tile coordinate that an operand depends on: along the other one it is the same for neighbouring tiles.
enum class along { m, n };

/// Tiles of bm x bn, steps of bk; `Cluster` programs that lie above each other share each tile of b; `Group` clusters
/// are walked column by column, so that what runs at one time is a near-square of the result. `Lag`: stages by which one of two warpgroups that share a tile
/// starts later, so that they do not both store while nothing multiplies; fewer than there are.
template <schedule S, int BM, int BN, int BK, int Stages, int Cluster = 1, int Group = 8, int Lag = 0>
struct tile_config {
  static constexpr schedule kind = S;
  static constexpr int bm = BM, bn = BN, bk = BK, stages = Stages, cluster = Cluster, group = Group, lag = Lag;
  static_assert(Lag < Stages);
};

/// Tile number `i` of the order of work, for program `rank` of its cluster. Tiles past the last row may come out.
template <class Cfg>
MT_FN tile_coord tile_at(const tile_space& space, int i, int rank = 0) {
  const int tall = (space.m + Cfg::cluster - 1) / Cfg::cluster, per_matrix = tall * space.n;
  int batch = 0;
  if (space.batch > 1) {
    batch = i / per_matrix;
    i -= batch * per_matrix;
  }
  const int per_group = Cfg::group * space.n, group = i / per_group, first = group * Cfg::group;
  const int height = tall - first < Cfg::group ? tall - first : Cfg::group, within = i - group * per_group;
  const int n = within / height, m = first + (within - n * height);
  return {batch, (m * Cfg::cluster + rank) * Cfg::bm, n * Cfg::bn};
}

/// Numbers of tiles that `tile_at` takes.
template <class Cfg>
MT_FN int tile_count(const tile_space& space) {
  return (space.m + Cfg::cluster - 1) / Cfg::cluster * space.n * space.batch;
}

}  // namespace monotile::lang
