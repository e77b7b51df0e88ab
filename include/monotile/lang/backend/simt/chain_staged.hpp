#pragma once
// Chained products by waves whose copies go through registers (CDNA, MFMA): each wave has some rows of a for itself, in registers as the operand of the
// first product, and all copy. One block of b or c is on chip at a time: while it is multiplied, the next one is on its way to registers. Both products
// are transposed, so that a lane holds one row (`mfma_rows`), and c is turned when it leaves the registers, so that four of its rows are neighbours.

#include "monotile/lang/backend/simt/mfma.hpp"
#include "monotile/lang/backend/simt/row_cells.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg>
struct staged_chain_traits {
  using layout = chain_unit::row_layout;
  static constexpr int wave_rows = Cfg::wave_rows, waves = Cfg::bm / wave_rows, threads = waves * kWave;
  static_assert(layout::transposed && wave_rows % layout::rows == 0 && Cfg::bm % wave_rows == 0);
};

template <class Cfg, class T>
struct staged_chain_context {
  using storage = T;
  template <int R>
  using rows_of = row_values<typename staged_chain_traits<Cfg>::layout, R>;
  using rows = rows_of<staged_chain_traits<Cfg>::wave_rows>;
  Context& program;
  int first_row;  ///< of this wave within the tile
  /// 0, but renewed before each product and each copy: places in tiles are computed there, not kept in registers.
  int nothing = 0;
  MT_FN int thread(int l) const { return program.thread(l) + nothing; }
  MT_FN int lane(int l) const { return program.thread(l) % kWave + nothing; }
};

/// A block of c on chip, turned: its columns are read as rows of an operand.
template <class T, int Rows, int Cols>
struct alignas(1024) turned_tile {
  using element = T;
  static constexpr int rows = Rows, cols = Cols;
  /// Of rows `row` to `row` + 3 of a column.
  static MT_FN constexpr int offset(int row, int col) { return across_swizzle<Rows>::offset(row, col); }
  static MT_FN constexpr int place(int row, int col) { return offset(row & ~3, col) + (row & 3) * 2; }
  unsigned char data[Rows * Cols * static_cast<int>(sizeof(T))];
};

/// A block on its way: this lane's chunks of eight columns. All are of the same columns, `Together` of them of neighbouring rows.
template <class T, int Rows, int Cols, int Threads, int Together>
struct block_on_its_way {
  static constexpr int vector = 8, chunks = Cols / vector, rounds = Rows * chunks / Threads, stride = Threads / chunks;
  static_assert(Threads % chunks == 0 && Rows % (stride * Together) == 0 && rounds <= 32, "every lane copies as many");
  static MT_FN constexpr int row(int thread, int i) {
    return (thread / chunks + i / Together * stride) * Together + i % Together;
  }
  static MT_FN constexpr int chunk(int thread) { return thread % chunks; }
  vector16 held[rounds][kLanes];
  uint32_t exist[kLanes];  ///< bit i: the row of chunk i does
  int cols;                ///< that exist
  bool vectors;            ///< else nothing is held: elements are copied one by one when they are wanted
};
/// A chunk of which `elements` exist: the others become 0.
MT_FN vector16 only_first(vector16 v, int elements) {
  MT_UNROLL
  for (int w = 0; w < 4; ++w) v.word[w] &= elements > 2 * w + 1 ? ~0u : elements == 2 * w + 1 ? 0xffffu : 0u;
  return v;
}

/// Where rows are: every lane asks for one box and lanes tell each other, so that a table is read once and code is short. Boxes that are smaller than
/// the block are a power of two high.
template <class Cfg, class T>
struct found_boxes {
  const T* data;
  int64_t first[kLanes], stride;
  int rows[kLanes], shift;

