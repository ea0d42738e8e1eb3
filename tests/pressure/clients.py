"""Clients of HTTP/1.1 on Linux's sockets: those that behave, and those that hold memory. Each runs until SIGTERM.

victims ADDRESS PORT LOG USER…         a user is PATH=FILE: it asks for PATH again and again and compares it with FILE; a line of LOG per request
holders ADDRESS PORT COUNT PATH MODE   connections, of which
    vanish   the first half ask and read nothing; the others ask upon SIGUSR1
    slow     all read 500 bytes every 3 s, and connect again when they are let down
uploads ADDRESS PORT COUNT PATH SIZE   as many POSTs at once; ends by itself with a line of their statuses

`tls:` before ADDRESS: inside TLS, whoever it is that answers.
"""
import collections
import errno
import heapq
import json
import os
import resource
import select
import signal
import socket
import ssl
import sys
import time

TIMEOUT = 5
IN_PROGRESS = (errno.EINPROGRESS, errno.EAGAIN, errno.EINTR)
UNVERIFIED = ssl._create_unverified_context()


class Loop:
    """Sockets by epoll, and calls at times."""

    def __init__(self):
        self.epoll, self.of, self.calls, self.order, self.ended = select.epoll(), {}, [], 0, False
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "ended", True))

    def watch(self, number, events, call):
        self.of[number] = call
        self.epoll.register(number, events)

    def change(self, number, events):
        self.epoll.modify(number, events)

    def forget(self, number):
        del self.of[number]
        self.epoll.unregister(number)

    def after(self, seconds, call):
        self.order += 1
        heapq.heappush(self.calls, (time.monotonic() + seconds, self.order, call))

    def run(self, until=float("inf")):
        while not self.ended and (now := time.monotonic()) < until:
            while self.calls and self.calls[0][0] <= now:
                heapq.heappop(self.calls)[2]()
            wait = min(self.calls[0][0] if self.calls else now + 0.1, now + 0.1, until) - now
            for number, events in self.epoll.poll(max(wait, 0)):
                if call := self.of.get(number):
                    call(events)


class Stream:
    """A connection, inside TLS if that is wanted. The owner hears `opened`, `go_on` with epoll's events, and `end` with an error."""

    def __init__(self, loop, target, owner, room=0):
        self.loop, self.owner, self.is_open = loop, owner, False
        address, self.tls = target
        self.sock = socket.socket()
        self.sock.setblocking(False)
        if room:
            # It takes no more than that unread.
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        failed = self.sock.connect_ex(address)
        self.number = self.sock.fileno()
        loop.watch(self.number, select.EPOLLOUT, self.act)
        if failed and failed not in IN_PROGRESS:
            loop.after(0, lambda: self.fail(OSError(failed, os.strerror(failed))))

    def act(self, events):
        try:
            if self.is_open:
                self.owner.go_on(events)
            else:
                self.open()
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            self.fail(error)

    def open(self):
        if failed := self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(failed, os.strerror(failed))
        if self.tls:
            if not isinstance(self.sock, ssl.SSLSocket):
                self.sock = UNVERIFIED.wrap_socket(self.sock, do_handshake_on_connect=False)
                self.wants(select.EPOLLIN)
            self.sock.do_handshake()
        self.is_open = True
        self.owner.opened()

    def fail(self, error):
        if self.number is not None:
            self.owner.end(error.strerror or str(error))

    def wants(self, events):
        self.loop.change(self.number, events)

    def close(self):
        if self.number is not None:
            self.loop.forget(self.number)
            self.sock.close()
        self.number, self.is_open = None, False


def request(path, length=None):
    if length is None:
        return f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode()
    return f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n".encode()


class Response:
    """What has come of one: its status, once its head is complete, and whether it is complete."""

    def __init__(self):
        self.head, self.status, self.left, self.body = b"", None, 0, []

    def take(self, data):
        if self.status is None:
            self.head += data
            head, end, data = self.head.partition(b"\r\n\r\n")
            if not end:
                return False
            fields = head.decode("latin-1").lower().split("\r\n")
            self.status = int(fields[0].split()[1])
            self.left = next((int(field.split(":")[1]) for field in fields if field.startswith("content-length:")), 0)
        self.left -= len(data)
        self.body.append(data)
        return self.left <= 0


