// Fibres of the emulator: each wave of a program has a stack of its own; a barrier hands over to the next wave that can run.

#include "monotile/lang/backend/emulated/fibre.hpp"
#include "monotile/lang/backend/emulated/global_memory.hpp"
#include "monotile/lang/backend/emulated/shared_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "monotile/error.hpp"
#include "runtime/examination.hpp"
#include "runtime/fibre_stack.hpp"

namespace monotile::emulated {
namespace {

constexpr size_t kStackBytes = 512 * 1024;

struct Scheduler;

struct Fibre {
  FibreStack stack;
  Scheduler* scheduler = nullptr;
  int wave = 0;
  bool done = false;
  bool waiting = false;
  int barriers = 0;  // passed
  int skipped = 0;   // met, whether passed or left out
};

struct Scheduler {
  FibreCaller caller;
  std::vector<Fibre> fibres;
  const std::function<void(int, void*)>* body = nullptr;
  std::exception_ptr failure;
};

void run_fibre(void* argument) {
  auto& f = *static_cast<Fibre*>(argument);
  try {
    (*f.scheduler->body)(f.wave, &f);
  } catch (...) {
    if (!f.scheduler->failure) f.scheduler->failure = std::current_exception();
  }
  f.done = true;
  f.stack.leave(true);
}

std::atomic<uint64_t> examination_seed{0};

/// What is known of a byte of shared memory: who wrote it last, who read it, and between which barriers.
struct Shadow {
  int32_t written = -1, read = -1;   // barriers passed by then
  int16_t writer = -1, reader = -1;  // kMany: several
};
constexpr int16_t kMany = -2;

struct Watched {
  const unsigned char* base[2] = {};
  size_t bytes[2] = {};
  std::vector<Shadow> shadow[2];
  Draws draws;
  Fibre* running = nullptr;
  int skipped_barrier = -1;
};
thread_local Watched* watched = nullptr;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::internal, "emulated: " + what); }

std::string place_of(int region, size_t offset) {
  return (region == 0 ? "byte " : "scratch byte ") + std::to_string(offset);
}

}  // namespace

namespace detail {
std::atomic<bool> examined{false};
std::atomic<Fault> planted{Fault::none};

void note(const void* p, size_t bytes, bool write) {
  Watched* const w = watched;
  if (w == nullptr) return;
  const auto* const at = static_cast<const unsigned char*>(p);
  const int16_t wave = w->running != nullptr ? static_cast<int16_t>(w->running->wave) : int16_t{0};
  const int32_t now = w->running != nullptr ? w->running->barriers : 0;
  for (int region = 0; region < 2; ++region) {
    if (at < w->base[region] || at + bytes > w->base[region] + w->bytes[region]) continue;
    const size_t first = static_cast<size_t>(at - w->base[region]);
    for (size_t i = first; i < first + bytes; ++i) {
      Shadow& s = w->shadow[region][i];
      const bool raced = s.written == now && s.writer != wave;
      if (write) {
        if (raced || (s.read == now && s.reader != wave)) {
          fail("race: wave " + std::to_string(wave) + " writes " + place_of(region, i) + ", which another wave " +
               (raced ? "wrote" : "read") + " since the last barrier");
        }
        s.written = now, s.writer = wave;
      } else {
        if (s.written < 0)
          fail("wave " + std::to_string(wave) + " reads " + place_of(region, i) + ", which nobody wrote");
        if (raced) {
          fail("race: wave " + std::to_string(wave) + " reads " + place_of(region, i) + ", which wave " +
               std::to_string(s.writer) + " wrote since the last barrier");
        }
        s.reader = s.read == now && s.reader != wave ? kMany : wave;
        s.read = now;
      }
    }
    break;
  }
  if (w->running != nullptr && w->draws.next() % 16 == 0) w->running->stack.leave(false);  // another wave may come first
}
}  // namespace detail

namespace {
/// MONOTILE_EMULATED_SEED=N: everything that this process emulates is examined.
const bool examined_by_environment = [] {
  const char* const seed = std::getenv("MONOTILE_EMULATED_SEED");
  if (seed == nullptr || *seed == '\0') return false;
  examination_seed = std::strtoull(seed, nullptr, 10);
  detail::examined = true;
  return true;
}();
}  // namespace

Examination::Examination(uint64_t seed, Fault fault) {
  examination_seed = seed;
  detail::planted = fault;
  detail::examined = true;
}
Examination::~Examination() {
  detail::examined = examined_by_environment;
  detail::planted = Fault::none;
}

Draws draws_of_program(int64_t program) {
  Draws draws((examination_seed + 1) * 0x9e3779b97f4a7c15u ^ static_cast<uint64_t>(program) << 20);
  for (int i = 0; i < 4; ++i) draws.next();
  return draws;
}

