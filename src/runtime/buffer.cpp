#include <cstdint>
#include <new>
#include <utility>

#include "monotile/device.hpp"
#include "runtime/driver.hpp"

namespace monotile {
namespace {

constexpr std::align_val_t kAlignment{256};
constexpr size_t kAddressSpace = size_t{1} << 47;  // more is not worth asking for

void check_size(Device device, size_t bytes) {
  if (bytes <= static_cast<size_t>(PTRDIFF_MAX)) return;
  throw Error(ErrorCode::invalid_argument, "Buffer on " + to_string(device) + ": bytes: " + std::to_string(bytes) +
                                               "; allowed: at most " + std::to_string(PTRDIFF_MAX));
}

void* allocate_host(Device device, size_t bytes) {
  void* const data = bytes < kAddressSpace ? ::operator new(bytes, kAlignment, std::nothrow) : nullptr;
  if (data == nullptr)
    throw Error(ErrorCode::out_of_memory,
                to_string(device) + ": an allocation of " + std::to_string(bytes) + " bytes failed");
  return data;
}

}  // namespace

Buffer::Buffer(Device device, size_t bytes) : device_(device_info(device).device), bytes_(bytes) {
  check_size(device, bytes);
  if (bytes != 0)
    data_ =
        device_.host_memory() ? allocate_host(device_, bytes) : driver_of(device_.kind).allocate(device_.index, bytes);
}

Buffer::Buffer(Stream& stream, size_t bytes) : device_(stream.device()), bytes_(bytes) {
  check_size(device_, bytes);
  if (bytes == 0) return;
  if (device_.host_memory()) {
    data_ = allocate_host(device_, bytes);
  } else {
    data_ = driver_of(device_.kind).allocate_in_order(device_.index, stream.native(), bytes);
    stream_ = stream.native();
    pooled_ = true;
  }
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (device_.host_memory()) {
    ::operator delete(data_, kAlignment);
  } else if (pooled_) {
    driver_of(device_.kind).release_in_order(device_.index, stream_, data_);
  } else {
    driver_of(device_.kind).release(device_.index, data_);
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      stream_(std::exchange(other.stream_, nullptr)),
      pooled_(std::exchange(other.pooled_, false)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer old(std::move(*this));  // released when this returns, not when `other` goes
  device_ = other.device_;
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  stream_ = std::exchange(other.stream_, nullptr);
  pooled_ = std::exchange(other.pooled_, false);
  return *this;
}

}  // namespace monotile
