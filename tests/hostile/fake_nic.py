"""Listens where a NIC would, says what a NIC would say, and keeps what it is given."""
import array
import os
import socket
import struct
import sys

from attack import report

path, protocol = sys.argv[1:3]
if os.path.exists(path):
    os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o666)
listener.listen(64)
print("listens", flush=True)
while True:
    connection, _ = listener.accept()
    came, descriptors, has_greeted = b"", 0, protocol == "rings"
    try:
        while True:
            data, rights, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(64))
            descriptors += sum(len(array.array("i", right[2])) for right in rights)
            came += data
            if not data or protocol == "rings":
                break
            # An answer to each: done, at position 0, slab 0.
            connection.sendall(struct.pack("<HHiI4x", 2, 0, 0, 0) if has_greeted else b'"attached"\n')
            has_greeted = True
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
    kinds = [struct.unpack_from("<H", came, 21 + at + 2)[0] for at in range(0, len(came) - 21 - 103, 104)]
    report(bytes=len(came), descriptors=descriptors, keys=kinds.count(2))
    connection.close()
