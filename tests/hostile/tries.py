"""Another tenant: attaches, and has the NIC take keys."""
import sys

from attack import ATTACH, SET_KEYS, ask, attach, connect, request, slab

path, address, port = sys.argv[1:4]
nic = attach(path)
error = ask(nic, request(ATTACH), slab())
assert error == 0, f"the slab is refused: {error}"
connection = connect(address, int(port))
error = ask(nic, request(SET_KEYS), connection.fileno())
assert error == 0, f"keys are refused: {error}"
