#!/usr/bin/env python3
"""Changes hostile files at random and gives each to the commands of opcost that read it: bits flipped, bytes replaced, cut, repeated
and moved, in packed files also below the packing. opcost must end by itself, without a crash, within the time, and within twice the
limit of memory that it was given. Usage: fuzz/mutations.py OPCOST [--mutations N] [--seed N] [--mebibytes N] [--only FILE,...]
Prints a line for each file: its runs, how many were accepted, the longest time and the most memory. Needs cc, objcopy and zstd.
"""

import argparse
import gzip
import json
import os
import pathlib
import random
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

HEAD = b"opcost-recording 1\n"
# The samples of profiles' formats that have no larger file below.
SAMPLED = {".cpuprofile", ".heap", ".heapprofile", ".json", ".out", ".prof", ".pstats", ".txt", ".xml", ".xz", ".zst"}
# No process has this number, and a map of just-in-time compiled code is named by it.
NOBODY = 2_000_000_000 + os.getpid()
PIECES = [b"\0", b"\xff\xff\xff\xff", b"[", b"{", b'"', b"\n", b";", b",", b"1e999", b"-1", b"18446744073709551616", b"\xe2\x80\xae"]


def zstd(data, *options):
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, stdout=subprocess.PIPE, check=True).stdout


class Commands:
    """Runs commands from a process of its own: what a child used most counts from the memory of who began it."""

    def __init__(self, home, seconds):
        ask, self.asks = os.pipe()
        self.answers, answer = os.pipe()
        if os.fork() == 0:
            os.close(self.asks)
            os.close(self.answers)
            with os.fdopen(ask) as lines, os.fdopen(answer, "w") as out:
                for line in lines:
                    out.write(json.dumps(self.one(json.loads(line), home, seconds)) + "\n")
                    out.flush()
            os._exit(0)
        os.close(ask)
        os.close(answer)
        self.asks = os.fdopen(self.asks, "w")
        self.answers = os.fdopen(self.answers)

    @staticmethod
    def one(command, home, seconds):
        environment = {"HOME": home, "PATH": os.environ["PATH"], "TMPDIR": home}
        with open(f"{home}/errors", "w+b") as errors:
            begun = time.monotonic()
            child = subprocess.Popen(command, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=errors, start_new_session=True)
            signal.signal(signal.SIGALRM, lambda *_: os.killpg(child.pid, signal.SIGKILL))
            signal.alarm(seconds)
            _, status, used = os.wait4(child.pid, 0)
            signal.alarm(0)
            child.returncode = status
            errors.seek(0)
            text = errors.read(1 << 16).decode(errors="replace")
        return os.waitstatus_to_exitcode(status), time.monotonic() - begun, used.ru_maxrss, text

    def run(self, *command):
        self.asks.write(json.dumps([str(part) for part in command]) + "\n")
        self.asks.flush()
        return json.loads(self.answers.readline())


class Plain:
    """A file that is what it holds."""

    def __init__(self, contents):
        self.contents = contents

    def packed(self, contents):
        return contents


class Gzip(Plain):
    def packed(self, contents):
        return gzip.compress(contents, 1)


class Recording(Plain):
    """What opcost export writes: the contents are a SQLite database."""

    def packed(self, contents):
        return HEAD + zstd(contents, "-1", "--check")


def record(kind, body):
    return struct.pack("<IHH", kind, 0, 8 + len(body)) + body


def perf_data(*records):
    """A piped perf.data file of one event with addresses, threads and times."""
    attributes = struct.pack("<IIQQQQ", 1, 136, 0, 1000, 0x107, 0).ljust(136, b"\0")
    return b"PERFILE2" + struct.pack("<Q", 16) + record(64, attributes + struct.pack("<Q", 1)) + b"".join(records)


def sampled(path, process, pages=256):
    """A process with a file mapped, and a sample in each of its pages."""
    name = path.encode() + b"\0"
    mapped = struct.pack("<IIQQQ", process, process, 0x400000, pages << 12, 0) + name.ljust(len(name) + 8 & ~7, b"\0")
    sample = [struct.pack("<QIIQQ", 0x400000 + (page << 12) + 0x136, process, process, page, 1) for page in range(pages)]
    return [record(1, mapped), *(record(9, one) for one in sample), record(68, b"")]


