#!/bin/busybox sh
# Mounts the guest's root: the root of Debian below a memory disk, and above it what this run is told.
echo 'longshore: the kernel is up'
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
for module in /modules/*; do insmod "$module" 2>/dev/null; done
# share TAG WHERE OPTION
share() { mount -t 9p -o "trans=virtio,version=9p2000.L,msize=524288,$3" "$1" "$2"; }
if ! share root /lower ro,cache=loose || ! mount -t tmpfs -o mode=755 tmpfs /upper; then
    echo 'longshore: this kernel does not mount the root: it needs 9P over virtio'
    poweroff -f
fi
mkdir /upper/changes /upper/work
if ! mount -t overlay -o lowerdir=/lower,upperdir=/upper/changes,workdir=/upper/work overlay /new; then
    echo 'longshore: this kernel does not mount the root: it needs overlayfs'
    poweroff -f
fi
mkdir -p /new/run/longshore
share told /new/run/longshore cache=none
exec switch_root /new /bin/sh /run/longshore/start
