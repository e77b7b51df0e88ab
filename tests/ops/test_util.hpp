#pragma once
// Tools of the operator tests: tensors with any strides, offsets and guard zones; devices as test parameters; one
// function that runs an operator on a device and on the reference and compares every byte that may and may not have
// changed.
//
//   class RopeTest : public OnDevice {};
//   MONOTILE_ON_DEVICES(RopeTest);
//   TEST_P(RopeTest, OddSizes) {
//     TestTensor x = TestTensor::random(DType::bf16, {5, 77}, 1), y(DType::bf16, {5, 77}, {.padding = {3}});
//     compare_with_reference<Args>(device(), reference_run, {&y}, {}, [&](auto at) { return Args{at(y), at(x)}; });
//   }

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "monotile/dispatch.hpp"
#include "monotile/numeric.hpp"
#include "ops/random_data.hpp"
#include "ops/reference.hpp"

namespace monotile::test {

// ---- Devices as parameters ----------

/// The CPU, both emulated widths, and the first device of each other kind, as far as they are present.
inline std::vector<Device> test_devices() {
  std::vector<Device> list;
  for (const DeviceInfo& info : devices()) {
    const Device device = info.device;
    if (device.kind == DeviceKind::cpu || device.kind == DeviceKind::emulated || device.index == 0)
      list.push_back(device);
  }
  return list;
}

/// "cpu", "emulated32", "cuda0", "opencl0": labels are picked by these words.
inline std::string device_label(Device device) {
  std::string name;
  for (const char c : to_string(device)) {
    if (c != ':') name += c;
  }
  return name;
}

class OnDevice : public ::testing::TestWithParam<Device> {
 protected:
  Device device() const { return GetParam(); }
  /// True where a case would take too long: in lockstep emulation, and on OpenCL devices that are CPUs.
  bool slow() const { return device().kind == DeviceKind::emulated || device().kind == DeviceKind::opencl; }
};

#define MONOTILE_ON_DEVICES(suite)                                                           \
  INSTANTIATE_TEST_SUITE_P(On, suite, ::testing::ValuesIn(::monotile::test::test_devices()), \
                           [](const auto& info) { return ::monotile::test::device_label(info.param); })

// ---- Tensors ----------

/// How a TestTensor lies in memory.
struct Placement {
  /// Elements (blocks for quantised types) left free after each slice of dimension 0, 1, ...: {3} pads rows of a matrix
  /// by 3. Shorter lists and the innermost dimension mean 0.
  std::vector<int64_t> padding{};
  /// Elements (blocks) by which the first element is moved off a 256-byte boundary.
  int64_t offset = 0;
};

/// Host memory with guard zones, and its image on a device. All bytes start as 0xff: NaN in float types, -1 in
/// integers.
class TestTensor {
 public:
  TestTensor() = default;
  TestTensor(DType dtype, std::vector<int64_t> extents, const Placement& placement = {})
      : dtype_(dtype), extents_(std::move(extents)) {
    const DTypeInfo info = dtype_info(dtype);
    strides_.resize(extents_.size());
    int64_t span = info.block_elements;
    for (int64_t step = 1, i = static_cast<int64_t>(extents_.size()) - 1; i >= 0; --i) {
      const size_t axis = static_cast<size_t>(i);
      strides_[axis] = step;
      if (extents_[axis] > 1) span += (extents_[axis] - 1) * step;
      step *= std::max<int64_t>(extents_[axis], 1);
      if (i > 0 && axis - 1 < placement.padding.size()) step += placement.padding[axis - 1] * info.block_elements;
    }
    begin_ = kGuard + static_cast<size_t>(placement.offset * info.block_bytes);
    bytes_.assign(begin_ + static_cast<size_t>(span / info.block_elements * info.block_bytes) + kGuard, 0xff);
  }
  TestTensor(const TestTensor& other)
      : dtype_(other.dtype_),
        extents_(other.extents_),
        strides_(other.strides_),
        begin_(other.begin_),
        bytes_(other.bytes_) {}
  TestTensor& operator=(const TestTensor& other) {
    dtype_ = other.dtype_, extents_ = other.extents_, strides_ = other.strides_, begin_ = other.begin_,
    bytes_ = other.bytes_;
    return *this;  // the device image stays where it is, so that views on it stay good
  }
  TestTensor(TestTensor&&) = default;

  static TestTensor random(DType dtype, std::vector<int64_t> extents, uint64_t seed, const Placement& placement = {},
                           double low = -1.0, double high = 1.0) {
    TestTensor result(dtype, std::move(extents), placement);
    result.fill_random(seed, low, high);
    return result;
  }
  /// Packed, with these values in order.
  static TestTensor of(DType dtype, std::vector<int64_t> extents, const std::vector<double>& values,
                       const Placement& placement = {}) {
    TestTensor result(dtype, std::move(extents), placement);
    result.assign(values);
    return result;
  }
  /// A vector.
  static TestTensor of(DType dtype, const std::vector<double>& values) {
    return of(dtype, {static_cast<int64_t>(values.size())}, values);
  }