WatchedProgram::WatchedProgram(int64_t program, const void* slots, size_t slot_bytes, const void* scratch,
                               size_t scratch_bytes)
    : watching_(examined() && watched == nullptr) {
  if (!watching_) return;
  watched = new Watched;
  const void* bases[2] = {slots, scratch};
  const size_t sizes[2] = {slot_bytes, scratch_bytes};
  for (int region = 0; region < 2; ++region) {
    watched->base[region] = static_cast<const unsigned char*>(bases[region]);
    watched->bytes[region] = sizes[region];
    watched->shadow[region].resize(sizes[region]);
  }
  watched->draws = draws_of_program(program);
  if (planted(Fault::missing_barrier)) watched->skipped_barrier = static_cast<int>(watched->draws.next() % 4);
}
WatchedProgram::~WatchedProgram() {
  close_global_accesses();
  if (!watching_) return;
  delete watched;
  watched = nullptr;
}

void wait_at_barrier(void* fibre) {
  auto& f = *static_cast<Fibre*>(fibre);
  if (watched != nullptr && watched->skipped_barrier >= 0 && f.skipped == watched->skipped_barrier) {
    ++f.skipped;
    return;
  }
  ++f.skipped;
  f.waiting = true;
  f.stack.leave(false);
  ++f.barriers;
}

void run_waves(int waves, const std::function<void(int, void*)>& body) {
  thread_local std::vector<std::unique_ptr<unsigned char[]>> stacks;
  Scheduler s;
  s.body = &body;
  s.fibres.resize(static_cast<size_t>(waves));
  for (int w = 0; w < waves; ++w) {
    Fibre& f = s.fibres[static_cast<size_t>(w)];
    f.scheduler = &s;
    f.wave = w;
    f.stack.prepare(take_stack<kStackBytes>(stacks), kStackBytes, s.caller, run_fibre, &f);
  }
  bool stuck = false;
  for (;;) {
    // Until all wait or are done: in order, or, if examined, in any.
    for (;;) {
      int first = waves, able = 0;
      for (int w = waves - 1; w >= 0; --w) {
        const Fibre& f = s.fibres[static_cast<size_t>(w)];
        if (!f.done && !f.waiting) first = w, ++able;
      }
      if (able == 0 || s.failure) break;
      if (watched != nullptr) {
        for (uint32_t skip = watched->draws.next() % static_cast<uint32_t>(able); skip > 0; --skip) {
          do ++first;
          while (s.fibres[static_cast<size_t>(first)].done || s.fibres[static_cast<size_t>(first)].waiting);
        }
        watched->running = &s.fibres[static_cast<size_t>(first)];
      }
      s.fibres[static_cast<size_t>(first)].stack.enter();
    }
    int done = 0;
    for (const Fibre& f : s.fibres) done += f.done ? 1 : 0;
    if (done == waves) break;
    if (done != 0 && !s.failure) stuck = true;  // some ended while others wait for them
    if (s.failure || stuck) break;              // the waiting stacks are given up; they hold plain data only
    for (Fibre& f : s.fibres) f.waiting = false;
  }
  if (watched != nullptr) watched->running = nullptr;
  for (Fibre& f : s.fibres) stacks.push_back(f.stack.release());
  if (s.failure) std::rethrow_exception(s.failure);
  if (stuck)
    throw Error(ErrorCode::internal, "emulated: some waves of a program wait at a barrier that others never reach");
}

namespace {
std::atomic<uint64_t> shared_passes{0}, shared_needed{0};
}

void count_shared_access(const unsigned char* const* addresses, int lanes, int bytes, Phases phases) {
  // A bank serves one word of four bytes per pass; lanes that want the same word share it. Lanes of different phases never meet.
  constexpr int kBanks = 32, kMostWords = 64 * 4;
  const int in_phase = 128 / bytes;
  if (phases != Phases::together && lanes > in_phase) {
    for (int phase = 0; phase < lanes / in_phase; ++phase) {
      const unsigned char* of_phase[64];
      for (int i = 0; i < in_phase; ++i) of_phase[i] = addresses[phase_lane(phases, phase, i, in_phase)];
      count_shared_access(of_phase, in_phase, bytes, Phases::together);
    }
    return;
  }
  uintptr_t words[kMostWords];
  int count = 0;
  for (int l = 0; l < lanes; ++l) {
    for (int w = 0; w < bytes / 4; ++w)
      words[count++] = reinterpret_cast<uintptr_t>(addresses[l]) / 4 + static_cast<uintptr_t>(w);
  }
  std::sort(words, words + count);
  const int distinct = static_cast<int>(std::unique(words, words + count) - words);
  int load[kBanks] = {};
  for (int i = 0; i < distinct; ++i) ++load[words[i] % kBanks];
  shared_passes += static_cast<uint64_t>(*std::max_element(load, load + kBanks));
  shared_needed += static_cast<uint64_t>((distinct + kBanks - 1) / kBanks);
}

SharedAccesses take_shared_accesses() { return {shared_passes.exchange(0), shared_needed.exchange(0)}; }

void fail_misaligned(const void* p) {
  std::fprintf(stderr, "emulated: a 16-byte access at %p, which is not a multiple of 16\n", p);
  std::abort();
}

}  // namespace monotile::emulated
