"""Has the kernel rewrite a port of TCP over IPv4 on its way out of an interface, and back on its way in: eBPF, loaded by hand and attached by tc."""
import ctypes
import os
import struct
import subprocess
import sys

from attack import failed, libc

interface, seen, real = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
BPF, LOAD, PIN, SCHED_CLS = 321, 5, 6, 3
LOAD_BYTES, STORE_BYTES, L4_REPLACE = 26, 9, 11
TCP = 14 + 20


def op(code, dst=0, src=0, offset=0, value=0):
    return struct.pack("<BBhi", code, src << 4 | dst, offset, value)


def call(function):
    return op(0x85, value=function)


def program(at, before, after):
    """Packets whose port at this offset of the TCP header is `before` get `after`. Everything passes."""
    before, after = [int.from_bytes(struct.pack(">H", port), "little") for port in (before, after)]
    tail = [
        # r6 = the packet; the port in it goes to the stack.
        op(0xB7, 2, value=TCP + at), op(0xBF, 3, 10), op(0x07, 3, value=-8), op(0xB7, 4, value=2),
        op(0xBF, 1, 6), call(LOAD_BYTES), ("unless", 0), op(0x69, 1, 10, -8), ("unless1", before),
        op(0xBF, 1, 6), op(0xB7, 2, value=TCP + 16), op(0xB7, 3, value=before), op(0xB7, 4, value=after), op(0xB7, 5, value=2), call(L4_REPLACE),
        op(0xB7, 1, value=after), op(0x6B, 10, 1, -8), op(0xBF, 1, 6), op(0xB7, 2, value=TCP + at), op(0xBF, 3, 10), op(0x07, 3, value=-8),
        op(0xB7, 4, value=2), op(0xB7, 5, value=0), call(STORE_BYTES),
        op(0xB7, 0, value=0), op(0x95),
    ]
    code = [op(0xBF, 6, 1),
            # EtherType at 12 and protocol at 23.
            op(0xB7, 2, value=12), op(0xBF, 3, 10), op(0x07, 3, value=-24), op(0xB7, 4, value=12), call(LOAD_BYTES), ("unless", 0),
            op(0x69, 1, 10, -24), ("unless1", 0x0008), op(0x71, 1, 10, -13), ("unless1", 6), *tail]
    made = []
    for index, one in enumerate(code):
        if isinstance(one, bytes):
            made.append(one)
        else:
            # To the two at the end, which let the packet pass.
            made.append(op(0x55, 0 if one[0] == "unless" else 1, 0, len(code) - 2 - index - 1, one[1]))
    return b"".join(made)


def bpf(command, *values):
    attributes = ctypes.create_string_buffer(struct.pack("<" + "".join(kind for kind, _ in values), *(value for _, value in values)), 120)
    result = libc.syscall(BPF, command, attributes, 120)
    if result < 0:
        raise failed()
    return result


def load(code):
    instructions, licence, log = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL"), ctypes.create_string_buffer(1 << 16)
    try:
        return bpf(LOAD, ("I", SCHED_CLS), ("I", len(code) // 8), ("Q", ctypes.addressof(instructions)), ("Q", ctypes.addressof(licence)),
                   ("I", 1), ("I", len(log)), ("Q", ctypes.addressof(log)))
    except OSError:
        sys.stderr.write(log.value.decode(errors="replace"))
        raise


def tc(*arguments, **more):
    subprocess.run(["tc", *arguments], check=True, **more)


folder = "/sys/fs/bpf"
if libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None) or libc.mount(b"bpf", folder.encode(), b"bpf", 0, None):
    raise failed()
tc("qdisc", "add", "dev", interface, "clsact")
for way, at, before, after in [("egress", 2, seen, real), ("ingress", 0, real, seen)]:
    path = ctypes.create_string_buffer(f"{folder}/{way}".encode())
    bpf(PIN, ("Q", ctypes.addressof(path)), ("I", load(program(at, before, after))))
    tc("filter", "add", "dev", interface, way, "bpf", "da", "object-pinned", f"{folder}/{way}")
print(f"port {seen} leaves {interface} as {real}")
