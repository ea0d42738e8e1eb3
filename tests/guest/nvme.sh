# nvme-tcp of a guest with drivers/linux/patches/nvme-tcp.patch has the NIC place what it reads and verify digests: against our target on the other end of
# a wire, which then loses and reorders packets.
. "$(dirname "$0")/world.sh"
needs ip unshare nsenter make patch truncate sha256sum

if [[ -z ${LONGSHORE_KERNEL_SOURCE:-} ]]; then
    skip 'nvme' "no source of the kernel: ${LONGSHORE_KERNEL_SOURCE_LACKS:-run me by tests/guest/run}"
    exit
fi

# make_nvme: patched here, compiled in the root, for its kernel.
make_nvme() {
    local version built=$LONGSHORE_GUEST_ROOT/tmp/nvme.$$ code=0
    version=$(ls "$LONGSHORE_GUEST_ROOT/usr/lib/modules")
    mkdir -p "$scratch/guest"
    cp -r "$driver" "$built"
    # objtool reads /proc.
    # shellcheck disable=SC2016 # expanded by the inner shell
    make -C "$built" nvme/tcp.c "SOURCE=$LONGSHORE_KERNEL_SOURCE/drivers/nvme/host" >"$scratch/make.log" 2>&1 &&
        unshare --mount --propagation private sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$LONGSHORE_GUEST_ROOT" \
            make -j2 -C "/tmp/nvme.$$" nvme-tcp "KDIR=/usr/src/linux-headers-$version" >>"$scratch/make.log" 2>&1 &&
        cp "$built/nvme/nvme-tcp.ko" "$scratch/guest/" || code=$?
    rm -rf "$built"
    [[ $code -eq 0 ]] && ! grep -q 'warning:' "$scratch/make.log"
}
if make_nvme; then
    ok 'the patched nvme-tcp compiles without a warning'
else
    not_ok 'the patched nvme-tcp compiles without a warning' "$(last_words make.log)"
    exit
fi

nqn=nqn.2024-01.org.example:disk
megabytes=16
other_host 10.77.0.9
make_file disk.img $((megabytes << 20))
truncate -s $((2 * megabytes))M "$scratch/root/disk.img"
# The target has a TAP of its own there, on the wire by a bridge.
there sh -c 'ip tuntap add dev ls1 mode tap vnet_hdr && ip link add br0 type bridge && ip link set w1 master br0 && ip link set ls1 master br0 &&
    ip link set br0 up && ip link set ls1 up' || not_ok 'a bridge' 'there is none'
start target.log nsenter --net="/proc/$other/ns/net" "$LONGSHORE" nvme target --tap ls1 --ip "$peer4/24" --nqn "$nqn" \
    --ns "$scratch/root/disk.img,block=512" --control "$scratch/target.control"