  DType dtype() const { return dtype_; }
  int64_t size() const {
    int64_t count = 1;
    for (const int64_t extent : extents_) count *= extent;
    return count;
  }
  /// On the host.
  TensorView host() const { return view_of(const_cast<uint8_t*>(bytes_.data()) + begin_, Device{}); }
  /// On the stream's device: copies all bytes, guards too, to the device image. The image stays at one address.
  TensorView on(Stream& stream) {
    if (image_ == nullptr || !(image_->device() == stream.device()) || image_->size() < bytes_.size()) {
      image_ = std::make_shared<Buffer>(stream.device(), bytes_.size());
    }
    copy_to_device(stream, image_->data(), bytes_.data(), bytes_.size());
    stream.synchronize();
    return view_of(image_->as<uint8_t>() + begin_, stream.device());
  }
  /// Copies the device image back.
  void fetch(Stream& stream) {
    copy_to_host(stream, bytes_.data(), image_->data(), bytes_.size());
    stream.synchronize();
  }

  /// Element offset (from the first element) of the `index`-th element in row-major order.
  int64_t offset(int64_t index) const {
    int64_t result = 0;
    for (size_t axis = extents_.size(); axis-- > 0; index /= extents_[axis])
      result += index % extents_[axis] * strides_[axis];
    return result;
  }
  double get(int64_t index) const { return ops::reference::get(host(), offset(index)); }
  void set(int64_t index, double value) { ops::reference::set(host(), offset(index), value); }
  /// Exact for all i32 and i64 values.
  void set_integer(int64_t index, int64_t value) {
    if (dtype_ == DType::i64) host().as<int64_t>()[offset(index)] = value;
    if (dtype_ == DType::i32) host().as<int32_t>()[offset(index)] = static_cast<int32_t>(value);
  }
  void assign(const std::vector<double>& values) {
    for (int64_t i = 0; i < size(); ++i) set(i, values.at(static_cast<size_t>(i)));
  }
  void fill(double value) {
    for (int64_t i = 0; i < size(); ++i) set(i, value);
  }
  std::vector<double> values() const {
    std::vector<double> list;
    for (int64_t i = 0; i < size(); ++i) list.push_back(get(i));
    return list;
  }
  /// Uniform in [low, high) (integers: [low, high]); block types get random codes with sane scales, so that |value| is
  /// about `high`.
  void fill_random(uint64_t seed, double low = -1.0, double high = 1.0) {
    ops::RandomData data(seed);
    const DTypeInfo info = dtype_info(dtype_);
    uint8_t* first = bytes_.data() + begin_;
    for (int64_t i = 0; i < size(); i += info.block_elements) {
      data.fill(first + offset(i) / info.block_elements * info.block_bytes, dtype_, info.block_elements, low, high);
    }
  }
  /// All elements back to 0xff bytes.
  void poison() {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = 0xff;
  }
  /// True if every byte outside the elements is still 0xff.
  bool guards_intact() const {
    std::vector<bool> owned(bytes_.size(), false);
    const DTypeInfo info = dtype_info(dtype_);
    for (int64_t i = 0; i < size(); i += info.block_elements) {
      const size_t at = begin_ + static_cast<size_t>(offset(i) / info.block_elements * info.block_bytes);
      for (size_t j = 0; j < static_cast<size_t>(info.block_bytes); ++j) owned[at + j] = true;
    }
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (!owned[i] && bytes_[i] != 0xff) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 512;

  TensorView view_of(uint8_t* first, Device device) const {
    TensorView view(first, dtype_, std::span<const int64_t>(extents_), device);
    for (size_t axis = 0; axis < strides_.size(); ++axis) view.stride[axis] = strides_[axis];
    return view;
  }

  /// std::vector<uint8_t> on 256-byte boundaries, so that Placement::offset means the same on host and device.
  template <class T>
  struct Aligned {
    using value_type = T;
    Aligned() = default;
    template <class U>
    Aligned(const Aligned<U>&) {}  // NOLINT: rebinding
    T* allocate(size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{256})); }
    void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{256}); }
    friend bool operator==(const Aligned&, const Aligned&) { return true; }
  };

  DType dtype_ = DType::none;
  std::vector<int64_t> extents_, strides_;
  size_t begin_ = 0;
  std::vector<uint8_t, Aligned<uint8_t>> bytes_;
  std::shared_ptr<Buffer> image_;
};

// ---- Comparison ----------

/// Unit in the last place of `dtype` at the size of `value`.
inline double ulp(DType dtype, double value) {
  const int fraction = dtype == DType::f16    ? 10
                       : dtype == DType::bf16 ? 7
                                              : 23,
            lowest = dtype == DType::f16 ? -14 : -126;
  const double size = std::abs(value);
  if (!std::isfinite(value)) return 0.0;
  return std::ldexp(1.0, std::max(size > 0 ? std::ilogb(size) : lowest, lowest) - fraction);
}

