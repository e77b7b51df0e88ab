#pragma once
// DLPack in and out without copies. Templates over the DLPack structs, so that the caller's own dlpack.h is used (any version
// with the unversioned layout of DLTensor) and none is needed to build the library.

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "monotile/tensor.hpp"

namespace monotile {
namespace detail {

struct DLPackType {
  DType dtype;
  int code;  ///< kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4
  int bits;
};
inline constexpr DLPackType kDLPackTypes[] = {{DType::f32, 2, 32}, {DType::f16, 2, 16}, {DType::bf16, 4, 16},
                                              {DType::f64, 2, 64}, {DType::i8, 0, 8},   {DType::u8, 1, 8},
                                              {DType::i32, 0, 32}, {DType::i64, 0, 64}};

struct DLPackDevice {
  DeviceKind kind;
  int type;  ///< kDLCPU 1, kDLCUDA 2, kDLOpenCL 4, kDLROCM 10
};
inline constexpr DLPackDevice kDLPackDevices[] = {{DeviceKind::cpu, 1},
                                                  {DeviceKind::cuda, 2},
                                                  {DeviceKind::hip, 10},
                                                  {DeviceKind::opencl, 4},
                                                  {DeviceKind::emulated, 1}};
inline constexpr int kDLPackCudaHost = 3;  // pinned host memory: the CPU's

[[noreturn]] inline void refuse_dlpack(const std::string& what, const std::string& given, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, "dlpack: " + what + ": " + given + "; allowed: " + allowed);
}

}  // namespace detail

/// A view of a DLTensor's memory; the producer keeps owning it. A scalar (ndim 0) becomes extents [1], null strides mean
/// packed. Throws Error(invalid_argument) for dtypes, devices, lanes and ranks that Monotile has not.
template <class DLTensor>
TensorView from_dlpack(const DLTensor& tensor) {
  TensorView view;
  for (const detail::DLPackType& known : detail::kDLPackTypes) {
    if (known.code == static_cast<int>(tensor.dtype.code) && known.bits == tensor.dtype.bits) view.dtype = known.dtype;
  }
  if (view.dtype == DType::none || tensor.dtype.lanes != 1) {
    detail::refuse_dlpack("dtype",
                          "code " + std::to_string(static_cast<int>(tensor.dtype.code)) + ", " +
                              std::to_string(static_cast<int>(tensor.dtype.bits)) + " bits, " +
                              std::to_string(static_cast<int>(tensor.dtype.lanes)) + " lanes",
                          "float 16, 32, 64, bfloat 16, int 8, 32, 64, uint 8, one lane");
  }
  const int type = static_cast<int>(tensor.device.device_type);
  bool known_device = type == detail::kDLPackCudaHost;
  for (const detail::DLPackDevice& known : detail::kDLPackDevices) {
    if (known.type != type || known_device) continue;
    known_device = true;
    view.device.kind = known.kind;
  }
  // All CPU memory is one device here, whatever its id (a NUMA node, or the GPU that pinned it).
  const int index = view.device.kind == DeviceKind::cpu ? 0 : tensor.device.device_id;
  if (!known_device || index < 0 || index > INT16_MAX) {
    detail::refuse_dlpack("device", "type " + std::to_string(type) + ", id " + std::to_string(tensor.device.device_id),
                          "cpu, cuda, cuda host, rocm, opencl");
  }
  view.device.index = static_cast<int16_t>(index);
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank) {
    detail::refuse_dlpack("ndim", std::to_string(tensor.ndim), "0 to " + std::to_string(kMaxRank));
  }
  if (tensor.ndim != 0 && tensor.shape == nullptr) detail::refuse_dlpack("shape", "null", "ndim extents");
  void* const data = tensor.data != nullptr ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
  if (tensor.ndim == 0) return TensorView(data, view.dtype, {1}, view.device);
  const TensorView packed(data, view.dtype, {tensor.shape, static_cast<size_t>(tensor.ndim)}, view.device);
  if (tensor.strides == nullptr) return packed;
  view = packed;
  for (int i = 0; i < tensor.ndim; ++i) view.stride[static_cast<size_t>(i)] = tensor.strides[i];
  return view;
}

/// A DLManagedTensor around `view` whose deleter releases it together with `owner` (whatever keeps the memory alive, such
/// as a shared_ptr to a Tensor). Throws Error(invalid_argument) for undefined views and block-quantised dtypes.
template <class DLManagedTensor, class Owner = std::nullptr_t>
DLManagedTensor* to_dlpack(const TensorView& view, Owner owner = {}) {
  struct Holder {
    DLManagedTensor managed{};
    TensorView view;
    Owner owner;
  };
  if (!view.defined()) detail::refuse_dlpack("view", "undefined", "a defined view");
  auto holder = std::make_unique<Holder>();
  holder->view = view;
  holder->owner = std::move(owner);
  auto& out = holder->managed.dl_tensor;
  bool known_dtype = false;
  for (const detail::DLPackType& known : detail::kDLPackTypes) {
    if (known.dtype != view.dtype) continue;
    known_dtype = true;
    out.dtype.code = static_cast<decltype(out.dtype.code)>(known.code);
    out.dtype.bits = static_cast<decltype(out.dtype.bits)>(known.bits);
    out.dtype.lanes = 1;
  }
  if (!known_dtype) detail::refuse_dlpack("dtype", dtype_info(view.dtype).name, "plain dtypes");
  for (const detail::DLPackDevice& known : detail::kDLPackDevices) {
    if (known.kind == view.device.kind) {
      out.device.device_type = static_cast<std::remove_reference_t<decltype(out.device.device_type)>>(known.type);
    }
  }
  out.device.device_id = view.device.host_memory() ? 0 : view.device.index;
  out.data = view.data;
  out.ndim = view.rank;
  out.shape = holder->view.extent.data();
  out.strides = holder->view.stride.data();
  out.byte_offset = 0;
  holder->managed.manager_ctx = holder.get();
  holder->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Holder*>(self->manager_ctx); };
  return &holder.release()->managed;
}

}  // namespace monotile
