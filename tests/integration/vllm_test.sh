#!/usr/bin/env bash
# Proves the connector for vLLM in real engines, on small models with random weights. Runs where
# `make vllm` has brought vLLM, which is large.
set -uo pipefail
build=$(cd "${SKYMEM_BUILD:-build}" && pwd)
export SKYMEM_BUILD=$build PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
[ -e "$build/python/vllm/installed.txt" ] ||
    { echo "skipped: vLLM is not here: make vllm brings it"; exit 77; }
python=$(tools/vllm "$build") || { status=$?; echo "$python"; exit "$status"; }
"$python" -P -m pytest -q -p no:cacheprovider bindings/python/tests/vllm
