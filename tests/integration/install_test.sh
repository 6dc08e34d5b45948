#!/usr/bin/env bash
# Proves that what `make install` leaves can be moved, linked against with pkg-config, and run: the
# headers stand alone in C and C++, the library shows only versioned sky_ symbols, programs start.
. "$(dirname "$0")/installed.sh"
mv "$prefix" "$work/moved"
prefix=$work/moved
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
read -ra flags < <(pkg-config --cflags skymem)

cat >"$work/program.c" <<'C'
#include <skymem/skymem.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    const char *urls[] = {"mem:1MiB"};
    sky_cache *cache;
    if (sky_cache_open(urls, 1, &cache, NULL) != SKY_OK)
        return 1;
    char in[] = "from the outside", out[sizeof in] = "";
    sky_span span = {in, sizeof in};
    sky_item item = {.key = {{1}}, .spans = &span, .span_count = 1};
    if (sky_run(cache, SKY_OP_PUT, &item, 1, NULL) != SKY_OK || item.status != SKY_OK)
        return 2;
    span.data = out;
    if (sky_run(cache, SKY_OP_GET, &item, 1, NULL) != SKY_OK || item.status != SKY_OK)
        return 3;
    sky_cache_close(cache);
    printf("%s %s\n", sky_version(), out);
    return strcmp(in, out) != 0;
}
C
version=$(pkg-config --modversion skymem)
read -ra shared < <(pkg-config --libs skymem)
cc -std=c17 -Wall -Werror "$work/program.c" "${flags[@]}" "${shared[@]}" -o "$work/shared"
[ "$(LD_LIBRARY_PATH=$prefix/lib "$work/shared")" = "$version from the outside" ] ||
    fail "the program linked to libskymem.so does not run"
read -ra static < <(pkg-config --libs --static skymem)
cc -std=c17 "$work/program.c" "${flags[@]}" "${static[@]/#-lskymem*/-l:libskymem.a}" \
    -o "$work/static"
[ "$("$work/static")" = "$version from the outside" ] ||
    fail "the program linked to libskymem.a does not run"

# Nothing shared at all: the archives of other libraries, where there are any, hold what is needed.
if echo 'int main(void) { return 0; }' |
    cc -static -x c - -lsodium -lxxhash -luring -lm -o "$work/empty" 2>"$work/log"; then
    cc -std=c17 -static "$work/program.c" "${flags[@]}" "${static[@]}" -o "$work/whole" ||
        fail "the program cannot be linked with -static"
    [ "$("$work/whole")" = "$version from the outside" ] || fail "the static program does not run"
fi

# skies are a library of their own, there because it is linked; a program without it says so
cat >"$work/sky.c" <<'C'
#include <skymem-sky/skies.h>
#include <stdio.h>

int main(int argc, char **argv) {
    sky_cache *cache;
    sky_error error = {0};
    const char *urls[] = {argv[1]};
#ifdef REGISTER
    if (sky_skies_register() != SKY_OK || sky_skies_register() != SKY_OK)
        return 3;
#endif
    if (sky_cache_open(urls, 1, &cache, &error) != SKY_OK)
        return puts(error.text), 2;
    sky_cache_close(cache);
    return argc != 2;
}
C
scenario=sky:$prefix/share/skymem/scenarios/demo-hop.yaml
read -ra skies < <(pkg-config --libs skymem-sky)
cc "$work/sky.c" "${flags[@]}" -Wl,--no-as-needed "${skies[@]}" -o "$work/sky"
LD_LIBRARY_PATH=$prefix/lib "$work/sky" "$scenario" ||
    fail "libskymem-sky does not register its skies"
cc "$work/sky.c" "${flags[@]}" "${shared[@]}" -o "$work/skyless"
LD_LIBRARY_PATH=$prefix/lib "$work/skyless" "$scenario" >"$work/out" &&
    fail "a sky without its library"
grep -q 'link the program with -lskymem-sky' "$work/out" || fail "$(cat "$work/out")"
read -ra static < <(pkg-config --libs --static skymem-sky)
static=("${static[@]/#-lskymem-sky/-l:libskymem-sky.a}")
static=("${static[@]/%-lskymem/-l:libskymem.a}")
cc -DREGISTER "$work/sky.c" "${flags[@]}" "${static[@]/%-lskymem-codec/-l:libskymem-codec.a}" \
    -o "$work/sky"
