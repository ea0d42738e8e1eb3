"""A host on rings, as far as it takes to be one (crates/rings/src/message.rs)."""
import array
import fcntl
import os
import socket
import struct

from attack import pass_on

VERSION = None  # of the messages; world.sh puts it here
MAGIC = int.from_bytes(b"lnsr", "big") << 32 | VERSION
SET_UP, REGISTER = 1, 2


def request(words):
    """The bytes of a request."""
    words = [MAGIC, *words]
    return struct.pack("=16Q", *words, *[0] * (16 - len(words)))


def register_request(length, writable=False):
    """That of a region."""
    return request([REGISTER, 1, 0, length, int(writable)])


def ask(connection, words, descriptor=None):
    """A request and its answer: the code, and the descriptors that came along."""
    pass_on(connection, request(words), [] if descriptor is None else [descriptor])
    data, rights, _, _ = connection.recvmsg(32, socket.CMSG_SPACE(8))
    if len(data) < 32:
        raise ConnectionResetError("the NIC has closed the connection")
    came = [number for right in rights for number in array.array("i", right[2])]
    return struct.unpack("=4Q", data)[1], came


def sealed(size):
    file = os.memfd_create("rings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return file


def set_up(path):
    """A function of the NIC: this host's bell and the NIC's, and the connection to ask for more."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    connection.connect(path)
    # One queue, rings of 64 slots, small and large buffers, and no quotas but of packets' memory.
    config = [1, 64, 64, 64, 64, 64, 2048, 65536, 16, 16, 16, 1 << 20, 0, 0]
    code, bells = ask(connection, [SET_UP, *config], sealed(1 << 20))
    if len(bells) != 2:
        raise ConnectionRefusedError(f"the NIC refuses the function: {code}")
    return bells, connection


def register(connection, file, length, writable=False):
    """Shows the NIC a region; whether it takes it."""
    done, _ = ask(connection, [REGISTER, 1, 0, length, int(writable)], file)
    return done
