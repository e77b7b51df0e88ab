#include "monotile/tensor.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace monotile {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

/// Expects Error(invalid_argument) whose text holds `fragment`.
template <class Body>
void expect_refused(const char* fragment, const Body& body) {
  try {
    body();
    FAIL() << "not refused; expected: " << fragment;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("allowed"), std::string::npos) << error.what();
  }
}

TEST(TensorView, PackedStrides) {
  float data[24];
  const TensorView view(data, DType::f32, {2, 3, 4});
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.step(0), 12);
  EXPECT_EQ(view.step(1), 4);
  EXPECT_EQ(view.step(-1), 1);
  EXPECT_EQ(view.dim(-3), 2);
  EXPECT_EQ(view.size(), 24);
  EXPECT_TRUE(view.contiguous());
  EXPECT_TRUE(view.defined());
  EXPECT_FALSE(TensorView().defined());
  EXPECT_EQ(TensorView().size(), 0);
}

TEST(TensorView, ZeroExtents) {
  const TensorView view(nullptr, DType::bf16, {0, 5});
  EXPECT_EQ(view.size(), 0);
  EXPECT_TRUE(view.contiguous());
  EXPECT_TRUE(view.defined());
  TensorView wild = view;  // a zero extent wins over a product that would overflow, wherever it stands
  wild.rank = 3;
  wild.extent = {kHuge, kHuge, 0};
  EXPECT_EQ(wild.size(), 0);
}

TEST(TensorView, RefusesBadExtents) {
  expect_refused("-1", [] { TensorView(nullptr, DType::f32, {2, -1}); });
  expect_refused("rank 9", [] { TensorView(nullptr, DType::f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  expect_refused("rank 0", [] { TensorView(nullptr, DType::f32, std::initializer_list<int64_t>{}); });
  expect_refused("2^63", [] { TensorView(nullptr, DType::u8, {int64_t{1} << 32, int64_t{1} << 31}); });
  expect_refused("2^63", [] { TensorView(nullptr, DType::u8, {kHuge, 2}); });
  expect_refused("2^63", [] { TensorView(nullptr, DType::u8, {3, kHuge / 2, 3}); });
  EXPECT_EQ(TensorView(nullptr, DType::u8, {kHuge}).size(), kHuge);
  expect_refused("dtype", [] { TensorView(nullptr, DType::none, {1}); });
  expect_refused("q4_k", [] { TensorView(nullptr, DType::q4_k, {4, 255}); });
  expect_refused("2^63", [] {
    TensorView view(nullptr, DType::u8, {2, 2});
    view.extent = {int64_t{1} << 32, int64_t{1} << 32};
    (void)view.size();
  });
}

TEST(TensorView, SlicePointsIntoTheView) {
  uint16_t data[60];
  const TensorView view(data, DType::f16, {3, 4, 5});
  const TensorView inner = view.slice(-1, 2, 4).slice(0, 1, 3);
  EXPECT_EQ(inner.data, data + 20 + 2);
  EXPECT_EQ(inner.dim(0), 2);
  EXPECT_EQ(inner.dim(2), 2);
  EXPECT_EQ(inner.step(0), 20);
  EXPECT_FALSE(inner.contiguous());
  EXPECT_TRUE(view.slice(0, 1, 2).contiguous());
  EXPECT_EQ(view.slice(1, 4, 4).size(), 0);
  EXPECT_EQ(TensorView(nullptr, DType::f16, {3}).slice(0, 1, 2).data, nullptr);
  expect_refused("[1, 5)", [&] { (void)view.slice(1, 1, 5); });
  expect_refused("[-1, 2)", [&] { (void)view.slice(1, -1, 2); });
  expect_refused("[3, 2)", [&] { (void)view.slice(1, 3, 2); });
  expect_refused("axis: 3", [&] { (void)view.slice(3, 0, 1); });
  expect_refused("axis: -4", [&] { (void)view.slice(-4, 0, 1); });
  expect_refused("axis", [&] { (void)TensorView().slice(0, 0, 0); });
}

TEST(TensorView, SliceOfBlocks) {
  uint8_t data[2 * 3 * 144];
  const TensorView view(data, DType::q4_k, {2, 768});
  EXPECT_EQ(view.slice(0, 1, 2).data, data + 3 * 144);
  EXPECT_EQ(view.slice(1, 256, 768).data, data + 144);
  expect_refused("256", [&] { (void)view.slice(1, 32, 288); });
}

TEST(TensorView, Contiguous) {
  float data[64];
  TensorView view(data, DType::f32, {4, 1, 8});
  view.stride[1] = 999;  // the stride of a single element says nothing
  EXPECT_TRUE(view.contiguous());
  view.stride[0] = 9;
  EXPECT_FALSE(view.contiguous());
  view.stride[0] = 0;
  EXPECT_FALSE(view.contiguous());
}

TEST(TensorView, Reshape) {
  float data[24];
  const TensorView view(data, DType::f32, {2, 3, 4});
  const TensorView flat = view.reshape({6, 4});
  EXPECT_EQ(flat.rank, 2);
  EXPECT_EQ(flat.step(0), 4);
  EXPECT_EQ(flat.extent[2], 0);
  EXPECT_EQ(flat.data, data);
  expect_refused("24 elements", [&] { (void)view.reshape({5, 5}); });
  expect_refused("contiguous", [&] { (void)view.slice(2, 0, 2).reshape({12}); });
}

TEST(TensorView, Text) {
  TensorView view(nullptr, DType::bf16, {4, 128}, {DeviceKind::cuda, 0});
  EXPECT_EQ(to_string(view), "bf16[4, 128] on cuda:0");
  view.stride[0] = 256;
  EXPECT_EQ(to_string(view), "bf16[4, 128; strides 256, 1] on cuda:0");
}

TEST(StorageBytes, PlainAndBlocks) {
  EXPECT_EQ(storage_bytes(DType::f32, 5), 20);
  EXPECT_EQ(storage_bytes(DType::q4_k, 512), 288);
  EXPECT_EQ(storage_bytes(DType::q5_0, 0), 0);
  expect_refused("q6_k", [] { (void)storage_bytes(DType::q6_k, 100); });
  expect_refused("-1", [] { (void)storage_bytes(DType::f32, -1); });
  expect_refused("2^63", [] { (void)storage_bytes(DType::f32, int64_t{1} << 61); });
  EXPECT_EQ(storage_bytes(DType::f32, (int64_t{1} << 61) - 1), kHuge - 3);
  expect_refused("2^63", [] { (void)storage_bytes(DType::q8_0, kHuge / 32 * 32); });
  expect_refused("dtype", [] { (void)storage_bytes(DType::none, 1); });
  expect_refused("dtype", [] { (void)storage_bytes(static_cast<DType>(200), 1); });
}

TEST(Tensor, OwnsPackedMemory) {
  const Tensor tensor({}, DType::f32, {3, 5});
  EXPECT_EQ(tensor.bytes(), 60u);
  EXPECT_NE(tensor.view().data, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.view().data) % 256, 0u);
  EXPECT_EQ(Tensor({}, DType::q4_0, {2, 64}).bytes(), 72u);
  expect_refused("2^63", [] { Tensor({}, DType::f64, {int64_t{1} << 60, 4}); });
  try {
    Tensor({}, DType::u8, {int64_t{1} << 60});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  }
}

}  // namespace
}  // namespace monotile
