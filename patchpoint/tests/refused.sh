#!/usr/bin/env bash
# A type that a call or a value cannot carry does not compile, and the message says so. Other types compile without a warning.
# Arguments: the C compiler, the C++ compiler; then flags, such as -DPATCHPOINT_PORTABLE.
set -euo pipefail
cc=$1 cxx=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failed=0 refused=0 taken=0

# compile LANGUAGE SOURCE: returns 0 if SOURCE compiles without a warning; messages are in $place/log. LANGUAGE: c, c++ or typed,
# which is C++ with patchpoint.hpp. The header is compiled once, since the standard's headers take longer than a source.
compile() {
    local compiler=("$cc" -std=c11 -x c -include "$place/plain.h")
    case $1 in
    c++) compiler=("$cxx" -std=c++17 -x c++ -include "$place/plain.h") ;;
    typed) compiler=("$cxx" -std=c++17 -x c++ -include "$place/typed.hpp") ;;
    esac
    printf '%s\n' "$2" >"$place/source"
    "${compiler[@]}" "${strict[@]}" "${flags[@]}" -c -o "$place/object" "$place/source" >"$place/log" 2>&1
}
strict=(-Wall -Wextra -Wpedantic -Werror -O1 -I"$here/../include")
flags=("$@")
echo '#include <patchpoint.h>' >"$place/plain.h"
printf '#include <%s>\n' patchpoint.h patchpoint.hpp >"$place/typed.hpp"
"$cxx" -std=c++17 -x c++-header "${strict[@]}" "${flags[@]}" -o "$place/typed.hpp.gch" "$place/typed.hpp"

# refuse LANGUAGE MESSAGE SOURCE
refuse() {
    refused=$((refused + 1))
    if compile "$1" "$3"; then
        echo "compiled ($1): $3"
        failed=1
    elif ! grep -q "error.*$2" "$place/log"; then
        echo "refused with another message ($1): $3"
        grep error "$place/log" | head -3
        failed=1
    fi
}

# take LANGUAGE SOURCE
take() {
    taken=$((taken + 1))
    if ! compile "$1" "$2"; then
        echo "not compiled ($1): $2"
        head -5 "$place/log"
        failed=1
    fi
}

