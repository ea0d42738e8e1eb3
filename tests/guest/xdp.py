"""Programs of XDP for xdp.sh, assembled here as the guest has no compiler for them, and the peer that they are tried with.

xdp.py pin DIRECTORY OWN-INTERFACE OTHER-INTERFACE
    pins the programs in a file system of BPF. `pass` puts metadata before each packet; of the others each does with a UDP datagram to the port
    that PORTS gives it what its name says, and passes everything else; `tls` sends long packets of TLS to the other interface.
xdp.py ask PEER PORT COUNT      of so many datagrams, from that port of ours, tells how many answers have come, and come back to the peer.
xdp.py whole PEER               has the peer send segments as they are on a wire from now on.
xdp.py look INTERFACE           tells of each packet there whether it has records in clear.
xdp.py serve ADDRESS INTERFACE  is the peer: it answers a datagram with E by one with R, and counts those.
"""

import ctypes, socket, struct, subprocess, sys

PEER_PORT, TLS_PORT = 9003, 4434
PORTS = {"drop": 5001, "tx": 5002, "aborted": 5003, "own": 5004, "map": 5005, "unknown": 5006, "tag": 5007}
XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, NO_ACTION = 0, 1, 2, 3, 77
BPF_MAP_CREATE, BPF_MAP_UPDATE_ELEM, BPF_PROG_LOAD, BPF_OBJ_PIN = 0, 2, 5, 6
BPF_MAP_TYPE_DEVMAP, BPF_PROG_TYPE_XDP, BPF_PSEUDO_MAP_FD = 14, 6, 1
REDIRECT, ADJUST_HEAD, REDIRECT_MAP, ADJUST_META, ADJUST_TAIL = 23, 44, 51, 54, 65
SYS_BPF = 321
libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    memory = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    result = libc.syscall(SYS_BPF, command, memory, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command})")
    return result


def address(buffer):
    return ctypes.cast(buffer, ctypes.c_void_p).value


# ---- instructions: operation, destination, source, offset, constant; include/uapi/linux/bpf.h -----------------------
def op(code, dst=0, src=0, off=0, imm=0):
    return struct.pack("<BBhi", code, dst | src << 4, off, imm)


def move(dst, src):
    return op(0xBF, dst, src)


def constant(dst, value):
    return op(0xB7, dst, imm=value)


def load(size, dst, src, off):
    return op({1: 0x71, 2: 0x69, 4: 0x61}[size], dst, src, off)


def store(size, dst, off, src):
    return op({2: 0x6B, 4: 0x63}[size], dst, src, off)


def call(helper):
    return op(0x85, imm=helper)


def give(action):
    return constant(0, action) + op(0x95)


def swap(size, one, other):
    """Of the packet at r2."""
    return load(size, 5, 2, one) + load(size, 7, 2, other) + store(size, 2, one, 7) + store(size, 2, other, 5)


# Ethernet, IPv4 without options, UDP: checksums stay right.
SWAP_ENDS = swap(4, 0, 6) + swap(2, 4, 10) + swap(4, 26, 30) + swap(2, 34, 36)


# What is looked at, and its comparison with what stands in the way of the action.
IS_IPV4 = load(2, 5, 2, 12) + op(0x55, 5, imm=socket.htons(0x0800))
# bpf_htons() of the length of the IP packet, and less than.
IS_LONG = load(2, 5, 2, 16) + op(0xDC, 5, imm=16) + op(0xA5, 5, imm=1400)


def is_protocol(number):
    return load(1, 5, 2, 23) + op(0x55, 5, imm=number)


def is_port(at, port):
    return load(2, 5, 2, at) + op(0x55, 5, imm=socket.htons(port))


