# `longshore nvme target --cores`: two cores with a NIC each are one target; our initiator on Linux's TCP has the queues of one controller on both.
. "$(dirname "$0")/harness.sh"
needs ip sha256sum

ip link set lo up
ip tuntap add dev "$tap" mode tap vnet_hdr multi_queue || exit 1
ip addr add "$linux4/24" dev "$tap"
ip link set "$tap" up
nqn=nqn.2024-01.org.example:cores
make_file data 33554432

cores=2
[[ $(nproc) -lt 2 ]] || cores=$(taskset -pc $$ 2>/dev/null | sed 's/.*: //; s/-/,/' | cut -d, -f1,2)
serve() { # OPTION…
    truncate -s 0 "$scratch/disk.img"
    truncate -s 64M "$scratch/disk.img"
    start target.log "$LONGSHORE" nvme target --tap "$tap" --ip "$ours4/24" --nqn "$nqn" --ns "$scratch/disk.img" --ns mem:64M \
        --control "$scratch/control" --cores "$cores" "$@"
    target=$started
    eventually grep -q '^listening' "$scratch/target.log"
}
# nvme COMMAND OPTION…: its output is in nvme.log.
nvme() {
    local command=$1
    shift
    timeout 120 "$LONGSHORE" nvme "$command" "$ours4" --nqn "$nqn" --kernel "$@" >"$scratch/nvme.log" 2>&1
}
# of GROUP COUNTER
of() {
    "$LONGSHORE" stat --all "$scratch/control" 2>/dev/null | awk -v group="$1 statistics:" -v name="$2:" \
        '/ statistics:$/ { here = $0 == group } here && $1 == name { print $2; exit }'
}
# there_and_back NSID OPTION…: 32 MiB by 16 queues, written and read on connections that are spread over both cores.
there_and_back() {
    local nsid=$1
    shift
    rm -f "$scratch/back"
    if ! nvme write --ns "$nsid" --queues 16 --input "$scratch/root/data" --quiet "$@"; then
        why="write: $(last_words nvme.log)"
        return 1
    fi
    if ! nvme read --ns "$nsid" --queues 16 --output "$scratch/back" --length 33554432 --quiet "$@"; then
        why="read: $(last_words nvme.log)"
        return 1
    fi
    why='the content differs'
    cmp -s "$scratch/root/data" "$scratch/back"
}
both_work() { # COUNTER LEAST
    local first second total
    first=$(of 'worker 0' "$1") second=$(of 'worker 1' "$1") total=$(of nvme "$1")
    why="$1: $first and $second of $total"
    [[ ${first:-0} -ge $2 && ${second:-0} -ge $2 && $total -eq $((first + second)) ]]
}

if ! serve; then
    not_ok 'a target on two cores' "$(last_words target.log)"
    exit
fi
discovers() {
    why=$(timeout 60 "$LONGSHORE" nvme discover "$ours4" --kernel 2>&1)
    [[ $why == *"$nqn"* && $why == *'namespace 2'* ]]
}
for attempt in 1 2 3 4; do try "discovery, time $attempt" discovers; done
try 'a file: 32 MiB there and back by 16 queues' there_and_back 1
try 'memory: 32 MiB there and back by 16 queues' there_and_back 2
try 'the same with both digests' there_and_back 1 --digest both
try 'both cores have accepted some' both_work connections 5
try 'both cores have done commands' both_work commands 20
one_controller() {
    local listing=
    nvme bench --queues 16 --seconds 5 --ns 2 &
    local bench=$!
    # Queues of one controller, on both.
    for ((i = 0; i < 40; i++)); do
        listing=$("$LONGSHORE" ss "$scratch/control" 2>&1)
        [[ $(grep -c 'ESTAB' <<<"$listing") -ge 17 ]] && break
        sleep 0.1
    done
    wait "$bench"
    local status=$?
    why="bench: exit $status, $(last_words nvme.log); $(grep -c ESTAB <<<"$listing") connections"
    [[ $status -eq 0 && $(grep -c 'ESTAB' <<<"$listing") -ge 17 ]]
}
try 'a controller with its 17 queues on both' one_controller

# A file that grows is larger on both.
grows() {
    truncate -s 128M "$scratch/disk.img"
    sleep 2
    for ((i = 0; i < 4; i++)); do
        nvme read --ns 1 --queues 4 --offset 67108864 --length 8388608 --output "$scratch/back" --quiet || { why=$(last_words nvme.log); return 1; }
    done
}
try 'a file that has grown' grows

ends() {
    local status=0
    kill "$target"
    wait "$target" || status=$?
    why="exit $status: $(last_words target.log)"
    [[ $status -eq 0 ]] && ! grep -qi 'panicked\|error' "$scratch/target.log"
}
try 'SIGTERM ends it' ends
durable() {
    why='the file differs'
    cmp -s -n 33554432 "$scratch/root/data" "$scratch/disk.img"
}
try 'what was written is in the file' durable

if serve "${impaired[@]}"; then
    try 'an impaired link: there and back with both digests' there_and_back 1 --digest both
    try 'an impaired link: both cores have done commands' both_work commands 20
else
    not_ok 'a target on two cores with an impaired link' "$(last_words target.log)"
fi
stop "$target"
