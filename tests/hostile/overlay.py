"""Shows the NIC files of which no page comes: of FUSE, and of an overlay over that."""
import os
import sys

import fuse
from attack import libc, report
from rings import register, set_up

path, node, folder = sys.argv[1:4]
fuse.own_namespaces()
file = fuse.mount(node, folder + "/page")
_, connection = set_up(path)
taken = {"fuse": register(connection, file, 4096) == 0}
# An overlay says nothing of what it lies over, so that each counts as one over FUSE.
for name in ("lower", "upper", "work", "merged"):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
options = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work".encode()
open(f"{folder}/lower/page", "w").write("x" * 8192)
if libc.mount(b"overlay", f"{folder}/merged".encode(), b"overlay", 0, options) == 0:
    merged = os.open(f"{folder}/merged/page", os.O_RDONLY)
    taken["overlay"] = register(connection, merged, 4096) == 0
report(**taken)