for language in c c++; do
    refuse $language 'patchpoint: an operation of any types has at most 12' 'PATCHPOINT_DECLARE_CALL_ANY(k, int, int, int, int, int, int, int, int, int, int, int, int, int, int);'
    refuse $language 'few arguments\|no matching' 'struct s { long a, b; }; PATCHPOINT_DECLARE_CALL_ANY(k, int, int, struct s); int f(void); int f(void) { return patchpoint_call(k, 1); }'
    take $language 'struct s { long a, b; float c; }; PATCHPOINT_DECLARE_CALL_ANY(k, struct s, struct s, long double, int, int, int, int, int, int); struct s f(struct s x); struct s f(struct s x) { return patchpoint_call(k, x, 1.5L, 1, 2, 3, 4, 5, 6); }'
    carried='patchpoint: arguments and results are'
    valued='patchpoint: a value is'
    refuse $language "$carried" 'struct s { float a; }; PATCHPOINT_DECLARE_CALL(k, void, struct s);'
    refuse $language "$carried" 'struct s { long a; }; PATCHPOINT_DECLARE_CALL(k, struct s);'
    refuse $language "$carried" 'struct s { long a, b; }; PATCHPOINT_DECLARE_CALL(k, int, int, struct s, int);'
    refuse $language "$carried" 'union u { int a; float b; }; PATCHPOINT_DECLARE_CALL(k, void, union u);'
    refuse $language "$carried" 'PATCHPOINT_DECLARE_CALL(k, void, long double);'
    refuse $language "$carried" 'PATCHPOINT_DECLARE_CALL(k, long double);'
    refuse $language "$carried" '__extension__ typedef __int128 wide; PATCHPOINT_DECLARE_CALL(k, wide, int);'
    refuse $language "$carried" '__extension__ typedef double _Complex two; PATCHPOINT_DECLARE_CALL(k, void, two);'
    refuse $language "$carried" 'typedef float v __attribute__((vector_size(8))); PATCHPOINT_DECLARE_CALL(k, void, v);'
    refuse $language "$carried" 'typedef float v __attribute__((vector_size(16))); PATCHPOINT_DECLARE_CALL(k, v);'
    refuse $language 'patchpoint: an operation has at most 6 arguments' \
        'PATCHPOINT_DECLARE_CALL(k, void, int, int, int, int, int, int, int);'
    refuse $language 'patchpoint: an operation has at most 6 arguments' \
        'PATCHPOINT_DECLARE_CALL(k, void, int, int, int, int, int, int, int, int, int, int, int, int);'
    refuse $language 'patchpoint: give the key' 'PATCHPOINT_DECLARE_CALL(k);'
    refuse $language 'patchpoint_inc_k' 'PATCHPOINT_DECLARE_VALUE(k, int); int f(void); int f(void) { return patchpoint_branch_inc(k); }'
    refuse $language "$valued" 'PATCHPOINT_DECLARE_VALUE(k, double);'
    refuse $language "$valued" 'PATCHPOINT_DECLARE_VALUE(k, float);'
    refuse $language "$valued" 'struct s { int a; }; PATCHPOINT_DECLARE_VALUE(k, struct s);'
    refuse $language "$valued" '__extension__ typedef __int128 wide; PATCHPOINT_DECLARE_VALUE(k, wide);'
    refuse $language 'patchpoint: a switch has 2 to 8 ways' 'PATCHPOINT_DECLARE_SWITCH(k, 1);'
    refuse $language 'patchpoint: a switch has 2 to 8 ways' 'PATCHPOINT_DECLARE_SWITCH(k, 9);'
    refuse $language 'patchpoint: the ways of a switch' 'PATCHPOINT_DECLARE_SWITCH(k, 3); PATCHPOINT_DEFINE_SWITCH(k, 3, 3);'
    variants='PATCHPOINT_DECLARE_BRANCH(a); PATCHPOINT_DECLARE_SWITCH(b, 8); PATCHPOINT_DECLARE_SWITCH(c, 3); PATCHPOINT_DECLARE_VALUE(v, int); PATCHPOINT_DECLARE_CALL(k, long, long, char); PATCHPOINT_DECLARE_CALL(n, void);'
    refuse $language 'patchpoint: the keys of variants have at most 16' "$variants PATCHPOINT_DEFINE_VARIANTS(k, long, (long, x, char, y), b, c) { return x + y; }"
    refuse $language 'patchpoint: variants depend on branches and switches' "$variants PATCHPOINT_DEFINE_VARIANTS(k, long, (long, x, char, y), a, v) { return x + y; }"
    refuse $language 'patchpoint: variants depend on branches and switches' "$variants PATCHPOINT_DEFINE_VARIANTS(k, long, (long, x, char, y), n) { return x + y; }"
    refuse $language 'patchpoint: variants depend on 1 to 4 keys' "$variants PATCHPOINT_DEFINE_VARIANTS(n, void, (void)) {}"
    refuse $language 'patchpoint: variants depend on 1 to 4 keys' "$variants PATCHPOINT_DEFINE_VARIANTS(n, void, (void), a, a, a, a, a) {}"
    refuse $language 'patchpoint: the arguments of variants are' "$variants PATCHPOINT_DEFINE_VARIANTS(k, long, (long, x, char), a) { return x; }"
    refuse $language 'patchpoint: variants have the result' "$variants PATCHPOINT_DEFINE_VARIANTS(k, long, (long, x, int, y), a) { return x + y; }"
    refuse $language 'patchpoint: variants have the result' "$variants PATCHPOINT_DEFINE_VARIANTS(n, int, (void), a) { return 1; }"
    refuse $language 'patchpoint_ways_missing\|patchpoint_answer_missing' "$variants PATCHPOINT_DEFINE_VARIANTS(n, void, (void), missing) {}"
    refuse $language 'read-only\|const' "$variants PATCHPOINT_DEFINE_VARIANTS(n, void, (void), a) { a = true; }"
    take $language "$variants PATCHPOINT_DEFINE_VARIANTS(k, long, (long, x, char, y), a, b) { return x + y + a + (long)b; } PATCHPOINT_DEFINE_VARIANTS(n, void, (void), c) {} long f(void); long f(void) { patchpoint_call(n); return patchpoint_call(k, 1, 'x'); }"
    # Arguments are checked as for any function: too few, too many, of another kind.
    refuse $language 'few arguments\|no matching' 'PATCHPOINT_DECLARE_CALL(k, int, int, int); int f(void); int f(void) { return patchpoint_call(k, 1); }'
    refuse $language 'many arguments\|no matching' 'PATCHPOINT_DECLARE_CALL(k, int, int); int f(void); int f(void) { return patchpoint_call(k, 1, 2); }'
    refuse $language '' 'PATCHPOINT_DECLARE_CALL(k, int, int); long g(long); int f(void); int f(void) { return patchpoint_set_call(k, g); }'
    refuse $language '' 'PATCHPOINT_DECLARE_CALL(k, int, char *); int f(int *p); int f(int *p) { return patchpoint_call(k, p); }'
    take $language 'PATCHPOINT_DECLARE_CALL(k, int, int (*)(int), int[3], const char *const); int f(int (*g)(int)); int f(int (*g)(int)) { int a[3] = {1, 2, 3}; return patchpoint_call(k, g, a, "x"); }'
    take $language 'typedef void (*callback)(void *); PATCHPOINT_DECLARE_CALL(k, callback, callback); callback f(callback g); callback f(callback g) { return patchpoint_call(k, g); }'
    take $language 'enum e { A, B }; PATCHPOINT_DECLARE_CALL(k, enum e, enum e); PATCHPOINT_DECLARE_VALUE(v, enum e); int f(void); int f(void) { return patchpoint_call(k, A) == patchpoint_value(v); }'
    take $language 'PATCHPOINT_DECLARE_CALL(saved_x, int); PATCHPOINT_DECLARE_CALL(x, long, int); PATCHPOINT_DECLARE_CALL(words_x, int); PATCHPOINT_DECLARE_CALL(reals_x, double); PATCHPOINT_DECLARE_VALUE(value_x, int);'
    take $language 'struct patchpoint_status s; int f(void); int f(void) { struct patchpoint_txn t; return patchpoint_status(&s) + patchpoint_txn_begin(&t); }'