def when(tests, action):
    """For a packet of which all tests hold: r6 is the context, r2 the packet. Each test ends in the jump that passes any other one."""
    code, jumps = move(6, 1) + load(4, 2, 1, 0) + load(4, 3, 1, 4) + move(4, 2) + op(0x07, 4, imm=42), []
    for test in [op(0x2D, 4, 3), *tests]:
        code += test
        jumps.append(len(code) - 8)
    code += action
    for at in jumps:
        code = code[: at + 2] + struct.pack("<h", (len(code) - at) // 8 - 1) + code[at + 4 :]
    return code + give(XDP_PASS)


def for_port(port, action):
    return when([IS_IPV4, is_protocol(socket.IPPROTO_UDP), is_port(36, port)], action)


def pass_with_metadata():
    get = move(6, 1) + constant(2, -8) + call(ADJUST_META)
    put = load(4, 2, 6, 8) + load(4, 3, 6, 0) + move(4, 2) + op(0x07, 4, imm=8) + op(0x2D, 4, 3, 2) + constant(5, 7) + store(4, 2, 0, 5)
    return get + put + give(XDP_PASS)


def pass_with_tag():
    """A VLAN tag of priority at the front, which is not of any VLAN, and 16 bytes of padding."""
    room = move(1, 6) + constant(2, 16) + call(ADJUST_TAIL) + move(1, 6) + constant(2, -4) + call(ADJUST_HEAD)
    tag = b"".join(load(4, 5, 2, at + 4) + store(4, 2, at, 5) for at in (0, 4, 8)) + constant(5, socket.htons(0x8100)) + store(2, 2, 12, 5)
    tag += constant(5, 0) + store(2, 2, 14, 5)
    check = load(4, 2, 6, 0) + load(4, 3, 6, 4) + move(4, 2) + op(0x07, 4, imm=18) + op(0x2D, 4, 3, len(tag) // 8)
    return room + check + tag + give(XDP_PASS)


def load_program(code):
    instructions, license = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    log = ctypes.create_string_buffer(1 << 16)
    attributes = struct.pack("<IIQQIIQ", BPF_PROG_TYPE_XDP, len(code) // 8, address(instructions), address(license), 1, len(log), address(log))
    try:
        return bpf(BPF_PROG_LOAD, attributes)
    except OSError as error:
        sys.exit(f"{error}: {log.value.decode()[-400:]}")


def make_map(interface):
    """A map of one device."""
    made = bpf(BPF_MAP_CREATE, struct.pack("<IIII", BPF_MAP_TYPE_DEVMAP, 4, 4, 1))
    key = ctypes.create_string_buffer(struct.pack("<I", 0), 4)
    value = ctypes.create_string_buffer(struct.pack("<I", socket.if_nametoindex(interface)), 4)
    bpf(BPF_MAP_UPDATE_ELEM, struct.pack("<IIQQQ", made, 0, address(key), address(value), 0))
    return made


def pin(directory, own, other):
    redirect = constant(1, socket.if_nametoindex(own)) + constant(2, 0) + call(REDIRECT) + op(0x95)
    devices = op(0x18, 1, BPF_PSEUDO_MAP_FD, imm=make_map(other)) + op(0)
    redirect_map = devices + constant(2, 0) + constant(3, 0) + call(REDIRECT_MAP) + op(0x95)
    actions = {
        "drop": give(XDP_DROP),
        "tx": SWAP_ENDS + give(XDP_TX),
        "aborted": give(XDP_ABORTED),
        "own": SWAP_ENDS + redirect,
        "map": redirect_map,
        "unknown": give(NO_ACTION),
        "tag": pass_with_tag(),
    }
    programs = {name: for_port(PORTS[name], action) for name, action in actions.items()}
    programs["tls"] = when([IS_IPV4, is_protocol(socket.IPPROTO_TCP), is_port(34, TLS_PORT), IS_LONG], redirect_map)
    programs["pass"] = pass_with_metadata()
    for name, code in programs.items():
        path = ctypes.create_string_buffer(f"{directory}/{name}".encode())
        bpf(BPF_OBJ_PIN, struct.pack("<QI", address(path), load_program(code)))


# ---- traffic ---------------------------------------------------------------------------------------------------------
def ask(peer, port, count):
    answers, back = set(), tell(peer, b"bounced")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.bind(("", port))
        ours.settimeout(2)
        for number in range(count):
            ours.sendto(b"E%d" % number, (peer, PEER_PORT))
        try:
            while len(answers) < count:
                answers.add(ours.recv(100))
        except TimeoutError:
            pass
    print(len(answers), tell(peer, b"bounced") - back)


def tell(peer, word):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.settimeout(2)
        # The kernel may drop what is sent while a device comes up.
        for _ in range(10):
            ours.sendto(word, (peer, PEER_PORT))
            try:
                return int(ours.recv(100))
            except TimeoutError:
                pass
    raise SystemExit("the peer does not answer")


def look(interface):
    ETH_P_ALL = 3
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as ours:
        ours.bind((interface, 0))
        while True:
            print("clear" if b"0" * 40 in ours.recv(1 << 16) else "ciphertext", flush=True)


def serve(own, interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.bind((own, PEER_PORT))
        back = 0
        while True:
            datagram, sender = ours.recvfrom(100)
            if datagram.startswith(b"E"):
                ours.sendto(b"R" + datagram[1:], sender)
            elif datagram.startswith(b"R"):
                back += 1
            else:
                if datagram == b"whole":
                    subprocess.run(["ip", "link", "set", interface, "gso_max_segs", "1"], check=True)
                ours.sendto(b"%d" % back, sender)


match sys.argv[1:]:
    case ["pin", directory, own, other]:
        pin(directory, own, other)
    case ["ask", peer, port, count]:
        ask(peer, int(port), int(count))
    case ["whole", peer]:
        tell(peer, b"whole")
    case ["look", interface]:
        look(interface)
    case ["serve", own, interface]:
        serve(own, interface)
