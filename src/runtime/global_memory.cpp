// Counts how the emulator's waves use sectors of global memory.

#include "monotile/lang/backend/emulated/global_memory.hpp"

#include <algorithm>
#include <vector>

namespace monotile::emulated {
namespace {

struct Access {
  int number;  // within its lane
  bool store;
  uint32_t bytes;
  uintptr_t at;
  bool together_with(const Access& o) const { return number == o.number && store == o.store && bytes == o.bytes; }
  bool operator<(const Access& o) const {
    if (number != o.number) return number < o.number;
    if (store != o.store) return store < o.store;
    if (bytes != o.bytes) return bytes < o.bytes;
    return at < o.at;
  }
};
/// What the lanes of one wave have asked for since its first lane's turn.
struct Open {
  int lane = -1, number = 0;
  uintptr_t sector = 32;
  std::vector<Access> list;
};
thread_local Open open;

struct Sum {
  std::atomic<uint64_t> accesses{0}, sectors{0}, needed{0}, bytes{0};
  GlobalAccesses value() const { return {accesses, sectors, needed, bytes}; }
  void reset() { accesses = sectors = needed = bytes = 0; }
};
Sum all_loads, all_stores;

void close() {
  std::sort(open.list.begin(), open.list.end());
  for (size_t first = 0; first < open.list.size();) {
    size_t end = first;
    uint64_t bytes = 0, sectors = 0;
    uintptr_t covered = 0, seen = 0;  // ends of what is counted already
    for (; end < open.list.size() && open.list[end].together_with(open.list[first]); ++end) {
      const uintptr_t from = std::max(open.list[end].at, covered), to = open.list[end].at + open.list[end].bytes;
      if (to > from) bytes += to - from;
      covered = std::max(covered, to);
      const uintptr_t first_sector = std::max(open.list[end].at / open.sector, seen), last = (to - 1) / open.sector + 1;
      if (last > first_sector) sectors += last - first_sector;
      seen = std::max(seen, last);
    }
    Sum& sum = open.list[first].store ? all_stores : all_loads;
    sum.accesses += 1;
    sum.sectors += sectors;
    sum.needed += (bytes + open.sector - 1) / open.sector;
    sum.bytes += bytes;
    first = end;
  }
  open.list.clear();
}

}  // namespace

namespace detail {
std::atomic<bool> counting_global{false};

void note_lane(int lane, int lanes) {
  if (lane <= open.lane || lane == 0) close();
  open.lane = lane;
  open.number = 0;
  // NVIDIA: sectors of 32 bytes (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"). AMD: 64 bytes, the smallest request of CDNA's
  // first-level cache to its second (AMD Instinct MI200 performance counters, "TCP_TCC").
  open.sector = lanes == 64 ? 64 : 32;
}
void note_global(const void* p, size_t bytes, bool store) {
  if (open.lane < 0) return;
  open.list.push_back({open.number++, store, static_cast<uint32_t>(bytes), reinterpret_cast<uintptr_t>(p)});
}
void close_global() {
  close();
  open.lane = -1;
}
}  // namespace detail

CountGlobalAccesses::CountGlobalAccesses() {
  all_loads.reset(), all_stores.reset();
  detail::counting_global = true;
}
CountGlobalAccesses::~CountGlobalAccesses() { detail::counting_global = false; }
GlobalAccesses CountGlobalAccesses::loads() const { return all_loads.value(); }
GlobalAccesses CountGlobalAccesses::stores() const { return all_stores.value(); }

}  // namespace monotile::emulated