done
refuse c++ 'patchpoint: arguments and results are' 'PATCHPOINT_DECLARE_CALL(k, void, int &);'
refuse c++ 'patchpoint: arguments and results are' 'PATCHPOINT_DECLARE_CALL(k, const int &);'
refuse c++ 'patchpoint: arguments and results are' 'struct s { s(const s &); int a; }; PATCHPOINT_DECLARE_CALL(k, void, s);'
refuse c++ 'patchpoint: arguments and results are' 'struct s { int f(); }; using m = int (s::*)(); PATCHPOINT_DECLARE_CALL(k, void, m);'
take c++ 'struct s { s(const s &); int a; }; PATCHPOINT_DECLARE_CALL_ANY(k, int &, int &, const s &, s); int &f(int &a, const s &b); int &f(int &a, const s &b) { return patchpoint_call(k, a, b, b); }'
take c++ 'patchpoint_status s; int f(); int f() { return patchpoint_status(&s) + (s.fallback ? 1 : 0); }'
take c++ 'enum class e : unsigned char { A }; PATCHPOINT_DECLARE_CALL(k, e, e, char16_t, char32_t, wchar_t, decltype(nullptr)); PATCHPOINT_DECLARE_VALUE(v, e); bool f(); bool f() { return patchpoint_call(k, e::A, u'"'x'"', U'"'x'"', L'"'x'"', nullptr) == patchpoint_value(v); }'
take c++ 'namespace n { PATCHPOINT_DECLARE_BRANCH(b); template <class T> T f(T a) { return patchpoint_unlikely(b) ? a : T(); } int g(); int g() { return f(1); } }'
# patchpoint.hpp.
refuse typed 'patchpoint: arguments and results are' 'struct s { long a; }; extern patchpoint::call<void(s)> k; void f() { k.set(nullptr); }'
refuse typed 'patchpoint: arguments and results are' 'extern patchpoint::call<long double()> k; auto f() { return k.load(); }'
refuse typed 'patchpoint: arguments and results are' 'extern patchpoint::call<void(int &)> k; auto f() { return k.load(); }'
refuse typed 'patchpoint: an operation has at most 6' 'extern patchpoint::call<void(int, int, int, int, int, int, int)> k; auto f() { return k.load(); }'
refuse typed 'patchpoint: the type of a call' 'extern patchpoint::call<int *> k; auto f() { return k.load(); }'
refuse typed 'patchpoint: a value is' 'extern patchpoint::value<double> k; auto f() { return k.load(); }'
refuse typed 'patchpoint: a switch has 2 to 8 ways' 'extern patchpoint::switch_<9> k; auto f() { return k.load(); }'
refuse typed 'patchpoint: the ways of a switch are integers' 'extern patchpoint::switch_<3, float> k; auto f() { return k.load(); }'
body='struct body { static constexpr char name[] = "k"; template <bool x> static int run(int a) { return a + x; } };'
refuse typed 'patchpoint: variants depend on 1 to 4 keys' "$body inline constexpr patchpoint::variants<body> k; int f() { return k(1); }"
refuse typed 'patchpoint: variants depend on branches and switches' "$body inline patchpoint::value<int> v{\"v\", 1}; inline constexpr patchpoint::variants<body, v> k; int f() { return k(1); }"
refuse typed 'patchpoint: the keys of variants have at most 16' 'struct body { static constexpr char name[] = "k"; template <unsigned x, unsigned y> static int run(int a) { return a; } }; inline patchpoint::switch_<5> v{"v"}; inline constexpr patchpoint::variants<body, v, v> k; int f() { return k(1); }'
take typed "$body inline patchpoint::branch b{\"b\"}; inline constexpr patchpoint::variants<body, b> k; int f(); int f() { return k.load()(1); }"
refuse typed 'no_such_way\|ways of a switch' 'patchpoint::switch_<3> k{"k", 3};'
refuse typed '' 'patchpoint::call<int(int)> k{"k", [](long a) { return a; }};'
refuse typed '' 'int g(int); extern patchpoint::call<int(int) noexcept> k; auto f() { return k.set(g); }'
refuse typed '' 'extern patchpoint::value<int> k; auto f() { return k.set("text"); }'
refuse typed 'deleted' 'patchpoint::branch a{"a"}; patchpoint::branch b = a;'
refuse typed 'nodiscard\|warn_unused' 'extern patchpoint::branch k; void f(); void f() { k.set(true); }'
take typed 'extern patchpoint::call<int(int)> k; std::error_code f(); std::error_code f() { return k.set([](int a) { return -a; }); }'
take typed 'template <class T> patchpoint::value<T> k{"k", T()}; int f(); int f() { return patchpoint::site<k<int>> + static_cast<int>(k<short>.load()); }'
# In all other builds a member is a load, which needs no key at compile time.
if [[ " $* " != *PORTABLE* && $("$cxx" -dumpmachine) == x86_64* ]]; then
    refuse typed 'impossible constraint\|invalid operand' 'bool f(patchpoint::branch &k); bool f(patchpoint::branch &k) { return k.unlikely(); }'
