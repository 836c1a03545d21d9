#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random functions, called directly and through a site that a change made of them: both must do the same.

Most functions are small enough to be recognised (a constant, an argument, a load, a store, a sum), some nearly so. A compiler
makes them at random flags; a driver sets each as the target of a key of its type, calls it both ways with the same arguments
on the same memory, and compares the result and the memory.

Usage: functions.py --seeds N [--first N] [--seconds S] [--compilers gcc,clang] [--keep FOLDER] LIBRARY-SOURCES-FOLDER
Exits with 1 when a site did something else; the seed, flags and source are kept.
"""

import os
import random
import re
import subprocess
import sys
import tempfile

from fuzzer import Fuzzer, compile_library

FUNCTIONS = 60
SHAPES = [
    ("void", ["long *", "long"]), ("int", ["int", "int"]), ("long", ["long", "long *", "int"]), ("bool", ["long *", "int"]),
    ("unsigned char", ["unsigned char", "unsigned short", "long"]), ("short", ["short *", "signed char"]),
    ("unsigned", ["unsigned", "uint64_t", "unsigned *"]), ("uint64_t", ["uint64_t", "unsigned", "bool"]),
    ("long *", ["long *", "long *", "long"]), ("double", ["double", "long", "double"]), ("float", ["float", "int *"]),
    ("long", ["long", "long", "long", "long", "long", "long"]), ("int", []), ("void", []),
]
FLAGS = {
    "any": ["-fno-omit-frame-pointer", "-fcf-protection=full", "-march=x86-64-v3", "-fno-pic", "-fstack-protector-all", "-pg",
            "-ffunction-sections", "-fno-optimize-sibling-calls", "-fPIC", "-mno-red-zone", "-fzero-call-used-regs=all",
            "-fpatchable-function-entry=4", "-pg -mfentry", "-fno-asynchronous-unwind-tables", "-ftrapv", "-mlong-double-128"],
    "gcc": ["-mtune=bdver1", "-mtune=atom", "-mtune=k8", "-falign-functions=1", "-mfunction-return=thunk", "-fcallgraph-info",
            "-fharden-compares", "-finstrument-functions -DTRACED", "-mno-sse4 -mpush-args"],
    "clang": ["-mtune=atom", "-mtune=znver3", "-mretpoline", "-fsplit-stack", "-mstackrealign", "-fno-plt"],
}


def is_pointer(kind):
    return kind.endswith("*")


def is_real(kind):
    return kind in ("double", "float")


class Functions:
    """A file of random functions; `text` is its source and `table` the driver's list."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        lines = ["#include <stdbool.h>\n#include <stdint.h>",
                 "#ifdef TRACED\nvoid __attribute__((no_instrument_function)) __cyg_profile_func_enter(void *f, void *c) { (void)f, (void)c; }",
                 "void __attribute__((no_instrument_function)) __cyg_profile_func_exit(void *f, void *c) { (void)f, (void)c; }\n#endif"]
        self.shape_of = [self.random.randrange(len(SHAPES)) for _ in range(FUNCTIONS)]
        for number, shape in enumerate(self.shape_of):
            result, arguments = SHAPES[shape]
            listed = ", ".join(f"{kind} a{i}" for i, kind in enumerate(arguments)) or "void"
            lines.append(f"{result} f{number}({listed}) {{ {self.body(result, arguments)} }}")
        self.text = "\n".join(lines) + "\n"

    def pick(self, choices):
        return self.random.choice(choices)

    def number(self):
        return str(self.pick([0, 1, -1, 5, 127, 128, 255, 65535, 1 << 31, (1 << 32) - 1, 1 << 40, self.random.getrandbits(62)]))

    # All words are unsigned, so nothing overflows; shifts stay below the width.
    def word(self, words, pointers, depth=0):
        choice = self.random.randint(0, 9)
        if pointers and choice < 2:
            pointer = self.pick(pointers)
            return f"(uint64_t){pointer}[{self.pick([0, 0, 1, 3])}]"
        if words and choice < 6:
            return f"(uint64_t){self.pick(words)}"
        if choice == 6 or depth > 1:
            return f"(uint64_t){self.number()}L"
        left, right = self.word(words, pointers, depth + 1), self.word(words, pointers, depth + 1)
        return self.pick([f"({left} {self.pick(['+', '-', '&', '|', '^', '*'])} {right})", f"({left} {self.pick(['<<', '>>'])} {self.random.randint(1, 31)})",
                          f"(uint64_t)({left} == {right})", f"(uint64_t)({self.pick(['int', 'short', 'uint8_t'])}){left}"])

    def body(self, result, arguments):
        names = [(f"a{i}", kind) for i, kind in enumerate(arguments)]
        words = [name for name, kind in names if not is_pointer(kind) and not is_real(kind)]
        pointers = [name for name, kind in names if is_pointer(kind)]
        body = "".join(f"(void){name}; " for name, _ in names)
        if pointers and self.random.random() < 0.3:
            body += f"{self.pick(pointers)}[{self.pick([0, 0, 2])}] {self.pick(['=', '=', '+=', '^='])} {self.word(words, pointers)}; "
        if self.random.random() < 0.1:
            body += "__asm__ volatile(\"\" : : : \"memory\"); "
        if result == "void":
            return body
        same = [name for name, kind in names if kind == result]
        if same and self.random.random() < 0.5:
            return body + f"return {self.pick(same)};"
        if is_pointer(result):
            return body + f"return {self.pick(pointers)} + {self.pick([0, 1, 2])};"
        if is_real(result):
            return body + f"return {self.pick(same + ['0', '1', same[0] + ' + 1'])};"
        return body + f"return ({result}){self.word(words, pointers)};"

    def driver(self):
        """The program that compares: one key for each shape, its site in a function that keeps values in registers."""
        lines = ["#include <patchpoint.h>\n#include <stdio.h>\n#include <string.h>",
                 "static long memory[16], kept[16], after[16];",
                 "static uint64_t state = 88172645463325252u;",
                 # xorshift64 (Marsaglia 2003), biased to small numbers and limits.
                 "static uint64_t draw(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17;",
                 "switch (state >> 61) { case 0: return 0; case 1: return (uint64_t)-1; case 2: return state & 255;",
                 "case 3: return 1u << (state & 31); default: return state; } }",
                 "static void put(uint64_t *bits, const void *value, size_t size) { *bits = 0; memcpy(bits, value, size); }",
                 "static unsigned compared, recognised, wrong;"]
        for number, shape in enumerate(self.shape_of):
            result, arguments = SHAPES[shape]
            lines.append(f"{result} f{number}({', '.join(arguments) or 'void'});")
        for shape, (result, arguments) in enumerate(SHAPES):
            listed = ", ".join(arguments)
            names = [f"a{i}" for i in range(len(arguments))]
            parameters = ", ".join(f"{kind} {name}" for kind, name in zip(arguments, names)) or "void"
            passed = "".join(f", {name}" for name in names)
            lines.append(f"static {result} none{shape}({parameters}) "
                         f"{{ __asm__ volatile(\"pause\"); {'return 0;' if result != 'void' else ''} }}")
            lines.append(f"PATCHPOINT_DECLARE_CALL(k{shape}, {result}{', ' + listed if listed else ''});")
            lines.append(f"PATCHPOINT_DEFINE_CALL(k{shape}, none{shape});")
            lines.append(f"__attribute__((noinline)) static {result} site{shape}({parameters}) "
                         f"{{ {'return ' if result != 'void' else ''}patchpoint_call(k{shape}{passed}); }}")
            lines.append(f"static void compare{shape}(const char *name, {result} (*function)({parameters})) {{")
            lines.append(f"if (patchpoint_set_call(k{shape}, function) != 0) {{ printf(\"%s: not set\\n\", name); wrong++; return; }}")
            lines.append("for (int round = 0; round < 20; round++) { uint64_t one = 0, two = 0;")
            lines.append("for (int i = 0; i < 16; i++) kept[i] = (long)draw();")
            for name, kind in zip(names, arguments):
                value = f"({kind})&memory[draw() & 7]" if is_pointer(kind) else f"({kind})draw()"
                lines.append(f"{kind} {name} = {value};")
            call = ", ".join(names)
            lines.append("memcpy(memory, kept, sizeof memory);")
            if result == "void":
                lines.append(f"function({call}); memcpy(after, memory, sizeof memory); memcpy(memory, kept, sizeof memory); site{shape}({call});")
            else:
                lines.append(f"{result} r = function({call}); put(&one, &r, sizeof r); memcpy(after, memory, sizeof memory);")
                lines.append(f"memcpy(memory, kept, sizeof memory); r = site{shape}({call}); put(&two, &r, sizeof r);")
            lines.append("compared++; if (one != two || memcmp(memory, after, sizeof memory) != 0) { "
                         "printf(\"%s: %llx, directly %llx\\n\", name, (unsigned long long)two, (unsigned long long)one); wrong++; return; } }")
            lines.append("}")
        lines.append("static int count(const struct patchpoint_site_info *site, void *unused) { (void)unused; "
                     "recognised += strcmp(site->state, \"call\") != 0 && strcmp(site->state, \"data\") != 0; return 0; }")
        lines.append("int main(void) { if (patchpoint_init() != 0) return 3;")
        for number, shape in enumerate(self.shape_of):
            lines.append(f"compare{shape}(\"f{number}\", f{number}); patchpoint_site_iterate(count, NULL);")
            lines.append(f"patchpoint_set_call(k{shape}, none{shape});")
        lines.append('printf("%u comparisons, %u recognised, %u wrong\\n", compared, recognised, wrong); return wrong != 0; }')
        return "\n".join(lines) + "\n"