  template <class Place>
  MT_FN found_boxes(staged_chain_context<Cfg, T>& cx, const box_view& from, int block_rows, Place place)
      : data(static_cast<const T*>(from.data)), stride(from.stride_x) {
    const bool one = from.box_x >= block_rows;
    shift = one ? 16 : lowest_bit(static_cast<uint32_t>(from.box_x));
    const int last = one ? 0 : (block_rows >> shift) - 1;
    for (int l = 0; l < kLanes; ++l) {
      const int lane = cx.thread(l) % kWave;
      const box_at at = place(lane < last ? lane : last);
      first[l] = at.rows > 0 ? from.offset(at.x, at.y, at.z) : 0;
      rows[l] = at.rows;
    }
  }
  /// Rows of the lanes; null where one does not exist.
  MT_FN void find(const T* (&out)[kLanes], const int (&row)[kLanes]) const {
    int box[kLanes], exist[kLanes];
    int64_t start[kLanes];
    for (int l = 0; l < kLanes; ++l) box[l] = row[l] >> shift;
    shuffle_from(exist, rows, box);
    shuffle_from(start, first, box);
    for (int l = 0; l < kLanes; ++l) {
      const int within = row[l] - (box[l] << shift);
      out[l] = within < exist[l] ? data + (start[l] + within * stride) : nullptr;
    }
  }
};

/// Rows of a block, box by box, on their way: place(number of the box) says where it is.
template <class Cfg, class T, int R, int C, int Threads, int Together, class Place>
MT_FN void copy_boxes(staged_chain_context<Cfg, T>& cx, block_on_its_way<T, R, C, Threads, Together>& to,
                      const box_view& from, Place place) {
  using Block = block_on_its_way<T, R, C, Threads, Together>;
  to.vectors = from.vectors;
  to.cols = from.cols;
  if (!from.vectors) return;
  cx.nothing = unforeseen(0);
  const found_boxes<Cfg, T> boxes(cx, from, R, place);
  const T* rows[Block::rounds][kLanes];
  for (int l = 0; l < kLanes; ++l) to.exist[l] = 0;
  MT_UNROLL
  for (int i = 0; i < Block::rounds; ++i) {
    int row[kLanes];
    for (int l = 0; l < kLanes; ++l) row[l] = Block::row(cx.thread(l), i);
    boxes.find(rows[i], row);
  }
  MT_UNROLL
  for (int i = 0; i < Block::rounds; ++i) {
    for (int l = 0; l < kLanes; ++l) {
      MT_TURN_OF(l);
      const int col = Block::chunk(cx.thread(l)) * Block::vector;
      const bool exists = rows[i][l] != nullptr;
      to.exist[l] |= static_cast<uint32_t>(exists) << i;
      // What does not exist becomes 0 when it settles: a branch or a mask here would be waited for before the products.
      to.held[i][l] = load16((exists ? rows[i][l] : boxes.data) + (col < from.cols ? col : 0));
    }
  }
}