fi
take typed 'bool f(patchpoint::branch &k); bool f(patchpoint::branch &k) { return k.load(); }'
# Warnings that strict projects ask for.
for language in c c++; do
    flags=("$@" -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wundef -Wmissing-declarations)
    if [ $language = c++ ]; then flags+=(-Wold-style-cast); fi
    take $language '
        PATCHPOINT_DECLARE_BRANCH(y); PATCHPOINT_DEFINE_BRANCH(y, true); PATCHPOINT_DECLARE_CALL(z, int, short); PATCHPOINT_DEFINE_VARIANTS(z, int, (short, s), y) { return y ? s : -s; }
        PATCHPOINT_DECLARE_CALL(a, double, long, float, short); PATCHPOINT_DECLARE_CALL(b, void); PATCHPOINT_DECLARE_VALUE(c, short);
        PATCHPOINT_DECLARE_VALUE(d, const char *); PATCHPOINT_DECLARE_BRANCH(e); PATCHPOINT_DECLARE_SWITCH(f, 3);
        static double g(long x, float y, short z) { (void)x; (void)y; (void)z; return 1; } static void h(void) {}
        PATCHPOINT_DEFINE_CALL_OR(a, g, ZERO); PATCHPOINT_DEFINE_SAVED(a); PATCHPOINT_DEFINE_CALL(b, h);
        PATCHPOINT_DEFINE_VALUE(c, short, -1); PATCHPOINT_DEFINE_VALUE(d, const char *, "x"); PATCHPOINT_DEFINE_BRANCH(e, true);
        PATCHPOINT_DEFINE_SWITCH(f, 3, 1); struct holder { struct patchpoint_key k; }; PATCHPOINT_DECLARE_HOLDER(struct holder, o, [2]);
        PATCHPOINT_DEFINE_HOLDER(struct holder, o, [2]) = {{PATCHPOINT_BRANCH_INIT("0", false)}, {PATCHPOINT_VALUE_INIT("1", int, 1)}};
        PATCHPOINT_DECLARE_BRANCH_IN(o0, o, [0].k);
        int all(short x); int all(short x) { patchpoint_call(b); struct patchpoint_txn t; return patchpoint_txn_begin(&t) +
            (patchpoint_call(a, 1, 2.0f, x) > 1 && patchpoint_call_saved(a, 1, 2.0f, x) > 2) + patchpoint_value(c) +
            *patchpoint_value(d) + patchpoint_likely(e) + patchpoint_unlikely(o0) + (patchpoint_switch(f) == 2u) +
            patchpoint_set_call(a, g) + patchpoint_set_value(c, x) + patchpoint_set_value(d, "y") + patchpoint_set_branch(e, false) +
            patchpoint_txn_set_switch(&t, f, 1) + patchpoint_set_branch(o0, true); }'
done
echo "refused: $refused sources refused, $taken taken by $cc and $cxx"
exit $failed
