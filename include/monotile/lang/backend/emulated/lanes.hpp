#pragma once
// What the lanes of a wave do together where every lane is a fibre of its own (src/runtime/machine.cpp).

namespace monotile::emulated {

/// Waits until all 32 lanes of the wave have come here. `mine` is what this lane brings; the last one calls `act` with all of them in order of
/// the lanes, before anyone goes on. Throws Error(internal) if lanes come together with different ideas of `what` they do.
void wave_together(const char* what, void* mine, void (*act)(void* const (&all)[32]));
/// Of this fibre within its wave.
int lane_of_wave();
/// Waits for all lanes of the program.
void program_barrier();

/// out = `in` of lane source(this lane), taken modulo 32.
template <class T, class Source>
inline void shuffle(T& out, const T& in, Source source) {
  struct Exchange {
    T in, out;
    int source;
  } mine{in, in, source(lane_of_wave()) & 31};
  wave_together("exchange values", &mine, [](void* const(&all)[32]) {
    for (void* const lane : all) {
      auto& to = *static_cast<Exchange*>(lane);
      to.out = static_cast<Exchange*>(all[to.source])->in;
    }
  });
  out = mine.out;
}

}  // namespace monotile::emulated
