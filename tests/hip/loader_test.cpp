// The HIP driver against a stand-in library (fake_runtime.cpp): what is found, how arguments travel, what errors say. FAKE_HIP_LIBRARY is its path.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "runtime/driver.hpp"

namespace monotile {
namespace {

template <class F>
F* fake(const char* name) {
  static void* const handle = dlopen(FAKE_HIP_LIBRARY, RTLD_NOW);
  return reinterpret_cast<F*>(dlsym(handle, name));
}

class HipLoader : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("MONOTILE_HIP_LIBRARY", FAKE_HIP_LIBRARY, 1);
    unsetenv("FAKE_HIP_DEVICES");
    found = hip_driver.find();
  }
  FoundDevices found;
};

TEST_F(HipLoader, ListsWhatItHasCodeForAndSaysWhyNotTheRest) {
  ASSERT_EQ(found.devices.size(), 1u);
  const DeviceInfo& d = found.devices[0];
  EXPECT_EQ(to_string(d.device), "hip:0");
  EXPECT_EQ(d.name, "Fake MI250X");
  EXPECT_EQ(d.architecture, "gfx90a");
  EXPECT_EQ(d.path, "hip_gfx90a");
  EXPECT_EQ(d.wave, 64);
  EXPECT_EQ(d.units, 104);
  EXPECT_EQ(d.memory_bytes, size_t{64} << 30);
  EXPECT_EQ(d.driver, "HIP 6.0");
  ASSERT_EQ(found.absent.size(), 1u);
  EXPECT_EQ(found.absent[0], "hip:1: Fake MI60 is gfx906; this build has code for gfx90a,gfx942");
}

TEST_F(HipLoader, OneLineWhereThereIsNoDevice) {
  setenv("FAKE_HIP_DEVICES", "0", 1);
  const FoundDevices none = hip_driver.find();
  EXPECT_TRUE(none.devices.empty());
  ASSERT_EQ(none.absent.size(), 1u);
  EXPECT_EQ(none.absent[0], "hip: no device: no ROCm-capable device is detected (hipErrorNoDevice)");
  EXPECT_EQ(fake<int()>("fake_last_error")(), 0) << "the application would see our error";
}
TEST_F(HipLoader, OneLineWhereThereIsNoLibrary) {
  setenv("MONOTILE_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
  const FoundDevices none = hip_driver.find();
  EXPECT_TRUE(none.devices.empty());
  ASSERT_EQ(none.absent.size(), 1u);
  EXPECT_NE(none.absent[0].find("hip: /nowhere/libamdhip64.so not found; install"), std::string::npos)
      << none.absent[0];
}

struct Params {
  const void* data;
  int64_t rows;
  float eps;
};
const unsigned char kElf[] = "\177ELF and so on";
const unsigned char kGarbage[] = "no code object";

TEST_F(HipLoader, LaunchesCarryTheirArguments) {
  static const offload::Module module{"norm", kElf, kElf + sizeof kElf};  // a module is known by its address
  offload::Kernel kernel{&module, "known_norm"};
  void* const stream = hip_driver.create_stream(0);
  fake<void(size_t)>("fake_expect_parameters")(sizeof(Params));
  const int modules = fake<int()>("fake_modules")();
  Params params{kElf, int64_t{1} << 40, 1e-6f};
  for (int i = 0; i < 3; ++i) {
    params.rows += 1;
    const offload::Launch launch{1000 + i, 256, 4096, &params, sizeof params};
    hip_driver.launch(0, stream, kernel, launch);
    const char* name = nullptr;
    unsigned grid = 0, block = 0, shared = 0;
    void* at = nullptr;
    const void* bytes = nullptr;
    fake<void(const char**, unsigned*, unsigned*, unsigned*, void**, const void**)>("fake_last_launch")(
        &name, &grid, &block, &shared, &at, &bytes);
    EXPECT_STREQ(name, "known_norm");
    EXPECT_EQ(grid, 1000u + static_cast<unsigned>(i));
    EXPECT_EQ(block, 256u);
    EXPECT_EQ(shared, 4096u);
    EXPECT_EQ(at, stream);
    EXPECT_EQ(std::memcmp(bytes, &params, sizeof params), 0);
  }
  EXPECT_EQ(fake<int()>("fake_modules")(), modules + 1) << "a module is loaded once";
  EXPECT_NE(kernel.loaded[0], nullptr);
  EXPECT_EQ(kernel.loaded[1], nullptr);
  hip_driver.destroy_stream(0, stream);
}

template <class Call>
std::string error_of(ErrorCode code, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code));
    return error.what();
  }
  return "no error";
}
TEST_F(HipLoader, ErrorsNameTheCallAndWhatWasAsked) {
  static const offload::Module module{"norm", kElf, kElf + sizeof kElf},
      damaged{"gemm", kGarbage, kGarbage + sizeof kGarbage};
  offload::Kernel unknown{&module, "absent_kernel"}, broken{&damaged, "known_gemm"}, wide{&module, "known_norm"};
  const Params params{};
  const offload::Launch launch{1, 64, 0, &params, sizeof params};
  EXPECT_NE(error_of(ErrorCode::device_error, [&] { hip_driver.launch(0, nullptr, unknown, launch); })
                .find("absent_kernel in norm"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorCode::device_error, [&] { hip_driver.launch(0, nullptr, broken, launch); })
                .find("hipModuleLoadData of gemm"),
            std::string::npos);
  const offload::Launch too_wide{1, 2048, 0, &params, sizeof params};
  EXPECT_NE(error_of(ErrorCode::device_error, [&] { hip_driver.launch(0, nullptr, wide, too_wide); })
                .find("hipModuleLaunchKernel of known_norm"),
            std::string::npos);
  const offload::Launch too_many{int64_t{1} << 25, 256, 0, &params, sizeof params};
  EXPECT_NE(error_of(ErrorCode::invalid_argument, [&] { hip_driver.launch(0, nullptr, wide, too_many); })
                .find("33554432 programs of 256 lanes"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorCode::out_of_memory, [&] { (void)hip_driver.allocate(0, size_t{1} << 41); })
                .find("hipMalloc of 2199023255552 bytes on hip:0"),
            std::string::npos);
}

TEST_F(HipLoader, MemoryStreamsEventsAndGraphs) {
  void* const stream = hip_driver.create_stream(1);
  EXPECT_EQ(fake<int()>("fake_current_device")(), 0) << "the thread's device is as it was";
  auto* const data = static_cast<char*>(hip_driver.allocate_in_order(1, stream, 16));
  hip_driver.fill(1, stream, data, 7, 16);
  char back[16] = {};
  hip_driver.copy(1, stream, back, data, 16, Direction::to_host);
  hip_driver.synchronize_stream(1, stream);
  EXPECT_EQ(back[15], 7);
  hip_driver.release_in_order(1, stream, data);
  void *const start = hip_driver.create_event(1), *const end = hip_driver.create_event(1);
  hip_driver.record_event(1, start, stream);
  hip_driver.record_event(1, end, stream);
  hip_driver.synchronize_event(1, end);
  EXPECT_EQ(hip_driver.elapsed_ms(start, end), 1.5);
  hip_driver.destroy_event(1, start);
  hip_driver.destroy_event(1, end);
  EXPECT_FALSE(hip_driver.is_capturing(1, stream));
  hip_driver.begin_capture(1, stream);
  void* const graph = hip_driver.end_capture(1, stream);
  hip_driver.launch_graph(1, graph, stream);
  hip_driver.destroy_graph(graph);
  hip_driver.destroy_stream(1, stream);
}

}  // namespace
}  // namespace monotile
