// Products by OpenBLAS and oneDNN on the CPU, found at run time.

#include <string>

#include "bench/baselines.hpp"
#include "bench/vendor_library.hpp"

namespace monotile::bench {
namespace {

using CblasSgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                            int lda, const float* b, int ldb, float beta, float* c, int ldc);
using DnnlSgemm = int (*)(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

CblasSgemm openblas() {
  static const CblasSgemm found = [] {
    void* const library = open_any({"libopenblas.so.0", "libopenblas.so"});
    if (library == nullptr) return CblasSgemm{};
    // It has threads of its own: as many as ours, so that the comparison is fair.
    const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
    if (set_threads != nullptr) set_threads(cpu_threads());
    return reinterpret_cast<CblasSgemm>(dlsym(library, "cblas_sgemm"));
  }();
  return found;
}

DnnlSgemm onednn() {
  static const DnnlSgemm found = [] {
    void* const library = open_any({"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"});
    return library == nullptr ? DnnlSgemm{} : reinterpret_cast<DnnlSgemm>(dlsym(library, "dnnl_sgemm"));
  }();
  return found;
}

}  // namespace

Baselines<ops::GemmArgs> host_product_baselines(const ops::GemmArgs& a) {
  if (a.a.dtype != DType::f32 || a.b.dtype != DType::f32 || a.c.dtype != DType::f32 || a.bias.defined() ||
      a.residual.defined())
    return {};
  Baselines<ops::GemmArgs> list;
  if (openblas() != nullptr) {
    list.push_back({"vendor", "OpenBLAS", [](Stream&, const ops::GemmArgs& g) {
                      constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
                      openblas()(kRowMajor, kPlain, kTransposed, static_cast<int>(g.c.dim(0)),
                                 static_cast<int>(g.c.dim(1)), static_cast<int>(g.a.dim(1)), 1.0f, g.a.as<float>(),
                                 static_cast<int>(g.a.step(0)), g.b.as<float>(), static_cast<int>(g.b.step(0)), 0.0f,
                                 g.c.as<float>(), static_cast<int>(g.c.step(0)));
                    }});
  }
  if (onednn() != nullptr) {
    list.push_back({"vendor", "oneDNN", [](Stream&, const ops::GemmArgs& g) {
                      (void)onednn()('N', 'T', g.c.dim(0), g.c.dim(1), g.a.dim(1), 1.0f, g.a.as<float>(), g.a.step(0),
                                     g.b.as<float>(), g.b.step(0), 0.0f, g.c.as<float>(), g.c.step(0));
                    }});
  }
  return list;
}

std::vector<std::string> absent_host_libraries() {
  std::vector<std::string> lines;
  if (openblas() == nullptr)
    lines.emplace_back("OpenBLAS: no libopenblas.so.0 on this machine (Debian: libopenblas0-pthread)");
  if (onednn() == nullptr) lines.emplace_back("oneDNN: no libdnnl.so on this machine (Debian: libdnnl2)");
  return lines;
}

}  // namespace monotile::bench
