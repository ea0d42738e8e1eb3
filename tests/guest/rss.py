"""In a guest: tells by which queues the driver's interface receives flows of known ports, and by which ones its key and its table say.

rss.py INTERFACE OWN-ADDRESS PEER PORT [addresses]

For each of some ports of its own it opens a connection to the peer and reads until the end. The queue whose counter grows most must be that of
the table's entry for the Toeplitz hash of the flow; with `addresses`, of the addresses alone. Prints the queues that were used.
"""

import re, socket, subprocess, sys

interface, own, peer, port = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with_ports = len(sys.argv) == 5
PORTS = range(40000, 40132, 11)


def ethtool(option):
    return subprocess.run(["ethtool", option, interface], capture_output=True, check=True, text=True).stdout


def settings():
    told = ethtool("-x")
    rows = re.findall(r"^\s+\d+:((?:\s+\d+)+)$", told, re.M)
    table = [int(entry) for row in rows for entry in row.split()]
    key = re.search(r"hash key:\n([0-9a-f:]+)", told)[1]
    return table, bytes.fromhex(key.replace(":", ""))


def toeplitz(key, data):
    """By the definition: each bit that is set adds the 32 bits of the key that begin at it."""
    key_bits, key_len, result = int.from_bytes(key, "big"), 8 * len(key), 0
    for at in range(8 * len(data)):
        if data[at // 8] >> (7 - at % 8) & 1:
            result ^= key_bits >> (key_len - 32 - at) & 0xFFFFFFFF
    return result


def received():
    counters = re.findall(r"^\s+rx(\d+)_packets: (\d+)", ethtool("-S"), re.M)
    return {int(queue): int(packets) for queue, packets in counters}


table, key = settings()
before, used = received(), set()
for own_port in PORTS:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.bind((own, own_port))
        connection.connect((peer, port))
        while connection.recv(1 << 16):
            pass
    data = socket.inet_aton(peer) + socket.inet_aton(own)
    if with_ports:
        data += port.to_bytes(2, "big") + own_port.to_bytes(2, "big")
    expected = table[toeplitz(key, data) % len(table)]
    after = received()
    grown = {queue: after[queue] - before[queue] for queue in after}
    most = max(grown, key=grown.get)
    if most != expected or grown[most] < 0.9 * sum(grown.values()):
        sys.exit(f"port {own_port}: expected on queue {expected}, came {grown}")
    used.add(most)
    before = after
print(*sorted(used))
