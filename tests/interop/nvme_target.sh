# Linux's initiator in a guest against our target: without digests, with both, and with both over a bad wire.
. "$(dirname "$0")/harness.sh"
needs ip truncate
needs_guest

here=$(dirname "$0")
nqn=nqn.2024-01.org.example:longshore
make_guest_network
declare -A serving=()

# serve NAME TAP ADDRESS OPTION…: a target with a namespace of 160 MiB, the first 64 of them random, and one of memory.
serve() {
    local name=$1 interface=$2 address=$3
    shift 3
    if [[ $interface != "$tap" ]]; then
        ip tuntap add dev "$interface" mode tap vnet_hdr
        ip link set "$interface" master br0 up
    fi
    head -c 67108864 /dev/urandom >"$scratch/$name.img"
    truncate -s 160M "$scratch/$name.img"
    start "$name.log" "$LONGSHORE" nvme target --tap "$interface" --ip "$address/24" --nqn "$nqn:$name" \
        --ns "$scratch/$name.img,block=512" --ns mem:32M --control "$scratch/$name.control" "$@"
    serving[$name]=$started
    eventually grep -q '^listening' "$scratch/$name.log" || not_ok "the target $name" "$(last_words "$name.log")"
}
serve plain "$tap" "$ours4"
serve digests ls1 10.77.0.4 --digest both
serve bad ls2 10.77.0.5 --digest both "${impaired[@]}"

cat "$here/guest/linux_initiator" - >"$scratch/script" <<'SCRIPT'
digests='--hdr-digest --data-digest'

attempt 'Linux discovers our target at port 8009' discovers 10.77.0.2 8009 $NQN:plain
attempt 'Linux connects to our target without digests' connects 10.77.0.2 4420 $NQN:plain
attempt 'Linux lists our namespace' lists
attempt 'Linux uses small blocks, no digests' small_blocks
attempt 'Linux makes, fills and checks a filesystem, no digests' file_system
attempt 'Linux disconnects, no digests' disconnects $NQN:plain
attempt 'Linux is told that a subsystem is not there' refuses_name 10.77.0.2 4420

attempt 'Linux connects with both digests' connects 10.77.0.4 4420 $NQN:digests $digests
attempt 'Linux copies 64 MiB with both digests, SHA-256 equal' copies
attempt 'Linux shows controller, namespace, log and features' shows
attempt 'Linux writes zeroes' zeroes
attempt 'Linux trims' trims
attempt 'Linux compares' compares
attempt 'Linux flushes' flushes
attempt 'Linux disconnects, both digests' disconnects $NQN:digests

attempt 'Linux connects over a bad wire' connects 10.77.0.5 4420 $NQN:bad $digests
attempt 'Linux copies 64 MiB with both digests over a bad wire, SHA-256 equal' copies
attempt 'Linux makes, fills and checks a filesystem over a bad wire' file_system
attempt 'Linux disconnects, bad wire' disconnects $NQN:bad

calm() { ! dmesg | grep -iE 'nvme.*(error|fail|timeout|invalid|reset)' | grep -v 'example:absent\|failed to connect queue: 0'; }
attempt "Linux's log has no complaint of it" calm
echo DONE
SCRIPT
"$here/guest.sh" run "$scratch/script" --tap "$guest_tap" --ip "$guest4/24" --set "NQN=$nqn" --time 400 >"$scratch/guest.log" 2>&1
repeat_cases guest.log
grep -q '^DONE' "$scratch/guest.log" || not_ok 'Linux against our target' "$(last_words guest.log)"

for name in digests bad; do
    "$LONGSHORE" stat "$scratch/$name.control" >"$scratch/stat.log" 2>&1
    for counter in rx_nvmeotcp_bytes rx_nvmeotcp_digest_bytes tx_nvmeotcp_digest_bytes; do
        bytes=$(awk -v name="$counter:" '$1 == name { print $2; exit }' "$scratch/stat.log")
        if [[ ${bytes:-0} -gt 50000000 ]]; then
            ok "our target $name: $counter counts $bytes"
        else
            not_ok "our target $name: $counter counts" "it is '${bytes:-absent}'"
        fi
    done
    stop "${serving[$name]}"
    if cmp -s -n 67108864 "$scratch/$name.img" <(tail -c +67108865 "$scratch/$name.img"); then
        ok "our target $name: its file holds what Linux has written"
    else
        not_ok "our target $name: its file holds what Linux has written" 'the copy differs'
    fi
done
