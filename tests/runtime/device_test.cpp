#include "monotile/device.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "runtime/kernels.hpp"

namespace monotile {
namespace {

template <class Body>
void expect_error(ErrorCode code, const char* fragment, const Body& body) {
  try {
    body();
    FAIL() << "not refused; expected: " << fragment;
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
  }
}

TEST(Device, TextRoundTrip) {
  for (const char* text : {"cpu", "cuda:0", "cuda:7", "hip:1", "opencl:0", "emulated:32", "emulated:64"})
    EXPECT_EQ(to_string(parse_device(text)), text);
  EXPECT_EQ(to_string(parse_device("cuda")), "cuda:0");
  EXPECT_EQ(to_string(parse_device("emulated")), "emulated:32");
  EXPECT_EQ(parse_device("cpu:0"), Device{});
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999", "cuda:0 ", " cpu", "cpu:1",
                           "emulated:16", "CPU", "cuda0"}) {
    expect_error(ErrorCode::invalid_argument, ("\"" + std::string(text) + "\"").c_str(),
                 [&] { (void)parse_device(text); });
  }
}

TEST(Device, CpuIsFirstAndBothEmulatedWidthsExist) {
  const DeviceInfo& cpu = devices().front();
  EXPECT_EQ(cpu.device, Device{});
  EXPECT_EQ(cpu.units, cpu_threads());
  EXPECT_GT(cpu.memory_bytes, size_t{1} << 28);
  EXPECT_FALSE(cpu.name.empty());
  for (const int wave : {32, 64}) {
    const DeviceInfo& info = device_info({DeviceKind::emulated, static_cast<int16_t>(wave)});
    EXPECT_EQ(info.wave, wave);
    EXPECT_TRUE(info.device.host_memory());
    EXPECT_STREQ(to_string(target_of(info)), info.path.c_str());
  }
  for (const DeviceInfo& info : devices()) EXPECT_EQ(to_string(target_of(info)), info.path);
  EXPECT_EQ(&device_info({}), &cpu);
}

TEST(Device, MissingOnesAreNamedWithWhatIsPresent) {
  expect_error(ErrorCode::not_found, "cuda:123", [] { (void)device_info({DeviceKind::cuda, 123}); });
  expect_error(ErrorCode::not_found, "present: cpu", [] { Stream stream({DeviceKind::hip, 0}); });
  expect_error(ErrorCode::not_found, "emulated:16", [] { Buffer buffer({DeviceKind::emulated, 16}, 4); });
  bool has_gpu = false;
  for (const DeviceInfo& info : devices()) has_gpu |= info.device.kind == DeviceKind::cuda;
  bool explained = false;
  for (const std::string& line : absent_backends())
    explained |= line.rfind("cuda:", 0) == 0 && line.find('\n') == std::string::npos;
  EXPECT_NE(has_gpu, explained);  // there is a GPU, or one line that says why not
}

TEST(Buffer, AlignedMovableAndCounted) {
  Buffer buffer(Device{}, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
  EXPECT_EQ(buffer.size(), 1000u);
  std::memset(buffer.data(), 1, 1000);
  void* const data = buffer.data();
  Buffer moved(std::move(buffer));
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(buffer.data(), nullptr);  // NOLINT: the moved-from state is specified
  EXPECT_EQ(buffer.size(), 0u);
  Buffer other(Device{}, 10);
  other = std::move(moved);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.size(), 1000u);
  EXPECT_EQ(moved.data(), nullptr);
  EXPECT_EQ(Buffer(Device{}, 0).data(), nullptr);
  Stream stream(Device{});
  EXPECT_NE(Buffer(stream, 5).data(), nullptr);
}

TEST(Buffer, ImpossibleSizes) {
  expect_error(ErrorCode::out_of_memory, "cpu", [] { Buffer buffer(Device{}, size_t{1} << 60); });
  expect_error(ErrorCode::invalid_argument, "allowed",
               [] { Buffer buffer(Device{}, std::numeric_limits<size_t>::max()); });
}

