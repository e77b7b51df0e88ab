// The emulated sm_90a multiprocessor: lanes as fibres, what is asynchronous about them, and a watch over shared memory by what happens before what.
// Written from the PTX ISA 9.0 (sections are named), apart from the kernels and their fragments.

#include "monotile/lang/backend/emulated/machine.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "monotile/error.hpp"
#include "monotile/lang/backend/emulated/fibre.hpp"
#include "monotile/lang/backend/emulated/shared_memory.hpp"
#include "monotile/lang/box_view.hpp"
#include "monotile/lang/matrix_view.hpp"
#include "monotile/numeric.hpp"
#include "runtime/examination.hpp"
#include "runtime/fibre_stack.hpp"

namespace monotile::emulated {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr uint32_t kSharedStart = 1024;
constexpr int kChunk = 16;  // bytes, the unit of the watch

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::internal, "emulated: " + what); }

/// What a wave knows to have happened: for each wave of the cluster the number of its last step that came before.
using Clock = std::vector<uint32_t>;
void join(Clock& into, const Clock& other) {
  for (size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

/// A tensor map: the copy engine's view of memory.
struct Map {
  static constexpr uint64_t kMark = 0x6d6f6e6f74696c65;
  uint64_t mark;
  unsigned char* data;
  int64_t stride[3];  // bytes between indices of dimensions 1 to 3
  int32_t extent[4], box[4];
  int32_t bytes;  // of an element
  int32_t row_bytes() const { return box[0] * bytes; }
  int32_t box_bytes() const { return row_bytes() * box[1] * box[2] * box[3]; }
};
static_assert(sizeof(Map) <= 128);

struct Machine;
struct Program;

struct MBarrier {
  uint32_t expected = 0;
  int64_t pending = 0, bytes = 0;
  uint64_t phase = 0;
  Clock arrived, completed;  // by now, and when the last phase was over
};
struct NamedBarrier {
  int threads = 0, arrived = 0;
  uint64_t phase = 0;
  Clock clock, completed;
};

/// A fragment of sums that products on their way will write.
struct Sums {
  void* registers = nullptr;
  int count = 0;
  uint64_t last = 0;  // product that writes it last
  uint32_t bits[128];
};
struct StoreBox {
  Map map;
  uint32_t from;
  int at[4];
};
struct Chunk {
  unsigned char* to;
  const unsigned char* from;
  int bytes;
};
using Chunks = std::vector<Chunk>;

struct Lane {
  FibreStack stack;
  LanePlace place;
  Program* program = nullptr;
  Machine* machine = nullptr;
  int agent = 0;  // number of its wave in the cluster
  bool done = false, blocked = false;
  const char* waits_for = "";
  uint32_t waits_at = 0;
  bool (*ready)(void*) = nullptr;
  void* ready_argument = nullptr;
  int waits = 0;  // at mbarriers so far
  std::unique_ptr<Sums> sums[4];
  uint64_t issued = 0, waited = 0;  // products
  bool products_open = false;
  std::vector<uint64_t> closed;  // ends of groups of products that were not waited for
  std::vector<StoreBox> open_stores;
  std::deque<std::vector<StoreBox>> stores;
  Chunks open_chunks;
  std::deque<std::shared_ptr<Chunks>> chunks;
  std::vector<uint32_t> unfenced;  // 16 bytes each of shared memory
  int lane() const { return place.thread % 32; }
};

struct Wave {
  void* brought[32] = {};
  const char* what = nullptr;
  int count = 0;
  uint64_t phase = 0;
  int phases_of_lane[32] = {};
};

struct Product {
  DType type = DType::none;
  int n = 0, lanes = 0, waited = 0;  // lanes that gave the order, and that have waited for it
  bool keep = true, in_registers = false, done = false, noted[4] = {};
  uint64_t a = 0, b = 0;
  const uint32_t* words[128] = {};
  Sums* sums[128] = {};
  Clock known[4];  // by its waves when it was issued
};
struct Warpgroup {
  std::deque<Product> products;
  uint64_t first = 0;  // number of the first one
  Product& at(uint64_t number) { return products[static_cast<size_t>(number - first)]; }
};

/// Who wrote 16 bytes last, and at which step.
struct Shadow {
  int writer = -1;
  uint32_t written = 0;
  int unfenced = -1;  // thread that wrote it without a fence for the copy engine since
};

struct Program {
  Machine* machine = nullptr;
  int rank = 0;
  size_t ended = 0;  // lanes
  std::vector<unsigned char> memory;
  unsigned char* base = nullptr;
  size_t bytes = 0;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<Wave> waves;
  std::vector<Warpgroup> warpgroups;
  std::map<uint32_t, MBarrier> barriers;
  NamedBarrier named[16];
  std::vector<Shadow> shadow;
  std::vector<uint32_t> reads;  // [chunk][wave of the program]

  unsigned char* at(uint32_t address, size_t size) {
    if (address < kSharedStart || address - kSharedStart + size > bytes)
      fail("an access to byte " + std::to_string(address) + " of shared memory, which is not the program's");
    return base + (address - kSharedStart);
  }
};

/// A copy on its way.
struct Copy {
  Program* to_program = nullptr;
  Map map{};
  uint32_t to = 0, barrier = 0;
  int at[4] = {};
  std::vector<std::shared_ptr<Chunks>> chunks;  // instead of a box
  int agent = 0;
  Clock known;  // when it was given its order
};

struct Machine {
  FibreCaller caller;
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<Clock> clocks;  // of each wave
  std::vector<Copy> copies;
  NamedBarrier cluster;
  Draws draws;
  bool examined = false, watched = false;
  int skipped_wait = -1, wrong_from = -1;
  const std::function<void(const LanePlace&)>* body = nullptr;
  std::exception_ptr failure;
};

thread_local Lane* current = nullptr;

Lane& me() {
  if (current == nullptr) fail("an instruction of the machine outside of its lanes");
  return *current;
}
Clock& my_clock() { return me().machine->clocks[static_cast<size_t>(me().agent)]; }

/// Hands over until `ready`.
template <class Ready>
void block_until(const char* what, uint32_t where, Ready ready) {
  Lane& l = me();
  if (l.machine->examined && l.machine->draws.next() % 8 == 0) l.stack.leave(false);
  while (!ready()) {
    l.waits_for = what, l.waits_at = where;
    l.ready = [](void* argument) { return (*static_cast<Ready*>(argument))(); };
    l.ready_argument = &ready;
    l.blocked = true;
    l.stack.leave(false);
    l.blocked = false;
  }
}

// --- the watch

std::string name_of(const Program& p, uint32_t address) {
  return "byte " + std::to_string(address - kSharedStart) + " of program " + std::to_string(p.rank);
}
size_t chunk_of(uint32_t address) { return (address - kSharedStart) / kChunk; }

/// A write by `agent`, ordered for `known`, at its step known[agent].
void watch_write(Program& p, uint32_t address, int bytes, int agent, const Clock& known, const char* who) {
  if (!p.machine->watched) return;
  const size_t waves = p.waves.size(), first_agent = static_cast<size_t>(p.rank) * waves;
  for (size_t c = chunk_of(address); c <= chunk_of(address + static_cast<uint32_t>(bytes) - 1); ++c) {
    Shadow& s = p.shadow[c];
    for (size_t w = 0; w < waves; ++w) {
      if (static_cast<int>(first_agent + w) != agent && p.reads[c * waves + w] > known[first_agent + w]) {
        fail(std::string("race: ") + who + " writes " + name_of(p, kSharedStart + static_cast<uint32_t>(c) * kChunk) +
             ", and nothing says that wave " + std::to_string(w) + " has read it");
      }
    }
    if (s.writer >= 0 && s.writer != agent && s.written > known[static_cast<size_t>(s.writer)]) {
      fail(std::string("race: ") + who + " writes " + name_of(p, kSharedStart + static_cast<uint32_t>(c) * kChunk) +
           ", which another wave wrote");
    }
    s.writer = agent, s.written = known[static_cast<size_t>(agent)];
  }
}
/// What the copy engine and the matrix unit touch must have been handed to them where lanes wrote it.
void watch_fence(const Program& p, uint32_t address, int bytes, const char* who) {
  if (!p.machine->watched) return;
  for (size_t c = chunk_of(address); c <= chunk_of(address + static_cast<uint32_t>(bytes) - 1); ++c) {
    if (p.shadow[c].unfenced >= 0) fail(std::string(who) + " touches what lanes wrote without a fence after it");
  }
}
/// A read for wave `agent` of p, which knows `known`, at its step `now`. What nobody wrote is NaN: kernels multiply rows that do not exist, and use
/// nothing of the result.
void watch_read(Program& p, uint32_t address, int bytes, int agent, const Clock& known, uint32_t now, const char* who) {
  if (!p.machine->watched) return;
  const size_t waves = p.waves.size(), w = static_cast<size_t>(agent) - static_cast<size_t>(p.rank) * waves;
  for (size_t c = chunk_of(address); c <= chunk_of(address + static_cast<uint32_t>(bytes) - 1); ++c) {
    Shadow& s = p.shadow[c];
    if (s.writer >= 0 && s.writer != agent && s.written > known[static_cast<size_t>(s.writer)]) {
      fail(std::string("race: ") + who + " reads " + name_of(p, kSharedStart + static_cast<uint32_t>(c) * kChunk) +
           ", and nothing says that it is written");
    }
    p.reads[c * waves + w] = std::max(p.reads[c * waves + w], now);
  }
}

uint32_t address_in(const Program& p, const void* at) {
  return kSharedStart + static_cast<uint32_t>(static_cast<const unsigned char*>(at) - p.base);
}

// --- barriers

MBarrier& barrier_of(Program& p, uint32_t address) {
  const auto found = p.barriers.find(address);
  if (found == p.barriers.end()) fail("a barrier at byte " + std::to_string(address) + ", where none was made");
  return found->second;
}
void complete_if(MBarrier& b) {
  if (b.pending != 0 || b.bytes != 0) return;
  ++b.phase;
  b.pending = b.expected;
  b.completed = b.arrived;
}
void arrive_at(Program& p, uint32_t address, uint32_t arrivals, const Clock& known) {
  if (p.ended == p.lanes.size()) fail("an arrival in the shared memory of a program that has ended");
  MBarrier& b = barrier_of(p, address);
  if (b.pending < arrivals) fail("more arrivals than expected at the barrier at byte " + std::to_string(address));
  b.pending -= arrivals;
  join(b.arrived, known);
  complete_if(b);
}

// --- copies

/// The 128-byte swizzle: bits 4 to 6 of an address are exchanged by bits 7 to 9 ("Swizzling Modes").
uint32_t swizzled(uint32_t address) { return address ^ ((address >> 7 & 7) << 4); }

const Map& map_of(const void* p) {
  const Map* const map = static_cast<const Map*>(p);
  if (map->mark != Map::kMark) fail("a map that was not encoded");
  return *map;
}
/// f(row of the box in shared memory, address of its first element in memory or null, elements that exist from `skip` on).
template <class F>
void each_row(const Map& map, const int (&at)[4], F f) {
  int row = 0;
  for (int w = 0; w < map.box[3]; ++w) {
    for (int z = 0; z < map.box[2]; ++z) {
      for (int y = 0; y < map.box[1]; ++y, ++row) {
        const int place[3] = {at[1] + y, at[2] + z, at[3] + w};
        bool exists = true;
        unsigned char* from = map.data;
        for (int d = 0; d < 3; ++d) {
          exists = exists && place[d] >= 0 && place[d] < map.extent[d + 1];
          from += place[d] * map.stride[d];
        }
        f(row, exists ? from : nullptr);
      }
    }
  }
}

void land(Copy& c) {
  Program& p = *c.to_program;
  if (!c.chunks.empty()) {
    for (const auto& group : c.chunks) {
      for (const Chunk& k : *group) {
        unsigned char bytes[kChunk] = {};
        if (k.bytes > 0) std::memcpy(bytes, k.from, static_cast<size_t>(k.bytes));
        std::memcpy(k.to, bytes, kChunk);
        watch_write(p, address_in(p, k.to), kChunk, c.agent, c.known, "a copy");
      }
      group->clear();
    }
    arrive_at(p, c.barrier, 1, c.known);
    return;
  }
  each_row(c.map, c.at, [&](int row, const unsigned char* from) {
    for (int i = 0; i < c.map.box[0]; ++i) {
      const uint32_t address = swizzled(c.to + static_cast<uint32_t>(row * c.map.row_bytes() + i * c.map.bytes));
      const int column = c.at[0] + i;
      unsigned char* const to = p.at(address, static_cast<size_t>(c.map.bytes));
      if (from != nullptr && column >= 0 && column < c.map.extent[0]) {
        std::memcpy(to, from + static_cast<int64_t>(column) * c.map.bytes, static_cast<size_t>(c.map.bytes));
      } else {
        std::memset(to, 0, static_cast<size_t>(c.map.bytes));
      }
    }
  });
  watch_fence(p, c.to, c.map.box_bytes(), "a copy");
  watch_write(p, c.to, c.map.box_bytes(), c.agent, c.known, "a copy");
  MBarrier& b = barrier_of(p, c.barrier);
  b.bytes -= c.map.box_bytes();
  join(b.arrived, c.known);
  complete_if(b);
}
bool land_one(Machine& m) {
  if (m.copies.empty()) return false;
  const size_t which = m.draws.next() % m.copies.size();
  Copy c = std::move(m.copies[which]);
  m.copies.erase(m.copies.begin() + static_cast<int64_t>(which));
  land(c);
  return true;
}

void carry_out(Lane& l, const StoreBox& s) {
  each_row(s.map, s.at, [&](int row, unsigned char* to) {
    for (int i = 0; i < s.map.box[0]; ++i) {
      const uint32_t address = swizzled(s.from + static_cast<uint32_t>(row * s.map.row_bytes() + i * s.map.bytes));
      const int column = s.at[0] + i;
      if (to == nullptr || column < 0 || column >= s.map.extent[0]) continue;
      std::memcpy(to + static_cast<int64_t>(column) * s.map.bytes,
                  l.program->at(address, static_cast<size_t>(s.map.bytes)), static_cast<size_t>(s.map.bytes));
    }
  });
}

// --- products

template <class V>
V value_of(DType type, const unsigned char* p);
template <>
int32_t value_of(DType type, const unsigned char* p) {
  if (type != DType::i8) fail("whole numbers of a type that has none");
  return static_cast<int8_t>(*p);
}
template <>
float value_of(DType type, const unsigned char* p) {
  uint16_t bits = 0;
  switch (type) {
    case DType::bf16: std::memcpy(&bits, p, 2); return to_float(bfloat16_t{bits});
    case DType::f16: std::memcpy(&bits, p, 2); return to_float(half_t{bits});
    case DType::f8_e4m3: return to_float(e4m3_t{*p});
    case DType::f8_e5m2: return to_float(e5m2_t{*p});
    default: fail("a product of a type that the instruction does not have");
  }
}
/// "Matrix Descriptor Format".
struct Operand {
  uint32_t start, leading, group;
  explicit Operand(uint64_t d)
      : start(static_cast<uint32_t>(d & 0x3fff) << 4),
        leading(static_cast<uint32_t>(d >> 16 & 0x3fff) << 4),
        group(static_cast<uint32_t>(d >> 32 & 0x3fff) << 4) {
    if (d >> 62 != 1 || (d >> 49 & 7) != 0) fail("a descriptor that is not of 128-byte swizzle without offset");
  }
  /// Rows of 128 bytes along k, in groups of eight; `leading` is not used.
  uint32_t along_k(int row, int byte) const {
    return swizzled(start + static_cast<uint32_t>(row / 8) * group + static_cast<uint32_t>(row % 8 * 128 + byte));
  }
  /// Rows of 128 bytes are 64 neighbours along n, one row for each k, in groups of eight.
  uint32_t across_k(int n, int k) const {
    return swizzled(start + static_cast<uint32_t>(n / 64) * leading + static_cast<uint32_t>(k / 8) * group +
                    static_cast<uint32_t>(k % 8 * 128 + n % 64 * 2));
  }
};

/// Calls note(address, bytes) for what a product reads.
template <class Note>
void each_operand_row(const Product& p, Note note) {
  const Operand b(p.b);
  const bool codes = p.type == DType::f8_e4m3 || p.type == DType::f8_e5m2;
  if (p.in_registers && !codes) {
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < p.n; n += 8) note(b.across_k(n, k));
    }
    return;
  }
  if (!p.in_registers) {
    const Operand a(p.a);
    for (int row = 0; row < 64; ++row) note(a.along_k(row, 0)), note(a.along_k(row, 16));
  }
  for (int row = 0; row < p.n; ++row) note(b.along_k(row, 0)), note(b.along_k(row, 16));
}

