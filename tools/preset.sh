#!/usr/bin/env bash
# Prints the CMake preset that suits this machine: "cuda" where nvcc and a GPU are, or with CUDA=1; else "cpu".
# CUDA=0 never builds CUDA code.
set -euo pipefail

has_nvcc() { command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; }
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

case "${CUDA:-auto}" in
    1)
        has_nvcc || { echo "preset: error: CUDA=1, but nvcc is neither on PATH nor in /usr/local/cuda/bin" >&2; exit 1; }
        echo cuda
        ;;
    0) echo cpu ;;
    *) if has_nvcc && has_gpu; then echo cuda; else echo cpu; fi ;;
esac
