#!/usr/bin/env bash
# A program or shared object has one constructor and one destructor of the library's, however many keys, files and templates it has,
# with each linker that is here, and all its sites are found. Closing a shared object takes its sites out again.
# Arguments: the C compiler, the C++ compiler, the folder of the libraries.
set -euo pipefail
cc=$1 cxx=$2 build=$3
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
fail() {
    echo "one_constructor: $1"
    tail -5 "$place/log" 2>/dev/null
    exit 1
}

# Two files of C with two keys each, of which one is in an archive; two of C++ that share keys and sites of a template.
cat >"$place/keys.h" <<'SOURCE'
#include <patchpoint.h>
#ifdef __cplusplus
extern "C" {
#endif
PATCHPOINT_DECLARE_BRANCH(first);
PATCHPOINT_DECLARE_VALUE(second, int);
PATCHPOINT_DECLARE_BRANCH(third);
long of_archive(long a);
long of_cxx(long a);
long of_second_cxx(long a);
#ifdef __cplusplus
}
#endif
SOURCE
cat >"$place/main.c" <<'SOURCE'
#include "keys.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
PATCHPOINT_DEFINE_BRANCH(first, false);
PATCHPOINT_DEFINE_VALUE(second, int, 5);
static int visit(const struct patchpoint_site_info *info, void *count)
{
	++*(int *)count;
	return strcmp(info->state, "data") == 0 || strcmp(info->state, "foreign") == 0;
}
static int sites(void)
{
	int count = 0;

	return patchpoint_site_iterate(visit, &count) == 0 ? count : -1;
}
int main(int argc, char **argv)
{
	int before, error = patchpoint_init();

	if (error) {
		printf("patchpoint_init: %d\n", error);
		return 1;
	}
	before = sites();
	if (patchpoint_unlikely(first) || patchpoint_value(second) != 5)
		return 2;
#ifdef WHOLE
	if (of_archive(3) != -3 || patchpoint_set_branch(third, true) || of_archive(3) != 3)
		return 3;
	if (of_cxx(3) != 3 || of_second_cxx(3) != 3)
		return 4;
#endif
	for (int i = 1; i < argc; i++) {
		void *object = dlopen(argv[i], RTLD_NOW);
		long (*run)(long);

		if (!object) {
			printf("%s\n", dlerror());
			return 5;
		}
		*(void **)&run = dlsym(object, "run");
		if (!run || run(4) != -4 || sites() <= before)
			return 6;
		dlclose(object);
		if (sites() != before)
			return 7;
	}
	printf("%d\n", before);
	return 0;
}
SOURCE
cat >"$place/archive.c" <<'SOURCE'
#include "keys.h"
PATCHPOINT_DEFINE_BRANCH(third, false);
PATCHPOINT_DECLARE_BRANCH(fourth);
PATCHPOINT_DEFINE_BRANCH(fourth, false);
long of_archive(long a) { return patchpoint_unlikely(third) ? a : -a; }
SOURCE
cat >"$place/cxx.hpp" <<'SOURCE'
#include <patchpoint.hpp>
#include "keys.h"
inline patchpoint::branch shared_by_files{"shared_by_files"};
template <class T> struct holder {
	static inline patchpoint::value<T> key{"of a template", T(1)};
};
template <class T> T __attribute__((noinline)) of_template(T a)
{
	return patchpoint::site<shared_by_files>.unlikely() ? -a : a * patchpoint::site<holder<T>::key>.get();
}
SOURCE
printf '#include "cxx.hpp"\nlong of_cxx(long a) { return of_template(a); }\n' >"$place/cxx.cpp"
printf '#include "cxx.hpp"\nlong of_second_cxx(long a) { return of_template(a); }\n' >"$place/second.cpp"
cat >"$place/plugin.c" <<'SOURCE'
#include <patchpoint.h>
PATCHPOINT_DECLARE_BRANCH(mine);
PATCHPOINT_DEFINE_BRANCH(mine, false);
__attribute__((__visibility__("default"))) long run(long a);
long run(long a) { return patchpoint_unlikely(mine) ? a : -a; }
SOURCE

