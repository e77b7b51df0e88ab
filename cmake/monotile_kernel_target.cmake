# How files with kernels are compiled for a target: for the library itself, and installed for kernels of your own.

set(MONOTILE_FLAGS_cpu_plain -O2 -DMONOTILE_TARGET_CPU)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Here it serves only processors from before AVX2 (2013), and a third of its compile time is worth more than their speed.
  set(MONOTILE_FLAGS_cpu_plain -O1 -DMONOTILE_TARGET_CPU)
endif()
set(MONOTILE_FLAGS_cpu_avx2 -O3 -mavx2 -mfma -mf16c -DMONOTILE_TARGET_CPU)
set(MONOTILE_ARCH_cuda_sm80 "-gencode=arch=compute_80,code=[compute_80,sm_80]" CACHE STRING "How kernels are compiled for sm_80 and later chips")
mark_as_advanced(MONOTILE_ARCH_cuda_sm80)
set(MONOTILE_ARCH_cuda_sm90 "-gencode=arch=compute_90a,code=sm_90a")
set(MONOTILE_FLAGS_CUDA -O3 --expt-relaxed-constexpr -DMONOTILE_TARGET_CUDA -Xcompiler=-fPIC -diag-suppress=20012,20013,20014,177,128,445)

# monotile_kernel_target(LIBRARY TARGET): the sources of LIBRARY hold kernels, compiled for TARGET (cpu_plain, cpu_avx2,
# cuda_sm80 or cuda_sm90; the latter as CUDA, which the project must have enabled). Link the result with monotile::monotile.
function(monotile_kernel_target library target)
  target_compile_features(${library} PRIVATE cxx_std_20)
  target_include_directories(${library} PRIVATE ${MONOTILE_KERNEL_INCLUDE_DIR})
  target_compile_definitions(${library} PRIVATE MONOTILE_TARGET_NAME=${target})
  if(DEFINED MONOTILE_FLAGS_${target})
    target_compile_options(${library} PRIVATE ${MONOTILE_FLAGS_${target}} -Wno-psabi)
  elseif(DEFINED MONOTILE_ARCH_${target})
    get_target_property(sources ${library} SOURCES)
    set_source_files_properties(${sources} TARGET_DIRECTORY ${library} PROPERTIES LANGUAGE CUDA)
    set_target_properties(${library} PROPERTIES CUDA_ARCHITECTURES OFF CUDA_STANDARD 20)
    target_compile_options(${library} PRIVATE ${MONOTILE_ARCH_${target}} ${MONOTILE_FLAGS_CUDA})
  else()
    message(FATAL_ERROR "monotile_kernel_target: ${target} is not one of cpu_plain, cpu_avx2, cuda_sm80, cuda_sm90")
  endif()
endfunction()