def flags_for(chooser, compiler):
    family = "clang" if "clang" in os.path.basename(compiler) else "gcc"
    chosen = [chooser.choice(["-O0", "-O1", "-O2", "-O2", "-O3", "-Os", "-Og"])]
    for flag in FLAGS["any"] + FLAGS[family]:
        if chooser.random() < 0.1:
            chosen += flag.split()
    return chosen


def main():
    fuzzer = Fuzzer(__doc__, "seeds")
    sources, compared, recognised, wrong, uncompiled = fuzzer.given.sources, 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as place:
        objects = compile_library(sources, place, fuzzer.compilers[0], "native")
        functions, driver, program = (os.path.join(place, name) for name in ("functions.c", "driver.c", "program"))
        for seed in fuzzer.numbers():
            drawn = Functions(seed)
            for path, text in ((functions, drawn.text), (driver, drawn.driver())):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            chooser = random.Random(seed)
            for compiler in fuzzer.compilers:
                flags = flags_for(chooser, compiler)
                made = subprocess.run([compiler, "-std=gnu11", "-w", *flags, "-c", functions, "-o", functions + ".o"],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                # Some flags exclude one another.
                if made.returncode != 0:
                    uncompiled += 1
                    continue
                built = subprocess.run([compiler, "-std=gnu11", "-w", "-O1", f"-I{sources}/include", driver, functions + ".o", *objects, "-no-pie",
                                        "-pthread", "-o", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                if built.returncode != 0:
                    uncompiled += 1
                    continue
                ran = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
                said = ran.stdout.decode(errors="replace")
                counts = re.search(r"^(\d+) comparisons, (\d+) recognised, (\d+) wrong$", said, re.MULTILINE)
                if counts:
                    compared += int(counts[1])
                    recognised += int(counts[2])
                if not counts or ran.returncode != 0:
                    wrong += 1
                    print(f"seed {seed}, {compiler} {' '.join(flags)}: status {ran.returncode}\n{said}")
                    fuzzer.keep(functions, f"functions-{seed}.c")
                    fuzzer.keep(driver, f"functions-{seed}-driver.c")
    print(f"functions: {compared} comparisons, {recognised} functions recognised, {wrong} files wrong, {uncompiled} not compiled "
          f"at their flags, in {fuzzer.seconds():.0f} s")
    return 1 if wrong or not recognised else 0


if __name__ == "__main__":
    sys.exit(main())
