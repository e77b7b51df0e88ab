#include "runtime/cpu_features.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace monotile {
namespace {

#if defined(__x86_64__)
bool has_avx2() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c =
      __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;  // clang 14's builtin lacks it
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/// What cpu_avx512 is compiled with. The builtins also ask whether the system saves the registers.
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
}

bool has_amx() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;  // leaf 7, edx
  constexpr unsigned kTileState = 3u << 17;                                 // XCR0: configuration and data
  constexpr unsigned kOsXsave = 1u << 27;                                   // leaf 1, ecx
  constexpr long kRequestPermission = 0x1023, kTileData = 18;               // arch_prctl: ARCH_REQ_XCOMP_PERM
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsXsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & (kBf16 | kTile | kInt8)) != (kBf16 | kTile | kInt8)) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kTileState) != kTileState) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

std::vector<Target> find_targets() {
  std::vector<Target> found = {Target::cpu_plain};
#if defined(__x86_64__)
  if (!has_avx2()) return found;
  found.push_back(Target::cpu_avx2);
  if (!has_avx512()) return found;
  found.push_back(Target::cpu_avx512);
  if (has_amx()) found.push_back(Target::cpu_amx);
#endif
  return found;
}

}  // namespace

const std::vector<Target>& cpu_targets() {
  static const std::vector<Target> targets = find_targets();
  return targets;
}

bool cpu_has_fast_bf16(Target target) {
#if defined(__x86_64__)
  // Intel's cores take a dot product of pairs every two clocks and an fp32 FMA twice per clock (a Xeon of 2026-11-30:
  // 26 against 78 G instructions x lanes per second, docs/notes/gemm-cpu.md); AMD's take both at one rate.
  return target == Target::cpu_amx || (target == Target::cpu_avx512 && !__builtin_cpu_is("intel"));
#else
  (void)target;
  return false;
#endif
}

}  // namespace monotile
