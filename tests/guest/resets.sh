# What is under way to a guest arrives although its interface goes down and up, its function is reset, and its queues change.
. "$(dirname "$0")/world.sh"
needs ip python3 unshare nsenter

other_host "$peer4"
make_file down $((32 << 20))
if ! start_nic; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi
start_peer

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
# while_it_comes COMMAND…: twice, at some points of a download.
while_it_comes() {
    download &
    coming=$!
    for _ in 1 2; do
        sleep 0.7
        "$@" || return 1
    done
    wait $coming
}
down_and_up() { ip link set "$dev" down && ip link set "$dev" up; }
reset() { echo 1 >"/sys/bus/pci/devices/$function/reset"; }
# The function has been set up anew, for another process.
died() { [ "$(ethtool -S "$dev" | awk '$1 == "resets:" { print $2 }')" -ge 1 ] && [ "$(cat "/sys/class/net/$dev/carrier")" = 1 ]; }
queues() { ethtool -L "$dev" combined 1 && ethtool -L "$dev" combined 2; }

use || exit 1
function=$(basename "$(dirname /sys/bus/pci/drivers/longshore/*/net)")
try 'a download while the interface goes down and up' while_it_comes down_and_up
try 'a download while the function is reset' while_it_comes reset
try 'a download while there are more and fewer queues' while_it_comes queues
try 'another one' download
echo 'kill it'
try 'a download while the process of the NIC dies' while_it_comes sleep 1
try 'the interface has been set up anew' died
ip link set "$dev" down
try 'the module goes' rmmod longshore
try 'the kernel has nothing to complain of' no_complaint
SCRIPT
# The worker dies while the guest downloads.
: >"$scratch/guest.log"
{
    until grep -q 'kill it' "$scratch/guest.log"; do sleep 0.1; done
    sleep 1
    kill_worker
} &
pids+=("$!")
if boot 280 --smp 2 -- env "SHA256=$(down_sha256)"; then ok 'the guest runs to the end'; else not_ok 'the guest runs to the end' "$(last_words boot.log) $(last_words guest.log)"; fi
repeat_cases guest.log
