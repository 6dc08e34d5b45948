#!/usr/bin/env bash
# Proves that the wheel for other machines carries all it needs: it is installed and used in a root
# with nothing but Python, the C library and pip: no compiler, and none of the libraries that the
# build links. Needs to be root, or to be let become it in a namespace.
set -euo pipefail
build=$(cd "${SKYMEM_BUILD:-build}" && pwd)
if grep -q '^SKYMEM_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "skipped: a wheel has no sanitizer"
    exit 77
fi
unshare -rm true 2>/dev/null || { echo "skipped: no namespaces of one's own here"; exit 77; }
wheel=$(tools/wheel "$build" --repair) || { status=$?; echo "$wheel"; exit "$status"; }
case $wheel in
    *-cp311-abi3-manylinux_*) ;;
    *) echo "not a wheel for other machines: $wheel"; exit 1 ;;
esac

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
read -r python base <<<"$("$build/python/venv/bin/python" -c 'import os, sys
print(os.path.realpath(sys.executable), sys.base_prefix)')"
version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
mkdir -p "$root/tmp" "$root/proc" "$root$base/lib/$version" "$root$(dirname "$python")"
cp "$python" "$root$python"
tar -C "$base/lib/$version" --exclude=test --exclude=site-packages --exclude=dist-packages \
    --exclude='config-*' --exclude=__pycache__ --exclude='_ssl.*' --exclude='_hashlib.*' -cf - . |
    tar -C "$root$base/lib/$version" -xf -
for object in "$python" "$root$base/lib/$version"/lib-dynload/*.so /lib*/*/libm.so.6 \
    /lib*/*/libpthread.so.0 /lib*/*/libdl.so.2; do
    ldd "$object" 2>/dev/null | grep -o '/[^ ]*' || true
    echo "$object"
done | sort -u | while read -r library; do
    case $library in "$root"*) continue ;; esac
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
packages=$("$build/python/venv/bin/python" -c 'import pip, os
print(os.path.dirname(os.path.dirname(pip.__file__)))')
mkdir "$root/pip"
cp -r "$packages/pip" "$root/pip/"
cp "$wheel" "$root/tmp/"

left=$(find "$root" -name 'libsodium*' -o -name 'libxxhash*' -o -name 'libisal*' -o -name '*cc')
[ -z "$left" ] || { echo "not a clean root: $left"; exit 1; }
cat >"$root/tmp/smoke.py" <<'PYTHON'
import skymem

with skymem.Cache(["mem:16MiB", "disk:/tmp/store"]) as cache:
    cache.put("a", b"hello", durable=True)
    with cache.lease("a") as view:
        assert bytes(view) == b"hello"
with skymem.Cache(["disk:/tmp/store", "sky:seed"]) as cache:
    assert cache.get("a") == b"hello"
    key = skymem.block_keys(range(128))[0]
    cache.put(key, bytes(65536))
    assert cache.prefix([key], tiers=[1]) == 1 or cache.flush(60) == 0
    assert cache.get(key, tiers=[1]) == bytes(65536)
with skymem.Cache("shm:auto") as cache, skymem.Cache("shm:auto") as other:
    cache.put("a", b"shared")
    assert other.get("a") == b"shared"
print("smoke passed")
PYTHON
mkdir -p "$root/tmp/config/skymem" "$root/dev"
: >"$root/dev/null"
# shm:auto leaves no daemon behind.
printf 'store: mem:64MiB\nidle: 1\n' >"$root/tmp/config/skymem/skymemd.yaml"
inside=(env -i "PATH=$PATH" XDG_CONFIG_HOME=/tmp/config "PYTHONHOME=$base" PYTHONPATH=/pip:/tmp/site
    unshare -rm sh -c 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$python")
"${inside[@]}" -m pip install -q --no-index --no-deps --disable-pip-version-check \
    --target /tmp/site "/tmp/$(basename "$wheel")" >"$root/tmp/log" 2>&1 ||
    { cat "$root/tmp/log"; exit 1; }
out=$("${inside[@]}" -P /tmp/smoke.py) || exit 1
[ "$out" = "smoke passed" ]
