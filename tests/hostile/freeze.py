"""Attacks on the NIC's time, each until it is killed: freeze.py KIND …"""
import array
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import threading
import time

from attack import ATTACH, MEMORY, SET_KEYS, answer, attach, connect, control, libc, pass_on, report, request, slab

PR_SET_PDEATHSIG = 1


def lingering(address, port):
    """A socket whose last close waits: it lingers, and its peer acknowledges nothing."""
    connection = connect(address, port)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 20))
    connection.setblocking(False)
    connection.send(bytes(1000))
    connection.setblocking(True)
    return connection


def linger(path, address, port):
    """Sockets that linger, passed and dropped: with the line that begins, with requests, and where nothing reads them. Who closes such a socket last
    has to wait, also if it is this process: there are several."""
    for _ in range(5):
        if os.fork() == 0:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            break
    while True:
        try:
            for stage in range(4):
                victims = [lingering(address, int(port)) for _ in range(2)]
                descriptors = [victim.fileno() for victim in victims]
                if stage == 0:
                    nic = control(path)
                    pass_on(nic, b'{"command":"attach"}\n', descriptors)
                elif stage == 1:
                    nic = attach(path)
                    pass_on(nic, request(ATTACH), descriptors)
                elif stage == 2:
                    nic = attach(path)
                    pass_on(nic, request(ATTACH)[:40], descriptors[:1])
                else:
                    nic = attach(path)
                    nic.sendall(request(99))
                    pass_on(nic, request(ATTACH), descriptors)
                for victim in victims:
                    victim.close()
                nic.settimeout(0.2)
                try:
                    nic.recv(100)
                except OSError:
                    pass
                nic.close()
        except OSError:
            time.sleep(0.05)


def unread(path):
    """Questions whose answers are not read."""
    while True:
        clients = []
        try:
            for _ in range(8):
                client = control(path)
                client.setblocking(False)
                clients.append(client)
            end = time.monotonic() + 1
            while time.monotonic() < end:
                for client in clients:
                    try:
                        client.send(b'{"command":"what is this"}\n' * 100)
                    except BlockingIOError:
                        pass
        except OSError:
            time.sleep(0.02)
        for client in clients:
            client.close()


def idle(path, count):
    """Clients that say nothing."""
    clients = []
    while True:
        try:
            while len(clients) < int(count):
                client = control(path)
                client.setblocking(False)
                clients.append(client)
        except OSError:
            pass
        time.sleep(0.05)
        gone = []
        for client in clients:
            try:
                if client.recv(1) == b"":
                    gone.append(client)
            except BlockingIOError:
                pass
            except OSError:
                gone.append(client)
        for client in gone:
            clients.remove(client)
            client.close()


def fault(path, address, port, node, folder):
    """Has the NIC look at sockets that other threads have locked, waiting for a page that never comes."""
    import fuse

    fuse.own_namespaces()
    page = fuse.page(fuse.mount(node, folder + "/page"))
    print("mounted", flush=True)
    index = 0
    while True:
        try:
            victim = connect(address, int(port))
            victim.setblocking(True)
            threading.Thread(target=libc.send, args=(victim.fileno(), ctypes.c_void_p(page), 4096, 0), daemon=True).start()
            time.sleep(0.05)
            nic = attach(path, 0.3)
            pass_on(nic, request(ATTACH), [slab(1)])
            answer(nic)
            pass_on(nic, request(SET_KEYS), [victim.fileno()])
            answer(nic)
        except OSError:
            pass
        index += 1
        time.sleep(0.05 if index < 50 else 1)


def churn(path):
    """Attachments that come, share memory and go. The memory is then the NIC's alone."""
    while True:
        file = slab(256)
        try:
            nic = attach(path)
            pass_on(nic, request(ATTACH), [file])
            os.close(file)
            file = None
            answer(nic)
            nic.close()
        except OSError:
            time.sleep(0.02)
        if file is not None:
            os.close(file)


def hoard(path):
    """As much memory as takes long to free, which the NIC has last."""
    size = 256 << 20
    while True:
        try:
            nic = attach(path)
            file = os.memfd_create("hoard", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(file, size)
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            os.posix_fallocate(file, 0, size)
            pass_on(nic, request(MEMORY), [file])
            os.close(file)
            answer(nic)
            nic.close()
            # Others are to have time, too.
            time.sleep(0.05)
        except OSError:
            time.sleep(0.02)


def bell(path, address, port):
    """A host on rings that passes sockets which linger: where it is rung, as memory, and several at once, which ends its connection."""
    import rings

    bells, connection = rings.set_up(path)
    print("set up", flush=True)
    while True:
        victims = [lingering(address, int(port)) for _ in range(4)]
        descriptors = [victim.fileno() for victim in victims]
        try:
            with socket.socket(fileno=os.dup(bells[0])) as bell:
                pass_on(bell, b"\x01", descriptors)
            report(error="the bell takes descriptors")
        except BrokenPipeError:
            pass
        try:
            connection.settimeout(0.2)
            pass_on(connection, rings.register_request(4096), descriptors[:1])
            pass_on(connection, b"\x01", descriptors[1:])
            connection.recv(32)
        except OSError as error:
            report(error=str(error))
        try:
            for number in bells:
                os.close(number)
            connection.close()
            bells = []
            bells, connection = rings.set_up(path)
        except OSError as error:
            report(error=str(error))
            time.sleep(0.05)
        for victim in victims:
            threading.Thread(target=victim.close, daemon=True).start()
        time.sleep(0.1)


def flush(path, node, folder):
    """A host on rings that passes a file whose file system never answers when it is closed."""
    import fuse
    import rings

    fuse.own_namespaces()
    file = fuse.mount(node, folder + "/closed", silent=[fuse.FLUSH])
    _, connection = rings.set_up(path)
    pass_on(connection, rings.register_request(4096), [file])
    print("passed", flush=True)
    signal.pause()


if __name__ == "__main__":
    {"linger": linger, "unread": unread, "idle": idle, "fault": fault, "churn": churn, "hoard": hoard, "bell": bell, "flush": flush}[sys.argv[1]](*sys.argv[2:])
