#pragma once
// Layouts of pairs on machines with lanes: loads and stores that take the place of those for vectors. Pointers need no alignment beyond their elements'.

#include "monotile/lang/backend/simt/tile.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// All loads are on their way before the first is unpacked, and predicated rather than branched around, as in exact layouts.
template <cache Hint, class T, class L>
requires(L::vector_elements == 2) MT_WORD
    void load_lane(T (&out)[L::elements], const T* p, bool, const place<L>& at, int l, T fill) {
  p += at.first_col;
  if constexpr (sizeof(T) == 2) {
    uint32_t raw[L::vectors];
    if (starts_word(p) && at.limit % 2 == 0) {
      MT_UNROLL
      for (int i = 0; i < L::vectors; ++i) {
        const int c = at.local_col(l, 2 * i);
        raw[i] = bits_of(fill) | bits_of(fill) << 16;
        if (at.live[l] && c < at.limit) raw[i] = *reinterpret_cast<const word_alias*>(p + c);
      }
    } else {
      MT_UNROLL
      for (int i = 0; i < L::vectors; ++i) {
        const int c = at.local_col(l, 2 * i);
        T low = fill, high = fill;
        if (at.live[l] && c < at.limit) low = p[c];
        if (at.live[l] && c + 1 < at.limit) high = p[c + 1];
        raw[i] = bits_of(low) | bits_of(high) << 16;
      }
    }
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e)
      out[e] = __builtin_bit_cast(T, static_cast<uint16_t>(raw[e / 2] >> (16 * (e % 2))));
  } else {
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) {
      const int c = at.local_col(l, e);
      out[e] = fill;
      if (at.live[l] && c < at.limit) out[e] = p[c];
    }
  }
}

template <cache Hint = cache::normal, class T, class U, class L>
requires(L::vector_elements == 2) MT_WORD
    void store(Context&, const view<T>& to, const place<L>& at, const tile<U, L>& t) {
  for (int l = 0; l < kLanes; ++l) {
    if (!at.live[l]) continue;
    T* const p = to.row(at.row[l]) + at.first_col;
    if constexpr (sizeof(T) == 2) {
      if (starts_word(p) && at.limit % 2 == 0) {
        MT_UNROLL
        for (int i = 0; i < L::vectors; ++i) {
          const int c = at.local_col(l, 2 * i);
          const T low = convert<T>::apply(t.v[l][2 * i]), high = convert<T>::apply(t.v[l][2 * i + 1]);
          if (c < at.limit) *reinterpret_cast<word_alias*>(p + c) = bits_of(low) | bits_of(high) << 16;
        }
        continue;
      }
    }
    MT_UNROLL
    for (int e = 0; e < L::elements; ++e) {
      const int c = at.local_col(l, e);
      if (c < at.limit) p[c] = convert<T>::apply(t.v[l][e]);
    }
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
