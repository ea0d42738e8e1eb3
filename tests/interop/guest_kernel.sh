# The guest alone: Linux's initiator with Linux's target, over its loopback. It proves the rig, not longshore.
. "$(dirname "$0")/harness.sh"
needs_guest

name='Linux with itself: NVMe/TCP with both digests'
cat "$(dirname "$0")/guest/linux_target" - >"$scratch/script" <<'SCRIPT'
set -e
nvme connect -t tcp -a $ADDRESS -s 4420 -n $NQN --hdr-digest --data-digest
wait_for_disk
head -c 1048576 /dev/urandom >/tmp/written
dd if=/tmp/written of=/dev/nvme0n1 bs=256k oflag=direct conv=fsync
dd if=/dev/nvme0n1 of=/tmp/read bs=256k count=4 iflag=direct
cmp /tmp/written /tmp/read && echo EQUAL
nvme disconnect -n $NQN
SCRIPT
if "$(dirname "$0")/guest.sh" run "$scratch/script" --set ADDRESS=127.0.0.1 >"$scratch/guest.log" 2>&1 &&
    grep -q '^EQUAL' "$scratch/guest.log"; then
    ok "$name"
else
    not_ok "$name" "$(last_words guest.log)"
fi
