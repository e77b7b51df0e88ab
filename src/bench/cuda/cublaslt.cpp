// cuBLASLt, found at run time.

#include "bench/cuda/cublaslt.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "bench/vendor_library.hpp"

namespace monotile::bench {
namespace {

struct Library {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  cublasLtHandle_t handle = nullptr;
  std::string absent;

  static const Library& instance() {
    static const Library library;
    return library;
  }

 private:
  Library() {
    void* const opened = open_any({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
    if (opened == nullptr) {
      absent = "cuBLASLt: no libcublasLt.so on this machine; products have no vendor column";
      return;
    }
    const auto find = [&](auto& function, const char* name) { find_function(function, opened, name); };
    find(create, "cublasLtCreate");
    find(matmul, "cublasLtMatmul");
    find(desc_create, "cublasLtMatmulDescCreate");
    find(desc_set, "cublasLtMatmulDescSetAttribute");
    find(layout_create, "cublasLtMatrixLayoutCreate");
    find(preference_create, "cublasLtMatmulPreferenceCreate");
    find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    if (create == nullptr || matmul == nullptr || heuristic == nullptr || create(&handle) != CUBLAS_STATUS_SUCCESS)
      absent = "cuBLASLt: found, but could not be started";
  }
};

cudaDataType_t type_of(DType dtype) {
  if (dtype == DType::f8_e4m3) return CUDA_R_8F_E4M3;
  if (dtype == DType::f8_e5m2) return CUDA_R_8F_E5M2;
  if (dtype == DType::i8) return CUDA_R_8I;
  if (dtype == DType::i32) return CUDA_R_32I;
  return dtype == DType::f16 ? CUDA_R_16F : dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// One product, row-major c = a b^T, as the library's column-major c^T = b a^T. Descriptors are small and kept for the process's life.
struct Product {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algo{};
  Buffer workspace;
  bool integers = false;  ///< int8 to int32
  static constexpr size_t kWorkspace = size_t{64} << 20;

  Product(const Library& lib, const ops::GemmArgs& args, bool fast) : workspace(args.c.device, kWorkspace) {
    const auto m = static_cast<uint64_t>(args.c.dim(0)), n = static_cast<uint64_t>(args.c.dim(1)),
               k = static_cast<uint64_t>(args.a.dim(1));
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    integers = args.a.dtype == DType::i8;
    lib.desc_create(&desc, integers ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F, integers ? CUDA_R_32I : CUDA_R_32F);
    lib.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
    lib.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof(plain));
    const cudaDataType_t type = type_of(args.a.dtype);
    lib.layout_create(&a, type, k, n, static_cast<int64_t>(k));
    lib.layout_create(&b, type, k, m, static_cast<int64_t>(k));
    lib.layout_create(&c, type_of(args.c.dtype), n, m, static_cast<int64_t>(n));
    if (is_code(args.a.dtype) && !integers) set_scales(lib, args, fast);
  }

  /// A factor for each row of both operands. `fast`: sums as the instructions keep them, which cuts their low bits.
  void set_scales(const Library& lib, const ops::GemmArgs& args, bool fast) const {
    const int8_t mode = fast ? 1 : 0;
    lib.desc_set(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &mode, sizeof(mode));
    point_at_scales(lib, args);
#if CUBLAS_VERSION >= 120900
    const cublasLtMatmulMatrixScale_t each = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    lib.desc_set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &each, sizeof(each));
    lib.desc_set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &each, sizeof(each));
#endif
  }

  /// Those of this call: the descriptor holds their addresses, and buffers rotate.
  void point_at_scales(const Library& lib, const ops::GemmArgs& args) const {
    const void *of_a = args.b_scale.data, *of_b = args.a_scale.data;
    lib.desc_set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(&of_a), sizeof(of_a));
    lib.desc_set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(&of_b), sizeof(of_b));
  }

  cublasStatus_t run(const Library& lib, cudaStream_t stream, const ops::GemmArgs& args) const {
    if (args.a_scale.defined() && args.b_scale.defined()) point_at_scales(lib, args);
    const float one = 1.0f, zero = 0.0f;
    const int32_t whole_one = 1, whole_zero = 0;
    const void *const alpha = integers ? static_cast<const void*>(&whole_one) : &one, *const beta = integers ? static_cast<const void*>(&whole_zero) : &zero;
    return lib.matmul(lib.handle, desc, alpha, args.b.data, a, args.a.data, b, beta, args.c.data, c, args.c.data, c,
                      &algo, workspace.data(), kWorkspace, stream);
  }
};

/// The fastest of the library's proposals, by a few event-timed calls each.
bool pick_best(const Library& lib, Product& product, const ops::GemmArgs& args) {
  cublasLtMatmulPreference_t preference = nullptr;
  lib.preference_create(&preference);
  const size_t most = Product::kWorkspace;
  lib.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most));
  cublasLtMatmulHeuristicResult_t found[8]{};
  int count = 0;
  if (lib.heuristic(lib.handle, product.desc, product.a, product.b, product.c, product.c, preference, 8, found,
                    &count) != CUBLAS_STATUS_SUCCESS)
    return false;
  const int winner = fastest_proposal(args.c.device, count, [&](Stream& stream, int proposal) {
    product.algo = found[proposal].algo;
    return product.run(lib, static_cast<cudaStream_t>(stream.native()), args) == CUBLAS_STATUS_SUCCESS;
  });
  if (winner >= 0) product.algo = found[winner].algo;
  return winner >= 0;
}

}  // namespace

std::string cublaslt_absent() { return Library::instance().absent; }

Baselines<ops::GemmArgs> cublaslt_baseline(const DeviceInfo&, const ops::GemmArgs& args) {
  const Library& lib = Library::instance();
  if (!lib.absent.empty()) return {};
  // Of 8-bit floats sums like ours first (docs/notes/gemm-h200.md); the library has both only for some shapes.
  for (const bool fast : {false, true}) {
    if (fast && (!is_code(args.a.dtype) || args.a.dtype == DType::i8)) break;
    const auto product = std::make_shared<Product>(lib, args, fast);
    if (!pick_best(lib, *product, args)) continue;
    return {{"vendor", fast ? "cuBLASLt, best of 8, fast sums" : "cuBLASLt, best of 8", [&lib, product](Stream& stream, const ops::GemmArgs& a) {
               if (product->run(lib, static_cast<cudaStream_t>(stream.native()), a) != CUBLAS_STATUS_SUCCESS)
                 throw Error(ErrorCode::device_error, "cuBLASLt: cublasLtMatmul failed");
             }}};
  }
  return {};
}

}  // namespace monotile::bench
