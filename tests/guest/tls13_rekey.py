"""Sends so many bytes of digits by kernel TLS 1.3 to port 4436, as tls_peer.py has it, and receives them again. In between it runs the commands,
one after the other, and both ends change their keys after each: this one says so (KeyUpdate), and asks the other one for the same. It sends
without blocking, and waits for room by epoll, if the way is "polls": edge-triggered, and level-triggered behind every other change.

The handshake is OpenSSL's, whose log of secrets the keys are made of. What has come is told as a digest, and how often the other end has changed;
and how often epoll has told of room where there was none."""

import hashlib, hmac, select, socket, ssl, struct, subprocess, sys, tempfile, threading

address, size, way, *commands = sys.argv[1:]
lines = int(size) // 64
SOL_TLS, TLS_TX, TLS_RX, TCP_ULP = 282, 1, 2, 31
SET_RECORD_TYPE, GET_RECORD_TYPE = 1, 2
HANDSHAKE, APPLICATION_DATA, KEY_UPDATE = 22, 23, 24
# Kernel's number of the cipher, bytes of its key, of its salt, and the hash.
CIPHERS = {
    "TLS_AES_128_GCM_SHA256": (51, 16, 4, "sha256"),
    "TLS_AES_256_GCM_SHA384": (52, 32, 4, "sha384"),
    "TLS_CHACHA20_POLY1305_SHA256": (54, 32, 0, "sha256"),
}


def expand(secret, label, length):
    """HKDF-Expand-Label (RFC 8446 §7.1) of no context; no length is more than one block."""
    label = b"tls13 " + label
    info = struct.pack("!HB", length, len(label)) + label + b"\0"
    return hmac.new(secret, info + b"\1", hash_name).digest()[:length]


def use(direction, secret):
    """Gives the kernel the keys of a traffic secret (RFC 8446 §7.3)."""
    key, iv = expand(secret, b"key", key_len), expand(secret, b"iv", 12)
    plain.setsockopt(SOL_TLS, direction, struct.pack("=HH", 0x0304, cipher) + iv[salt_len:] + key + iv[:salt_len] + bytes(8))


def update(secret):
    return expand(secret, b"traffic upd", len(secret))


def connect():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.NamedTemporaryFile("r") as log:
        context.keylog_filename = log.name
        tls = context.wrap_socket(socket.create_connection((address, 4436), 60))
        name = tls.cipher()[0]
        secrets = {line.split()[0]: bytes.fromhex(line.split()[2]) for line in log if line.endswith("\n") and not line.startswith("#")}
    plain = socket.socket(fileno=tls.detach())
    plain.settimeout(None)
    return plain, name, secrets["CLIENT_TRAFFIC_SECRET_0"], secrets["SERVER_TRAFFIC_SECRET_0"]


def send_all(data, trigger):
    global in_vain
    if way != "polls":
        plain.sendall(data)
        return
    with select.epoll() as room:
        room.register(plain, select.EPOLLOUT | trigger)
        told = False
        while data:
            try:
                data = data[plain.send(data, socket.MSG_DONTWAIT) :]
                told = False
            except BlockingIOError:
                in_vain += told
                told = bool(room.poll(60))
                if not told:
                    sys.exit("there is no more room")


def send(secret):
    changes = {lines * change // (len(commands) + 1) // 512: command for change, command in enumerate(commands, 1)}
    trigger = select.EPOLLET
    for block in range(-(-lines // 512)):
        send_all(b"".join(b"%063d\n" % line for line in range(block * 512, min((block + 1) * 512, lines))), trigger)
        if block in changes:
            trigger ^= select.EPOLLET
            subprocess.run(changes[block], shell=True, check=True)
            plain.sendmsg([bytes([KEY_UPDATE, 0, 0, 1, 1])], [(SOL_TLS, SET_RECORD_TYPE, bytes([HANDSHAKE]))])
            secret = update(secret)
            use(TLS_TX, secret)


def receive(secret):
    digest, left, changed = hashlib.sha256(), lines * 64, 0
    while left:
        data, ancillary, _, _ = plain.recvmsg(1 << 16, socket.CMSG_SPACE(1))
        if not data:
            sys.exit(f"it ends {left} bytes before its end")
        record_type = ancillary[0][2][0]
        if record_type == APPLICATION_DATA:
            digest.update(data)
            left -= len(data)
        elif record_type == HANDSHAKE and data[0] == KEY_UPDATE:
            secret = update(secret)
            use(TLS_RX, secret)
            changed += 1
        elif record_type != HANDSHAKE:
            sys.exit(f"a record of type {record_type}: {data.hex()}")
    return digest.hexdigest(), changed


in_vain = 0
plain, name, ours, theirs = connect()
cipher, key_len, salt_len, hash_name = CIPHERS[name]
plain.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
use(TLS_TX, ours)
use(TLS_RX, theirs)
sender = threading.Thread(target=send, args=(ours,))
sender.start()
digest, changed = receive(theirs)
sender.join()
print("echoed", digest, "changed", changed)
print(way, "in_vain", in_vain)
