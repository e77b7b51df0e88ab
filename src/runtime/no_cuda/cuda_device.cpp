// Builds without CUDA: no device is found, so nothing else here is ever reached.

#include "runtime/cuda/cuda_device.hpp"

namespace monotile::cuda {
namespace {

[[noreturn]] void absent(const char* call) {
  throw Error(ErrorCode::internal, std::string("cuda: ") + call + " in a build without CUDA code");
}

}  // namespace

Found find() { return {{}, {"cuda: this build has no CUDA code; configure with the cuda preset"}}; }

void* create_stream(int) { absent("create_stream"); }
void destroy_stream(int, void*) noexcept {}
void synchronize_stream(int, void*) { absent("synchronize_stream"); }
void* create_event(int) { absent("create_event"); }
void destroy_event(int, void*) noexcept {}
void record_event(int, void*, void*) { absent("record_event"); }
void synchronize_event(int, void*) { absent("synchronize_event"); }
double elapsed_ms(const void*, const void*) { absent("elapsed_ms"); }
bool is_capturing(int, void*) { absent("is_capturing"); }
void begin_capture(int, void*) { absent("begin_capture"); }
void* end_capture(int, void*) { absent("end_capture"); }
void launch_graph(int, void*, void*) { absent("launch_graph"); }
void destroy_graph(void*) noexcept {}
void* allocate(int, size_t) { absent("allocate"); }
void release(int, void*) noexcept {}
void* allocate_in_order(int, void*, size_t) { absent("allocate_in_order"); }
void release_in_order(int, void*, void*) noexcept {}
void copy(int, void*, void*, const void*, size_t, Direction) { absent("copy"); }
void fill(int, void*, void*, int, size_t) { absent("fill"); }

}  // namespace monotile::cuda
