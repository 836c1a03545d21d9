"""Regions of a Python program that opcost counts by themselves.

    with opcost_region.region("parse"):
        parse(text)

Run the program with `opcost measure --regions python3 program.py`. Without opcost a region does nothing.
Needs Linux; on the emulated machine x86-64. The module is one file: copy it.
"""

import contextlib
import ctypes
import mmap
import os
import platform
import socket

_WANTED = os.environ.get("OPCOST_REGIONS", "")

if _WANTED == "mark" and platform.machine() == "x86_64":
    # One function for each mark: a seven-byte NOP, whose displacement carries the mark's meaning, and a return.
    _BYTES = [*range(16), 0x10, 0x11, 0x20, 0x21, 0x22]
    _CODE = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    for _at, _byte in enumerate(_BYTES):
        _CODE[8 * _at : 8 * _at + 8] = bytes([0x0F, 0x1F, 0x80, _byte, 0x04, 0x63, 0x6F, 0xC3])
    _START = ctypes.addressof(ctypes.c_char.from_buffer(_CODE))
    _FUNCTION = ctypes.PYFUNCTYPE(None)
    _MARKS = {byte: _FUNCTION(_START + 8 * at) for at, byte in enumerate(_BYTES)}

    def _digits(data):
        for byte in data:
            _MARKS[byte & 15]()
            _MARKS[byte >> 4]()

    def begin(name):
        """Begins a region; `name`: at most 200 bytes without blanks."""
        _MARKS[0x10]()
        _digits(name.encode())
        _MARKS[0x11]()

    def end(name, operations=0):
        """Ends a region; `operations`: those performed since its begin, 0 if they have no number."""
        _MARKS[0x20]()
        _digits(name.encode())
        _MARKS[0x21]()
        _digits(operations.to_bytes(8, "little"))
        _MARKS[0x22]()

elif _WANTED.startswith("/"):

    def _send(message):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(_WANTED)
            stream.sendall(message.encode() + b"\0")
            stream.recv(1)

    def begin(name):
        """Begins a region; `name`: at most 200 bytes without blanks."""
        _send(f"b0 {name}")

    def end(name, operations=0):
        """Ends a region; `operations`: those performed since its begin, 0 if they have no number."""
        _send(f"e{operations} {name}")

else:

    def begin(name):
        """Begins a region; `name`: at most 200 bytes without blanks."""

    def end(name, operations=0):
        """Ends a region; `operations`: those performed since its begin, 0 if they have no number."""


@contextlib.contextmanager
def region(name, operations=0):
    """Does the work below `with` in a region."""
    begin(name)
    try:
        yield
    finally:
        end(name, operations)
