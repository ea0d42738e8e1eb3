"""A VMM without a machine: attaches a function by vfio-user, enables it as a driver does, and again whenever the device tells that it has failed.

    vmm.py SOCKET

Prints `enabled N` each time the function is ready, and `closed` when the gate ends the connection. Written by docs/device.md and the vfio-user
specification."""
import array
import json
import os
import select
import socket
import struct
import sys

VERSION, DMA_MAP, SET_IRQS, REGION_READ, REGION_WRITE = 1, 2, 8, 9, 10
BAR0, CONFIG = 0, 7
MSIX, EVENTFD, TRIGGER = 2, 4, 32
CONTROL, STATUS, EVENTS, QUEUES, RINGS = 0x008, 0x00C, 0x01C, 0x040, 0x200
READY, LINK, FAILED = 1, 2, 4
RAM, RAM_BYTES = 1 << 32, 4 << 20
# Queues, slots of the rings, bytes of a small buffer.
SIZES = (1, 64, 64, 64, 64, 8, 2048)
BLOCK_BYTES = 64 << 10

gate = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def ask(command, body, descriptors=()):
    head = struct.pack("<HHIII", 1, command, 16 + len(body), 0, 0)
    passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    gate.sendmsg([head], passed)
    gate.sendall(body)
    _, _, length, flags, error = struct.unpack("<HHIII", take(16))
    if flags & 32:
        sys.exit(f"command {command} is refused: error {error}")
    return take(length - 16)


def take(count):
    got = b""
    while len(got) < count:
        more = gate.recv(count - len(got))
        if not more:
            print("closed", flush=True)
            sys.exit(0)
        got += more
    return got


def read32(at):
    return struct.unpack("<I", ask(REGION_READ, struct.pack("<QII", at, BAR0, 4))[16:])[0]


def write(at, value, size=4, region=BAR0):
    ask(REGION_WRITE, struct.pack("<QII", at, region, size) + value.to_bytes(size, "little"))


def enable():
    os.pwrite(memory, bytes(BLOCK_BYTES), 0)
    for at, size in enumerate(SIZES):
        write(QUEUES + 8 * at, size, 8)
    write(RINGS, RAM, 8)
    write(CONTROL, 1)
    return read32(STATUS) & READY != 0


gate.connect(sys.argv[1])
capabilities = json.dumps({"capabilities": {"max_msg_fds": 1}}).encode() + b"\0"
ask(VERSION, struct.pack("<HH", 0, 1) + capabilities)
memory = os.memfd_create("guest")
os.ftruncate(memory, RAM_BYTES)
ask(DMA_MAP, struct.pack("<IIQQQ", 32, 3, 0, RAM, RAM_BYTES), [memory])
# The function's only queue, and its events, which have the vector behind all queues.
vectors = [os.eventfd(0) for _ in range(int(sys.argv[2]) + 1)]
ask(SET_IRQS, struct.pack("<IIIII", 20, EVENTFD | TRIGGER, MSIX, 0, len(vectors)), vectors)
write(4, 6, 2, CONFIG)
enabled = 0
while True:
    status = read32(STATUS)
    if not status & READY and status & LINK and enable():
        enabled += 1
        print(f"enabled {enabled}", flush=True)
    events = read32(EVENTS)
    write(EVENTS, events)
    ready, _, _ = select.select([gate, vectors[-1]], [], [], 1)
    if vectors[-1] in ready:
        os.read(vectors[-1], 8)
    elif gate in ready:
        take(1)