TEST(Stream, CopiesAndFills) {
  Stream stream(Device{});
  EXPECT_EQ(stream.native(), nullptr);
  std::vector<unsigned char> a{1, 2, 3, 4, 5}, b(5, 0xff);
  copy_to_device(stream, b.data(), a.data(), 5);
  EXPECT_EQ(a, b);
  copy_on_device(stream, b.data() + 1, b.data(), 4);  // overlapping copies are defined on host memory
  EXPECT_EQ(b, (std::vector<unsigned char>{1, 1, 2, 3, 4}));
  fill_bytes(stream, b.data(), 9, 2);
  copy_to_host(stream, a.data(), b.data(), 5);
  EXPECT_EQ(a, (std::vector<unsigned char>{9, 9, 2, 3, 4}));
  copy_to_host(stream, nullptr, nullptr, 0);
  expect_error(ErrorCode::invalid_argument, "source", [&] { copy_to_device(stream, b.data(), nullptr, 1); });
  expect_error(ErrorCode::invalid_argument, "destination", [&] { copy_to_host(stream, nullptr, a.data(), 1); });
  expect_error(ErrorCode::invalid_argument, "fill_bytes", [&] { fill_bytes(stream, nullptr, 0, 1); });
  expect_error(ErrorCode::invalid_argument, "native", [&] { Stream wrapped(Device{}, a.data()); });
  Stream moved(std::move(stream));
  moved.synchronize();
}

