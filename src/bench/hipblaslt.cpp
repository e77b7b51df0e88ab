#include "bench/hipblaslt.hpp"

#include <cstdlib>
#include <memory>

#include "bench/vendor_library.hpp"

namespace monotile::bench {
namespace {

// Values of the library's enumerations (hipBLASLt API reference; hipblas-common for the types).
enum : int { kOpN = 111, kOpT = 112, kCompute32F = 2, kR32F = 0, kR16F = 2, kR16BF = 14 };
enum : int { kDescTransA = 0, kDescTransB = 1, kPrefMostWorkspace = 1 };

struct Library {
  int (*create)(void** handle) = nullptr;
  int (*desc_create)(void** desc, int compute, int scale) = nullptr;
  int (*desc_set)(void* desc, int attribute, const void* value, size_t bytes) = nullptr;
  int (*desc_destroy)(void* desc) = nullptr;
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t cols, int64_t ld) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*heuristic)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int wanted, void* found, int* count) = nullptr;
  int (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout, const void* beta,
                const void* c, void* c_layout, void* d, void* d_layout, const void* algorithm, void* workspace, size_t bytes, void* stream) = nullptr;
  void* handle = nullptr;
  std::string absent;

  static const Library& instance() {
    static const Library library;
    return library;
  }

 private:
  Library() {
    const char* const forced = std::getenv("MONOTILE_HIPBLASLT_LIBRARY");
    void* const opened = forced != nullptr ? open_any({forced}) : open_any({"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"});
    if (opened == nullptr) {
      absent = "hipBLASLt: no " + std::string(forced != nullptr ? forced : "libhipblaslt.so") + " on this machine; products have no vendor column";
      return;
    }
    std::string missing;
    const auto find = [&](auto& function, const char* name) {
      if (!find_function(function, opened, name)) missing += (missing.empty() ? "" : ", ") + std::string(name);
    };
    find(create, "hipblasLtCreate");
    find(desc_create, "hipblasLtMatmulDescCreate");
    find(desc_set, "hipblasLtMatmulDescSetAttribute");
    find(desc_destroy, "hipblasLtMatmulDescDestroy");
    find(layout_create, "hipblasLtMatrixLayoutCreate");
    find(layout_destroy, "hipblasLtMatrixLayoutDestroy");
    find(preference_create, "hipblasLtMatmulPreferenceCreate");
    find(preference_set, "hipblasLtMatmulPreferenceSetAttribute");
    find(preference_destroy, "hipblasLtMatmulPreferenceDestroy");
    find(heuristic, "hipblasLtMatmulAlgoGetHeuristic");
    find(matmul, "hipblasLtMatmul");
    if (!missing.empty()) {
      absent = "hipBLASLt: found, but without " + missing;
    } else if (create(&handle) != 0) {
      absent = "hipBLASLt: found, but it could not be started";
    }
  }
};

int type_of(DType dtype) { return dtype == DType::f16 ? kR16F : dtype == DType::bf16 ? kR16BF : kR32F; }

}  // namespace

std::string hipblaslt_absent() { return Library::instance().absent; }

HipblasLtProduct::HipblasLtProduct(DType type, int64_t m, int64_t n, int64_t k) {
  const Library& lib = Library::instance();
  const int transposed = kOpT, plain = kOpN, element = type_of(type);
  const auto rows = [](int64_t v) { return static_cast<uint64_t>(v); };
  if (lib.desc_create(&desc_, kCompute32F, kR32F) != 0) return;
  lib.desc_set(desc_, kDescTransA, &transposed, sizeof transposed);
  lib.desc_set(desc_, kDescTransB, &plain, sizeof plain);
  void* preference = nullptr;
  if (lib.layout_create(&a_, element, rows(k), rows(n), k) != 0 || lib.layout_create(&b_, element, rows(k), rows(m), k) != 0 ||
      lib.layout_create(&c_, element, rows(n), rows(m), n) != 0 || lib.preference_create(&preference) != 0)
    return;
  const uint64_t most = kWorkspaceBytes;
  lib.preference_set(preference, kPrefMostWorkspace, &most, sizeof most);
  if (lib.heuristic(lib.handle, desc_, a_, b_, c_, c_, preference, kProposals, found_.data(), &count_) != 0) count_ = 0;
  lib.preference_destroy(preference);
}

HipblasLtProduct::~HipblasLtProduct() {
  const Library& lib = Library::instance();
  for (void* layout : {a_, b_, c_}) {
    if (layout != nullptr) lib.layout_destroy(layout);
  }
  if (desc_ != nullptr) lib.desc_destroy(desc_);
}

bool HipblasLtProduct::run(void* stream, const void* a, const void* b, void* c, void* workspace) const {
  const Library& lib = Library::instance();
  const float one = 1.0f, zero = 0.0f;
  return lib.matmul(lib.handle, desc_, &one, b, a_, a, b_, &zero, c, c_, c, c_, &found_[static_cast<size_t>(chosen_)].algorithm, workspace,
                    kWorkspaceBytes, stream) == 0;
}

Baselines<ops::GemmArgs> hipblaslt_baseline(const DeviceInfo& device, const ops::GemmArgs& args) {
  // The library works on the device that was current when it was started: the first one.
  const bool plain = !is_code(args.a.dtype) && args.b.dtype == args.a.dtype && args.c.dtype == args.a.dtype && args.form == ops::ProductForm::nt &&
                     args.a.contiguous() && args.b.contiguous() && args.c.contiguous() && !args.bias.defined() && !args.residual.defined();
  if (!plain || device.device.index != 0 || !hipblaslt_absent().empty()) return {};
  struct Kept {
    HipblasLtProduct product;
    Buffer workspace;
    explicit Kept(const ops::GemmArgs& a)
        : product(a.a.dtype, a.m(), a.n(), a.k()), workspace(a.c.device, HipblasLtProduct::kWorkspaceBytes) {}
  };
  const auto kept = std::make_shared<Kept>(args);
  const auto run = [kept](Stream& stream, const ops::GemmArgs& a) {
    return kept->product.run(stream.native(), a.a.data, a.b.data, a.c.data, kept->workspace.data());
  };
  const int winner = fastest_proposal(args.c.device, kept->product.proposals(), [&](Stream& stream, int proposal) {
    kept->product.choose(proposal);
    return run(stream, args);
  });
  if (winner < 0) return {};
  kept->product.choose(winner);
  return {{"vendor", "hipBLASLt, best of 8", [run](Stream& s, const ops::GemmArgs& a) {
             if (!run(s, a)) throw Error(ErrorCode::device_error, "hipBLASLt: hipblasLtMatmul failed");
           }}};
}

}  // namespace monotile::bench