/// `V`: of sums.
template <class V>
void carry_out_as(Program& program, Product& p) {
  const int size = p.type == DType::bf16 || p.type == DType::f16 ? 2 : 1, depth = 32 / size;
  std::vector<V> a(static_cast<size_t>(64 * depth)), b(static_cast<size_t>(p.n * depth)),
      d(static_cast<size_t>(64 * p.n));
  const Operand from_b(p.b);
  if (p.in_registers) {
    // "Register Fragments for wgmma.mma_async.m64nNk16" and "m64nNk32", operand a: a word holds neighbours along k.
    const int per_word = 4 / size;
    for (int l = 0; l < 128; ++l) {
      for (int e = 0; e < 4 * per_word; ++e) {
        const int word = e / per_word, row = l / 32 * 16 + l % 32 / 4 + word % 2 * 8;
        const int k = l % 4 * per_word + e % per_word + word / 2 * 4 * per_word;
        unsigned char bytes[4];
        std::memcpy(bytes, &p.words[l][word], 4);
        a[static_cast<size_t>(row * depth + k)] = value_of<V>(p.type, bytes + e % per_word * size);
      }
    }
    for (int k = 0; k < depth; ++k) {
      for (int n = 0; n < p.n; ++n) {
        const uint32_t at = size == 2 ? from_b.across_k(n, k) : from_b.along_k(n, k);
        b[static_cast<size_t>(k * p.n + n)] = value_of<V>(p.type, program.at(at, static_cast<size_t>(size)));
      }
    }
  } else {
    const Operand from_a(p.a);
    const auto bytes = static_cast<size_t>(size);
    for (int row = 0; row < 64; ++row) {
      for (int k = 0; k < depth; ++k)
        a[static_cast<size_t>(row * depth + k)] = value_of<V>(p.type, program.at(from_a.along_k(row, k * size), bytes));
    }
    for (int n = 0; n < p.n; ++n) {
      for (int k = 0; k < depth; ++k)
        b[static_cast<size_t>(k * p.n + n)] = value_of<V>(p.type, program.at(from_b.along_k(n, k * size), bytes));
    }
  }
  // "Register Fragments for wgmma.mma_async.m64nNk16", accumulator.
  const auto place = [&](int lane, int e) {
    const int row = lane / 32 * 16 + lane % 32 / 4 + (e / 2 % 2) * 8, column = e / 4 * 8 + lane % 4 * 2 + e % 2;
    return static_cast<size_t>(row * p.n + column);
  };
  const int wrong = planted(Fault::fragment_map) ? 1 : 0;
  for (int l = 0; l < 128; ++l) {
    for (int e = 0; e < p.n / 2; ++e) d[place(l, e)] = p.keep ? std::bit_cast<V>(p.sums[l ^ wrong]->bits[e]) : V{};
  }
  for (int row = 0; row < 64; ++row) {
    V* const sums = d.data() + row * p.n;
    for (int k = 0; k < depth; ++k) {
      const V x = a[static_cast<size_t>(row * depth + k)];
      const V* const y = b.data() + k * p.n;
      for (int n = 0; n < p.n; ++n) sums[n] += x * y[n];
    }
  }
  for (int l = 0; l < 128; ++l) {
    for (int e = 0; e < p.n / 2; ++e) p.sums[l]->bits[e] = std::bit_cast<uint32_t>(d[place(l, e)]);
  }
  p.done = true;
}
void carry_out(Program& program, Product& p) {
  p.type == DType::i8 ? carry_out_as<int32_t>(program, p) : carry_out_as<float>(program, p);
}