"$work/sky" "$scenario" || fail "the program linked to libskymem-sky.a has no sky"

# the same with CMake
mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(outside C)
find_package(skymem 0.1 REQUIRED)
add_executable(program ../program.c)
target_link_libraries(program skymem::skymem)
add_executable(sky ../sky.c)
target_compile_definitions(sky PRIVATE REGISTER)
target_link_libraries(sky skymem::sky)
CMAKE
cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" &&
    cmake --build "$work/cmake/build" >>"$work/log" || fail "$(cat "$work/log")"
[ "$("$work/cmake/build/program")" = "$version from the outside" ] ||
    fail "the program built with find_package does not run"
"$work/cmake/build/sky" "$scenario" || fail "the sky built with find_package does not open"

# the codec alone: nothing of io_uring, libsodium or threads of ours comes along
cat >"$work/codec.c" <<'C'
#include <skymem/codec.h>
#include <skymem/version.h>
#include <stdio.h>

int main(void) {
    puts(sky_version());
    return sky_encode_bound(NULL) != 0 || !sky_codec_kernels_name();
}
C
cc "$work/codec.c" "${flags[@]}" "$prefix/lib/libskymem-codec.a" -lxxhash -lm -o "$work/codec" ||
    fail "the codec cannot be linked alone"
[ "$("$work/codec")" = "$version" ] || fail "the program linked to libskymem-codec.a does not run"
read -ra codec < <(pkg-config --libs skymem-codec)
cc "$work/codec.c" "${flags[@]}" "${codec[@]}" -o "$work/codec"
[ "$(LD_LIBRARY_PATH=$prefix/lib "$work/codec")" = "$version" ] ||
    fail "the program linked to libskymem-codec.so does not run"
LD_LIBRARY_PATH=$prefix/lib ldd "$work/codec" | grep -E 'libskymem\.so|sodium|uring|crypto' &&
    fail "the codec brings more than it needs"

# -lskymem written by hand links what is declared for either library, and records what is used
cc "$work/codec.c" "${flags[@]}" -L"$prefix/lib" -Wl,--as-needed -lskymem -o "$work/codec" ||
    fail "-lskymem alone does not link the codec"
[ "$(LD_LIBRARY_PATH=$prefix/lib "$work/codec")" = "$version" ] ||
    fail "the program linked by -lskymem alone does not run"

# … as it does before the program, where libraries are taken whether they are used yet or not
cc -Wl,--no-as-needed -L"$prefix/lib" -lskymem "$work/codec.c" "${flags[@]}" -o "$work/codec" ||
    fail "-lskymem before the program does not link the codec"

nm "$prefix"/lib/libskymem{-codec,,-sky}.a 2>/dev/null |
    awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' | grep -v '^sky_\|aegis' >"$work/foreign" &&
    fail "names in the archives that a program may have too: $(head "$work/foreign")"

