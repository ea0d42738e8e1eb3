# What is under way to a guest arrives although its interface goes down and up, its function is reset, and its queues change. devlink has an account
# of the function's health.
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

info() { devlink dev info "pci/$function" >/tmp/info && grep -q 'driver longshore' /tmp/info && grep -q 'fw.mgmt.api [1-9]' /tmp/info; }
# reporter VERB [OPTION…]: of the function's health.
reporter() {
    verb=$1
    shift
    devlink health "$verb" "pci/$function" reporter function "$@"
}
# becomes STATE: it is reset by a task.
becomes() {
    for _ in $(seq 50); do
        reporter show | grep -q "state $1" && return
        sleep 0.2
    done
    reporter show
    false
}
# count WHAT: errors or recoveries so far. A slow guest may have had some of its own.
count() { reporter show | sed -n "s/.* $1 \([0-9]*\).*/\1/p"; }
recovers_itself() {
    errors=$(count error) recoveries=$(count recover)
    reporter test && becomes "healthy error $((errors + 1)) recover $((recoveries + 1))"
}
waits_for_the_user() {
    errors=$(count error) recoveries=$(count recover)
    reporter set auto_recover false && reporter test && becomes "error error $((errors + 1)) recover $recoveries" && reporter diagnose >/tmp/diagnosis &&
        grep -q 'last reason: a test' /tmp/diagnosis && grep -q 'posted' /tmp/diagnosis
}
is_recovered() { reporter recover && becomes "healthy error $((errors + 1)) recover $((recoveries + 1))" && reporter set auto_recover true; }
is_well() { becomes healthy; }

use || exit 1
function=$(basename "$(dirname /sys/bus/pci/drivers/longshore/*/net)")
try 'a download while the interface goes down and up' while_it_comes down_and_up
try 'a download while the function is reset' while_it_comes reset
try 'a download while there are more and fewer queues' while_it_comes queues
try 'another one' download
if command -v devlink >/dev/null; then
    try 'devlink tells driver and interface' info
    try 'a reported error is recovered' recovers_itself
    try 'one that the user is to recover stays, and is diagnosed' waits_for_the_user
    try 'it is recovered when the user says so' is_recovered
    try 'a download behind it' download
else
    echo 'ok - devlink # SKIP no devlink'
fi
echo 'kill it'
try 'a download while the process of the NIC dies' while_it_comes sleep 1
try 'the interface has been set up anew' died
command -v devlink >/dev/null && try 'devlink has it as healthy' is_well
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
