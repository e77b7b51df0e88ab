#pragma once
// What baselines by a vendor's library have in common: it is found at run time, and the fastest of its proposals is taken.

#include <dlfcn.h>

#include <initializer_list>

#include "monotile/device.hpp"

namespace monotile::bench {

/// The first of these libraries that is there, or null. It stays loaded.
inline void* open_any(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}
/// `function` by its name; false, and null, if the library has none.
template <class Function>
bool find_function(Function& function, void* library, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// Which of `count` proposals has the shortest of five runs, after one that is not timed; -1 if run(stream, proposal) refuses all.
template <class Run>
int fastest_proposal(Device device, int count, Run run) {
  Stream stream(device);
  Event begin(device), end(device);
  double best = 0;
  int winner = -1;
  for (int i = 0; i < count; ++i) {
    if (!run(stream, i)) continue;
    for (int repeat = 0; repeat < 5; ++repeat) {
      begin.record(stream);
      run(stream, i);
      end.record(stream);
      end.synchronize();
      const double ms = Event::elapsed_ms(begin, end);
      if (winner < 0 || ms < best) best = ms, winner = i;
    }
  }
  return winner;
}

}  // namespace monotile::bench
