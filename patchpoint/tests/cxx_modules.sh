#!/usr/bin/env bash
# Keys in a named module of C++20: its functions and templates, and a program that imports it, use the same keys.
# Needs clang from version 16 on or g++ from 15 on, under any of their names. Argument: the static library.
set -euo pipefail
library=$(realpath "$1")
include=$(cd "$(dirname "$0")/../include" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
cat >keys.cppm <<'CODE'
module;
#include <patchpoint.hpp>
export module keys;
long sum(long a, long b) { return a + b; }
export inline patchpoint::branch tracing{"tracing"};
export inline patchpoint::value<int> limit{"limit", 100};
export inline patchpoint::call<long(long, long)> combine{"combine", sum};
export long in_module(long n) { return tracing.unlikely() ? -n : combine(n, 2) + limit; }
export template <class T> T in_template(T n) { return tracing.unlikely() ? -n : n + limit; }
CODE
cat >main.cpp <<'CODE'
#include <patchpoint.hpp>
import keys;
static long product(long a, long b) { return a * b; }
int main()
{
	bool right = in_module(5) == 107 && in_template(5L) == 105 && combine(5, 6) == 11;
	patchpoint::transaction change;
	change.set(limit, 7).set(combine, product);
	right = right && !change.commit() && in_module(5) == 17 && in_template(5L) == 12 && combine(5, 6) == 30;
	right = right && !tracing.set(true) && in_module(5) == -5 && in_template(5L) == -5;
	return right ? 0 : 1;
}
CODE
flags=(-std=c++20 -O2 -Wall -Wextra -Werror -pthread -I"$include")
tried=0
for version in '' -15 -16 -17 -18 -19 -20 -21 -22; do
    for name in clang++ g++; do
        compiler=$name$version
        command -v "$compiler" >/dev/null || continue
        major=$("$compiler" -dumpversion | cut -d. -f1)
        case $name in
        clang++)
            [ "$major" -ge 16 ] || continue
            "$compiler" "${flags[@]}" --precompile keys.cppm -o keys.pcm
            "$compiler" "${flags[@]}" -fmodule-file=keys=keys.pcm main.cpp keys.pcm "$library" -o program
            ;;
        g++)
            [ "$major" -ge 15 ] || continue
            "$compiler" "${flags[@]}" -fmodules -x c++ -c keys.cppm -o keys.o
            "$compiler" "${flags[@]}" -fmodules main.cpp keys.o "$library" -o program
            ;;
        esac
        ./program || { echo "a program of $compiler saw a wrong key"; exit 1; }
        tried=$((tried + 1))
    done
done
[ $tried -gt 0 ] || echo "SKIPPED: no compiler here that makes named modules (clang++ 16, g++ 15)" >&2