TEST(Event, MeasuresHostTime) {
  Stream stream(Device{});
  Event start(Device{}), end(Device{});
  expect_error(ErrorCode::invalid_argument, "never recorded", [&] { (void)Event::elapsed_ms(start, end); });
  start.record(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  end.record(stream);
  end.synchronize();
  EXPECT_GE(Event::elapsed_ms(start, end), 5.0);
  Event other({DeviceKind::emulated, 32});
  expect_error(ErrorCode::invalid_argument, "emulated:32", [&] { other.record(stream); });
}

TEST(Graph, RefusedOnHostMemory) {
  Stream stream(Device{});
  EXPECT_FALSE(Graph::supported(Device{}));
  expect_error(ErrorCode::unsupported, "cpu", [&] { Graph::begin_capture(stream); });
  expect_error(ErrorCode::unsupported, "cpu", [&] { (void)Graph::end_capture(stream); });
  expect_error(ErrorCode::invalid_argument, "empty", [&] { Graph().launch(stream); });
}

class OpenCLRuntime : public testing::Test {
 protected:
  void SetUp() override {
    for (const DeviceInfo& info : devices()) {
      if (info.device.kind == DeviceKind::opencl) return;
    }
    GTEST_SKIP() << "no OpenCL device";
  }
  Device device_{DeviceKind::opencl, 0};
};

TEST_F(OpenCLRuntime, BuffersCopiesAndFills) {
  Stream stream(device_);
  EXPECT_NE(stream.native(), nullptr);
  for (const bool pooled : {false, true}) {
    Buffer buffer = pooled ? Buffer(stream, 100) : Buffer(device_, 100);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
    std::vector<unsigned char> a(100), b(100, 0xff);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<unsigned char>(i);
    copy_to_device(stream, buffer.data(), a.data(), a.size());
    fill_bytes(stream, buffer.as<unsigned char>() + 3, 200, 5);
    copy_on_device(stream, buffer.as<unsigned char>() + 50, buffer.data(), 50);
    copy_to_host(stream, b.data(), buffer.data(), b.size());
    stream.synchronize();
    for (size_t i = 0; i < b.size(); ++i) {
      const size_t from = i % 50;
      EXPECT_EQ(b[i], from >= 3 && from < 8 ? 200 : from) << i;
    }
  }
}

TEST_F(OpenCLRuntime, EventsStreamsAndTheDefaultQueue) {
  Stream stream(device_), other(device_, nullptr);
  Buffer buffer(device_, size_t{8} << 20);
  Event start(device_), end(device_);
  start.record(stream);
  fill_bytes(stream, buffer.data(), 1, buffer.size());
  end.record(stream);
  end.synchronize();
  EXPECT_GT(Event::elapsed_ms(start, end), 0.0);
  fill_bytes(other, buffer.data(), 2, 16);
  unsigned char byte = 0;
  copy_to_host(other, &byte, buffer.data(), 1);
  EXPECT_EQ(byte, 2);
  EXPECT_FALSE(Graph::supported(device_));
  expect_error(ErrorCode::unsupported, "opencl", [&] { Graph::begin_capture(stream); });
  expect_error(ErrorCode::out_of_memory, "opencl:0", [&] { Buffer(device_, size_t{1} << 60); });
}

class CudaRuntime : public testing::Test {
 protected:
  void SetUp() override {
    for (const DeviceInfo& info : devices()) {
      if (info.device.kind == DeviceKind::cuda) return;
    }
    GTEST_SKIP() << "no CUDA device";
  }
  Device device_{DeviceKind::cuda, 0};
};

TEST_F(CudaRuntime, BuffersCopiesAndFills) {
  Stream stream(device_);
  EXPECT_NE(stream.native(), nullptr);
  for (const bool pooled : {false, true}) {
    Buffer buffer = pooled ? Buffer(stream, 100) : Buffer(device_, 100);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
    std::vector<unsigned char> source(100), back(100, 0xff);
    for (size_t i = 0; i < 100; ++i) source[i] = static_cast<unsigned char>(i);
    copy_to_device(stream, buffer.data(), source.data(), 100);
    fill_bytes(stream, buffer.as<unsigned char>() + 10, 7, 3);
    copy_on_device(stream, buffer.as<unsigned char>() + 50, buffer.data(), 20);
    copy_to_host(stream, back.data(), buffer.data(), 100);
    stream.synchronize();
    std::memset(source.data() + 10, 7, 3);
    std::memcpy(source.data() + 50, source.data(), 20);
    EXPECT_EQ(source, back);
  }
  expect_error(ErrorCode::out_of_memory, "cuda:0", [&] { Buffer buffer(device_, size_t{1} << 46); });
  expect_error(ErrorCode::out_of_memory, "cuda:0", [&] { Buffer buffer(stream, size_t{1} << 46); });
  Buffer after(device_, 16);  // an earlier failure does not stick
  fill_bytes(stream, after.data(), 0, 16);
  stream.synchronize();
}

TEST_F(CudaRuntime, MoveAssignedBuffersReleaseTheirOwnMemory) {
  Stream stream(device_);
  Buffer first(stream, 1 << 20), second(device_, 1 << 20);
  void* const kept = second.data();
  first = std::move(second);
  EXPECT_EQ(first.data(), kept);
  fill_bytes(stream, first.data(), 1, 1 << 20);
  stream.synchronize();
}

TEST_F(CudaRuntime, EventsMeasureAndWait) {
  Stream stream(device_);
  Event start(device_), end(device_);
  Buffer buffer(stream, size_t{64} << 20);
  start.record(stream);
  fill_bytes(stream, buffer.data(), 1, buffer.size());
  end.record(stream);
  end.synchronize();
  const double ms = Event::elapsed_ms(start, end);
  EXPECT_GT(ms, 0.001);
  EXPECT_LT(ms, 1000.0);
}

TEST_F(CudaRuntime, GraphsReplay) {
  Stream stream(device_);
  Buffer a(device_, 64), b(device_, 64);
  std::vector<unsigned char> source(64, 1), back(64, 0xff);
  copy_to_device(stream, a.data(), source.data(), 64);
  fill_bytes(stream, b.data(), 0, 64);
  stream.synchronize();
  Graph::begin_capture(stream);
  copy_on_device(stream, b.data(), a.data(), 64);
  fill_bytes(stream, b.as<unsigned char>() + 1, 5, 1);
  Graph graph = Graph::end_capture(stream);
  copy_to_host(stream, back.data(), b.data(), 64);
  stream.synchronize();
  EXPECT_EQ(back, std::vector<unsigned char>(64, 0));  // recorded, not run
  for (const unsigned char value : {3, 4}) {
    source.assign(64, value);
    copy_to_device(stream, a.data(), source.data(), 64);
    graph.launch(stream);
    copy_to_host(stream, back.data(), b.data(), 64);
    stream.synchronize();
    source[1] = 5;
    EXPECT_EQ(back, source);
  }
  Graph moved(std::move(graph));
  moved.launch(stream);
  stream.synchronize();
  expect_error(ErrorCode::invalid_argument, "empty", [&] { graph.launch(stream); });
}

TEST_F(CudaRuntime, ForeignStreamsAreNotOwned) {
  Stream owner(device_);
  { Stream wrapped(device_, owner.native()); }
  Buffer buffer(owner, 16);
  fill_bytes(owner, buffer.data(), 0, 16);
  owner.synchronize();
}

}  // namespace
}  // namespace monotile
