#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random programs around sites: what a compiler makes of them must do what plain C does.

Each program has variables that only operations change, operations that are trivial or contain sites themselves, functions
with sites among live values of every kind, and changes of keys in between. It is compiled once without sites (-O0,
PATCHPOINT_PORTABLE), which says what it must print, and then by each compiler at random flags with sites.

Usage: programs.py --seeds N [--first N] [--seconds S] [--compilers gcc,clang] [--keep FOLDER] LIBRARY-SOURCES-FOLDER
Exits with 1 when a program printed something else; its seed, flags and source are kept.
"""

import os
import random
import subprocess
import sys
import tempfile

from fuzzer import Fuzzer, compile_library

WORDS = ["int", "long", "unsigned", "unsigned char", "short", "signed char", "unsigned short", "uint64_t", "bool"]
REALS = ["double", "float"]
LEVELS = ["-O0", "-O1", "-O1", "-O2", "-O2", "-O3", "-Os"]
FLAGS = {
    "any": ["-fPIC", "-fno-pic -no-pie", "-fno-omit-frame-pointer", "-flto", "-fcf-protection=full", "-march=x86-64-v3",
            "-fno-inline", "-ffunction-sections", "-fstack-protector-all", "-masm=intel"],
    "gcc": ["-fipa-pta", "-fno-toplevel-reorder", "-fwhole-program", "-fno-tree-vectorize", "-fshrink-wrap-separate"],
    "clang": ["-fno-vectorize", "-mllvm -enable-ipra"],
}


class Program:
    """One random program; `text` is its source."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.statics = [f"s{i}" for i in range(self.random.randint(2, 5))]
        self.calls, self.values, self.branches, self.switches = [], [], [], []
        self.make()
        self.text = "\n".join(self.lines) + "\n"

    def out(self, line):
        self.lines.append(line)

    def pick(self, *choices):
        return self.random.choice(choices)

    def chance(self, share):
        return self.random.random() < share

    # All results are computed in unsigned arithmetic, which has no undefined results.
    def word(self, names, depth=0):
        choice = self.random.randint(0, 9)
        if depth > 2 or choice < 3:
            return self.pick(*names, *self.statics, str(self.random.randint(0, 300)) + "u")
        a, b = self.word(names, depth + 1), self.word(names, depth + 1)
        if choice < 8:
            return f"({a} {self.pick('+', '-', '*', '^', '&', '|')} {b})"
        if choice == 8:
            return f"({a} >> {self.random.randint(1, 5)})"
        return f"({a} > {b} ? {a} : {b} + 1u)"

    def real(self, names):
        return self.pick(*names, "0.5", "2.0", "(double)(s0 & 15u)") + self.pick("", " + 1.0", " * 0.25")

    def argument(self, kind, words, reals):
        return f"({kind})({self.real(reals) if kind in REALS else self.word(words)})"

    def site(self, words, reals, below):
        """A statement that executes a site of a call key below a number, or of another key; it changes x."""
        choice = self.random.randint(0, 9)
        if choice < 5 and below > 0:
            number = self.random.randrange(below)
            result, arguments = self.calls[number]
            saved = "_saved" if self.chance(0.3) else ""
            listed = "".join(f", {self.argument(kind, words, reals)}" for kind in arguments)
            call = f"patchpoint_call{saved}(c{number}{listed})"
            if result == "void":
                return f"{call};"
            return f"x += (unsigned){call};" if result not in REALS else f"x += (unsigned)(long)({call} * 8);"
        if choice < 7:
            return f"x ^= (unsigned)patchpoint_value(v{self.random.randrange(len(self.values))});"
        if choice < 9:
            how = self.pick("likely", "unlikely")
            return f"if (patchpoint_{how}(b{self.random.randrange(len(self.branches))})) x += {self.word(words)};"
        number = self.random.randrange(len(self.switches))
        cases = " ".join(f"case {way}: x += {self.word(words)}; break;" for way in range(self.switches[number]))
        return f"switch (patchpoint_switch(w{number})) {{ {cases} }}"

    def operation(self, number, version):
        result, arguments = self.calls[number]
        names = [f"a{i}" for i in range(len(arguments))]
        words = [f"(unsigned)a{i}" for i, kind in enumerate(arguments) if kind not in REALS]
        reals = [f"(double)a{i}" for i, kind in enumerate(arguments) if kind in REALS]
        parameters = ", ".join(f"{kind} {name}" for kind, name in zip(arguments, names)) or "void"
        body = [f"(void){name};" for name in names]
        shape = self.random.randint(0, 5)
        if shape >= 2:
            body.append("unsigned x = 1;")
            if shape >= 4:
                body.append(self.site(words, reals, number))
            for _ in range(self.random.randint(0, 2)):
                body.append(f"{self.pick(*self.statics)} += {self.word(words + ['x'])};")
            body.append("(void)x;")
        if result != "void":
            if shape == 0 and arguments:
                body.append(f"return ({result}){self.pick(*names)};")
            elif shape <= 1:
                body.append(f"return ({result}){self.random.randint(0, 100)};")
            elif result in REALS:
                body.append(f"return ({result})({self.real(reals)} + (double)(x & 1023u));")
            else:
                body.append(f"return ({result})({self.word(words + ['x'])});")
        inline = self.pick("", "", "__attribute__((noinline)) ")
        self.out(f"{inline}static {result} o{number}_{version}({parameters}) {{ {' '.join(body)} }}")

    def function(self, number):
        words = ["a", "b", "x", "(unsigned)l[a & 3u]"]
        body = ["unsigned x = a + b;", "volatile unsigned l[4] = {a, b, 3, 4};", "double d = (double)(a & 63u);"]
        for _ in range(self.random.randint(2, 6)):
            statement = self.site(words, ["d"], len(self.calls))
            if self.chance(0.2):
                statement = f"for (unsigned i = 0; i < {self.random.randint(1, 4)}u; i++) {{ {statement} x += i; }}"
            body.append(statement)
            if self.chance(0.4):
                body.append(f"{self.pick(*self.statics)} ^= {self.word(words)};")
            if self.chance(0.3):
                body.append(f"l[{self.random.randint(0, 3)}] += x;")
        body.append("return x + l[0] + l[3] + (unsigned)(long)(d * 4);")
        inline = self.pick("__attribute__((noinline)) ", "__attribute__((noinline)) ", "")
        self.out(f"{inline}static unsigned f{number}(unsigned a, unsigned b) {{ {' '.join(body)} }}")

    def change(self, number):
        choice = self.random.randint(0, 3)
        if choice == 0:
            key = self.random.randrange(len(self.calls))
            return f"patchpoint_set_call(c{key}, o{key}_{self.random.randint(0, 2)});"
        if choice == 1:
            key = self.random.randrange(len(self.values))
            return f"patchpoint_set_value(v{key}, ({self.values[key]}){self.random.randint(0, 1 << 40)}u);"
        if choice == 2:
            return f"patchpoint_set_branch(b{self.random.randrange(len(self.branches))}, {number & 1});"
        key = self.random.randrange(len(self.switches))
        return f"patchpoint_set_switch(w{key}, {self.random.randrange(self.switches[key])});"

    def make(self):
        self.out("#include <patchpoint.h>\n#include <stdio.h>")
        for name in self.statics:
            self.out(f"static unsigned {name} = {self.random.randint(0, 9)};")
        self.calls = [(self.pick("void", *WORDS, *REALS), [self.pick(*WORDS, *WORDS, *REALS)
                      for _ in range(self.random.randint(0, 6))]) for _ in range(self.random.randint(2, 5))]
        self.values = [self.pick(*WORDS) for _ in range(2)]
        self.branches = [0, 1]
        self.switches = [self.random.randint(2, 8) for _ in range(2)]
        for i, (result, arguments) in enumerate(self.calls):
            self.out(f"PATCHPOINT_DECLARE_CALL({', '.join([f'c{i}', result] + arguments)});")
        for i, kind in enumerate(self.values):
            self.out(f"PATCHPOINT_DECLARE_VALUE(v{i}, {kind}); PATCHPOINT_DEFINE_VALUE(v{i}, {kind}, {i + 1});")
        for i in self.branches:
            self.out(f"PATCHPOINT_DECLARE_BRANCH(b{i}); PATCHPOINT_DEFINE_BRANCH(b{i}, {i});")
        for i, ways in enumerate(self.switches):
            self.out(f"PATCHPOINT_DECLARE_SWITCH(w{i}, {ways}); PATCHPOINT_DEFINE_SWITCH(w{i}, {ways}, {i});")
        for number in range(len(self.calls)):
            for version in range(3):
                self.operation(number, version)
            self.out(f"PATCHPOINT_DEFINE_CALL(c{number}, o{number}_0); PATCHPOINT_DEFINE_SAVED(c{number});")
        functions = self.random.randint(2, 4)
        for number in range(functions):
            self.function(number)
        self.out("int main(void) { unsigned sum = 0; int error = 0;")
        start = self.random.randint(0, 12)
        for i in range(12):
            if i == start:
                self.out("error |= patchpoint_init();")
            before = self.pick(*self.statics)
            self.out(f"{{ unsigned before = {before}; sum = sum * 31 + f{i % functions}({i}u, sum); "
                     f"sum += {before} - before; }}")
            if self.chance(0.7):
                self.out(f"error |= {self.change(i)}")
        self.out(f'printf("%u %d {" ".join(["%u"] * len(self.statics))}\\n", sum, error, {", ".join(self.statics)});')
        self.out("return 0; }")


