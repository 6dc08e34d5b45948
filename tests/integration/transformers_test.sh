#!/usr/bin/env bash
# Proves the adapter for Hugging Face Transformers: on small models with random weights, on real
# satellites, and, where tools/transformers has made a model of them, on the demo's weights. Runs
# where `make python` has brought torch, which is large.
set -uo pipefail
build=$(cd "${SKYMEM_BUILD:-build}" && pwd)
export SKYMEM_BUILD=$build PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
[ -e "$build/python/transformers/installed.txt" ] ||
    { echo "skipped: torch is not here: make python brings it"; exit 77; }
python=$(tools/transformers "$build") || { status=$?; echo "$python"; exit "$status"; }
"$python" -P -m pytest -q -p no:cacheprovider bindings/python/tests/transformers
