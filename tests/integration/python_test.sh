#!/usr/bin/env bash
# Proves the Python package: its wheel is built and installed in an environment of its own, every
# test of bindings/python/tests passes, examples in its words are true, and mypy finds no fault in
# its types. No torch here: that is `make python`.
set -uo pipefail
build=$(cd "${SKYMEM_BUILD:-build}" && pwd)
if grep -q '^SKYMEM_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "skipped: a wheel has no sanitizer"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SKYMEM_BUILD=$build PYTHONDONTWRITEBYTECODE=1 MYPY_CACHE_DIR=$build/python/mypy
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

wheel=$(tools/wheel "$build")
status=$?
[ "$status" = 0 ] || { echo "$wheel"; exit "$status"; }
bin=$build/python/venv/bin
"$bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall "$wheel" || exit 1

tests=bindings/python/tests
"$bin/pytest" -q -p no:cacheprovider "$tests" --ignore "$tests/transformers" \
    --ignore "$tests/vllm" --ignore "$tests/lmcache" --ignore "$tests/sglang" || fail "pytest"
site=$("$bin/python" -P -c 'import os, skymem; print(os.path.dirname(skymem.__file__))')
config=$PWD/bindings/python/pyproject.toml
cd "$work" || exit 1
"$bin/pytest" -q -p no:cacheprovider --doctest-modules --ignore "$site/transformers.py" \
    --ignore "$site/prompt_cache.py" \
    --ignore "$site/vllm.py" --ignore "$site/vllm_keys.py" --ignore "$site/sglang.py" \
    --ignore "$site/calibration.py" "$site" ||
    fail "examples in docstrings"
"$bin/mypy" --strict --config-file "$config" -p skymem || fail "mypy"
# The declarations are those of the compiled module, but for names that exist for types alone.
printf 'skymem\\._core\\.%s\n' '(Buffer|SupportsDLPack|Target)' '(Blob|Lease)\.__buffer__' >allowed
"$bin/stubtest" --ignore-disjoint-bases --ignore-unused-allowlist --allowlist allowed \
    skymem._core ||
    fail "declarations of the compiled module"
# Importing is quick because it imports little.
"$bin/python" -P -c 'import sys, skymem
exit(any(name in sys.modules for name in ("numpy", "torch", "asyncio", "inspect", "ctypes")))' ||
    fail "import skymem imports more than it needs"
exit $((failures > 0))