class User:
    """A client that behaves: a request at a time, 20 on a connection."""

    def __init__(self, loop, target, path, expected, report):
        self.loop, self.target, self.path, self.expected, self.report = loop, target, path, expected, report
        self.stream, self.requests, self.number = None, 0, 0
        self.begin()

    def begin(self):
        self.number += 1
        self.began, self.response, number = time.monotonic(), Response(), self.number
        self.loop.after(TIMEOUT, lambda: number == self.number and self.end(f"no answer in {TIMEOUT} s"))
        if self.stream and self.requests % 20:
            return self.opened()
        self.leave()
        self.stream = Stream(self.loop, self.target, self)

    def leave(self):
        if self.stream:
            self.stream.close()
        self.stream = None

    def opened(self):
        self.stream.wants(select.EPOLLIN)
        try:
            self.stream.sock.send(request(self.path))
        except OSError as error:
            self.end(str(error))

    def go_on(self, _):
        # All that has come: what TLS has read ahead, epoll doesn't tell of.
        while data := self.stream.sock.recv(1 << 18):
            if self.response.take(data):
                return self.judge()
        self.end("closed early")

    def judge(self):
        if self.response.status != 200:
            self.end(f"status {self.response.status}")
        else:
            self.end(None if b"".join(self.response.body) == self.expected else "wrong content")

    def end(self, error):
        self.requests += 1
        self.number += 1
        self.report(self.path, self.began, time.monotonic(), error)
        if error:
            self.leave()
        self.loop.after(0.1 if error else 0, self.begin)


def victims(target, log, *users):
    loop, lines = Loop(), []
    report = lambda path, *rest: lines.append(json.dumps([path, *rest]))
    for user in users:
        path, file = user.split("=")
        User(loop, target, path, open(file, "rb").read(), report)
    while not loop.ended:
        loop.run(time.monotonic() + 0.2)
        with open(log, "a") as file:
            file.writelines(line + "\n" for line in lines)
        lines.clear()


class Holder:
    """A client that asks, and reads no more than 500 bytes at a time."""

    def __init__(self, loop, target, path, outcomes, room, asks=True, slow=False):
        self.loop, self.target, self.path, self.outcomes = loop, target, path, outcomes
        self.room, self.asks, self.slow = room, asks, slow
        self.was_open = False
        self.connect()

    def connect(self):
        self.stream = Stream(self.loop, self.target, self, self.room)

    def opened(self):
        self.stream.wants(0)
        self.outcomes["connected"] += not self.was_open
        self.was_open = True
        if self.asks:
            self.ask()

    def ask(self):
        if self.stream.is_open:
            self.stream.sock.send(request(self.path))
            if self.slow:
                self.read_later()

    def read_later(self):
        stream = self.stream
        # Unless it was let down meanwhile, and has another one.
        self.loop.after(3, lambda: stream is self.stream and stream.is_open and self.read())

    def read(self):
        try:
            if not self.stream.sock.recv(500):
                return self.end("closed")
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            return self.end(str(error))
        self.read_later()

    def go_on(self, _):
        self.end("reset")

    def end(self, why):
        self.outcomes[why] += 1
        self.stream.close()
        self.loop.after(1, self.connect)


def holders(target, count, path, mode):
    loop, outcomes, kept = Loop(), collections.Counter(), []
    slow = mode == "slow"

    def add():
        # So many at a time that none is refused for a full backlog.
        for _ in range(min(50, int(count) - len(kept))):
            first = slow or len(kept) < int(count) / 2
            kept.append(Holder(loop, target, path, outcomes, 4096 if first else 0, first, slow))
        if len(kept) < int(count):
            loop.after(0.05, add)

    def tell():
        print(json.dumps(outcomes), flush=True)
        loop.after(0.25, tell)

    signal.signal(signal.SIGUSR1, lambda *_: [holder.ask() for holder in kept if not holder.asks])
    add()
    tell()
    loop.run()
    # Their ends are not ordered: the process just ends.
    os._exit(0)


class Upload:
    """A client that sends all it has, and reads the answer."""

    def __init__(self, loop, target, path, size, outcomes):
        self.outcomes, self.unsent, self.response = outcomes, memoryview(request(path, size) + bytes(size)), Response()
        self.stream = Stream(loop, target, self)

    def opened(self):
        self.stream.wants(select.EPOLLIN | select.EPOLLOUT)

    def go_on(self, events):
        if events & select.EPOLLIN:
            data = self.stream.sock.recv(65536)
            if not data or self.response.take(data):
                self.end(str(self.response.status))
        elif self.unsent:
            self.unsent = self.unsent[self.stream.sock.send(self.unsent[:65536]) :]
            if not self.unsent:
                self.stream.wants(select.EPOLLIN)

    def end(self, outcome):
        self.outcomes[outcome] += 1
        self.stream.close()


def uploads(target, count, path, size):
    loop, outcomes = Loop(), collections.Counter()
    for _ in range(int(count)):
        Upload(loop, target, path, int(size), outcomes)
    while not loop.ended and outcomes.total() < int(count):
        loop.run(time.monotonic() + 0.1)
    print(json.dumps(outcomes), flush=True)


commands = {"victims": victims, "holders": holders, "uploads": uploads}
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
what, ip, port, *rest = sys.argv[1:]
commands[what](((ip.removeprefix("tls:"), int(port)), ip.startswith("tls:")), *rest)