# link NAME FLAGS...: builds everything with flags, runs it, and counts. There are five sites, and copies by -flto.
link() {
    local name=$1 found number size
    shift
    local flags=("$@" -O2 -I"$here/../include" -I"$place")
    rm -f "$place"/*.o "$place/archive.a"
    if ! { "$cc" "${flags[@]}" -DWHOLE -c -o "$place/main.o" "$place/main.c" && "$cc" "${flags[@]}" -c -o "$place/archive.o" "$place/archive.c" &&
        "$cxx" -std=c++17 "${flags[@]}" -c -o "$place/cxx.o" "$place/cxx.cpp" &&
        "$cxx" -std=c++17 "${flags[@]}" -c -o "$place/second.o" "$place/second.cpp" &&
        "${archiver[@]}" rcs "$place/archive.a" "$place/archive.o" &&
        "$cxx" "${flags[@]}" -o "$place/program" "$place"/{main,cxx,second}.o "$place/archive.a" "$build/libpatchpoint.a" -pthread \
            -ldl; } >"$place/log" 2>&1; then
        if grep -qE 'cannot find ['"'"'"]?ld|invalid linker|unrecognized (command|option)|not found|unknown linker|LTO support|plugin' "$place/log"; then
            echo "SKIPPED: $name cannot be linked here: $(head -1 "$place/log")" >&2
            return
        fi
        fail "$name: it does not compile"
    fi
    found=$("$place/program" 2>"$place/log") || fail "$name: the program ended with status $? ($found)"
    { [ "$found" -ge 5 ] && [ "$found" -lt 10 ]; } || fail "$name: $found sites, not 5"
    for part in enter leave; do
        number=$(nm "$place/program" | grep -c " patchpoint_$part\$" || true)
        [ "$number" -eq 1 ] || fail "$name: $number functions patchpoint_$part"
    done
    # All pointers of the first priority: the library's own, and this program's one. lock.c has one.
    size=$(readelf -rWS "$place/program" | sed -n 's/^ *\[[ 0-9]*\] .init_array *[A-Z_]* *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\) .*/\1/p')
    [ $((16#$size / 8)) -le 4 ] || fail "$name: $((16#$size / 8)) constructors"
}

archiver=(ar)
lto=(gcc-ar)
if [[ $cc == *clang* ]]; then lto=("$(command -v llvm-ar || compgen -c llvm-ar- | sort -V | tail -1 || true)"); fi
link plain
link -fPIC -fPIC
link no-pie -fno-pie -no-pie
link static -static
for linker in bfd gold lld mold; do
    link "$linker --gc-sections" "-fuse-ld=$linker" -ffunction-sections -fdata-sections -Wl,--gc-sections
done
if [ -n "${lto[0]}" ]; then
    archiver=("${lto[@]}")
    linker=bfd
    if [[ $cc == *clang* ]]; then linker=lld; fi
    link "-flto, $linker" -flto "-fuse-ld=$linker"
    link "-flto, $linker --gc-sections" -flto "-fuse-ld=$linker" -ffunction-sections -Wl,--gc-sections
fi

# Shared objects that come and go beside the shared library, and one that has an archive in it.
rm -f "$place"/*.o
flags=(-O2 -I"$here/../include" -I"$place")
"$cc" "${flags[@]}" -fPIC -shared -fvisibility=hidden -o "$place/plugin.so" "$place/plugin.c" -L"$build" -lpatchpoint
"$cc" "${flags[@]}" -fPIC -shared -fvisibility=hidden -Wl,--gc-sections -ffunction-sections -o "$place/both.so" "$place/plugin.c" \
    "$place/archive.c" -L"$build" -lpatchpoint
"$cc" "${flags[@]}" -o "$place/program" "$place/main.c" -L"$build" -lpatchpoint -ldl -Wl,-rpath,"$build" -pthread
"$place/program" "$place/plugin.so" "$place/both.so" "$place/plugin.so" >"$place/log" 2>&1 || fail "shared objects: status $?"
for object in plugin.so both.so; do
    size=$(readelf -WS "$place/$object" | sed -n 's/^ *\[[ 0-9]*\] .init_array *[A-Z_]* *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\) .*/\1/p')
    # One is crtbegin's frame_dummy.
    [ $((16#$size / 8)) -eq 2 ] || fail "$object: $((16#$size / 8)) constructors"
done