void issue(DType type, int n, void* d, const uint32_t* words, uint64_t a, uint64_t b, bool keep) {
  Lane& l = me();
  if (!l.products_open) fail("products without a fence before them");
  const int within = l.place.thread % 128;
  Warpgroup& g = l.program->warpgroups[static_cast<size_t>(l.place.thread / 128)];
  const uint64_t number = l.issued++;
  if (number == g.first + g.products.size()) {
    Product& p = g.products.emplace_back();
    p.type = type, p.n = n, p.a = a, p.b = b, p.keep = keep, p.in_registers = words != nullptr;
  }
  Product& p = g.at(number);
  if (p.type != type || p.n != n || p.a != a || p.b != b || p.keep != keep || p.in_registers != (words != nullptr))
    fail("the lanes of a warpgroup give different orders");
  Sums* sums = nullptr;
  for (auto& s : l.sums) {
    if (s != nullptr && s->registers == d) sums = s.get();
  }
  if (sums == nullptr) {
    for (auto& s : l.sums) {
      if (s == nullptr) s = std::make_unique<Sums>();
      if (s->registers != nullptr) continue;
      sums = s.get();
      break;
    }
    if (sums == nullptr) fail("sums of more than four products are on their way at one time");
    sums->registers = d, sums->count = n / 2;
    std::memcpy(sums->bits, d, sizeof(uint32_t) * static_cast<size_t>(n / 2));
    const auto unknown = std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());  // and far from any sum of int8
    for (int e = 0; e < n / 2; ++e) std::memcpy(static_cast<char*>(d) + 4 * e, &unknown, 4);
  }
  if (sums->count != n / 2) fail("products of different widths write the same registers");
  sums->last = number;
  p.sums[within] = sums;
  p.words[within] = words;
  if (l.machine->watched) p.known[within / 32] = my_clock();
  ++p.lanes;
  if (p.lanes == 128 && l.machine->examined && l.machine->draws.next() % 2 == 0) {
    for (uint64_t i = g.first; i <= number; ++i) {
      if (!g.at(i).done) carry_out(*l.program, g.at(i));
    }
  }
}

