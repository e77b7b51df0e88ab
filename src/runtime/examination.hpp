#pragma once
// What the emulators of waves and of lanes share of an examination (lang/backend/emulated/fibre.hpp).

#include <cstdint>

namespace monotile::emulated {

/// xorshift: the order of an examined program.
struct Draws {
  uint64_t state = 1;
  explicit Draws(uint64_t start = 1) : state(start) {}
  uint32_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<uint32_t>(state >> 32);
  }
};
/// Draws for a program under the seed of the examination.
Draws draws_of_program(int64_t program);

}  // namespace monotile::emulated