/// |got - wanted| <= ulps * ulp (16-bit types) or relative * |wanted| (fp32), both at the larger of |wanted| and
/// `scale`, plus `absolute`. The defaults are the project's bounds for norms, activations, softmax and conversions.
/// Integers must be equal.
struct Tolerance {
  double ulps = 1.0;
  double relative = 1e-5;
  double absolute = 0.0;
  /// Largest term that was added on the way to an element (cancellation makes that the unit of the error).
  double scale = 0.0;
  /// The same, element by element.
  std::function<double(int64_t)> scale_of{};
};

inline ::testing::AssertionResult is_near(const TestTensor& got, const TestTensor& wanted,
                                          const Tolerance& tolerance = {}) {
  if (got.dtype() != wanted.dtype() || got.size() != wanted.size())
    return ::testing::AssertionFailure() << "different dtypes or sizes";
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double a = got.get(i), b = wanted.get(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double scale = std::max({std::abs(b), tolerance.scale, tolerance.scale_of ? tolerance.scale_of(i) : 0.0});
    double bound = tolerance.absolute;
    if (got.dtype() == DType::f16 || got.dtype() == DType::bf16) bound += tolerance.ulps * ulp(got.dtype(), scale);
    if (got.dtype() == DType::f32) bound += tolerance.relative * scale;
    if (std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= bound) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << got.size() << " elements differ; element " << first
                                       << " is " << got.get(first) << ", wanted " << wanted.get(first);
}

/// Norm of the difference over norm of the wanted values (attention's bound).
inline double relative_norm(const TestTensor& got, const TestTensor& wanted) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double a = got.get(i), b = wanted.get(i);
    if (a == b) {  // infinities of one sign
      size += std::isfinite(b) ? b * b : 0.0;
      continue;
    }
    difference += (a - b) * (a - b);
    size += b * b;
  }
  return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

/// Same bits everywhere, guards included?
inline ::testing::AssertionResult is_identical(const TestTensor& got, const TestTensor& wanted) {
  for (int64_t i = 0; i < got.size(); ++i) {
    const double a = got.get(i), b = wanted.get(i);
    if (!(a == b && std::signbit(a) == std::signbit(b)) && !(std::isnan(a) && std::isnan(b))) {
      return ::testing::AssertionFailure() << "element " << i << " is " << a << ", wanted " << b;
    }
  }
  return ::testing::AssertionSuccess();
}

/// Gives the view of a TestTensor on the machine where a case runs.
using At = std::function<TensorView(TestTensor&)>;

/// Runs the public call that `make(at)` describes on `device` and fetches `outputs`.
template <class Args, class Make>
void run_on(Device device, const std::vector<TestTensor*>& outputs, Make make,
            const TierPolicy& tier = default_tier()) {
  Stream stream(device);
  Context context(stream);
  context.tier = tier;
  const At at = [&](TestTensor& tensor) { return tensor.on(stream); };
  const Args args = make(at);
  run(context, args);
  stream.synchronize();
  for (TestTensor* output : outputs) output->fetch(stream);
}

/// The plan of one implementation, whatever the dispatcher would choose.
template <class Args>
Plan<Args> plan_of(const Implementation<Args>& implementation, const Args& args, Device device) {
  Plan<Args> plan;
  plan.implementation = &implementation;
  plan.device = &device_info(device);
  implementation.plan(args, *plan.device, plan);
  return plan;
}
/// Runs it with a workspace of its own, to the end.
template <class Args>
void run_plan(const Plan<Args>& plan, Stream& stream, const Args& args) {
  Buffer workspace(stream.device(), std::max<size_t>(plan.workspace_bytes, 1));
  plan.run(stream, args, workspace.data());
  stream.synchronize();
}

/// Runs the oracle in place on the host copies.
template <class Args, class Make>
void run_reference(void (*reference_run)(const Args&), Make make) {
  const At at = [](TestTensor& tensor) { return tensor.host(); };
  reference_run(make(at));
}

/// Runs the operator on `device` and on the oracle from the same start (what `outputs` hold now), expects every output
/// within `tolerance` and every byte around it untouched. Afterwards the outputs hold the device's results; the
/// oracle's are returned.
template <class Args, class Make>
std::vector<TestTensor> compare_with_reference(Device device, void (*reference_run)(const Args&),
                                               const std::vector<TestTensor*>& outputs, const Tolerance& tolerance,
                                               Make make, const TierPolicy& tier = default_tier()) {
  std::vector<TestTensor> start, wanted;
  for (const TestTensor* output : outputs) start.push_back(*output);
  run_reference<Args>(reference_run, make);
  for (size_t i = 0; i < outputs.size(); ++i) {
    wanted.push_back(*outputs[i]);
    *outputs[i] = start[i];
  }
  run_on<Args>(device, outputs, make, tier);
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(is_near(*outputs[i], wanted[i], tolerance)) << "output " << i;
    EXPECT_TRUE(outputs[i]->guards_intact()) << "output " << i << ": bytes outside the tensor were written";
  }
  return wanted;
}

/// The call is refused, and the text holds every one of `words` (operator, argument, ...).
template <class Call>
void expect_error(ErrorCode code, const std::vector<std::string>& words, Call call) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted one that names " << (words.empty() ? "" : words.back());
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << " is not in: " << error.what();
  }
}

}  // namespace monotile::test