// --- lanes

void run_lane(void* argument) {
  Lane& l = *static_cast<Lane*>(argument);
  try {
    (*l.machine->body)(l.place);
    if (!l.stores.empty() || !l.open_stores.empty()) fail("a lane ends while its stores still read shared memory");
    for (const auto& s : l.sums) {
      if (s != nullptr && s->registers != nullptr) fail("a lane ends while products are on their way to its registers");
    }
  } catch (...) {
    if (!l.machine->failure) l.machine->failure = std::current_exception();
  }
  l.done = true;
  ++l.program->ended;
  l.stack.leave(true);
}

std::string who_waits(const Machine& m) {
  std::map<std::string, int> waiting;
  for (const auto& p : m.programs) {
    for (const auto& l : p->lanes) {
      if (!l->done) {
        ++waiting["wave " + std::to_string(l->place.thread / 32) + " of program " + std::to_string(p->rank) + " for " +
                  l->waits_for + (l->waits_at != 0 ? " " + std::to_string(l->waits_at) : "")];
      }
    }
  }
  std::string text;
  for (const auto& [what, lanes] : waiting) {
    if (text.size() > 600) return text + ", ...";
    text += (text.empty() ? "" : "; ") + std::to_string(lanes) + " lanes of " + what;
  }
  return text;
}

