"""What the attacks share: the control socket's protocol as any library speaks it, keys, frames, and the text that must not be seen."""
import array
import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
import time

MARK = b"not to be read on any wire! "
TCP_REPAIR, TCP_ULP, SOL_TLS, TLS_TX = 19, 31, 282, 1
TRANSMIT, RECEIVE = 0, 1
ATTACH, SET_KEYS, STOP, RELEASE, MEMORY = 1, 2, 3, 4, 5
SLOT_BYTES = 4096
libc = ctypes.CDLL(None, use_errno=True)


def report(**what):
    """One line for the script that has started this."""
    print(json.dumps(what), flush=True)


def failed():
    """The error of the last call of the C library."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


# ---- an attachment (crates/attachment/src/message.rs, slab.rs) ----------------------------------------------


def slab(slots=64):
    """A sealed file of free slots."""
    size = (slots + 1) * SLOT_BYTES
    file = os.memfd_create("slab", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    os.pwrite(file, struct.pack("<QQ", int.from_bytes(b"lnshslb\x01", "big"), slots), 0)
    for slot in range(slots):
        os.pwrite(file, struct.pack("<Q", 1 << 32 | 1), (slot + 1) * SLOT_BYTES)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return file


def control(path, patience=5.0):
    """A connection to the control socket."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(patience)
    connection.connect(path)
    return connection


def attach(path, patience=5.0):
    """A connection to the control socket that has become an attachment."""
    connection = control(path, patience)
    connection.sendall(b'{"command":"attach"}\n')
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            raise ConnectionResetError("the NIC has closed an attachment that began")
        line += byte
    if line != b'"attached"\n':
        raise ConnectionRefusedError(line.decode(errors="replace"))
    return connection


def keys():
    """Parameters of TLS 1.3 with AES-128-GCM, as messages have them."""
    return struct.pack("<BB6xQ12s32s4x", 13, 1, 0, os.urandom(12), os.urandom(16))


def request(kind, slab_number=0, index=0, direction=TRANSMIT, generation=1, version=3):
    """The bytes of a request."""
    content = keys() if kind == SET_KEYS else bytes(64)
    return struct.pack("<HHHBBIIQIIH2xI", version, kind, slab_number, direction, 0, index, generation, 0, 0, 0, 0, 0) + content


def ask(connection, message, descriptor=None):
    """Sends a request, waits for its answer: its errno, 0 when it was done."""
    pass_on(connection, message, [] if descriptor is None else [descriptor])
    return answer(connection)


def answer(connection):
    """The errno of the next answer."""
    came = b""
    while len(came) < 16:
        more = connection.recv(16 - len(came))
        if not more:
            raise ConnectionResetError("the NIC has closed the attachment")
        came += more
    return struct.unpack_from("<i", came, 4)[0]


def pass_on(connection, message, descriptors):
    """Sends bytes with descriptors."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    connection.sendmsg([message], rights)


# ---- sockets ------------------------------------------------------------------------------------------------


def connect(address, port, patience=5.0):
    """A TCP connection."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family)
    connection.settimeout(patience)
    connection.connect((address, port))
    return connection


def kernel_tls(connection):
    """Gives a socket keys to send with. The library under it sees that."""
    connection.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
    # struct tls12_crypto_info_aes_gcm_128: version, cipher, iv, key, salt, number of the next record.
    info = struct.pack("<HH8s16s4s8s", 0x0304, 51, os.urandom(8), os.urandom(16), os.urandom(4), bytes(8))
    connection.setsockopt(SOL_TLS, TLS_TX, info)


def send_for(connection, seconds, pause=0.005, size=4096):
    """Sends the text that must not be seen; gives how many bytes went, and what ended it."""
    content = (MARK * (size // len(MARK) + 1))[:size]
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            sent += connection.send(content)
        except TimeoutError:
            return sent, "it takes no more"
        except OSError as error:
            return sent, str(error)
        time.sleep(pause)
    return sent, None


# ---- frames -------------------------------------------------------------------------------------------------


def checksum(data):
    """That of RFC 1071."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data[: len(data) & ~1]))
    total += data[-1] << 8 if len(data) % 2 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def tcp_packet(source, destination, sequence, acknowledgement, flags, payload=b""):
    """An IP packet from (address, port) to (address, port)."""
    family = socket.AF_INET6 if ":" in source[0] else socket.AF_INET
    addresses = socket.inet_pton(family, source[0]) + socket.inet_pton(family, destination[0])
    segment = struct.pack(">HHIIBBHHH", source[1], destination[1], sequence, acknowledgement, 5 << 4, flags, 65535, 0, 0) + payload
    pseudo = addresses + struct.pack(">IxxxB", len(segment), 6)
    segment = segment[:16] + struct.pack(">H", checksum(pseudo + segment)) + segment[18:]
    if family == socket.AF_INET6:
        return struct.pack(">IHBB", 6 << 28, len(segment), 6, 64) + addresses + segment
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0, 64, 6, 0) + addresses
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:] + segment


def frame_to(interface, neighbour, packet):
    """Puts an IP packet on an Ethernet interface, for the neighbour of this address."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind((interface, 0))
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    raw.send(bytes.fromhex(neighbour.replace(":", "")) + raw.getsockname()[4] + struct.pack(">H", kind) + packet)


def say_and_wait(word):
    """Tells the script that it may go on, and waits until it says so too."""
    print(word, flush=True)
    return sys.stdin.readline()