/// `Together` chunks of neighbouring rows go to their places: b with the halves of its chunks where MFMA looks for them.
template <class Cfg, class T, int R, int C, along A>
MT_FN void put_chunks(staged_chain_context<Cfg, T>&, smem_tile<T, R, C, A>& to, const vector16 (&v)[1][kLanes],
                      const int (&row)[kLanes], const int (&chunk)[kLanes]) {
  unsigned char* places[kLanes];
  uint32_t words[4][kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const bool exchanged = mfma_halves_exchanged(row[l]);
    places[l] = to.data + smem_tile<T, R, C, A>::offset(row[l], chunk[l]);
    MT_UNROLL
    for (int w = 0; w < 4; ++w) {
      const uint32_t here = v[0][l].word[w],
                     there = v[0][l].word[w ^ 2];  // values: a choice of places would be made in memory
      words[w][l] = exchanged ? there : here;
    }
  }
  store_shared(places, words);
}
/// c turned: elements of two or four rows make one or two words of each column.
template <class Cfg, class T, int R, int C, int Together>
MT_FN void put_chunks(staged_chain_context<Cfg, T>&, turned_tile<T, R, C>& to, const vector16 (&v)[Together][kLanes],
                      const int (&row)[kLanes], const int (&chunk)[kLanes]) {
  static_assert(Together == 2 || Together == 4);
  MT_UNROLL
  for (int e = 0; e < 8; ++e) {
    unsigned char* places[kLanes];
    uint32_t words[Together / 2][kLanes];
    for (int l = 0; l < kLanes; ++l) {
      places[l] = to.data + turned_tile<T, R, C>::place(row[l], chunk[l] * 8 + e);
      MT_UNROLL
      for (int w = 0; w < Together / 2; ++w) {
        const uint32_t a = v[2 * w][l].word[e / 2], b = v[2 * w + 1][l].word[e / 2];
        words[w][l] = e % 2 == 0 ? (a & 0xffffu) | b << 16 : a >> 16 | (b & 0xffff0000u);
      }
    }
    store_shared(places, words);
  }
}
/// A block leaves the registers.
template <class Cfg, class T, class Tile, int R, int C, int Threads, int Together>
MT_FN void settle(staged_chain_context<Cfg, T>& cx, Tile& to,
                  const block_on_its_way<T, R, C, Threads, Together>& from) {
  using Block = block_on_its_way<T, R, C, Threads, Together>;
  cx.nothing = unforeseen(0);
  MT_UNROLL
  for (int i = 0; i < Block::rounds; i += Together) {
    vector16 v[Together][kLanes];
    int row[kLanes], chunk[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const int thread = cx.thread(l);
      row[l] = Block::row(thread, i), chunk[l] = Block::chunk(thread);
      MT_UNROLL
      for (int r = 0; r < Together; ++r)
        v[r][l] = only_first(from.held[i + r][l], (from.exist[l] >> (i + r) & 1u) == 0 ? 0 : from.cols - chunk[l] * 8);
    }
    put_chunks(cx, to, v, row, chunk);
  }
}
/// Where a block goes whose rows are not aligned: element by element, when it is wanted.
template <class Tile, class Block>
struct unaligned_block {
  Tile& tile;
};
template <class Cfg, class T, class Tile, int R, int C, int Threads, int Together, class Place>
MT_FN void copy_boxes(staged_chain_context<Cfg, T>& cx,
                      unaligned_block<Tile, block_on_its_way<T, R, C, Threads, Together>>& to, const box_view& from,
                      Place place) {
  using Block = block_on_its_way<T, R, C, Threads, Together>;
  cx.nothing = unforeseen(0);
  const found_boxes<Cfg, T> boxes(cx, from, R, place);
  MT_NO_UNROLL
  for (int i = 0; i < Block::rounds; i += Together) {
    vector16 v[Together][kLanes];
    int row[kLanes], chunk[kLanes];
    MT_UNROLL
    for (int r = 0; r < Together; ++r) {
      cx.nothing = unforeseen(
          0);  // with what is hidden below: one row after the other, or elements would take the most registers
      const T* start[kLanes];
      for (int l = 0; l < kLanes; ++l) row[l] = Block::row(cx.thread(l), i) + r;
      boxes.find(start, row);
      for (int l = 0; l < kLanes; ++l) {
        chunk[l] = Block::chunk(cx.thread(l));
        const int left = start[l] == nullptr ? 0 : from.cols - chunk[l] * 8;
        const T* const first = start[l] == nullptr ? boxes.data : start[l] + (left > 0 ? chunk[l] * 8 : 0);
        packed<T, 8> elements;
        MT_UNROLL
        for (int e = 0; e < 8; ++e) elements.v[e] = first[e < left ? e : 0];
        v[r][l] = only_first(__builtin_bit_cast(vector16, elements), left);
        for (uint32_t& word : v[r][l].word) hide(word);
      }
    }
    for (int l = 0; l < kLanes; ++l) row[l] -= Together - 1;
    put_chunks(cx, to.tile, v, row, chunk);
  }
}

