# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the fuzzers share: their arguments, their numbered inputs, and the library compiled for the programs they make."""

import argparse
import os
import shutil
import subprocess
import sys
import time


class Fuzzer:
    """A run: `given` has the arguments, `compilers` those that are here, `name` the fuzzer's."""

    def __init__(self, doc, count, *more):
        """Reads the arguments; `count` names the option that bounds the inputs, `more` are positional ones behind the sources."""
        self.name = os.path.basename(sys.argv[0])
        parser = argparse.ArgumentParser(usage=doc.split("Usage: ")[1].split("\n")[0])
        parser.add_argument(f"--{count}", dest="count", type=int, default=50)
        parser.add_argument("--first", type=int, default=1)
        parser.add_argument("--seconds", type=float, default=1e9)
        parser.add_argument("--compilers", default="gcc,clang")
        parser.add_argument("--keep")
        parser.add_argument("sources")
        for name in more:
            parser.add_argument(name, nargs="+")
        self.given = parser.parse_args()
        self.compilers = [name for name in self.given.compilers.split(",") if shutil.which(name)]
        if not self.compilers:
            sys.exit(f"{self.name}: none of {self.given.compilers} is here; install one of them")
        self.start = time.monotonic()

    def numbers(self):
        """The numbers of the inputs, until there are enough or the time is over."""
        for number in range(self.given.first, self.given.first + self.given.count):
            if self.seconds() > self.given.seconds:
                return
            yield number

    def seconds(self):
        """The time since the start."""
        return time.monotonic() - self.start

    def keep(self, path, name):
        """Keeps an input that broke something, where a folder was named for it."""
        if self.given.keep:
            os.makedirs(self.given.keep, exist_ok=True)
            shutil.copy(path, os.path.join(self.given.keep, name))


def compile_library(sources, place, compiler, form):
    """Compiles the library's sources; `form` is "native" or "portable". Returns the objects' paths below `place`."""
    source = os.path.join(sources, "src")
    arch = os.path.join(source, "arch")
    files = [os.path.join(source, name) for name in sorted(os.listdir(source)) if name.endswith(".c")]
    prefix = "x86_64" if form == "native" else "portable"
    files += [os.path.join(arch, name) for name in sorted(os.listdir(arch)) if name.startswith(prefix) and name.endswith(".c")]
    defined = [] if form == "native" else ["-DPATCHPOINT_PORTABLE"]
    folder = os.path.join(place, form)
    os.mkdir(folder)
    objects = []
    for file in files:
        objects.append(os.path.join(folder, os.path.basename(file) + ".o"))
        subprocess.run([compiler, "-std=c11", "-O2", "-fPIC", f"-I{os.path.join(sources, 'include')}", *defined, "-c", file,
                        "-o", objects[-1]], check=True)
    return objects
