"""A file of a file system in user space of which no page ever comes: whoever touches it waits. As an unprivileged user mounts it, in namespaces of their own."""
import ctypes
import mmap
import os
import select
import signal
import struct

from attack import failed, libc

CLONE_NEWNS, CLONE_NEWUSER, PR_SET_PDEATHSIG = 0x20000, 0x10000000, 1
GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, FORGET, INTERRUPT = 3, 14, 15, 18, 25, 26, 2, 36
ENOSYS, SIZE = 38, 1 << 20
libc.mmap.restype = ctypes.c_void_p


def own_namespaces():
    """Root of a user namespace with mounts of its own, which needs no privileges."""
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
        raise failed()
    for name, line in [("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")]:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def serve(device, silent):
    attributes = struct.pack("<QQQQQQIIIIIIIIII", 1, SIZE, SIZE // 512, 0, 0, 0, 0, 0, 0, 0o100644, 1, 0, 0, 0, 4096, 0)
    answers = {
        INIT: struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 16, 12, 4096, 1, 0, 0, 0),
        GETATTR: struct.pack("<QII", 3600, 0, 0) + attributes,
        OPEN: bytes(16),
        RELEASE: b"",
        FLUSH: b"",
    }
    while True:
        _, kind, unique = struct.unpack_from("<IIQ", os.read(device, 1 << 17))
        if kind in (FORGET, INTERRUPT, *silent):
            continue
        content = answers.get(kind)
        header = struct.pack("<IiQ", 16 + len(content or b""), 0 if content is not None else -ENOSYS, unique)
        os.write(device, header + (content or b""))


def mount(node, target, silent=(READ,)):
    """Mounts it over a file; what is `silent` it never answers. Its server ends with this thread, and with that all who wait."""
    with open(target, "w"):
        pass
    device = os.open(node, os.O_RDWR)
    options = f"fd={device},rootmode=100644,user_id=0,group_id=0".encode()
    if libc.mount(b"hostile", target.encode(), b"fuse", 0, options):
        raise failed()
    if os.fork() == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        serve(device, silent)
    os.close(device)
    file = os.open(target, os.O_RDONLY)
    # The kernel asks for the size now: beyond it are no pages.
    os.fstat(file)
    return file


def page(file):
    """The address of a page that never comes."""
    address = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_PRIVATE, file, ctypes.c_long(0))
    if address == ctypes.c_void_p(-1).value:
        raise failed()
    return address