DEEP = """ .globl main
 .text
main: xor %eax, %eax
 ret
.Le: .skip 4096
 .section .debug_abbrev,"",@progbits
 .uleb128 1; .uleb128 0x11; .byte 1; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .byte 0, 0
 .uleb128 2; .uleb128 0x2e; .byte 1; .uleb128 3; .uleb128 8; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .byte 0, 0
 .uleb128 3; .uleb128 0x1d; .byte 1; .uleb128 0x31; .uleb128 0x13; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .byte 0, 0
 .byte 0
 .section .debug_info,"",@progbits
.Lcu: .long .Lend - .Lver
.Lver: .short 4
 .long .debug_abbrev
 .byte 8
 .uleb128 1; .quad main; .long .Le - main
.Lf: .uleb128 2; .asciz "main"; .quad main; .long .Le - main
 .rept DEPTH; .uleb128 3; .long .Lf - .Lcu; .quad main; .long .Le - main; .endr
 .rept DEPTH + 2; .byte 0; .endr
.Lend:
 .section .note.GNU-stack,"",@progbits
"""
UNIT = """static inline __attribute__((always_inline)) int inner(int x) { __asm__(".skip 8192, 0x90"); return x; }
int main(int c, char **v) { return inner(c) + inner(c + 1); }
"""
TOML = """name = "n"
question = "q"
pairs = 3
[[variant]]
name = "a"
command = ["/bin/true"]
env = { A = "1" }
[[variant]]
name = "b"
command = ["/bin/true", "x"]
"""


def recordings(opcost, home, commands):
    """The databases of hostile recordings, made from a sound one."""
    folder = pathlib.Path(home)
    (folder / "sound.json").write_text('{"results":[{"command":"a","times":[1,2,3]},{"command":"b","times":[2,3,4]}]}')
    for command in (["import", "sound.json"], ["export", "last", "-o", "sound.opcost"]):
        status, _, _, errors = commands.run(opcost, *command)
        assert status == 0, errors
    packed = (folder / "sound.opcost").read_bytes()
    assert packed.startswith(HEAD)
    sound = zstd(packed[len(HEAD):], "-d")
    path = folder / "made.sqlite"

    def made(script):
        path.write_bytes(sound)
        connection = sqlite3.connect(path)
        connection.executescript(script)
        connection.execute("VACUUM")
        connection.close()
        return path.read_bytes()

    unchecked = "UPDATE recordings SET id = '261126-hostil', runs_at_end = NULL, checksum = NULL;"
    columns = ("slot) SELECT * FROM runs WHERE 1 ON CONFLICT(recording, slot) DO UPDATE SET variant = 1 - variant -- ").replace('"', '""')
    view = ("ALTER TABLE recordings RENAME TO hidden; CREATE VIEW recordings AS WITH RECURSIVE c(x) AS "
            "(SELECT 0 UNION ALL SELECT x + 1 FROM c) SELECT hidden.* FROM c CROSS JOIN hidden;")
    plan = ("UPDATE recordings SET state = 'interrupted', plan = json_set(plan, '$.hooks', json('{\"setup\":\"touch owned\","
            "\"conclude\":null,\"cleanup\":null,\"cwd\":\"/\"}')); DELETE FROM runs WHERE slot > 0;")
    return {
        "sound": sound, "column": made(unchecked + f'ALTER TABLE runs ADD COLUMN "{columns}" TEXT;'), "view": made(unchecked + view),
        "resumed": made(unchecked + plan),
    }


