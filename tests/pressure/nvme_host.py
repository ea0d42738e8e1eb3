"""Hosts of NVMe/TCP, by the words of its specification alone. Each runs until SIGTERM.

victim ADDRESS PORT LOG     reads 4 KiB again and again, and connects anew once in a second; a line of LOG per read and per connection
mute ADDRESS PORT COUNT     writes 128 KiB COUNT times over 16 queues, and never answers an R2T
"""
import json
import os
import signal
import socket
import struct
import sys
import time

NQN = b"nqn.2024-01.org.example:pressure"
QUEUES, ENTRIES, WRITE_BYTES, BLOCK = 16, 128, 131072, 4096
FABRICS, CONNECT, PROPERTY_SET, PROPERTY_GET, SET_FEATURES, WRITE, READ = 0x7F, 1, 0, 4, 9, 1, 2
COMMAND, RESPONSE, C2H_DATA, R2T = 4, 5, 7, 9


def entry(opcode, identifier, *, kind=0, namespace=0, sgl=(0, 0, 0x5A), rest=b""):
    """A submission queue entry; `rest` is what stands from its byte 40 on."""
    at_4 = struct.pack("<B3x", kind) if opcode == FABRICS else struct.pack("<I", namespace)
    return struct.pack("<BBH4s16xQI3xB", opcode, 0x40, identifier, at_4, *sgl) + rest.ljust(24, b"\0")


class Queue:
    """A connection, which is a queue."""

    def __init__(self, address, name, number, controller=0xFFFF):
        self.sock = socket.create_connection(address, timeout=5)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(struct.pack("<BBBBI", 0, 0, 128, 0, 128).ljust(128, b"\0"))
        self.pdu()
        data = name[:16].ljust(16, b"\0") + struct.pack("<H", controller)
        host = b"nqn.2014-08.org.example:" + name
        data = data.ljust(256, b"\0") + NQN.ljust(256, b"\0") + host.ljust(256, b"\0") + bytes(256)
        connect = struct.pack("<HHHBxI", 0, number, (ENTRIES if number else 32) - 1, 0, 0 if number else 120000)
        self.controller, _ = self.ask(entry(FABRICS, 0, kind=CONNECT, sgl=(0, len(data), 1), rest=connect), data)
        self.controller &= 0xFFFF

    def pdu(self):
        kind, _, header, _, length = struct.unpack("<BBBBI", self.exactly(8))
        rest = self.exactly(length - 8)
        return kind, rest[: header - 8], rest[header - 8 :]

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                raise ConnectionError("closed early")
            data += more
        return data

    def send(self, sqe, data=b""):
        length = 72 + len(data)
        self.sock.sendall(struct.pack("<BBBBI", COMMAND, 0, 72, 72 if data else 0, length) + sqe + data)

    def ask(self, sqe, data=b""):
        """The completion's first double word, and the data that came before it."""
        self.send(sqe, data)
        got = b""
        while True:
            kind, header, body = self.pdu()
            if kind == C2H_DATA:
                got += body
            elif kind == RESPONSE:
                result, status = struct.unpack_from("<Q6xH", header)
                if status >> 1:
                    raise ConnectionError(f"status {status >> 1:#x}")
                return result, got
            else:
                raise ConnectionError(f"PDU {kind}")


class Host:
    """A host with its controller, enabled, and I/O queues."""

    def __init__(self, address, name, queues):
        self.admin = Queue(address, name, 0)
        self.admin.ask(entry(FABRICS, 1, kind=PROPERTY_SET, rest=struct.pack("<B3xIQ", 0, 0x14, 0x460001)))
        while not self.admin.ask(entry(FABRICS, 2, kind=PROPERTY_GET, rest=struct.pack("<B3xI", 0, 0x1C)))[0] & 1:
            time.sleep(0.01)
        self.admin.ask(entry(SET_FEATURES, 3, rest=struct.pack("<II", 7, (queues - 1) * 0x10001)))
        self.queues = [Queue(address, name, number + 1, self.admin.controller) for number in range(queues)]

    def close(self):
        for queue in [*self.queues, self.admin]:
            queue.sock.close()


def transfer(opcode, identifier, block, count):
    return entry(opcode, identifier, namespace=1, sgl=(0, count * BLOCK, 0x5A), rest=struct.pack("<QH", block, count - 1))


def victim(address, log):
    host, connected, number, lines, told = None, 0, 0, [], time.monotonic()

    def timed(what, call):
        began, error = time.monotonic(), None
        try:
            return call()
        except (OSError, ConnectionError) as failed:
            error = str(failed)
        finally:
            lines.append(json.dumps([what, began, time.monotonic(), error]) + "\n")

    while True:
        if host and time.monotonic() > connected + 1:
            host = host.close()
        if not host:
            host, connected = timed("connect", lambda: Host(address, b"victim", 1)), time.monotonic()
        number = (number + 1) % 4096
        if host and not timed("read", lambda: host.queues[0].ask(transfer(READ, number, number, 1))):
            host = host.close()
        if time.monotonic() > told + 0.2:
            with open(log, "a") as file:
                file.writelines(lines)
            lines, told = [], time.monotonic()


def mute(address, count):
    host, writes = Host(address, b"mute", QUEUES), 0
    for number in range(int(count)):
        blocks = WRITE_BYTES // BLOCK
        host.queues[number % QUEUES].send(transfer(WRITE, number // QUEUES, number % 64 * blocks, blocks))
        writes += 1
    print(json.dumps({"writes": writes}), flush=True)
    signal.pause()


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
what, ip, port, *rest = sys.argv[1:]
{"victim": victim, "mute": mute}[what]((ip, int(port)), *rest)
