#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Damaged ELF files through patchpoint-dump, which the address and undefined-behaviour sanitizers watch.

The header, program headers, dynamic section, relocations, notes, records and names of real programs are changed, cut or
exchanged. The tool must end in time, with an exit status that its manual names, and print no control characters; its JSON
must be JSON.

Usage: elf_files.py --files N [--first N] [--seconds S] [--compilers gcc] [--keep FOLDER] SOURCES-FOLDER ELF...
Exits with 1 when a file broke it; that file is kept.
"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile

from fuzzer import Fuzzer

STATUSES = (0, 3, 4, 5)
SANITIZED = 86
EDGES = [0, 1, 7, 8, 16, 24, 0x7F, 0xFF, 0x1000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
SECTIONS_OF_INTEREST = (".rela.dyn", ".dynamic", ".note", "patchpoint", ".data", ".rodata", ".symtab", ".strtab", ".dynsym")


def places(image):
    """Ranges of an image that the tool reads: (offset, length), each as likely as the others."""
    found = [(0, 64)]
    table, = struct.unpack_from("<Q", image, 32)
    count, = struct.unpack_from("<H", image, 56)
    found.append((table, 56 * count))
    sections, = struct.unpack_from("<Q", image, 40)
    number, names = struct.unpack_from("<HH", image, 60)
    if sections and number:
        found.append((sections, 64 * number))
        names_at, = struct.unpack_from("<Q", image, sections + 64 * names + 24)
        for i in range(number):
            name, kind = struct.unpack_from("<II", image, sections + 64 * i)
            offset, length = struct.unpack_from("<QQ", image, sections + 64 * i + 24)
            text = image[names_at + name:image.index(b"\0", names_at + name)].decode(errors="replace")
            if kind != 8 and length and any(word in text for word in SECTIONS_OF_INTEREST):
                found.append((offset, length))
    return [(offset, length) for offset, length in found if 0 < length <= len(image) - offset]


def damage(chooser, image, ranges):
    """A copy with one to six changes."""
    damaged = bytearray(image)
    for _ in range(chooser.randint(1, 6)):
        offset, length = chooser.choice(ranges)
        size = chooser.choice([1, 2, 4, 8, 8])
        at = offset + chooser.randrange(max(1, length // size)) * size
        if chooser.random() < 0.2:
            at = offset + chooser.randrange(length)
        if at + size > len(damaged):
            continue
        how = chooser.randint(0, 5)
        old = int.from_bytes(damaged[at:at + size], "little")
        if how == 0:
            value = chooser.choice(EDGES)
        elif how == 1:
            value = old + chooser.choice([-8, -1, 1, 2, 8, 24, 4096, -4096])
        elif how == 2:
            value = old ^ (1 << chooser.randrange(8 * size))
        elif how == 3:
            # A value that another field has.
            other, other_length = chooser.choice(ranges)
            other += chooser.randrange(max(1, other_length // 8)) * 8
            value = int.from_bytes(damaged[other:other + size], "little")
        elif how == 4:
            value = chooser.randrange(len(damaged))
        else:
            value = int.from_bytes(chooser.choice([b"\x1b[2J\n\r\t", b"\xe2\x80\xae\x07\x00", b"\xff\xfe\x80"])[:size], "little")
        damaged[at:at + size] = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    if chooser.random() < 0.1:
        del damaged[chooser.randrange(len(damaged)):]
    return bytes(damaged)


def fault(tool, path, as_json):
    """What is wrong with the tool's answer, or None."""
    try:
        ran = subprocess.run([tool, path] + (["--json"] if as_json else []), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20,
                             env=dict(os.environ, ASAN_OPTIONS=f"exitcode={SANITIZED}:detect_leaks=1", UBSAN_OPTIONS="halt_on_error=1"),
                             check=False)
    except subprocess.TimeoutExpired:
        return "does not end within 20 s"
    if ran.returncode not in STATUSES:
        return f"status {ran.returncode}\n{ran.stderr.decode(errors='replace')[:3000]}"
    for text in (ran.stdout, ran.stderr):
        if any(ord(letter) < 32 and letter != "\n" or 0x7F <= ord(letter) < 0xA0 or 0x202A <= ord(letter) <= 0x202E or 0x2066 <= ord(letter) <= 0x2069
               for letter in text.decode(errors="backslashreplace")):
            return f"control characters: {text[:2000]!r}"
    if as_json and ran.returncode == 0:
        try:
            json.loads(ran.stdout)
        except ValueError as error:
            return f"no JSON: {error}"
    return None


def main():
    fuzzer = Fuzzer(__doc__, "files", "elf")
    given, tried, wrong = fuzzer.given, 0, 0
    images = []
    for path in given.elf:
        with open(path, "rb") as file:
            images.append(file.read())
    ranges = [places(image) for image in images]
    with tempfile.TemporaryDirectory() as place:
        tool = os.path.join(place, "patchpoint-dump")
        parts = ["tools/patchpoint-dump.c", "tools/dump_image.c", "tools/dump_sites.c", "src/place.c", "src/null.c", "src/arch/x86_64.c",
                 "src/arch/x86_64_decode.c", "src/arch/x86_64_recognise.c"]
        built = subprocess.run([fuzzer.compilers[0], "-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined",
                                "-fno-sanitize-recover=all", f"-I{given.sources}/include",
                                *[os.path.join(given.sources, part) for part in parts], "-o", tool],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if built.returncode != 0:
            said = built.stdout.decode(errors="replace")
            if "cannot find" in said:
                sys.exit(f"SKIPPED: {fuzzer.compilers[0]} has no sanitizers here")
            sys.exit(f"elf_files.py: cannot compile patchpoint-dump: {said}")
        for image, path in zip(images, given.elf):
            problem = fault(tool, path, False)
            if problem:
                sys.exit(f"elf_files.py: {path} itself: {problem}")
        for number in fuzzer.numbers():
            chooser = random.Random(number)
            which = chooser.randrange(len(images))
            path = os.path.join(place, "damaged")
            with open(path, "wb") as file:
                file.write(damage(chooser, images[which], ranges[which]))
            problem = fault(tool, path, chooser.random() < 0.5)
            tried += 1
            if problem:
                wrong += 1
                print(f"file {number}, of {given.elf[which]}: {problem}")
                fuzzer.keep(path, f"damaged-{number}")
    print(f"elf_files: {tried} damaged files, {wrong} broke patchpoint-dump, in {fuzzer.seconds():.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
