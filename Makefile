# Monotile. `make demo` shows it, `make test` proves it, `make help` lists the rest.
#
# Variables (make demo MODEL=/path/model.gguf):
#   CUDA=1        build the CUDA code even without a GPU (CUDA=0: never; default: where nvcc and a GPU are)
#   BUILD_DIR     build folder (default: build/<preset>)
#   JOBS          parallel jobs (default: number of processors)
#   MODEL         demo: a local GGUF file instead of the demo model
#   PROMPT        demo: what to ask        CHAT=1   wrap it in the model's chat template
#   MAX_TOKENS    demo: length of the answer
#   DEVICE        demo: cpu or cuda:0 (default: cpu, then the GPU if there is one)
#   CTEST_ARGS    test: further arguments of ctest, such as "-L cpu"

CUDA ?= auto
# Handed to the scripts through the environment, so that quotes and blanks survive.
export CUDA BUILD_DIR JOBS MODEL PROMPT CHAT MAX_TOKENS DEVICE CTEST_ARGS

.DEFAULT_GOAL := help
.PHONY: help demo build test test-all asan cuda-check hip-check spirv-check budgets install-check format lint clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 22
	@sed -n '/^# Variables/,/^$$/s/^# \{0,1\}//p' Makefile

demo: ## install packages, build, fetch the model, answer a question on this machine's devices
	@tools/demo.sh

build: ## build everything for this machine's devices
	@env/install.sh --cpu
	@preset=$$(tools/preset.sh) && tools/build.sh $$preset

test: ## build, then run every test that this machine can run
	@tools/test.sh

test-all: lint budgets cuda-check hip-check spirv-check asan install-check test ## test, and lint, budgets, CUDA, AMD, SPIR-V, sanitizers, installation

asan: ## unit tests under the address and undefined-behaviour sanitizers
	@env/install.sh --cpu
	@tools/check_asan.sh

cuda-check: ## compile all CUDA code (where nvcc is), list local memory, start the binary
	@env/install.sh --cpu
	@tools/check_cuda.sh

hip-check: ## compile all kernels for AMD (gfx90a, gfx942), read the code: instructions, registers; nothing is run
	@env/install.sh --cpu --hip
	@tools/check_hip.sh
	@tools/check_targets.sh

spirv-check: ## compile all kernels to SPIR-V, validate them, run the operators on an OpenCL device (PoCL, on the CPU)
	@tools/check_spirv.sh

budgets: build ## size, #if, compile-time and instantiation budgets
	@python3 tools/check_budgets.py --build "$${BUILD_DIR:-build/$$(tools/preset.sh)}" --fresh 2

install-check: build ## install into a temporary folder, link a program against it
	@tools/check_install.sh "$${BUILD_DIR:-build/$$(tools/preset.sh)}"

format: ## clang-format every source file in place
	@env/install.sh --lint
	@git ls-files -z -- '*.cpp' '*.hpp' '*.h' '*.cu' | xargs -0 clang-format-14 -i

lint: ## check formatting, clang-tidy on host code, shellcheck
	@tools/lint.sh

clean: ## remove all builds (the model cache and ccache stay)
	rm -rf build
