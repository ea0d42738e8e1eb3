"""Round-trip times through the NIC, and what they say.

latency ADDRESS PORT SECONDS   asks an echo on the other host again and again: {"samples", "p50_us", "p999_us", "max_us"}
compare QUIET ATTACKED         files of such lines, of windows that took turns: a line of the table, and whether the attack cost too much
"""
import json
import math
import socket
import statistics
import sys
import time

from attack import connect

# One turn of somebody else's on the processor, or one long piece of work in the kernel, is 3 to 4 ms. What is below is noise.
FLOOR_US = 4000


def latency(address, port, seconds):
    times, began = [], time.monotonic_ns()
    try:
        connection = connect(address, int(port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.monotonic_ns() + int(float(seconds) * 1e9)
        while (began := time.monotonic_ns()) < end:
            connection.sendall(b"are you there?")
            connection.recv(100)
            times.append(time.monotonic_ns() - began)
            # 2000 a second at the most: what is measured is a pause, and not the processor's time.
            time.sleep(0.0003)
    except TimeoutError:
        # It took longer than anybody waits: that counts as what it took.
        times.append(time.monotonic_ns() - began)
    times.sort()
    at = lambda share: round(times[min(len(times) - 1, math.ceil(len(times) * share) - 1)] / 1000, 1)
    print(json.dumps({"samples": len(times), "p50_us": at(0.5), "p999_us": at(0.999), "max_us": at(1)}))


def compare(name, quiet, attacked):
    windows = [[json.loads(line) for line in open(file)] for file in (quiet, attacked)]
    median = lambda windows, key: statistics.median(window[key] for window in windows)
    before, during = [(median(side, "p50_us"), median(side, "p999_us")) for side in windows]
    if before[0] > 100_000:
        sys.exit("without an attack it is as bad: the NIC has not come back from the last one")
    ratio = during[1] / before[1]
    print(f"| {name} | {before[0]:.0f} | {before[1]:.0f} | {during[0]:.0f} | {during[1]:.0f} | {ratio:.2f} |")
    sys.exit(during[1] > 2 * max(before[1], FLOOR_US))


{"latency": latency, "compare": compare}[sys.argv[1]](*sys.argv[2:])