eventually grep -q '^listening' "$scratch/target.log" || not_ok 'the target starts' "$(last_words target.log)"

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
# linked OPTIONS: $disk is the target's.
linked() {
    echo "transport=tcp,traddr=$PEER,trsvcid=4420,nqn=$NQN,hostnqn=nqn.2014-08.org.example:guest,hostid=6c6f6e67-7368-4f72-8001-000000000001,nr_io_queues=2$1" >/dev/nvme-fabrics || return 1
    disk=''
    tries=0
    while [ ! -b "$disk" ] && [ $tries -lt 100 ]; do
        sleep 0.1
        disk=$(ls -d /dev/nvme*n1 2>/dev/null | tail -n 1)
        tries=$((tries + 1))
    done
    [ -b "$disk" ]
}
unlinked() { for at in /sys/class/nvme/nvme*/delete_controller; do echo 1 >"$at" || return 1; done; }
value() { ethtool -S "$dev" | awk -v name="$1:" '$1 == name { print $2 }'; }
# reads BYTES-AT-ONCE FLAGS: all of the file has come.
reads() { dd if="$disk" bs="$1" count=$((MEGABYTES * 1024 / ${1%k})) $2 2>/tmp/dd.log | sha256sum | cut -d ' ' -f 1 | grep -qx "$SHA256"; }
small_reads() { dd if="$disk" bs=2k count=1024 iflag=direct of=/tmp/small && dd if="$disk" bs=256k count=8 iflag=direct | cmp - /tmp/small; }
# Packets have parts of many reads then.
many_read() {
    for at in 0 1 2 3 4 5 6 7; do
        (dd if="$disk" bs=4k skip=$((at * 128)) count=128 iflag=direct of=/tmp/many.$at 2>/dev/null) &
    done
    wait
    cat /tmp/many.? >/tmp/many && dd if="$disk" bs=256k count=16 iflag=direct | cmp - /tmp/many
}
writes() {
    head -c 4M /dev/urandom >/tmp/up && dd if=/tmp/up of="$disk" bs=256k seek=$((MEGABYTES * 4)) oflag=direct conv=fsync &&
        dd if="$disk" bs=256k skip=$((MEGABYTES * 4)) count=16 iflag=direct | cmp - /tmp/up
}
# placed WHAT PERCENT COMMAND…: does it, of whose bytes the NIC has placed, or verified, so many at least.
placed() {
    counter=rx_nvme_$1_bytes least=$2
    shift 2
    before=$(value $counter)
    "$@" || return 1
    share=$((($(value $counter) - before) * 100 / (MEGABYTES << 20)))
    echo "# $counter: $share %"
    echo "# $counter: $share %, $*" >&3
    [ $share -ge $least ]
}
# skips_copies COMMAND…: does it, of whose bytes nvme-tcp finds so many where they belong, as a probe counts them.
skips_copies() {
    cd /sys/kernel/tracing && echo 'p:skip nvme_tcp:nvme_tcp_skip_placed bytes=$arg2' >kprobe_events &&
        echo 'hist:keys=common_type:vals=bytes' >events/kprobes/skip/trigger && echo 1 >events/kprobes/skip/enable || return 1
    "$@" || return 1
    bytes=$(awk '/bytes:/ { sum += $NF } END { print sum + 0 }' events/kprobes/skip/hist)
    echo '!hist:keys=common_type:vals=bytes' >events/kprobes/skip/trigger
    echo 0 >events/kprobes/skip/enable
    echo >kprobe_events
    cd /
    share=$((bytes * 100 / (MEGABYTES << 20)))
    echo "# not copied: $share %"
    echo "# not copied: $share %" >&3
    [ $share -ge "$PLACED" ]
}
# again: reads that were done again since counts_again, because what the NIC has placed was not believed.
events=/sys/kernel/tracing/events/nvme/nvme_complete_rq
counts_again() {
    echo '!hist:keys=status if status == 0x22' >$events/trigger 2>/dev/null
    echo 'hist:keys=status if status == 0x22' >$events/trigger
}
again() { awk '/Hits:/ { print $2 }' $events/hist; }
# The NIC places what TCP does not get then.
dropped_reads() {
    modprobe -a act_gact cls_matchall sch_ingress
    before=$(again)
    tc qdisc add dev "$dev" clsact && tc filter add dev "$dev" ingress matchall action gact pass random determ drop 20 || return 1
    reads 64k iflag=direct
    code=$?
    tc qdisc del dev "$dev" clsact
    echo "# done again: $before, then $(again)"
    echo "# done again: $before, then $(again)" >&3
    [ $code -eq 0 ] && [ "$(again)" -gt "$before" ]
}
# reset_while COMMAND…: does it, while the controller is connected again.
reset_while() {
    (sleep 0.5; for at in /sys/class/nvme/nvme*/reset_controller; do echo 1 >"$at"; done) &
    "$@"
    code=$?
    wait
    return $code
}
exec 3>&1
use || exit 1
modprobe nvme-fabrics && modprobe nvme-keyring && modprobe nvme-auth
insmod /mnt/nvme-tcp.ko ddp_offload=1 || exit 1
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || exit 1
for digests in '' ',hdr_digest,data_digest'; do
    on=", $WIRE$digests"
    counts_again
    try "connects$on" linked "$digests"
    try "direct reads of 64 KiB are placed$on" placed placed "$PLACED" reads 64k iflag=direct
    what=placed
    [ -z "$digests" ] || what=verified
    try "direct reads of 1 MiB are $what$on" placed $what "$PLACED" reads 1024k iflag=direct
    try "nvme-tcp does not copy what is placed$on" skips_copies reads 64k iflag=direct
    try "small reads have the same bytes$on" small_reads
    echo 3 >/proc/sys/vm/drop_caches
    try "reads by the page cache are placed$on" placed placed "$PLACED" reads 128k
    try "readers at once have the same bytes$on" many_read
    try "what was written is read$on" writes
    [ "$PLACED" -lt 90 ] || try "no read is done again$on" [ "$(again)" -eq 0 ]
    try "reads of which the guest drops packets have the same bytes, and are done again$on" dropped_reads
    try "reads go on over a reset of the controller$on" reset_while reads 64k iflag=direct
    try "readers at once go on over a reset of the controller$on" reset_while many_read
    try "direct reads are placed again$on" placed placed "$PLACED" reads 64k iflag=direct
    (sleep 0.5; ip link set "$dev" down; ip link set "$dev" up) &
    try "reads go on over a reset$on" reads 64k iflag=direct
    wait
    dd if="$disk" of=/dev/null bs=64k iflag=direct 2>/dev/null &
    try "disconnects in the middle of a read$on" unlinked
    wait
done
ethtool -S "$dev" | grep -E 'nvme|refused|unknown|no_memory'
try "the modules go, $WIRE" sh -c "rmmod nvme_tcp && ip link set $dev down && rmmod longshore"
try "the kernel has nothing to complain of, $WIRE" no_complaint
SCRIPT

# world NAME PERCENT OPTION…: a NIC with these options, and a guest.
world() {
    local name=$1 least=$2 code
    shift 2
    if ! start_nic "$@"; then
        not_ok "the NIC starts, $name" "$(last_words nic.log)"
        return
    fi
    boot 600 -- env "SHA256=$(head -c $((megabytes << 20)) "$scratch/root/disk.img" | sha256sum | cut -d ' ' -f 1)" "MEGABYTES=$megabytes" "NQN=$nqn" "PLACED=$least" "WIRE=$name"
    code=$?
    repeat_cases guest.log
    [[ $code -eq 0 ]] || not_ok "the guest runs to the end, $name" "code $code: $(last_words boot.log)"
    stop "$nic"
}
world 'a good wire' 90
world 'a bad wire' 50 "${impaired[@]}"
