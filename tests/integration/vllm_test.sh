#!/usr/bin/env bash
# Proves the connector for vLLM in real engines, on small models with random weights.
set -uo pipefail
set -- vllm vllm tools/vllm "${SKYMEM_BUILD:-build}"
. tests/integration/in_engine.sh
