#pragma once
// Self-tests: one small case, built twice from one seed (for the reference on the host, for the device through the
// public call).

#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "monotile/dispatch.hpp"
#include "ops/random_data.hpp"

namespace monotile::ops {

/// Makes the tensors of a case on one device. The same calls in the same order give the same data on any device.
class SelfTestCase {
 public:
  explicit SelfTestCase(Device device) : stream_(device), random_(42) {}

  TensorView random(DType dtype, std::initializer_list<int64_t> extents, double low = -1.0, double high = 1.0) {
    std::vector<uint8_t> host = bytes_for(dtype, extents);
    random_.fill(host.data(), dtype, elements(extents), low, high);
    return upload(dtype, extents, host);
  }
  TensorView values(DType dtype, std::initializer_list<double> list) {
    const int64_t count = static_cast<int64_t>(list.size());
    std::vector<uint8_t> host = bytes_for(dtype, {count});
    TensorView view;
    view.data = host.data();
    view.dtype = dtype;
    int64_t i = 0;
    for (const double value : list) reference::set(view, i++, value);
    return upload(dtype, {count}, host);
  }
  /// An output, poisoned with all-ones bytes (NaN in every float type); compared with |difference| <= tolerance (1 +
  /// |expected|).
  TensorView output(const char* name, DType dtype, std::initializer_list<int64_t> extents, double tolerance) {
    std::vector<uint8_t> host = bytes_for(dtype, extents);
    std::memset(host.data(), 0xff, host.size());
    return compared(name, upload(dtype, extents, host), tolerance);
  }
  /// Also compares a tensor made by random() (in-place outputs).
  TensorView compared(const char* name, const TensorView& view, double tolerance) {
    outputs_.push_back({name, view, tolerance});
    return view;
  }
  Stream& stream() { return stream_; }

  /// Empty, or the first difference. `expected` was built by the same calls.
  std::string difference(SelfTestCase& expected) {
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const Output& output = outputs_[k];
      const std::vector<uint8_t> got = download(output.view), wanted = expected.download(expected.outputs_[k].view);
      TensorView a = output.view, b = a;
      a.data = const_cast<uint8_t*>(got.data());
      b.data = const_cast<uint8_t*>(wanted.data());
      for (int64_t i = 0; i < a.size(); ++i) {
        const double x = reference::get(a, i), y = reference::get(b, i);
        if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= output.tolerance * (1.0 + std::abs(y)))
          continue;
        return std::string(output.name) + ": element " + std::to_string(i) + " is " + std::to_string(x) +
               ", expected " + std::to_string(y);
      }
    }
    return {};
  }

 private:
  struct Output {
    const char* name;
    TensorView view;
    double tolerance;
  };
  static int64_t elements(std::initializer_list<int64_t> extents) {
    int64_t count = 1;
    for (const int64_t extent : extents) count *= extent;
    return count;
  }
  static std::vector<uint8_t> bytes_for(DType dtype, std::initializer_list<int64_t> extents) {
    return std::vector<uint8_t>(static_cast<size_t>(storage_bytes(dtype, elements(extents))));
  }
  TensorView upload(DType dtype, std::initializer_list<int64_t> extents, const std::vector<uint8_t>& host) {
    const Tensor& tensor = tensors_.emplace_back(stream_.device(), dtype, extents);
    copy_to_device(stream_, tensor.view().data, host.data(), host.size());
    stream_.synchronize();  // `host` is about to go
    return tensor.view();
  }
  std::vector<uint8_t> download(const TensorView& view) {
    std::vector<uint8_t> host(static_cast<size_t>(storage_bytes(view.dtype, view.size())));
    copy_to_host(stream_, host.data(), view.data, host.size());
    stream_.synchronize();
    return host;
  }

  Stream stream_;
  RandomData random_;
  std::deque<Tensor> tensors_;
  std::vector<Output> outputs_;
};

/// Runs the case that `make` builds on `info` and on the reference; empty if they agree, else what differs.
template <class Args, class Make>
std::string self_test(const DeviceInfo& info, void (*reference_run)(const Args&), Make make) {
  SelfTestCase host(Device{}), device(info.device);
  reference_run(make(host));
  const Args args = make(device);
  Context context(device.stream());
  run(context, args);
  return device.difference(host);
}

/// A packed view of made-up memory, for judging implementations without data.
inline TensorView dummy_view(const DeviceInfo& info, DType dtype, std::initializer_list<int64_t> extents) {
  alignas(256) static char memory[256];
  return TensorView(memory, dtype, extents, info.device);
}

}  // namespace monotile::ops
