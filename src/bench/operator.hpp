#pragma once
// An operator as the benchmark sees it. Adding one is one Definition in operators.cpp or in the file of its family.

#include <memory>
#include <string>
#include <vector>

#include "bench/baselines.hpp"
#include "bench/data.hpp"
#include "bench/measure.hpp"
#include "monotile/dispatch.hpp"

namespace monotile::bench {

using Dims = std::vector<int64_t>;

/// How far the timed output is from the reference.
struct Accuracy {
  double worst = 0;      ///< largest error over its bound: at most 1 where all is well
  double absolute = 0;   ///< largest difference
  int64_t elements = 0;  ///< compared
  std::string wrong;     ///< empty, or the first element that is out of bounds
};

/// One thing that can be timed on a case's data.
struct Candidate {
  std::string column;          ///< "portable", "portable_sm80", "tuned", "vendor", "native", "naive", "reference"
  std::string implementation;  ///< name
  bool chosen = false;         ///< what the dispatcher would take
  size_t workspace_bytes = 0;
  std::function<void(int set)> launch;
};

/// An operator with data of one shape on one device.
class Case {
 public:
  virtual ~Case() = default;
  virtual double bytes() const = 0;  ///< algorithmic minimum of one call
  virtual double flops() const = 0;
  virtual int sets() const = 0;
  /// Everything that exists for this call here. `columns` empty: all but the reference.
  virtual std::vector<Candidate> candidates(const std::vector<std::string>& columns) = 0;
  /// Fresh outputs and in-place tensors in every set.
  virtual void reset() = 0;
  virtual bool changes_inputs() const = 0;
  /// Compares the outputs of `set` with the reference: sampled pieces, and every element for poison.
  virtual Accuracy check(int set) = 0;
};

class Operator {
 public:
  virtual ~Operator() = default;
  std::string name;
  std::vector<std::string> dims;  ///< names of a shape's numbers
  std::vector<DType> dtypes;
  virtual double flops(const Dims& dims) const = 0;
  /// `memory_budget` bounds all sets together.
  virtual std::unique_ptr<Case> make(Stream& stream, const Timeline& timeline, const Dims& dims, DType dtype,
                                     Cache cache, size_t memory_budget) const = 0;
};

/// All operators that have a Definition.
const std::vector<std::unique_ptr<Operator>>& bench_operators();
/// "llama 16384 x 4096" as "16384x4096".
std::string shape_text(const Dims& dims);

}  // namespace monotile::bench
