#include "monotile/dlpack.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace monotile {
namespace {

// The layout of dlpack.h, as far as the conversions use it.
enum DLDeviceType : int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };
struct DLDevice {
  DLDeviceType device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

template <class Body>
void expect_refused(const char* fragment, const Body& body) {
  try {
    body();
    FAIL() << "not refused; expected: " << fragment;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
  }
}

TEST(DLPack, In) {
  float data[24];
  int64_t shape[] = {2, 3}, strides[] = {8, 2};
  DLTensor tensor{data, {kDLCPU, 0}, 2, {2, 32, 1}, shape, strides, 8};
  TensorView view = from_dlpack(tensor);
  EXPECT_EQ(view.data, data + 2);
  EXPECT_EQ(view.dtype, DType::f32);
  EXPECT_EQ(view.rank, 2);
  EXPECT_EQ(view.dim(1), 3);
  EXPECT_EQ(view.step(0), 8);
  EXPECT_EQ(view.step(1), 2);
  tensor.strides = nullptr;
  EXPECT_EQ(from_dlpack(tensor).step(0), 3);
  tensor.ndim = 0;
  EXPECT_EQ(from_dlpack(tensor).size(), 1);
  tensor.device = {kDLCUDAHost, 3};
  EXPECT_EQ(from_dlpack(tensor).device, Device{});
  tensor.device = {kDLCUDA, 3};
  EXPECT_EQ(to_string(from_dlpack(tensor).device), "cuda:3");
  tensor.dtype = {4, 16, 1};
  EXPECT_EQ(from_dlpack(tensor).dtype, DType::bf16);
}

TEST(DLPack, InRefuses) {
  int64_t shape[] = {2, -3};
  const DLTensor good{nullptr, {kDLCPU, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  DLTensor bad = good;
  bad.dtype.lanes = 4;
  expect_refused("4 lanes", [&] { (void)from_dlpack(bad); });
  bad = good;
  bad.dtype = {0, 16, 1};
  expect_refused("16 bits", [&] { (void)from_dlpack(bad); });
  bad = good;
  bad.device.device_type = static_cast<DLDeviceType>(8);
  expect_refused("type 8", [&] { (void)from_dlpack(bad); });
  bad = good;
  bad.ndim = 9;
  expect_refused("ndim: 9", [&] { (void)from_dlpack(bad); });
  bad = good;
  bad.ndim = 2;
  expect_refused("-3", [&] { (void)from_dlpack(bad); });
  bad = good;
  bad.shape = nullptr;
  expect_refused("shape", [&] { (void)from_dlpack(bad); });
}

TEST(DLPack, OutKeepsTheOwnerUntilDeleted) {
  auto owner = std::make_shared<Tensor>(Device{}, DType::f16, std::initializer_list<int64_t>{4, 5});
  const TensorView part = owner->view().slice(1, 1, 3);
  DLManagedTensor* managed = to_dlpack<DLManagedTensor>(part, owner);
  EXPECT_EQ(owner.use_count(), 2);
  const TensorView back = from_dlpack(managed->dl_tensor);
  EXPECT_EQ(to_string(back), to_string(part));
  EXPECT_EQ(back.data, part.data);
  managed->deleter(managed);
  EXPECT_EQ(owner.use_count(), 1);
  managed = to_dlpack<DLManagedTensor>(TensorView(nullptr, DType::i64, {0}, {DeviceKind::emulated, 32}));
  EXPECT_EQ(managed->dl_tensor.device.device_type, kDLCPU);
  EXPECT_EQ(managed->dl_tensor.device.device_id, 0);
  managed->deleter(managed);
  expect_refused("q4_0", [] { (void)to_dlpack<DLManagedTensor>(TensorView(nullptr, DType::q4_0, {32})); });
  expect_refused("undefined", [] { (void)to_dlpack<DLManagedTensor>(TensorView()); });
}

}  // namespace
}  // namespace monotile