def flags_for(chooser, compiler):
    family = "clang" if "clang" in os.path.basename(compiler) else "gcc"
    chosen = [chooser.choice(LEVELS)]
    for flag in FLAGS["any"] + FLAGS[family]:
        if chooser.random() < 0.15:
            chosen += flag.split()
    return chosen


def build_and_run(command, program):
    built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if built.returncode != 0:
        return "does not compile: " + built.stdout.decode(errors="replace")[:2000]
    try:
        ran = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return "does not end"
    return f"{ran.stdout.decode(errors='replace')}status {ran.returncode}"


def main():
    fuzzer = Fuzzer(__doc__, "seeds")
    compilers, sources = fuzzer.compilers, fuzzer.given.sources
    tried = wrong = 0
    with tempfile.TemporaryDirectory() as place:
        # The library is compiled once in each form; it has tests of its own.
        objects = {form: compile_library(sources, place, compilers[0], form) for form in ("portable", "native")}
        for seed in fuzzer.numbers():
            source, program = os.path.join(place, "program.c"), os.path.join(place, "program")
            with open(source, "w", encoding="utf-8") as file:
                file.write(Program(seed).text)
            base = ["-std=gnu11", "-w", f"-I{sources}/include", source, "-o", program, "-pthread"]
            wanted = build_and_run([compilers[0], "-O0", "-DPATCHPOINT_PORTABLE", *base, *objects["portable"]], program)
            chooser = random.Random(seed)
            for compiler in compilers:
                flags = flags_for(chooser, compiler)
                found = build_and_run([compiler, *flags, *base, *objects["native"]], program)
                tried += 1
                if found != wanted:
                    wrong += 1
                    print(f"seed {seed}, {compiler} {' '.join(flags)}: printed\n{found}\ninstead of\n{wanted}")
                    fuzzer.keep(source, f"program-{seed}.c")
    print(f"programs: {tried} tried, {wrong} wrong, in {fuzzer.seconds():.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