/// The rows of this wave as an operand, from memory: one box.
template <class Cfg, class T, class Layout, int R, int C, class Place>
MT_FN void copy_boxes(staged_chain_context<Cfg, T>& cx, row_operand<Layout, R, C>& to, const box_view& from,
                      Place place) {
  using Operand = row_operand<Layout, R, C>;
  static_assert(Layout::words == 2);
  const T* const data = static_cast<const T*>(from.data);
  const box_at at = place(0);
  for (int l = 0; l < kLanes; ++l) {
    MT_TURN_OF(l);
    const coordinate first = Layout::operand(cx.lane(l), 0);
    MT_UNROLL
    for (int i = 0; i < Operand::tall; ++i) {
      const int row = cx.first_row + i * Layout::rows + first.row, along_y = from.box_y == 1 ? 0 : row / from.box_x;
      const bool exists = row < at.rows;
      const T* const start = data + (exists ? from.offset(at.x + row - along_y * from.box_x, at.y + along_y, at.z) : 0);
      const int cols = (exists ? from.cols : 0) - first.col;
      if (from.vectors) {
        MT_UNROLL
        for (int s = 0; s < Operand::steps; ++s) {
          const int left = cols - s * Layout::step;
          const vector8 v = load8(start + (left > 0 ? first.col + s * Layout::step : 0));
          MT_UNROLL
          for (int w = 0; w < 2; ++w)
            to.w[i][s][w][l] = v.word[w] & (left > 2 * w + 1 ? ~0u : left == 2 * w + 1 ? 0xffffu : 0u);
        }
      } else {
        MT_UNROLL
        for (int s = 0; s < Operand::steps; ++s) {
          const int step =
              unforeseen(s * Layout::step);  // one step after the other: all at once would take all registers
          uint32_t element[4];
          MT_UNROLL
          for (int e = 0; e < 4; ++e) {
            const bool there = step + e < cols;
            const uint16_t bits = start[there ? first.col + step + e : 0].bits;
            element[e] = there ? bits : 0u;
          }
          MT_UNROLL
          for (int w = 0; w < 2; ++w) {
            to.w[i][s][w][l] = element[2 * w] | element[2 * w + 1] << 16;
            hide(to.w[i][s][w][l]);
          }
        }
      }
    }
  }
}

/// s^T = b a^T for the rows of this wave.
template <class Cfg, class T, class Acc, class Rows, class B>
MT_FN void first_product(staged_chain_context<Cfg, T>& cx, Acc& s, const Rows& a, const B& b) {
  using Layout = typename Acc::layout;
  using Unit = typename unit_at<Layout>::type;
  cx.nothing = unforeseen(0);
  clear(cx, s);
  MT_UNROLL
  for (int k = 0; k < Rows::steps; ++k) {
    MT_UNROLL
    for (int j = 0; j < Acc::wide; ++j) {
      uint32_t x[Unit::a_words][kLanes];
      Unit::load_a(cx, x, b, j * Layout::cols, k * Layout::step);
      MT_UNROLL
      for (int i = 0; i < Acc::tall; ++i) Unit::template multiply<T>(s.d[i][j], x, a.w[i][k]);
    }
  }
}
/// o^T += c^T weights^T.
template <class Cfg, class T, class Acc, class Rows, class C>
MT_FN void second_product(staged_chain_context<Cfg, T>& cx, Acc& o, const Rows& weights, const C& c) {
  using Layout = typename Acc::layout;
  using Unit = typename unit_at<Layout>::type;
  cx.nothing = unforeseen(0);
  MT_UNROLL
  for (int k = 0; k < Rows::steps; ++k) {
    MT_UNROLL
    for (int j = 0; j < Acc::wide; ++j) {
      uint32_t x[Unit::a_words][kLanes];
      Unit::load_a_across(cx, x, c, k * Layout::step, j * Layout::cols);
      MT_UNROLL
      for (int i = 0; i < Acc::tall; ++i) Unit::template multiply<T>(o.d[i][j], x, weights.w[i][k]);
    }
  }
}