void run(Machine& m) {
  std::vector<Lane*> order;
  for (const auto& p : m.programs) {
    for (const auto& l : p->lanes) order.push_back(l.get());
  }
  for (;;) {
    if (m.examined) {
      for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[m.draws.next() % (i + 1)]);
    }
    bool ran = false, left = false;
    for (Lane* const l : order) {
      if (l->done) continue;
      left = true;
      if (l->blocked && !l->ready(l->ready_argument)) continue;
      ran = true;
      current = l;
      l->stack.enter();
      current = nullptr;
      if (m.failure) return;
      if (m.examined && m.draws.next() % 64 == 0) land_one(m);
    }
    if (!left) break;
    if (!ran && !land_one(m)) fail("all lanes wait: " + who_waits(m));
  }
  if (!m.copies.empty()) fail("a program ends while copies are on their way to its shared memory");
}

void sync(NamedBarrier& b, const char* what, uint32_t where, int threads, bool wait) {
  Lane& l = me();
  if (b.arrived != 0 && b.threads != threads) fail("lanes come to a barrier with different numbers of threads");
  b.threads = threads;
  Clock& clock = my_clock();
  if (b.clock.empty()) b.clock.assign(clock.size(), 0), b.completed = b.clock;
  join(b.clock, clock);
  ++clock[static_cast<size_t>(l.agent)];
  const uint64_t phase = b.phase;
  if (++b.arrived == threads) {
    ++b.phase;
    b.arrived = 0;
    b.completed = b.clock;
  }
  if (!wait) return;
  block_until(what, where, [&b, phase] { return b.phase != phase; });
  join(my_clock(), b.completed);
}

template <int Rank>
void encode(unsigned char (&map)[128], void* data, int32_t bytes, const int32_t (&extents)[Rank],
            const int64_t (&strides)[Rank - 1], const int32_t (&box)[Rank]) {
  Map m{};
  m.mark = Map::kMark;
  m.data = static_cast<unsigned char*>(data);
  m.bytes = bytes;
  for (int d = 0; d < 4; ++d) m.extent[d] = d < Rank ? extents[d] : 1, m.box[d] = d < Rank ? box[d] : 1;
  for (int d = 0; d < 3; ++d) m.stride[d] = d < Rank - 1 ? strides[d] : 0;
  // cuTensorMapEncodeTiled: what it refuses.
  bool fits = reinterpret_cast<uintptr_t>(data) % 16 == 0;
  for (int d = 0; d < Rank; ++d) fits = fits && extents[d] > 0 && box[d] > 0 && box[d] <= 256;
  for (int d = 0; d < Rank - 1; ++d) fits = fits && strides[d] % 16 == 0 && strides[d] > 0;
  if (!fits || m.row_bytes() != 128) fail("a map that the copy engine does not take");
  std::memcpy(map, &m, sizeof m);
}

}  // namespace

