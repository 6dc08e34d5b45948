#!/usr/bin/env bash
# Proves the adapter for Hugging Face Transformers: on small models with random weights, on real
# satellites, and, where tools/transformers has made a model of them, on the demo's weights.
set -uo pipefail
set -- transformers python tools/transformers "${SKYMEM_BUILD:-build}"
. tests/integration/in_engine.sh