template <class Cfg, class T, class Acc>
MT_FN void store_rows(staged_chain_context<Cfg, T>& cx, const box_view& to, const box_at& at, Acc& acc) {
  store_rows_from_registers(cx, to, at, acc);
}

// --- values that some rows do not see: the matrix unit takes 0 times inf for NaN -------------------------------------------------------------------
// What is finite and what is not are multiplied apart. Weights that are not 0 count the infinities of both signs and the NaNs that they meet, three
// numbers in one sum; then these are zeros in c.

/// Two elements of T at a time, where a bit of each is spread over all its bits.
MT_FN uint32_t spread_bit(uint32_t words, int bit) { return (words >> bit & 0x00010001u) * 0xffffu; }
template <class T>
struct unbounded_marks {
  static constexpr int mantissa = dtype_of<T> == DType::f16 ? 10 : 7, bias = dtype_of<T> == DType::f16 ? 15 : 127;
  static constexpr uint32_t mantissas = ((1u << mantissa) - 1) * 0x00010001u;
  /// 2^e, twice.
  static MT_FN constexpr uint32_t power(int e) {
    return static_cast<uint32_t>(bias + e) << mantissa << 16 | static_cast<uint32_t>(bias + e) << mantissa;
  }
  static constexpr int field = 7;  ///< bits of a count
  static MT_FN uint32_t of_unbounded(uint32_t v) {
    return spread_bit((v & 0x7fff7fffu & ~mantissas) + (1u << mantissa) * 0x00010001u, 15);
  }
  /// 1, 2^7, 2^14 for inf, -inf and NaN, 0 else.
  static MT_FN uint32_t of_values(uint32_t v) {
    const uint32_t nan = spread_bit((v & mantissas) + mantissas, mantissa), negative = spread_bit(v, 15);
    const uint32_t infinity = (negative & power(field)) | (~negative & power(0));
    return of_unbounded(v) & ((nan & power(2 * field)) | (~nan & infinity));
  }
  /// 1 for what is not 0.
  static MT_FN uint32_t of_weights(uint32_t v) { return spread_bit((v & 0x7fff7fffu) + 0x7fff7fffu, 15) & power(0); }
  /// What a sum of marks has met, in two bits: 1 for inf, 2 for -inf, 3 for NaN or both.
  static MT_FN uint32_t met(float marks) {
    const auto counts = static_cast<uint32_t>(marks), one = (1u << field) - 1;
    return ((counts & one) != 0 ? 1u : 0u) | ((counts >> field & one) != 0 ? 2u : 0u) |
           (counts >> 2 * field != 0 ? 3u : 0u);
  }
};
/// What each sum has met so far. It is added when all is known: sums are scaled until then, and 0 times inf is NaN again.
template <class Acc>
struct unbounded_sums {
  static_assert(Acc::layout::elements == 16, "two bits each");
  uint32_t met[Acc::tall][Acc::wide][kLanes];
};
template <class Layout, int R, int C>
MT_FN void add_unbounded(row_acc<Layout, R, C>& o, const unbounded_sums<row_acc<Layout, R, C>>& unbounded) {
  each_element(o, [&](float& x, int i, int j, int e, int l) {
    const uint32_t met = unbounded.met[i][j][l] >> 2 * e & 3u;
    x += met == 0 ? 0.0f : met == 1 ? kInfinity : met == 2 ? -kInfinity : kInfinity - kInfinity;
  });
}
/// What is not finite in c, for the rows that see it.
template <class Cfg, class T, class Acc, class Rows, class C>
MT_FN void note_unbounded(staged_chain_context<Cfg, T>& cx, unbounded_sums<Acc>& unbounded, const Rows& weights,
                          const C& c) {
  using Layout = typename Acc::layout;
  using Unit = typename unit_at<Layout>::type;
  using Marks = unbounded_marks<T>;
  static_assert(C::rows < 1 << Marks::field);
  MT_UNROLL
  for (int j = 0; j < Acc::wide; ++j) {
    MT_UNROLL
    for (int i = 0; i < Acc::tall; ++i) {
      float marks[Layout::elements][kLanes];
      for (auto& element : marks) {
        for (float& mark : element) mark = 0.0f;
      }
      MT_UNROLL
      for (int k = 0; k < Rows::steps; ++k) {
        cx.nothing = unforeseen(
            0);  // with what is hidden below: one step after the other, since this rare path would take the most registers
        uint32_t x[Unit::a_words][kLanes], y[Unit::b_words][kLanes];
        Unit::load_a_across(cx, x, c, k * Layout::step, j * Layout::cols);
        for (int l = 0; l < kLanes; ++l) {
          MT_UNROLL
          for (int w = 0; w < Layout::words; ++w) {
            x[w][l] = Marks::of_values(x[w][l]), y[w][l] = Marks::of_weights(weights.w[i][k][w][l]);
            hide(x[w][l]);
            hide(y[w][l]);
          }
        }
        Unit::template multiply<T>(marks, x, y);
      }
      MT_UNROLL
      for (int e = 0; e < Layout::elements; ++e) {
        for (int l = 0; l < kLanes; ++l) unbounded.met[i][j][l] |= Marks::met(marks[e][l]) << 2 * e;
      }
      for (uint32_t& met : unbounded.met[i][j]) hide(met);  // now, not when all marks are known
    }
  }
}
/// A lane's share of a tile, one in `Lanes`: inf and NaN become 0.
template <int Lanes, class Cfg, class T, class Tile>
MT_FN void clear_unbounded(staged_chain_context<Cfg, T>& cx, Tile& tile) {
  MT_NO_UNROLL
  for (int chunk = 0; chunk < static_cast<int>(sizeof tile.data) / 16; chunk += Lanes) {
    unsigned char* places[kLanes];
    uint32_t words[4][kLanes];
    for (int l = 0; l < kLanes; ++l) {
      places[l] = tile.data + (chunk + cx.program.thread(l)) * 16;
      const vector16 v = load_shared16(places[l]);
      MT_UNROLL
      for (int w = 0; w < 4; ++w) words[w][l] = v.word[w] & ~unbounded_marks<T>::of_unbounded(v.word[w]);
    }
    store_shared(places, words);
  }
}

