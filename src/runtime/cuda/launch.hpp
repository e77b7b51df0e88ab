#pragma once
// Launches of compiled kernels and the maps of their matrices: the host's half of lang/backend/cuda, compiled once instead of with every kernel.

#include <cstddef>
#include <cstdint>

#include "runtime/kernel_table.hpp"

namespace monotile::lang {
struct box_view;
struct matrix_view;
}  // namespace monotile::lang

namespace monotile::cuda {

/// A kernel and what all its launches have in common. A static of each launching function: initialised when it is compiled, so nothing is guarded.
struct Launchable {
  const void* entry;           ///< a __global__ function of one argument
  bool waits_itself = false;   ///< may start while the kernel before still runs, and waits for it where it must
  bool after_scratch = false;  ///< the kernel before takes all shared memory, and a multiprocessor must be empty before it is divided otherwise
  uint64_t allowed = 0;        ///< a bit per device: more than 48 KB of shared memory were asked for (changed atomically)
};

/// Queues `grid.programs` blocks; `cluster` of them share their shared memory. `params`: the kernel's one argument.
/// Throws Error(invalid_argument) for more than 2^31 - 1 programs, Error(device_error) if the runtime refuses.
void launch(Stream& stream, Launchable& kernel, const Grid& grid, const void* params, int cluster = 1);

/// Boxes of 128 bytes x `rows` of v, in 128-byte swizzle; cells that do not exist are read as zeros and not written.
void encode_map(lang::matrix_view& v, int rows);
/// Boxes of 128 bytes x box_x x box_y rows, in 128-byte swizzle; what does not exist is read as zeros and not written.
void encode_map(lang::box_view& v, int box_x, int box_y);

}  // namespace monotile::cuda