for header in "$prefix"/include/skymem{,-sky}/*.h; do
    name=${header#"$prefix"/include/}
    echo "#include <$name>" >"$work/alone.c"
    cc -std=c11 -pedantic -Wall -Wextra -Werror "${flags[@]}" -fsyntax-only "$work/alone.c" ||
        fail "$name does not stand alone in C"
    c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror "${flags[@]}" -fsyntax-only -x c++ \
        "$work/alone.c" ||
        fail "$name does not stand alone in C++"
done

# under /usr/local a program finds the library only when the loader was told of it
make -n install PREFIX=/usr/local | grep -q '|| /sbin/ldconfig$' ||
    fail "make install does not tell the loader"

# the engine for llama.cpp, where it was built: a program links it and hears of an absent file
if grep -q '^SKYMEM_LLAMA:[A-Z]*=.' "$build/CMakeCache.txt"; then
    cat >"$work/engine.c" <<'C'
#include <skymem_llama.h>
#include <stdio.h>

int main(void) {
    sky_error error = {0};
    sky_llama *llama;
    const sky_llama_options options = {.model_path = "/nonexistent.gguf"};
    sky_status status = sky_llama_open(&options, &llama, &error);
    puts(error.text);
    return status != SKY_E_IO;
}
C
    read -ra engine < <(pkg-config --cflags --libs skymem-llama)
    cc -std=c17 -Wall -Werror "$work/engine.c" "${engine[@]}" -o "$work/engine"
    LD_LIBRARY_PATH=$prefix/lib "$work/engine" | grep -q /nonexistent.gguf ||
        fail "the program linked to the llama.cpp engine does not run"
fi
[ -s "$prefix/share/doc/skymem/LICENSE" ] || fail "no license"

for library in libskymem-codec libskymem libskymem-sky; do
    symbols=$(nm -D --defined-only "$prefix/lib/$library.so.0" | awk '$2 != "A" { print $3 }')
    [ -n "$symbols" ] || fail "$library.so shows no symbols"
    foreign=$(grep -v '^sky_[a-z0-9_]*@@SKYMEM_' <<<"$symbols") &&
        fail "$library.so shows what it should hide: $foreign"
    readelf -d "$prefix/lib/$library.so.0" | grep "SONAME.*\[$library.so.0\]" >/dev/null ||
        fail "$library.so has the wrong soname"
done

# a man page for each public function, in which mandoc finds no fault
while read -r function; do
    grep -q '^.so man3/skymem_.*\.3$' "$prefix/share/man/man3/$function.3" ||
        fail "no man page for $function"
done < <(cat tools/*.symbols)
if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning "$prefix"/share/man/man3/skymem_*.3 >"$work/log" ||
        fail "$(cat "$work/log")"
fi

env -u LD_LIBRARY_PATH "$prefix/bin/skymem" help --list >"$work/verbs" ||
    fail "the installed skymem does not start"
while read -r verb; do
    [ -s "$prefix/share/man/man1/skymem-$verb.1" ] || [ "$verb" = skymem ] ||
        fail "no man page for skymem $verb"
done <"$work/verbs"
[ -s "$prefix/share/man/man1/skymem.1" ] || fail "no man page for skymem"
[ -x "$prefix/bin/skymemd" ] || fail "no skymemd"
for unit in skymemd.service skymemd.socket; do
    [ -s "$prefix/share/systemd/user/$unit" ] || fail "no $unit"
done
# a verb of the laboratory finds its program, and that one the scenarios
env -u LD_LIBRARY_PATH "$prefix/bin/skymem" sim demo-hop --until 1 >"$work/log" 2>&1 ||
    fail "the installed skymem sim does not run: $(cat "$work/log")"
compgen -G "$prefix/share/skymem/scenarios/*.yaml" >/dev/null || fail "no scenarios"
for file in bash-completion/completions/skymem zsh/site-functions/_skymem \
    fish/vendor_completions.d/skymem.fish; do
    [ -s "$prefix/share/$file" ] || fail "no completion: share/$file"
done
if grep -rqIF "$work/prefix" "$prefix"; then
    fail "what was installed names its prefix"
fi

# What install put, uninstall takes away; what was there before stays.
mkdir -p "$work/own/share/skymem" "$work/stage/usr/local/bin"
touch "$work/own/share/skymem/mine" "$work/stage/usr/local/bin/other"
cmake --install "$build" --prefix "$work/own" >"$work/log"
[ -x "$work/own/bin/skymem" ] || fail "install under a prefix of one's own put nothing there"
tools/uninstall "$build" "$(realpath --relative-to=. "$work/own")" >"$work/log" # as make takes it
[ "$(cd "$work/own" && find . ! -type d)" = ./share/skymem/mine ] ||
    fail "uninstall leaves: $(find "$work/own" ! -type d)"
[ ! -d "$work/own/bin" ] || fail "uninstall leaves empty folders"
DESTDIR=$work/stage cmake --install "$build" --prefix /usr/local >"$work/log"
DESTDIR=$work/stage tools/uninstall "$build" /usr/local >"$work/log"
[ "$(cd "$work/stage" && find . ! -type d)" = ./usr/local/bin/other ] ||
    fail "uninstall leaves: $(find "$work/stage" ! -type d)"
[ ! -d "$work/stage/usr/local/share/skymem" ] || fail "uninstall leaves share/skymem"
[ -d "$work/stage/usr/local/lib/pkgconfig" ] || fail "uninstall took a folder of the system"
