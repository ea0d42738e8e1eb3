"""The other host: servers on the far end of the wire, and who looks at what goes by there."""
import argparse
import json
import os
import signal
import socket
import struct
import threading

from attack import MARK


def take(connection, echoes):
    try:
        while data := connection.recv(1 << 16):
            if echoes:
                connection.sendall(data)
    except OSError:
        pass
    connection.close()


def serve(address, port, echoes):
    """Reads all that comes, and sends it back if it echoes."""
    listener = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=1024)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=take, args=(connection, echoes), daemon=True).start()


def mute(address, port):
    """Accepts connections and acknowledges nothing on them: a filter drops what comes."""
    import ctypes

    listener = socket.create_server((address, port), backlog=4096)
    drop = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(drop))
    kept = []
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.SOL_SOCKET, 26, program)
        kept.append(connection)


def sniff(interface, mark, result):
    """Counts the frames with the mark in it, until it is told to end."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
    raw.bind((interface, 0))
    seen = {"frames": 0, "bytes": 0, "clear": 0, "first": ""}

    def end(*_):
        with open(result + ".new", "w") as file:
            json.dump(seen, file)
        os.rename(result + ".new", result)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print("looks", flush=True)
    while True:
        frame = raw.recv(1 << 17)
        seen["frames"] += 1
        seen["bytes"] += len(frame)
        if mark in frame:
            seen["clear"] += 1
            seen["first"] = seen["first"] or frame[:94].hex()


parser = argparse.ArgumentParser()
parser.add_argument("role", choices=["sink", "echo", "mute", "sniff"])
parser.add_argument("where")
parser.add_argument("what")
parser.add_argument("--mark", default=MARK.decode())
options = parser.parse_args()
if options.role == "sniff":
    sniff(options.where, options.mark.encode(), options.what)
elif options.role == "mute":
    mute(options.where, int(options.what))
else:
    serve(options.where, int(options.what), options.role == "echo")
