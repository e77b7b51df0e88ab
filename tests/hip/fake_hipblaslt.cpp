// A stand-in for libhipblaslt: memory is the host's, and products of fp32 are computed as the descriptors say, in the library's column-major order. So the
// adapter's calls are tested where there is no AMD GPU.

#include <cstdint>
#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
struct Desc {
  int compute, scale, op_a = 111, op_b = 111;
};
struct Layout {
  int type;
  uint64_t rows, cols;
  int64_t ld;
};
struct Preference {
  uint64_t most_workspace = 0;
};
struct Algorithm {
  unsigned char data[16];
  size_t most_workspace;
};
struct Proposal {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
int calls[3] = {};  ///< by algorithm
}  // namespace

EXPORT int fake_calls(int algorithm) { return calls[algorithm]; }

EXPORT int hipblasLtCreate(void** handle) { return *handle = &calls, 0; }
EXPORT int hipblasLtMatmulDescCreate(void** desc, int compute, int scale) { return *desc = new Desc{compute, scale}, 0; }
EXPORT int hipblasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes) {
  if (bytes != sizeof(int) || attribute > 1) return 3;
  std::memcpy(attribute == 0 ? &static_cast<Desc*>(desc)->op_a : &static_cast<Desc*>(desc)->op_b, value, bytes);
  return 0;
}
EXPORT int hipblasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  return *layout = new Layout{type, rows, cols, ld}, 0;
}
EXPORT int hipblasLtMatmulDescDestroy(void* desc) { return delete static_cast<Desc*>(desc), 0; }
EXPORT int hipblasLtMatrixLayoutDestroy(void* layout) { return delete static_cast<Layout*>(layout), 0; }
EXPORT int hipblasLtMatmulPreferenceCreate(void** preference) { return *preference = new Preference, 0; }
EXPORT int hipblasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, size_t bytes) {
  if (attribute != 1 || bytes != sizeof(uint64_t)) return 3;
  std::memcpy(&static_cast<Preference*>(preference)->most_workspace, value, bytes);
  return 0;
}
EXPORT int hipblasLtMatmulPreferenceDestroy(void* preference) { return delete static_cast<Preference*>(preference), 0; }
EXPORT int hipblasLtMatmulAlgoGetHeuristic(void* handle, void*, void* a, void*, void*, void*, void* preference, int wanted, void* found, int* count) {
  if (handle != &calls || static_cast<Preference*>(preference)->most_workspace < 1024 || static_cast<Layout*>(a)->type != 0) return *count = 0, 7;
  *count = wanted < 3 ? wanted : 3;
  for (int i = 0; i < *count; ++i) {
    Proposal& p = static_cast<Proposal*>(found)[i];
    p = {};
    p.algorithm.data[0] = static_cast<unsigned char>(i);
  }
  return 0;
}
EXPORT int hipblasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout, const void* beta,
                           const void*, void*, void* d, void* d_layout, const void* algorithm, void* workspace, size_t bytes, void*) {
  const Desc& how = *static_cast<Desc*>(desc);
  const Layout &x = *static_cast<Layout*>(a_layout), &y = *static_cast<Layout*>(b_layout), &z = *static_cast<Layout*>(d_layout);
  if (handle != &calls || how.compute != 2 || how.scale != 0 || how.op_a != 112 || how.op_b != 111 || x.rows != y.rows || z.rows != x.cols ||
      z.cols != y.cols || workspace == nullptr || bytes < 1024)
    return 3;
  ++calls[static_cast<const Algorithm*>(algorithm)->data[0]];
  const auto *p = static_cast<const float*>(a), *q = static_cast<const float*>(b);
  auto* const out = static_cast<float*>(d);
  for (uint64_t col = 0; col < z.cols; ++col) {
    for (uint64_t row = 0; row < z.rows; ++row) {
      float sum = 0;
      for (uint64_t k = 0; k < x.rows; ++k)
        sum += p[row * static_cast<uint64_t>(x.ld) + k] * q[col * static_cast<uint64_t>(y.ld) + k];
      float& to = out[col * static_cast<uint64_t>(z.ld) + row];
      const float scale = *static_cast<const float*>(beta);
      to = *static_cast<const float*>(alpha) * sum + (scale == 0.0f ? 0.0f : scale * to);
    }
  }
  return 0;
}
