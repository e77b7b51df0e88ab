#pragma once
// hipBLASLt, the vendor's products on AMD: found at run time, called through its C interface. Compiled and tested against a stand-in
// (tests/hip/fake_hipblaslt.cpp); it has not run on AMD hardware yet.

#include <array>
#include <cstdint>
#include <string>

#include "bench/baselines.hpp"

namespace monotile::bench {

/// Empty if the library is there, else why not. MONOTILE_HIPBLASLT_LIBRARY names another file than the usual ones.
std::string hipblaslt_absent();

/// c = a b^T, packed rows of f16, bf16 or f32 (c of the same type), sums in fp32: row-major operands are the library's column-major ones with a and b
/// exchanged.
class HipblasLtProduct {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{64} << 20;
  static constexpr int kProposals = 8;

  /// Asks for the library's proposals; needs hipblaslt_absent() to be empty and the device to be the current one.
  HipblasLtProduct(DType type, int64_t m, int64_t n, int64_t k);
  ~HipblasLtProduct();
  HipblasLtProduct(const HipblasLtProduct&) = delete;
  HipblasLtProduct& operator=(const HipblasLtProduct&) = delete;
  /// How many algorithms the library proposes; 0: it cannot do this product.
  int proposals() const { return count_; }
  /// The proposal that `run` takes.
  void choose(int proposal) { chosen_ = proposal; }
  /// Queues the product on a native stream; false if the library refuses. `workspace`: kWorkspaceBytes of device memory.
  bool run(void* stream, const void* a, const void* b, void* c, void* workspace) const;

 private:
  /// hipblasLtMatmulAlgo_t and hipblasLtMatmulHeuristicResult_t, as its header declares them.
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
  void *desc_ = nullptr, *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
  std::array<Proposal, kProposals> found_{};
  int count_ = 0, chosen_ = 0;
};

/// The fastest of the library's proposals.
Baselines<ops::GemmArgs> hipblaslt_baseline(const DeviceInfo& device, const ops::GemmArgs& args);

}  // namespace monotile::bench
