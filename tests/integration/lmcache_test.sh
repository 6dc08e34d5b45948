#!/usr/bin/env bash
# Proves the plug-in for LMCache in LMCache itself: its adapter, its own bench, its server.
set -uo pipefail
set -- lmcache lmcache tools/venv "${SKYMEM_BUILD:-build}" lmcache
. tests/integration/in_engine.sh