void run_cluster(int64_t first, int64_t programs, int cluster, int threads, size_t scratch_bytes,
                 const std::function<void(const LanePlace&)>& body) {
  thread_local std::vector<std::unique_ptr<unsigned char[]>> stacks;
  Machine m;
  m.body = &body;
  m.examined = emulated::examined();
  m.watched = m.examined;
  if (m.examined) m.draws = draws_of_program(first);
  if (planted(Fault::missing_barrier)) m.skipped_wait = static_cast<int>(m.draws.next() % 4);
  if (planted(Fault::pipeline_phase)) m.wrong_from = static_cast<int>(m.draws.next() % 4);
  const int waves = threads / 32;
  m.clocks.assign(static_cast<size_t>(cluster * waves), Clock(static_cast<size_t>(cluster * waves), 0));
  for (size_t i = 0; i < m.clocks.size(); ++i) m.clocks[i][i] = 1;
  for (int rank = 0; rank < cluster; ++rank) {
    Program& p = *m.programs.emplace_back(std::make_unique<Program>());
    p.machine = &m, p.rank = rank;
    p.bytes = (scratch_bytes + kChunk + 1023) / 1024 * 1024;
    p.memory.assign(p.bytes + 1024, 0xff);  // NaN: a read before a write shows
    p.base = p.memory.data() + (-reinterpret_cast<uintptr_t>(p.memory.data()) & 1023);
    p.waves.resize(static_cast<size_t>(waves));
    p.warpgroups.resize(static_cast<size_t>((threads + 127) / 128));
    if (m.watched) {
      p.shadow.resize(p.bytes / kChunk);
      p.reads.assign(p.bytes / kChunk * static_cast<size_t>(waves), 0);
    }
    for (int t = 0; t < threads; ++t) {
      Lane& l = *p.lanes.emplace_back(std::make_unique<Lane>());
      l.program = &p, l.machine = &m;
      l.place = {first + rank, programs, t, p.base + kChunk};  // 16 bytes are all that a kernel may count on
      l.agent = rank * waves + t / 32;
      l.stack.prepare(take_stack<kStackBytes>(stacks), kStackBytes, m.caller, run_lane, &l);
    }
  }
  try {
    run(m);
  } catch (...) {
    if (!m.failure) m.failure = std::current_exception();
  }
  current = nullptr;
  for (const auto& p : m.programs) {
    for (const auto& l : p->lanes) stacks.push_back(l->stack.release());
  }
  if (m.failure) std::rethrow_exception(m.failure);
}
const LanePlace& this_lane() { return me().place; }

void encode_map(lang::matrix_view& v, int rows) {
  const auto bytes = static_cast<int32_t>(dtype_info(v.dtype).block_bytes);
  const int64_t batch_stride = v.batch > 1 ? v.batch_stride : v.stride * v.rows;
  encode<3>(v.map, v.data, bytes, {v.cols, v.rows, v.batch}, {v.stride * bytes, batch_stride * bytes},
            {128 / bytes, rows, 1});
}
void encode_map(lang::box_view& v, int box_x, int box_y) {
  const auto bytes = static_cast<int32_t>(dtype_info(v.dtype).block_bytes);
  const auto extent = [](int32_t n) { return n < 1 ? 1 : n; };
  const auto stride = [&](int32_t n, int64_t s) { return n > 1 ? s * bytes : int64_t{16}; };
  encode<4>(v.map, v.data, bytes, {extent(v.cols), extent(v.extent_x), extent(v.extent_y), extent(v.extent_z)},
            {stride(v.extent_x, v.stride_x), stride(v.extent_y, v.stride_y), stride(v.extent_z, v.stride_z)},
            {128 / bytes, box_x, box_y, 1});
}

uint32_t shared_address(const void* p) {
  Program& program = *me().program;
  const auto* const at = static_cast<const unsigned char*>(p);
  if (at < program.base || at > program.base + program.bytes)
    fail("the address of something that is not in shared memory");
  return kSharedStart + static_cast<uint32_t>(at - program.base);
}

void barrier_init(uint32_t barrier, uint32_t arrivals) {
  if (barrier % 8 != 0 || arrivals == 0) fail("a barrier that is not aligned, or expects nobody");
  MBarrier& b = me().program->barriers[barrier];
  b = {};
  b.expected = arrivals, b.pending = arrivals;
  b.arrived.assign(my_clock().size(), 0);
  b.completed = b.arrived;
}
void barrier_expect(uint32_t barrier, uint32_t bytes) { barrier_of(*me().program, barrier).bytes += bytes; }
void barrier_arrive(uint32_t barrier, uint32_t arrivals, int rank) {
  Lane& l = me();
  Program& p = rank < 0 ? *l.program : *l.machine->programs.at(static_cast<size_t>(rank));
  Clock& clock = my_clock();
  arrive_at(p, barrier, arrivals, clock);
  ++clock[static_cast<size_t>(l.agent)];
}
bool barrier_ready(uint32_t barrier, uint32_t parity) {
  MBarrier& b = barrier_of(*me().program, barrier);
  if ((b.phase & 1) == parity) return false;
  join(my_clock(), b.completed);
  return true;
}
void barrier_wait(uint32_t barrier, uint32_t parity) {
  Lane& l = me();
  const int number = l.waits++;
  if (number == l.machine->skipped_wait) return;
  if (l.machine->wrong_from >= 0 && number >= l.machine->wrong_from) parity ^= 1;
  MBarrier& b = barrier_of(*l.program, barrier);
  block_until(parity == 0 ? "phase 0 of the barrier at byte" : "phase 1 of the barrier at byte", barrier,
              [&b, parity] { return (b.phase & 1) != parity; });
  join(my_clock(), b.completed);
}

void named_barrier_sync(int id, int threads) {
  sync(me().program->named[id], "named barrier", static_cast<uint32_t>(id), threads, true);
}
void named_barrier_arrive(int id, int threads) {
  sync(me().program->named[id], "named barrier", static_cast<uint32_t>(id), threads, false);
}
void program_barrier() { named_barrier_sync(0, static_cast<int>(me().program->lanes.size())); }
void cluster_sync() {
  Machine& m = *me().machine;
  sync(m.cluster, "the cluster", 0, static_cast<int>(m.programs.size() * me().program->lanes.size()), true);
}
int cluster_rank() { return me().program->rank; }
int cluster_size() { return static_cast<int>(me().machine->programs.size()); }
float load_remote(uint32_t address, int rank) {
  float v;
  std::memcpy(&v, me().machine->programs.at(static_cast<size_t>(rank))->at(address, 4), 4);
  return v;
}