template <class Cfg, class T>
struct alignas(1024) staged_chain_memory {
  union {
    smem_tile<T, Cfg::bn, Cfg::da, along::n> b;
    turned_tile<T, Cfg::bn, Cfg::dc> c;
  };
  int unbounded[2];  ///< set by a wave that finds inf or NaN in c; two, so that one may be reset
};

/// One tile per program.
template <class Cfg, class Body>
MT_FN void staged_chain(Context& ctx, const Body& body) {
  using T = typename Body::element;
  using Traits = staged_chain_traits<Cfg>;
  using Layout = typename Traits::layout;
  using Memory = staged_chain_memory<Cfg, T>;
  constexpr int kRows = Traits::wave_rows, kThreads = Traits::threads;
  constexpr int kTogether = Cfg::bn * Cfg::dc / 8 / kThreads < 4 ? 2 : 4;
  // Not by way of an integer, which would hide from the compiler that this is shared memory.
  auto& memory =
      *reinterpret_cast<Memory*>(ctx.scratch + (-reinterpret_cast<uintptr_t>(ctx.scratch) & uintptr_t{1023}));
  const auto t = body.tile(ctx.program);
  if (!t.exists) return;
  const int wave = ctx.thread(0) / kWave;
  staged_chain_context<Cfg, T> cx{ctx, wave * kRows};
  row_acc<Layout, kRows, Cfg::dc> o;
  clear(cx, o);
  auto state = body.begin(cx, t);
  unbounded_sums<decltype(o)> met{};
  bool any_unbounded = false;
  int j = body.after(t, body.blocks(t)), turn = 0;
  for (int l = 0; l < kLanes; ++l) {
    if (ctx.thread(l) < 2) memory.unbounded[ctx.thread(l)] = 0;
  }
  row_operand<Layout, kRows, Cfg::da> a;
  using BlockB = block_on_its_way<T, Cfg::bn, Cfg::da, kThreads, 1>;
  using BlockC = block_on_its_way<T, Cfg::bn, Cfg::dc, kThreads, kTogether>;
  BlockB next_b;
  unaligned_block<decltype(memory.b), BlockB> unaligned_b{memory.b};
  unaligned_block<decltype(memory.c), BlockC> unaligned_c{memory.c};
  if (j >= 0) {
    body.load_a(cx, a, t);
    body.load_b(cx, next_b, t, j);
  }
  while (j >= 0) {
    ctx.barrier();  // all have left c
    if (next_b.vectors) {
      settle(cx, memory.b, next_b);
    } else {
      body.load_b(cx, unaligned_b, t, j);
    }
    ctx.barrier();  // b is there for all waves
    BlockC next_c;
    body.load_c(cx, next_c, t, j);
    row_acc<Layout, kRows, Cfg::bn> s;
    first_product(cx, s, a, memory.b);
    const auto rescale = body.weigh(cx, state, s, t, j, body.hides(t, j));
    row_operand<Layout, kRows, Cfg::bn> weights;
    as_operand<T>(weights, s);
    scale_rows(cx, o, rescale, [](float x, float r) { return x * r; });
    ctx.barrier();  // all have left b
    if (next_c.vectors) {
      settle(cx, memory.c, next_c);
    } else {
      body.load_c(cx, unaligned_c, t, j);
    }
    ctx.barrier();  // c is there for all waves
    if (body.partial(t, j)) {
      bool found = false;
      for (int l = 0; l < kLanes; ++l) found = share_is_unbounded(memory.c, ctx.thread(l), kThreads) || found;
      if (found) memory.unbounded[turn] = 1;
      ctx.barrier();
      const bool unbounded = same_for_all(memory.unbounded[turn] != 0);
      any_unbounded = any_unbounded || unbounded;
      turn ^= 1;
      for (int l = 0; l < kLanes; ++l) {
        if (ctx.thread(l) == 0) memory.unbounded[turn] = 0;  // nobody looks at it before the next barrier
      }
      if (unbounded) {
        note_unbounded(cx, met, weights, memory.c);
        ctx.barrier();  // all have seen them
        clear_unbounded<kThreads>(cx, memory.c);
        ctx.barrier();
      }
    }
    const int next = body.after(t, j);
    BlockB coming;  // a block of its own: the registers of the last one are free since it settled
    if (next >= 0) body.load_b(cx, coming, t, next);
    second_product(cx, o, weights, memory.c);
    next_b = coming;
    j = next;
  }
  if (any_unbounded) add_unbounded(o, met);
  body.finish(cx, state, o, t);
}

template <class K>
inline constexpr size_t staged_chain_bytes = sizeof(staged_chain_memory<typename K::Config, typename K::element>) +
                                             1024;

/// K for as many lanes as its configuration has, so many of which should fit on a compute unit at once.
template <class K, int MaxThreads, int ResidentThreads>
struct staged_chain_kernel : K {
  static constexpr int max_threads = MaxThreads, resident_threads = ResidentThreads;
};
/// A program per tile.
template <class K, class Params>
void launch_staged_chain(Stream& stream, const Params& params) {
  using Cfg = typename K::Config;
  constexpr int kThreads = staged_chain_traits<Cfg>::threads;
  // Registers are those of a SIMD: the one with the most waves bounds them.
  constexpr int kSimds = 4, kWaves = (staged_chain_traits<Cfg>::waves * Cfg::programs + kSimds - 1) / kSimds;
  launch<staged_chain_kernel<K, kThreads, kWaves * kSimds * kWave>>(
      stream, Grid{params.total, kThreads, staged_chain_bytes<K>}, params);
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
