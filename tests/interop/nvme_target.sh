# Linux's initiator, in a guest with a kernel of its own, with our target: a file and memory, digests, a bad wire.
. "$(dirname "$0")/harness.sh"
needs_guest
needs truncate

nqn=nqn.2024-01.org.example:longshore

# What the guest does; $DIGESTS are nvme-cli's options. It says EQUAL, CLEAN and DONE if all is well.
cat >"$scratch/script" <<'SCRIPT'
set -e
digests=$(echo $DIGESTS | tr , ' ')
nvme discover -t tcp -a $TARGET -s 4420 $digests
nvme connect -t tcp -a $TARGET -s 4420 -n $NQN $digests
tries=0
until [ -b /dev/nvme0n2 ]; do tries=$((tries + 1)); [ $tries -lt 100 ]; sleep 0.1; done
nvme list
nvme id-ctrl /dev/nvme0 | grep -E '^(sn|mn|cntlid|mdts|ioccsz|oncs|vwc|sgls)'
nvme id-ns /dev/nvme0n1 | grep -E '^(nsze|nguid|lbaf)'
nvme smart-log /dev/nvme0 | grep -E 'host_(read|write)'
nvme error-log /dev/nvme0 >/dev/null
nvme get-feature /dev/nvme0 -f 7
nvme get-feature /dev/nvme0 -f 0x0f
# No two blocks of it are alike.
seq 1 9999999 | head -c $SIZE >/tmp/written
for disk in /dev/nvme0n1 /dev/nvme0n2; do
    dd if=/tmp/written of=$disk bs=256k oflag=direct conv=fsync
    echo 3 >/proc/sys/vm/drop_caches
    dd if=$disk of=/tmp/read bs=256k count=$((SIZE / 262144)) iflag=direct
    sum=$(sha256sum </tmp/read)
    [ "$sum" = "$(sha256sum </tmp/written)" ] && echo "EQUAL ${disk##*/} ${sum%% *}"
    rm /tmp/read
done
nvme flush /dev/nvme0n1
nvme dsm /dev/nvme0n1 -n 1 -d -s 0 -b 8 || true
blkdiscard -o 0 -l 1048576 /dev/nvme0n1 2>/dev/null || true
modprobe ext4
mkfs.ext4 -q -F /dev/nvme0n1
mkdir -p /tmp/mnt
mount /dev/nvme0n1 /tmp/mnt
cp /tmp/written /tmp/mnt/file
sync
umount /tmp/mnt
e2fsck -f -n /dev/nvme0n1 && echo CLEAN
mount /dev/nvme0n1 /tmp/mnt
[ "$(sha256sum </tmp/mnt/file)" = "$(sha256sum </tmp/written)" ] && echo SAME FILE
umount /tmp/mnt
nvme disconnect -n $NQN
dmesg | grep -i 'nvme.*\(error\|fail\|timeout\|invalid\)' && exit 1
echo DONE
SCRIPT

make_guest_network || exit 1
size=$((${LONGSHORE_MIB:-16} << 20))

# check NAME DIGESTS OPTION…: the guest against a target with these options.
check() {
    local name=$1 digests=$2
    shift 2
    rm -f "$scratch/disk.img"
    truncate -s 96M "$scratch/disk.img"
    start target.log "$LONGSHORE" nvme target "${our_addresses[@]}" --ns "$scratch/disk.img" --ns mem:64M \
        --nqn "$nqn" --control "$scratch/control" "$@"
    local target=$started
    eventually 10 grep -q '^listening' "$scratch/target.log"
    "$(dirname "$0")/guest.sh" run "$scratch/script" --tap "$guest_tap" --ip "$guest4/24" --time 240 \
        --set TARGET="$ours4" --set NQN="$nqn" --set DIGESTS="$digests" --set SIZE="$size" >"$scratch/guest.log" 2>&1
    "$LONGSHORE" stat "$scratch/control" >"$scratch/stat.log" 2>&1
    stop "$target"
    if grep -q '^EQUAL nvme0n1' "$scratch/guest.log" && grep -q '^EQUAL nvme0n2' "$scratch/guest.log" &&
        grep -q '^CLEAN' "$scratch/guest.log" && grep -q '^SAME FILE' "$scratch/guest.log" &&
        grep -q '^DONE' "$scratch/guest.log"; then
        ok "$name"
    else
        not_ok "$name" "$(last_words guest.log) / $(last_words target.log)"
    fi
}

check 'target: Linux reads and writes, no digests' ''
check 'target: Linux reads and writes with both digests' --hdr-digest,--data-digest --digest both
check 'target: Linux reads and writes over a bad wire' --hdr-digest,--data-digest "${impaired[@]}"