void copy_box(uint32_t to, const void* map, uint32_t barrier, const int (&at)[4], uint32_t ranks) {
  Lane& l = me();
  const Map& m = map_of(map);
  if (to % 128 != 0) fail("a box that does not start on 128 bytes of shared memory");
  if (ranks == 0) ranks = 1u << l.program->rank;
  for (size_t rank = 0; rank < l.machine->programs.size(); ++rank) {
    if ((ranks >> rank & 1) == 0) continue;
    Copy c;
    c.to_program = l.machine->programs[rank].get();
    c.map = m, c.to = to, c.barrier = barrier, c.agent = l.agent, c.known = my_clock();
    std::copy(at, at + 4, c.at);
    std::memset(c.to_program->at(to, static_cast<size_t>(m.box_bytes())), 0xff, static_cast<size_t>(m.box_bytes()));
    l.machine->copies.push_back(std::move(c));
  }
}
void store_box(const void* map, uint32_t from, const int (&at)[4]) {
  Lane& l = me();
  StoreBox s{map_of(map), from, {at[0], at[1], at[2], at[3]}};
  if (from % 128 != 0) fail("a box that does not start on 128 bytes of shared memory");
  (void)l.program->at(from, static_cast<size_t>(s.map.box_bytes()));
  watch_fence(*l.program, from, s.map.box_bytes(), "a store");
  l.open_stores.push_back(s);
}
void close_stores() {
  Lane& l = me();
  l.stores.push_back(std::move(l.open_stores));
  l.open_stores.clear();
}
void wait_stores_read(int open) {
  Lane& l = me();
  while (l.stores.size() > static_cast<size_t>(open)) {
    for (const StoreBox& s : l.stores.front()) carry_out(l, s);
    l.stores.pop_front();
  }
}
void fence_for_copies() {
  Lane& l = me();
  if (!l.machine->watched) return;
  for (const uint32_t c : l.unfenced) {
    int& writer = l.program->shadow[c].unfenced;
    if (writer == l.place.thread) writer = -1;
  }
  l.unfenced.clear();
}

void copy_chunk(void* to, const void* from, int bytes) {
  Lane& l = me();
  if (reinterpret_cast<uintptr_t>(to) % kChunk != 0 || (bytes != 0 && reinterpret_cast<uintptr_t>(from) % kChunk != 0))
    fail_misaligned(bytes != 0 ? from : to);
  std::memset(to, 0xff, kChunk);
  l.open_chunks.push_back({static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes});
}
void close_chunks() {
  Lane& l = me();
  l.chunks.push_back(std::make_shared<Chunks>(std::move(l.open_chunks)));
  l.open_chunks.clear();
}
void wait_chunks(int open) {
  Lane& l = me();
  while (l.chunks.size() > static_cast<size_t>(open)) {
    for (const Chunk& k : *l.chunks.front()) {
      unsigned char bytes[kChunk] = {};
      if (k.bytes > 0) std::memcpy(bytes, k.from, static_cast<size_t>(k.bytes));
      std::memcpy(k.to, bytes, kChunk);
      watch_write(*l.program, address_in(*l.program, k.to), kChunk, l.agent, my_clock(), "a copy");
    }
    l.chunks.pop_front();
  }
}
void barrier_arrive_after_chunks(uint32_t barrier) {
  Lane& l = me();
  close_chunks();
  Copy c;
  c.to_program = l.program, c.barrier = barrier, c.agent = l.agent, c.known = my_clock();
  c.chunks.assign(l.chunks.begin(), l.chunks.end());
  l.chunks.clear();
  l.machine->copies.push_back(std::move(c));
  ++my_clock()[static_cast<size_t>(l.agent)];
}

void issue_product(DType type, int n, void* d, uint64_t a, uint64_t b, bool keep) {
  issue(type, n, d, nullptr, a, b, keep);
}
void issue_product_of_registers(DType type, int n, float* d, const uint32_t* a, uint64_t b, bool keep) {
  issue(type, n, d, a, 0, b, keep);
}
void products_begin() { me().products_open = true; }
void products_close() {
  Lane& l = me();
  l.products_open = false;
  l.closed.push_back(l.issued);
}
void products_wait(int open) {
  Lane& l = me();
  if (l.closed.size() <= static_cast<size_t>(open)) return;
  const uint64_t end = l.closed[l.closed.size() - 1 - static_cast<size_t>(open)];
  l.closed.erase(l.closed.begin(), l.closed.end() - open);
  Warpgroup& g = l.program->warpgroups[static_cast<size_t>(l.place.thread / 128)];
  if (end > l.waited) {
    block_until("the other waves' products", 0, [&g, end] { return g.at(end - 1).lanes == 128; });
    for (; l.waited < end; ++l.waited) {
      Product& p = g.at(l.waited);
      if (!p.done) carry_out(*l.program, p);
      const int wave = l.place.thread % 128 / 32;
      if (l.machine->watched && !std::exchange(p.noted[wave], true)) {  // known when it was issued, read by now
        each_operand_row(p, [&](uint32_t address) {
          watch_fence(*l.program, address, kChunk, "a product");
          watch_read(*l.program, address, kChunk, l.agent, p.known[wave], my_clock()[static_cast<size_t>(l.agent)],
                     "a product");
        });
      }
      ++p.waited;
    }
    while (!g.products.empty() && g.products.front().waited == 128) g.products.pop_front(), ++g.first;
  }
  for (auto& s : l.sums) {
    if (s == nullptr || s->registers == nullptr || s->last >= end) continue;
    std::memcpy(s->registers, s->bits, sizeof(uint32_t) * static_cast<size_t>(s->count));
    s->registers = nullptr;
  }
}

