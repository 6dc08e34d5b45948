# in_engine.sh NAME VERB TOOL...: run bindings/python/tests/NAME with the Python that TOOL prints,
# in the environment FOLDER/python/NAME. Exit 77 where `make VERB` has not brought it: it is large.
build=$(cd "${SKYMEM_BUILD:-build}" && pwd)
export SKYMEM_BUILD=$build PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
[ -e "$build/python/$1/installed.txt" ] ||
    { echo "skipped: $1 is not here: make $2 brings it"; exit 77; }
python=$("${@:3}") || { status=$?; echo "$python"; exit "$status"; }
"$python" -P -m pytest -q -p no:cacheprovider "bindings/python/tests/$1"
