# The guest's first process: /run/longshore has the command, its variables, and the driver. ttyS1 is the command's terminal
# or output, ttyS2 takes its exit code.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
exec </dev/null >/dev/kmsg 2>&1
stty raw -echo </dev/ttyS2
set -a
. /run/longshore/variables
set +a
mount_9p() { mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 "$1" "$2"; }
[ ! -e /run/longshore/has_modules ] || {
    mkdir -p "/usr/lib/modules/$(uname -r)" && mount_9p modules "/usr/lib/modules/$(uname -r)"
}
[ ! -e /run/longshore/has_share ] || mount_9p share /mnt
echo guest >/proc/sys/kernel/hostname
ip link set lo up

# The first function is the interface with the address.
load_driver() {
    modprobe tls
    if [ -e /run/longshore/longshore.ko ]; then insmod /run/longshore/longshore.ko; else modprobe longshore; fi || return 1
    NETDEV=$(ls /sys/bus/pci/drivers/longshore/*/net | sed -n '/./{/:$/!p}' | sort -V | head -n 1)
    [ -n "$NETDEV" ] && ip link set "$NETDEV" up && ip addr add "$ADDRESS_CIDR" dev "$NETDEV"
}
finish() {
    echo "$1" >/dev/ttyS2
    busybox poweroff -f
}
if [ -z "$NO_DRIVER" ]; then
    load_driver || finish driver
    export NETDEV
fi
cd /root
if [ -e /run/longshore/command ]; then
    stty raw -echo </dev/ttyS1
    sh /run/longshore/command </dev/null >/dev/ttyS1 2>&1
else
    # The size is gone when nobody has the terminal open.
    setsid --ctty --wait sh -c "stty sane rows $ROWS columns $WIDTH; exec bash --login" </dev/ttyS1 >/dev/ttyS1 2>&1
fi
finish $?