def hostile(opcost, home, commands, mebibytes):
    """Every file: its name, what it is, and the commands that read it."""
    folder = pathlib.Path(home)
    bytes_max = mebibytes << 20

    def much(begin, piece, end):
        return begin + piece * (bytes_max // len(piece)) + end

    result = b'{"results":[{"command":"a",'
    lines = b"".join(b"f%d;g%d;h%d 1\n" % (i, i, i) for i in range(bytes_max // 24))
    imported, profiled = [["import", "FILE"]], [["profile", "--input", "FILE"], ["diff", "sound.folded", "FILE"]]
    both = imported + profiled[:1]
    (folder / "sound.folded").write_text("a;b 1\n")
    yield "times.json.gz", Gzip(much(result + b'"times":[', b"1,", b"1]}]}")), both
    yield "arrays.json.gz", Gzip(much(b'{"results":[', b"[],", b"[]]}")), both
    yield "spaces.json.gz", Gzip(much(b"", b" ", b"{}")), both
    yield "deep.json", Plain(b"[" * 200000 + b"]" * 200000), both
    yield "deep-hyperfine.json", Plain(b'{"results":' + b"[" * 200000 + b"]" * 200000 + b"}"), both
    yield "nan.json", Plain(result + b'"mean":NaN,"times":[1,2]}]}'), both
    yield "infinite.json", Plain(result + b'"mean":1e999,"times":[1e308,1e308,-1e308]},{"command":"b","times":[1e-320,0,-0.0]}]}'), both
    yield "twice.json", Plain(b'{"results":[{"command":"a","command":"b","times":[1],"times":[4]}],"results":[]}'), both
    yield "deep.folded.gz", Gzip(much(b"a;b 1\n", b"a;", b"z 1\n")), profiled
    yield "lines.folded.gz", Gzip(lines), profiled
    yield "most.folded", Plain(b"a;b 18446744073709551615\na;c 18446744073709551615\n"), both
    samples = pathlib.Path(__file__).resolve().parent.parent / "crates/opcost-profile/tests/data"
    for path in sorted(samples.glob("*.*")):
        if path.suffix in SAMPLED:
            yield path.name, Plain(path.read_bytes()), profiled
    calls = b"".join(b'{"ph":"B","name":"a","ts":%d},' % at for at in range(20000))
    yield "deep.trace.json", Plain(b"[" + calls + b'{"ph":"E","name":"a","ts":20000}]'), profiled
    frames = b'{"shared":{"frames":[{"name":"a"}]},"profiles":[{"type":"sampled","name":"a","unit":"none","startValue":0,"endValue":1,'
    yield "frames.speedscope.json.gz", Gzip(much(frames + b'"weights":[1],"samples":[[', b"0,", b"0]]}]}")), profiled
    name = record(3, (struct.pack("<II", 1, 1) + b"a").ljust(0xfff0, b"\0"))
    frame = zstd(name * 256, "-19")
    yield "packed.perf.data", Plain(perf_data(*[record(81, frame)] * max(1, mebibytes // 16))), profiled
    yield "sparse.perf.data", Plain(b"PERFILE2" + struct.pack("<12Q", 104, 136, 104, 144, 240, 1 << 40, 0, 0, 0, 0, 0, 0).ljust(400, b"\1")), profiled
    for case, depth in ("deep", 20000), ("shallow", 100):
        (folder / "a.s").write_text(DEEP.replace("DEPTH", str(depth)))
        subprocess.run(["cc", "-no-pie", "-o", case, "a.s"], cwd=home, check=True)
    (folder / "linked").write_bytes((folder / "shallow").read_bytes())
    (folder / "linked.debug").write_bytes(b"debug")
    subprocess.run(["objcopy", "--add-gnu-debuglink=linked.debug", "linked"], cwd=home, check=True)
    (folder / "linked.debug").unlink()
    os.mkfifo(folder / "linked.debug")
    for case in "deep", "shallow", "linked":
        (folder / f"{case}.perf.data").write_bytes(perf_data(*sampled(f"{home}/mutated-{case}", 7)))
        yield case, Plain((folder / case).read_bytes()), [["size", "FILE"], ["profile", "--input", f"{case}.perf.data"]]
    # The debug information of a program in a file of its own, found by the name that the compiler gave it.
    (folder / "unit.c").write_text(UNIT)
    for line in "-g -gsplit-dwarf -c -o mutated-unit.o unit.c", "-no-pie -o unit mutated-unit.o":
        subprocess.run(["cc", *line.split()], cwd=home, check=True)
    (folder / "unit.perf.data").write_bytes(perf_data(*sampled(f"{home}/unit", 7)))
    unit = folder / "mutated-unit.dwo"
    yield "unit.dwo", Plain(unit.read_bytes()), [["size", "unit", "shallow"], ["profile", "--input", "unit.perf.data"]]
    yield "names.perf.data", Plain(perf_data(*sampled("/dev/zero", 7), *sampled(f"{home}/linked.debug", 8), *sampled(
        "../x", 9), *sampled("//anon", NOBODY))), profiled
    (folder / "map.perf.data").write_bytes(perf_data(*sampled("//anon", NOBODY)))
    jitted = b"".join(b"%x 100 jitted_%d\n" % (0x400000 + (i << 8), i) for i in range(4096))
    yield "map", Plain(jitted), [["profile", "--input", "map.perf.data"]]
    (folder / "kernel.perf.data").write_bytes(perf_data(*sampled("[kernel.kallsyms]_text", 0xffffffff)))
    yield "symbols.map", Plain(b"".join(b"%x T f%d\n" % (0xffffffff81000000 + (i << 8), i) for i in range(4096))), [
        ["profile", "--input", "kernel.perf.data", "--kernel-symbols", "FILE"]]
    for case, database in recordings(opcost, home, commands).items():
        yield f"{case}.opcost", Recording(database), [["import", "FILE"], ["gather", "FILE"]]
    yield "zeros.opcost", Recording(b"\0" * bytes_max), [["import", "FILE"], ["gather", "FILE"]]
    yield "experiment.toml", Plain(TOML.encode()), [["plan", "FILE", "--json"], ["plan", "FILE", "--shards", "2"]]


def mutated(draw, data, times):
    data = bytearray(data)
    for _ in range(times):
        at = draw.randrange(len(data) + 1)
        length = min(1 << draw.randrange(12), len(data) - at)
        kind = draw.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at:at + length]
        elif kind == 3:
            data[at:at] = bytes(data[at:at + length]) * draw.choice([1, 2, 50])
        elif kind == 4:
            data[at:at + draw.randrange(9)] = draw.choice(PIECES)
        else:
            data[at:at + length] = draw.randbytes(length)
    return bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("opcost")
    parser.add_argument("--mutations", type=int, default=1000, help="mutations of each file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mebibytes", type=int, default=16, help="contents of files that are large, and half of the limit of memory")
    parser.add_argument("--seconds", type=int, default=20, help="longest time of a command")
    parser.add_argument("--only", help="names of files")
    options = parser.parse_args()
    opcost = pathlib.Path(options.opcost).resolve()
    limit_mebibytes = max(2 * options.mebibytes, 64)
    faults = runs = 0
    with tempfile.TemporaryDirectory(prefix="opcost-mutations-") as home:
        commands = Commands(home, options.seconds)
        for name, kind, readers in hostile(opcost, home, commands, options.mebibytes):
            if options.only and name not in options.only.split(","):
                continue
            accepted, longest, most = 0, 0.0, 0
            whole = kind.packed(kind.contents)
            path = f"/tmp/perf-{NOBODY}.map" if name == "map" else f"{home}/mutated-{name}"
            for number in range(options.mutations + 1):
                draw = random.Random(f"{options.seed} {name} {number}")
                if number == 0:
                    data = whole
                elif number % 2:
                    data = mutated(draw, whole, draw.choice([1, 1, 2, 8]))
                else:
                    data = kind.packed(mutated(draw, kind.contents, draw.choice([1, 1, 2, 8])))
                pathlib.Path(path).write_bytes(data)
                for reader in readers if number == 0 else [readers[number // 2 % len(readers)]]:
                    words = [path if word == "FILE" else word for word in reader]
                    status, seconds, kibibytes, errors = commands.run(
                        opcost, *words, "--store", "mutations.sqlite", "--read-limit", f"{limit_mebibytes}M")
                    runs += 1
                    accepted += status == 0
                    longest, most = max(longest, seconds), max(most, kibibytes >> 10)
                    if status in (0, 2, 3, 4, 5) and "panicked" not in errors and kibibytes >> 10 <= 2 * limit_mebibytes:
                        continue
                    faults += 1
                    kept = f"/tmp/opcost-mutation-{name}-{number}"
                    pathlib.Path(kept).write_bytes(data)
                    print(f"{name}, mutation {number}: opcost {' '.join(words)} ended with {status} after {seconds:.1f} s and "
                          f"{kibibytes >> 10} MiB; {kept}\n{errors[-2000:]}", flush=True)
                pathlib.Path(f"{home}/mutations.sqlite").unlink(missing_ok=True)
            pathlib.Path(path).unlink()
            print(f"{name}: {len(whole)} bytes, {accepted} accepted, {longest:.2f} s, {most} MiB", flush=True)
    print(f"{runs} runs, {faults} faults")
    return 1 if faults or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
