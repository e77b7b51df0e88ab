#pragma once
// The data of one call: tensors on a device, filled from a seed, with the bytes that the call must move counted.

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

#include "monotile/tensor.hpp"

namespace monotile::bench {

/// Makes tensors in order; the same calls with the same seed give the same values on any device.
class Data {
 public:
  Data(Stream& stream, uint64_t seed);

  /// Read once: uniform random values in [low, high).
  TensorView input(DType dtype, std::initializer_list<int64_t> extents, double low = -1.0, double high = 1.0);
  /// Written once. Poisoned: every byte 0xff, which is NaN in each float type and -1 in each integer type.
  TensorView output(DType dtype, std::initializer_list<int64_t> extents);
  /// Read and written.
  TensorView in_place(DType dtype, std::initializer_list<int64_t> extents, double low = -1.0, double high = 1.0);
  /// Read once: these integers, as i32.
  TensorView table(const std::vector<int64_t>& values);
  /// Read once, the same for all calls of a set: fp32 values.
  TensorView values(const std::vector<float>& values, std::initializer_list<int64_t> extents);

  /// Replaces what was counted so far, where a call touches a part of its tensors only.
  void traffic(double read_bytes, double written_bytes) { read_ = read_bytes, written_ = written_bytes; }
  double read_bytes() const { return read_; }
  double written_bytes() const { return written_; }
  size_t bytes() const { return bytes_; }

  /// Outputs poisoned again, tensors changed in place as they were at first.
  void reset();
  bool changes_inputs() const;
  /// This object's outputs (and tensors changed in place) become what `device` has; both were made by the same calls.
  void take_outputs(Data& device);
  /// The first output that still holds poison, with how much of it; empty if every element was written. On host memory.
  std::string unwritten() const;
  /// The name of an input whose sampled values are all equal; empty if there is none. On host memory.
  std::string constant_input() const;

 private:
  enum class Role { input, output, in_place, table };
  struct Entry {
    Tensor tensor;
    Role role;
    double low, high;
    uint64_t offset;
  };
  TensorView add(Role role, DType dtype, std::initializer_list<int64_t> extents, double low, double high);
  void fill(Entry& entry);

  Stream& stream_;
  uint64_t seed_;
  std::deque<Entry> entries_;
  double read_ = 0, written_ = 0;
  size_t bytes_ = 0;
};

}  // namespace monotile::bench
