# Every src/ops/<family>/*.kernels.cpp is compiled once per target, with that target's flags only, into its own object library. Each file
# defines `void register_kernels_<file>()` in the namespace of its target; the generated registry calls them all.

include(${CMAKE_CURRENT_LIST_DIR}/monotile_kernel_target.cmake)
set(MONOTILE_KERNEL_INCLUDE_DIR ${PROJECT_SOURCE_DIR}/src)
set(MONOTILE_FLAGS_cpu_avx512 ${MONOTILE_FLAGS_cpu_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16
    -Wno-uninitialized -Wno-maybe-uninitialized)  # GCC 12 takes its own intrinsics for reads of unset registers
set(MONOTILE_FLAGS_cpu_amx ${MONOTILE_FLAGS_cpu_avx512} -mamx-tile -mamx-int8 -mamx-bf16)
# These targets have only the files that gain by them; for the rest the next plainer target serves.
set(MONOTILE_FILES_cpu_avx512 gemm_tiles_f32 gemm_tiles_bf16 gemm_tiles_i8 gemm_gated_f32 gemm_gated_bf16)
set(MONOTILE_FILES_cpu_amx gemm_tiles_bf16 gemm_tiles_i8 gemm_gated_bf16)
# What differs from emulated32 is the schedule; products are instantiated with small tiles in tests/lang/warpgroups.cpp.
set(MONOTILE_FILES_emulated_sm90 prefill64_bf16 prefill128_bf16_scored prefill256_bf16 prefill_causal_bf16 prefill_codes
    decode_stream_bf16)
# Files that hold kernels for some targets alone: name -> pattern of these targets. Elsewhere they would be compiled to nothing.
set(MONOTILE_ONLY "(decode_stream_.*|prefill_codes|prefill_causal_.*)" "(cuda|emulated)_sm90" "(decode|prefill)_.*_e4m3" "(cuda_.*|emulated32)" "gemm_((small|large)_tiles|gated_square)_.*" cuda_sm90
    "gemm_(tiles_f32|gated_f32)" "cpu_.*" "gemm_(mixed_(bf16|f32)|gated_mixed|gated_f16)" "(cuda|hip|emulated).*"
    gemm_gated_bf16 "(cpu|cuda|hip|emulated).*" "gemm_(mixed_tf32|block_dots_.*)" "(cuda_.*|emulated32)" "team_.*" "(cuda_sm90|emulated.*)")
set(MONOTILE_FLAGS_emulated32 -Og -DMONOTILE_TARGET_EMULATED -DMONOTILE_WAVE=32)
set(MONOTILE_FLAGS_emulated64 -Og -DMONOTILE_TARGET_EMULATED -DMONOTILE_WAVE=64)
set(MONOTILE_FLAGS_emulated_sm90 -Og -DMONOTILE_TARGET_EMULATED -DMONOTILE_WAVE=32 -DMONOTILE_LANE_FIBRES)
# Under the sanitizers: these checks double the compile time of kernels, and the address sanitizer sees what they look for.
set(MONOTILE_FLAGS_SANITIZE -O1 -fno-sanitize=null,object-size,pointer-overflow,vptr)

function(monotile_add_kernels targets)
  set(declarations "")
  set(calls "")
  set(objects "")
  foreach(target IN LISTS targets)
    file(GLOB kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*/*.kernels.cpp)
    if(DEFINED MONOTILE_FILES_${target})
      list(JOIN MONOTILE_FILES_${target} "|" names)
      list(FILTER kernel_sources INCLUDE REGEX "/(${names})\\.kernels\\.cpp$")
    endif()
    set(only ${MONOTILE_ONLY})
    while(only)
      list(POP_FRONT only names owners)
      if(NOT target MATCHES "^${owners}$")
        list(FILTER kernel_sources EXCLUDE REGEX "/${names}\\.kernels\\.cpp$")
      endif()
    endwhile()
    if(target STREQUAL "spirv")
      monotile_add_offloaded_kernels(${target} spirv objects ${kernel_sources})
    elseif(target MATCHES "^hip_")
      monotile_add_offloaded_kernels(${target} hip objects ${kernel_sources})
    elseif(target MATCHES "^cuda_")
      # The same files, compiled as CUDA: a two-line wrapper gives them the suffix that CMake wants.
      set(sources "")
      foreach(source IN LISTS kernel_sources)
        get_filename_component(name ${source} NAME_WE)
        set(wrapper ${PROJECT_BINARY_DIR}/kernels/${target}/${name}.cu)
        file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${source}\"\n")
        list(APPEND sources ${wrapper})
      endforeach()
      add_library(monotile_kernels_${target} OBJECT ${sources})
      set_target_properties(monotile_kernels_${target} PROPERTIES CUDA_ARCHITECTURES OFF)
      target_compile_options(monotile_kernels_${target} PRIVATE ${MONOTILE_ARCH_${target}} ${MONOTILE_FLAGS_CUDA})
    else()
      add_library(monotile_kernels_${target} OBJECT ${kernel_sources})
      target_compile_options(monotile_kernels_${target} PRIVATE ${MONOTILE_FLAGS_${target}}
                             $<$<BOOL:${MONOTILE_SANITIZE}>:${MONOTILE_FLAGS_SANITIZE}>)
      monotile_precompile(monotile_kernels_${target} ${PROJECT_SOURCE_DIR}/src/ops/register_kernel.hpp)
    endif()
    if(TARGET monotile_kernels_${target})
      target_include_directories(monotile_kernels_${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
      target_compile_definitions(monotile_kernels_${target} PRIVATE MONOTILE_TARGET_NAME=${target})
      list(APPEND objects $<TARGET_OBJECTS:monotile_kernels_${target}>)
    endif()
    foreach(source IN LISTS kernel_sources)
      get_filename_component(name ${source} NAME_WE)
      string(APPEND declarations "namespace ${target} { void register_kernels_${name}(); }\n")
      string(APPEND calls "  ${target}::register_kernels_${name}();\n")
    endforeach()
  endforeach()
  set(registry ${PROJECT_BINARY_DIR}/kernels/registry.cpp)
  file(CONFIGURE OUTPUT ${registry} CONTENT "// Generated from src/ops/*/*.kernels.cpp by cmake/kernels.cmake.
#include \"runtime/builtin_kernels.hpp\"
namespace monotile {
namespace kernel_targets {
${declarations}}
void register_builtin_kernels() {
  using namespace kernel_targets;
${calls}}
}  // namespace monotile
")
  set(MONOTILE_KERNEL_OBJECTS ${objects} PARENT_SCOPE)
  set(MONOTILE_KERNEL_REGISTRY ${registry} PARENT_SCOPE)
endfunction()
