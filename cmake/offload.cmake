# Offloaded targets (src/runtime/offload.hpp): kernels files compiled by clang in HIP mode, without ROCm, once for the device and once for the host.
#
#   monotile_add_offloaded_kernels(TARGET BACKEND OUT SOURCE...)
#
# appends the object files of all sources for TARGET to the list OUT. BACKEND is the folder in include/monotile/lang/backend; for it these are set:
#
#   MONOTILE_OFFLOAD_<BACKEND>_DEFINES         flags of both passes
#   MONOTILE_OFFLOAD_<BACKEND>_COMMAND         arguments of add_custom_command that make ${code} from ${source} with the flags ${device_flags};
#                                              ${stem} may be used for files in between. Expanded per source.
#
# The host's pass knows no device code. It writes the list of headers for both, since clang writes none for the device: code is made after it.

find_program(MONOTILE_OFFLOAD_CLANG NAMES clang++-22 DOC "clang++ 22: compiles kernels for SPIR-V and AMD devices")
set(MONOTILE_OFFLOAD_FLAGS -x hip -std=c++20 -nogpuinc -nogpulib -fvisibility=hidden -Wall -Wno-psabi -Wno-unused-function
    -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src)

# --- SPIR-V --------------------------------------------------------------------------------------------------------------------------
find_program(MONOTILE_SPIRV_TRANSLATOR NAMES llvm-spirv-15 DOC "turns SPIR-V into LLVM 15's bitcode, for OpenCL devices that take no SPIR-V")
find_package(Python3 COMPONENTS Interpreter)
set(MONOTILE_OFFLOAD_spirv_DEFINES -DMONOTILE_TARGET_SPIRV)
# -Os and no unrolling: the device's compiler optimises again, when a kernel is first used, and its time grows with what it is given.
set(MONOTILE_OFFLOAD_spirv_COMMAND
    COMMAND [[${CMAKE_CXX_COMPILER_LAUNCHER}]] [[${MONOTILE_OFFLOAD_CLANG}]] [[${device_flags}]] --offload=spirv64 --cuda-device-only -Os -fno-unroll-loops
            -fno-vectorize -fno-slp-vectorize -emit-llvm -c [[${source}]] -o [[${stem}.bc]]
    COMMAND [[${MONOTILE_OFFLOAD_CLANG}]] --target=spirv64v1.2 -O2 -Wno-override-module -c [[${stem}.bc]] -o [[${stem}.spv]]
    COMMAND [[${Python3_EXECUTABLE}]] [[${PROJECT_SOURCE_DIR}/cmake/spirv_code.py]] [[${stem}.spv]] [[${code}]] --translator [[${MONOTILE_SPIRV_TRANSLATOR}]]
    DEPENDS [[${PROJECT_SOURCE_DIR}/cmake/spirv_code.py]])

# --- AMD -----------------------------------------------------------------------------------------------------------------------------
set(MONOTILE_OFFLOAD_hip_DEFINES -DMONOTILE_TARGET_HIP)
# Everything becomes part of the kernel: a call would save all registers, and these are counted kernel by kernel. Version 5 of the code object is what
# ROCm 5 and later load.
set(MONOTILE_OFFLOAD_hip_COMMAND
    COMMAND [[${CMAKE_CXX_COMPILER_LAUNCHER}]] [[${MONOTILE_OFFLOAD_CLANG}]] [[${device_flags}]] [[--offload-arch=${arch}]] --cuda-device-only --no-gpu-bundle-output
            -O3 -mcode-object-version=5 -mllvm -amdgpu-early-inline-all=true -mllvm -amdgpu-function-calls=false -Wno-pass-failed
            -Xclang -dependency-file -Xclang [[${stem}.code.d]] -Xclang -MT -Xclang [[${code}]] -c [[${source}]] -o [[${code}]]
    DEPFILE [[${stem}.code.d]])

function(monotile_add_offloaded_kernels target backend out)
  set(made ${${out}})
  set(all "")
  set(codes "")
  string(REGEX REPLACE "^[a-z]+_" "" arch ${target})
  set(folder ${PROJECT_BINARY_DIR}/kernels/${target})
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME_WE)
    set(stem ${folder}/${name})
    set(code ${stem}.code)
    set(flags ${MONOTILE_OFFLOAD_FLAGS} ${MONOTILE_OFFLOAD_${backend}_DEFINES} -DMONOTILE_TARGET_NAME=${target} -DMONOTILE_MODULE=${name})
    set(device_flags ${flags})
    set(command "")
    set(after ${stem}.host.o)  # whose depfile knows the headers
    if(backend STREQUAL "hip")
      set(after "")
    endif()
    foreach(argument IN LISTS MONOTILE_OFFLOAD_${backend}_COMMAND)
      string(CONFIGURE "${argument}" argument)
      list(APPEND command ${argument})
    endforeach()
    add_custom_command(OUTPUT ${code} ${command} DEPENDS ${source} ${after} COMMENT "Device code ${target}/${name}" VERBATIM)
    add_custom_command(OUTPUT ${stem}.host.o
                       COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${MONOTILE_OFFLOAD_CLANG} ${flags} --cuda-host-only -O2 -fPIC -MD -MF ${stem}.host.d -MT ${stem}.host.o
                               -c ${source} -o ${stem}.host.o
                       DEPENDS ${source} DEPFILE ${stem}.host.d COMMENT "Launches of ${target}/${name}" VERBATIM)
    file(CONFIGURE OUTPUT ${stem}.S CONTENT ".section .rodata.monotile_code,\"a\"
.balign 64
.globl monotile_code_${target}_${name}, monotile_code_end_${target}_${name}
.hidden monotile_code_${target}_${name}, monotile_code_end_${target}_${name}
monotile_code_${target}_${name}:
.incbin \"${code}\"
monotile_code_end_${target}_${name}:
.section .note.GNU-stack,\"\",@progbits
")
    add_custom_command(OUTPUT ${stem}.code.o COMMAND ${CMAKE_CXX_COMPILER} -c ${stem}.S -o ${stem}.code.o DEPENDS ${code} ${stem}.S
                       COMMENT "" VERBATIM)
    list(APPEND made ${stem}.host.o ${stem}.code.o)
    list(APPEND codes ${code})
    list(APPEND all ${stem}.host.o ${stem}.code.o)
  endforeach()
  # A target of its own, so that these commands do not wait for the kernels of other targets.
  add_custom_target(monotile_code_${target} DEPENDS ${all})
  # The device's half alone, for checks of what the compiler made.
  add_custom_target(device_code_${target} DEPENDS ${codes})
  set(${out} ${made} PARENT_SCOPE)
endfunction()
