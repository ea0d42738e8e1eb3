# Our NVMe/TCP initiator on Linux's own TCP against our target on another host: 32 MiB there and back with equal SHA-256, in software, and with the data
# placed and its digests checked by the NIC that Linux's TCP goes through, over a wire that loses and reorders packets, while the NIC dies and comes back.
. "$(dirname "$0")/harness.sh"
needs ip sha256sum

ip link set lo up
nqn=nqn.2024-01.org.example:disk
host4=10.79.0.1 target4=10.79.0.2
control=$scratch/nic.sock state=$scratch/state
size=33554432
make_file data "$size"

# ---- the NIC's wire and the target's TAP are ports of one bridge ---------------------------------------------
ip link add kn0 type bridge && ip link set kn0 up
for port in kw0 kt0; do
    ip tuntap add dev "$port" mode tap vnet_hdr && ip link set "$port" master kn0 && ip link set "$port" up
done

start_nic() { # LOG OPTION…
    local log=$1
    shift
    start "$log" "$LONGSHORE" nic --host "tap:kh0,ip=$host4/24" --wire tap:kw0 --control "$control" --state "$state" "$@"
    nic=$started
    eventually "$LONGSHORE" stat "$control"
}

start target.log "$LONGSHORE" nvme target --tap kt0 --ip "$target4/24" --ns mem:64M --nqn "$nqn"
if ! start_nic nic.log || ! eventually listens "$target4" 4420; then
    not_ok 'the NIC and the target start' "$(last_words nic.log) $(last_words target.log)"
    exit
fi

# nvme COMMAND OPTION…: its output is in nvme.log.
nvme() {
    local command=$1
    shift
    timeout 60 "$LONGSHORE" nvme "$command" "$target4" --nqn "$nqn" --kernel "$@" >"$scratch/nvme.log" 2>&1
}
# counted KEY: a number of `nvme bench --json`.
counted() { sed -n "s/^ *\"$1\": \([0-9.]*\),*$/\1/p" "$scratch/nvme.log" | tail -n 1; }
# copied NAME OPTION…: the file goes there and comes back.
copied() {
    local name=$1
    shift
    rm -f "$scratch/back"
    if ! nvme write -i "$scratch/root/data" -q "$@"; then
        not_ok "$name" "write: $(last_words nvme.log)"
    elif ! nvme read -o "$scratch/back" --length "$size" -q "$@"; then
        not_ok "$name" "read: $(last_words nvme.log)"
    elif [[ $(sha256sum <"$scratch/root/data") == $(sha256sum <"$scratch/back") ]]; then
        ok "$name"
    else
        not_ok "$name" 'the SHA-256 differs'
    fi
    # The next one must not find its data there already.
    make_file data "$size"
}

copied 'on Linux TCP, in software, no digests'
copied 'on Linux TCP, in software, both digests' --digest both

# ---- what is measured, what is found, what is refused --------------------------------------------------------
# By Little's law latency times rate is the number of commands in flight, 2 queues of 15.
if ! nvme bench --seconds 1 --io-bytes 64K --depth 16 --json; then
    not_ok 'bench: latency times rate is what is in flight' "$(last_words nvme.log)"
elif awk "BEGIN { n = $(counted iops) * $(counted p50) / 1e6; exit !(n > 10 && n < 60) }"; then
    ok 'bench: latency times rate is what is in flight'
else
    not_ok 'bench: latency times rate is what is in flight' "$(counted iops) commands/s, $(counted p50) µs"
fi
if "$LONGSHORE" nvme discover "$target4" --kernel >"$scratch/nvme.log" 2>&1 && grep -q "$nqn" "$scratch/nvme.log"; then
    ok 'discover finds the target without a port'
else
    not_ok 'discover finds the target without a port' "$(last_words nvme.log)"
fi
echo nonsense >"$scratch/bad.psk"
"$LONGSHORE" nvme target --tap kt9 --ip 10.79.9.2/24 --ns mem:1M --psk "$scratch/bad.psk" >"$scratch/bad.log" 2>&1
if ! grep -q listening "$scratch/bad.log" && grep -q 'bad.psk is not a file of PSKs' "$scratch/bad.log" && [[ ! -e /sys/class/net/kt9 ]]; then
    ok 'a target with a bad key fails before it says that it listens'
else
    not_ok 'a target with a bad key fails before it says that it listens' "$(last_words bad.log)"
fi

# ---- with the NIC's help -------------------------------------------------------------------------------------
# helped NAME PLACED CHECKED OPTION…: bench reads, and at least these shares of data and digests are the NIC's.
helped() {
    local name=$1 placed=$2 checked=$3
    shift 3
    if ! nvme bench --seconds "${seconds:-2}" --io-bytes 131072 --depth 16 --json "$@"; then
        not_ok "$name" "$(last_words nvme.log)"
    elif awk "BEGIN { exit !($(counted placed_share) >= $placed && $(counted checked_share) >= $checked) }" 2>/dev/null; then
        ok "$name: $(counted placed_share) of the data, $(counted checked_share) of the digests"
    else
        not_ok "$name" "of the data $(counted placed_share), of the digests $(counted checked_share)"
    fi
}

copied 'on Linux TCP, placed by the NIC' --nic "$control"
copied 'on Linux TCP, placed and checked by the NIC' --nic "$control" --digest both
helped 'bench on Linux TCP, placed and checked by the NIC' 0.9 0.9 --nic "$control" --digest data
# Without a word to the initiator the NIC that comes would place nothing: most of the time is behind that.
(sleep 3 && eventually kill_worker) &
killer=$!
seconds=10 helped 'bench on Linux TCP, placed and checked by the NIC that comes when one has died' 0.6 0.6 --nic "$control" --digest data
wait "$killer"
# What does not go through the NIC is read in software.
ip link set kh0 down
ip addr add "$host4/24" dev kn0
copied 'a connection that does not go through the NIC' --nic "$control" --digest both
ip addr del "$host4/24" dev kn0
stop "$nic"
if ! start_nic nic2.log "${impaired[@]}"; then
    not_ok 'the NIC starts on a lossy wire' "$(last_words nic2.log)"
    exit
fi
copied 'placed and checked by the NIC, loss and reordering' --nic "$control" --digest both
helped 'bench with loss and reordering' 0.5 0.3 --nic "$control" --digest data
(sleep 0.4 && eventually kill_worker) &
killer=$!
copied 'placed and checked by the NIC, which dies' --nic "$control" --digest both
wait "$killer"
stop "$nic"
