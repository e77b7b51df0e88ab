#pragma once
// AMD architectures as data: what the backend, the policies and the checks of the compiled code read. No compiler macro decides anything
// that stands here, so that host code and tests read the same numbers. Sources: AMD's instruction set documents ("CDNA2", "CDNA3", "RDNA3").

#include <cstddef>
#include <cstdint>

namespace monotile::hip::arch {

/// How lanes of a wave reach each other without shared memory.
enum class exchange {
  dpp_rows,      ///< GCN's DPP: quads, rotations and shifts of rows of 16; LDS permutation beyond a row
  dpp_row_xmask  ///< RDNA: any exclusive or within a row of 16, and v_permlanex16 between the rows
};
/// Which matrix instructions there are.
enum class matrix {
  mfma_cdna2,  ///< bf16 (the _1k forms) and fp16 with k = 8, int8 with k = 8; no 8-bit floats
  mfma_cdna3,  ///< the same, int8 with k = 16 and 8-bit floats of the FNUZ kind with k = 16
  none         ///< products by lanes (RDNA3's WMMA is not used)
};

/// MI210, MI250X.
struct gfx90a {
  static constexpr const char* name = "gfx90a";
  static constexpr int wave = 64;
  static constexpr exchange lanes = exchange::dpp_rows;
  static constexpr matrix matrices = matrix::mfma_cdna2;
  static constexpr size_t lds_bytes = 64 * 1024;  ///< of a compute unit, and the most of a program
  static constexpr int registers_per_lane =
      512;  ///< vector and accumulation registers of a lane when one wave has them all
  static constexpr int registers_per_simd = 512;  ///< to be shared by the lanes' waves of a SIMD
  static constexpr int register_granule = 8;
  static constexpr int simds = 4;  ///< of a compute unit
  static constexpr int waves_per_simd = 8;
};
/// MI300X, MI300A.
struct gfx942 : gfx90a {
  static constexpr const char* name = "gfx942";
  static constexpr matrix matrices = matrix::mfma_cdna3;
};
/// RX 7900: a check of waves of 32 lanes.
struct gfx1100 {
  static constexpr const char* name = "gfx1100";
  static constexpr int wave = 32;
  static constexpr exchange lanes = exchange::dpp_row_xmask;
  static constexpr matrix matrices = matrix::none;
  static constexpr size_t lds_bytes = 64 * 1024;
  static constexpr int registers_per_lane = 256;
  static constexpr int registers_per_simd = 1536;
  static constexpr int register_granule = 24;
  static constexpr int simds = 4;  ///< of a work-group processor
  static constexpr int waves_per_simd = 16;
};

/// The descriptor of a target's name.
struct hip_gfx90a : gfx90a {};
struct hip_gfx942 : gfx942 {};
struct hip_gfx1100 : gfx1100 {};

}  // namespace monotile::hip::arch
