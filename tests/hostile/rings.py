"""A host on rings, as far as it takes to be one (crates/rings/src/message.rs)."""
import array
import fcntl
import os
import socket
import struct

from attack import pass_on

MAGIC = int.from_bytes(b"lnsr", "big") << 32 | 1
SET_UP, REGISTER = 1, 2


def ask(connection, words, descriptor=None):
    """A request and its answer: the code (1 is done), and a descriptor that came along."""
    words = [MAGIC, *words] + [0] * (15 - len(words))
    pass_on(connection, struct.pack("=16Q", *words), [] if descriptor is None else [descriptor])
    data, rights, _, _ = connection.recvmsg(32, socket.CMSG_SPACE(4))
    if len(data) < 32:
        raise ConnectionResetError("the NIC has closed the connection")
    came = [array.array("i", right[2])[0] for right in rights]
    return struct.unpack("=4Q", data)[1], came[0] if came else None


def sealed(size):
    file = os.memfd_create("rings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return file


def set_up(path):
    """A function of the NIC: the bell, and the connection to ask for more."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    connection.connect(path)
    # One queue, rings of 64 slots, small and large buffers, and no quotas but of packets' memory.
    config = [1, 64, 64, 64, 64, 64, 2048, 65536, 16, 16, 16, 1 << 20, 0, 0]
    code, bell = ask(connection, [SET_UP, *config], sealed(1 << 20))
    if bell is None:
        raise ConnectionRefusedError(f"the NIC refuses the function: {code}")
    return socket.socket(fileno=bell), connection


def register(connection, file, length, writable=False):
    """Shows the NIC a region; whether it takes it."""
    done, _ = ask(connection, [SET_UP + 1, 1, 0, length, int(writable)], file)
    return done
