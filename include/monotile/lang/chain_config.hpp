#pragma once
// The numbers that a kernel of chained products is compiled with. Kernels only read bm, bn, da and dc; the rest is the
// backend's.

#include "monotile/lang/box_view.hpp"
#include "monotile/lang/tile_config.hpp"

namespace monotile::lang {

/// Tiles of bm rows of a against blocks of bn rows of b and c; da columns of a and b, dc of c, both multiples of 64;
/// `Stages` blocks of b and of c on chip; at least `WaveRows` rows to a wave, where waves share a tile; `Waves` of them
/// take blocks in turn, where waves share rows. `Programs` should fit on a compute unit at once, where that bounds the registers of a lane.
template <schedule S, int BM, int BN, int DA, int DC, int Stages, int WaveRows = 32, int Waves = 1, int Programs = 1>
struct chain_config {
  static constexpr schedule kind = S;
  static constexpr int bm = BM, bn = BN, da = DA, dc = DC, stages = Stages, wave_rows = WaveRows, waves = Waves;
  static constexpr int programs = Programs;
};

/// A condition that is known when a kernel is compiled, passed as a value (std::integral_constant is for the host only).
template <bool Value>
struct known {
  MT_FN constexpr operator bool() const { return Value; }  // NOLINT: stands where a bool may stand
};

}  // namespace monotile::lang
