#!/usr/bin/env bash
# Proves the storage backend for SGLang under SGLang's own controller and host pools.
set -uo pipefail
set -- sglang sglang tools/venv "${SKYMEM_BUILD:-build}" sglang
. tests/integration/in_engine.sh