void wave_together(const char* what, void* mine, void (*act)(void* const (&all)[32])) {
  Lane& l = me();
  Wave& w = l.program->waves[static_cast<size_t>(l.place.thread / 32)];
  if (w.count == 0) w.what = what;
  if (w.what != what && std::strcmp(w.what, what) != 0)
    fail(std::string("some lanes of a wave ") + what + ", others " + w.what);
  w.brought[l.lane()] = mine;
  const uint64_t phase = w.phase;
  if (++w.count == 32) {
    if (act != nullptr) act(w.brought);
    w.count = 0;
    ++w.phase;
    return;
  }
  block_until("its other lanes", 0, [&w, phase] { return w.phase != phase; });
}
int lane_of_wave() { return me().lane(); }

void note_shared_write(uint32_t address, int bytes) {
  Lane& l = me();
  if (!l.machine->watched) return;
  watch_write(*l.program, address, bytes, l.agent, my_clock(), "a wave");
  for (size_t c = chunk_of(address); c <= chunk_of(address + static_cast<uint32_t>(bytes) - 1); ++c) {
    l.program->shadow[c].unfenced = l.place.thread;
    l.unfenced.push_back(static_cast<uint32_t>(c));
  }
}
void note_shared_read(uint32_t address, int bytes) {
  Lane& l = me();
  watch_read(*l.program, address, bytes, l.agent, my_clock(), my_clock()[static_cast<size_t>(l.agent)], "a wave");
}

namespace {
struct MatrixRow {
  Program* program;
  uint32_t row;
  uint32_t words[4];
  unsigned char* data() const { return program->at(row, 16); }
};
void count_banks(void* const (&all)[32]) {
  const unsigned char* rows[32];
  for (int l = 0; l < 32; ++l) rows[l] = static_cast<MatrixRow*>(all[l])->data();
  for (int i = 0; i < 4; ++i) count_shared_access(rows + 8 * i, 8, 16);
}
void check_row(uint32_t row) {
  if (row % 16 != 0) fail("a row of a matrix that does not start on 16 bytes of shared memory");
}
}  // namespace

void stmatrix4(uint32_t row, const uint32_t (&words)[4]) {
  check_row(row);
  note_shared_write(row, 16);
  MatrixRow mine{me().program, row, {words[0], words[1], words[2], words[3]}};
  wave_together("store matrices", &mine, [](void* const(&all)[32]) {
    count_banks(all);
    const auto lane = [&](int l) -> MatrixRow& { return *static_cast<MatrixRow*>(all[l]); };
    for (int i = 0; i < 4; ++i) {
      for (int l = 0; l < 32; ++l) std::memcpy(lane(i * 8 + l / 4).data() + l % 4 * 4, &lane(l).words[i], 4);
    }
  });
}
void ldmatrix4(uint32_t (&words)[4], uint32_t row, bool across) {
  check_row(row);
  note_shared_read(row, 16);
  MatrixRow mine{me().program, row, {}};
  const auto plain = [](void* const(&all)[32]) {
    count_banks(all);
    const auto lane = [&](int l) -> MatrixRow& { return *static_cast<MatrixRow*>(all[l]); };
    for (int i = 0; i < 4; ++i) {
      for (int l = 0; l < 32; ++l) std::memcpy(&lane(l).words[i], lane(i * 8 + l / 4).data() + l % 4 * 4, 4);
    }
  };
  const auto turned = [](void* const(&all)[32]) {
    count_banks(all);
    const auto lane = [&](int l) -> MatrixRow& { return *static_cast<MatrixRow*>(all[l]); };
    for (int i = 0; i < 4; ++i) {
      for (int l = 0; l < 32; ++l) {
        uint16_t low, high;
        std::memcpy(&low, lane(i * 8 + l % 4 * 2).data() + l / 4 * 2, 2);
        std::memcpy(&high, lane(i * 8 + l % 4 * 2 + 1).data() + l / 4 * 2, 2);
        lane(l).words[i] = static_cast<uint32_t>(high) << 16 | low;
      }
    }
  };
  if (across) {
    wave_together("load matrices across", &mine, turned);
  } else {
    wave_together("load matrices", &mine, plain);
  }
  for (int i = 0; i < 4; ++i) words[i] = mine.words[i];
}

namespace {
struct SmallProduct {
  DType type;
  float d[4];
  uint32_t a[4], b[2];
};
}  // namespace
void multiply_m16n8k16(DType type, float* const (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  SmallProduct mine{type, {*d[0], *d[1], *d[2], *d[3]}, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  wave_together("multiply", &mine, [](void* const(&all)[32]) {
    float x[16][16], y[8][16];
    const auto element = [](DType type, uint32_t word, int e) {
      unsigned char both[4];
      std::memcpy(both, &word, 4);
      return value_of<float>(type, both + e % 2 * 2);
    };
    // "Matrix Fragments for mma.m16n8k16 with floating point type".
    for (int l = 0; l < 32; ++l) {
      const auto& p = *static_cast<SmallProduct*>(all[l]);
      for (int e = 0; e < 8; ++e)
        x[l / 4 + e / 2 % 2 * 8][l % 4 * 2 + e % 2 + e / 4 * 8] = element(p.type, p.a[e / 2], e);
      for (int e = 0; e < 4; ++e) y[l / 4][l % 4 * 2 + e % 2 + e / 2 * 8] = element(p.type, p.b[e / 2], e);
    }
    for (int l = 0; l < 32; ++l) {
      auto& p = *static_cast<SmallProduct*>(all[l]);
      for (int e = 0; e < 4; ++e) {
        for (int k = 0; k < 16; ++k) p.d[e] += x[l / 4 + e / 2 * 8][k] * y[l % 4 * 2 + e % 2][k];
      }
    }
  });
  for (int e = 0; e < 4; ++e) *d[e] = mine.d[e];
}

}  // namespace monotile::emulated
