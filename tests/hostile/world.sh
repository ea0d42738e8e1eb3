# Sourced by every script here, after interop's harness: two users, a NIC, another host behind its wire, and somebody who looks at that wire.
# shellcheck shell=bash
hostile=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$hostile/../interop/harness.sh"
needs ip setpriv unshare nsenter

# Users of no account: the attacker, and another tenant.
attacker=4001 victim=4002
control=$scratch/nic.sock state=$scratch/state
patience=10

if ! setpriv --reuid=$attacker --regid=$attacker --clear-groups true 2>/dev/null; then
    skip "$(basename "$0" .sh)" 'no other user here: needs root'
    exit
fi
# as_user UID: $as begins a command of that user's. A program in an array is a process that `start` knows, where a function were not.
as_user() { as=(setpriv --reuid="$1" --regid="$1" --clear-groups --); }
as() { # UID COMMAND…
    local as
    as_user "$1"
    "${as[@]}" "${@:2}"
}
for python in /usr/bin/python3 /usr/local/bin/python3 "$(command -v python3)"; do
    as $attacker "$python" -c '' 2>/dev/null && break
    python=
done
if [[ -z $python ]]; then
    skip "$(basename "$0" .sh)" 'no python3 that every user may run'
    exit
fi
export PYTHONDONTWRITEBYTECODE=1

# What other users run is where they may read it.
chmod 755 "$scratch"
mkdir -m 755 "$scratch/hostile"
cp "$hostile"/*.py "$scratch/hostile/"
# What hosts on rings are told apart by is the crate's to say.
version=$(sed -n 's/^pub const VERSION: u32 = \([0-9]*\);$/\1/p' "$hostile/../../crates/rings/src/message.rs")
sed -i "s/^VERSION = .*/VERSION = $version/" "$scratch/hostile/rings.py"
cp "$(dirname "$LONGSHORE")/libktls.so" "$scratch/"
chmod 755 "$scratch/libktls.so" "$scratch"/hostile/*
# attack NAME ARGUMENT…: a program of this folder as the attacker; start_attack LOG NAME ARGUMENT…: in the background.
attack() { as $attacker "$python" "$scratch/hostile/$1.py" "${@:2}"; }
start_attack() {
    local as
    as_user $attacker
    start "$1" "${as[@]}" "$python" "$scratch/hostile/$2.py" "${@:3}"
}
# start_victim LOG OPTION…: victim.py of another tenant's, with the library and the NIC, which is told by a line to $victim_input to go on.
start_victim() {
    local as log=$1
    shift
    as_user $victim
    rm -f "$scratch/$log.input"
    mkfifo "$scratch/$log.input"
    exec {victim_input}<>"$scratch/$log.input"
    start "$log" "${as[@]}" env LD_PRELOAD="$scratch/libktls.so" LONGSHORE_NIC="${nic_path-$control}" "$python" \
        "$scratch/hostile/victim.py" "$@" <"$scratch/$log.input"
    victim_process=$started
}
victim_goes_on() { echo >&"$victim_input"; }
# victim_address LOG: $victim_address and $victim_port, once it waits.
victim_address() {
    eventually grep -q '^[^{].* ' "$scratch/$1" || return 1
    read -r victim_address victim_port <"$scratch/$1"
    victim_address=${victim_address#::ffff:}
}
victim_ends() {
    wait "$victim_process" 2>/dev/null
    exec {victim_input}>&-
}
# compile NAME OPTION…: NAME.c of this folder to a program, or with -shared to a library.
compile() {
    local name=$1
    shift
    cc -O1 -Wall -o "$scratch/$name" "$hostile/$name.c" "$@" 2>"$scratch/cc.log" && chmod 755 "$scratch/$name"
}

# start_nic OPTION…: Linux behind ls0, another host behind w0.
start_nic() {
    start nic.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24,ip=$linux6/64" --wire packet:w0 --control "$control" \
        ${state:+--state "$state"} "$@"
    nic=$started
    eventually "$LONGSHORE" stat "$control" && eventually reaches_peer
}
# A refusal comes from the other host.
reaches_peer() { "$python" -c "import socket, sys; sys.exit(socket.socket().connect_ex(('$ours4', 1)) != 111)"; }
deaths() { grep -c 'the NIC died' "$scratch/nic.log"; }

# make_world: the other host, with both families.
make_world() {
    ip link set lo up
    other_host "$ours4"
    there ip -6 addr add "$ours6/64" dev w1 nodad
}
world() {
    make_world
    if ! start_nic "$@"; then
        not_ok "$(basename "$0" .sh): the NIC starts" "$(last_words nic.log)"
        exit
    fi
}
# peer LOG ROLE ADDRESS PORT: a server on the other host.
peer() {
    start_there "$1" "$python" "$hostile/peer.py" "$2" "$3" "$4"
    peer_process=$started
    eventually listens_there "$4"
}
listens_there() { there bash -c "ss -Hltn sport = :$1 | grep -q ."; }
start_there() { start "$1" nsenter --net="/proc/$other/ns/net" "${@:2}"; }

# sniff NAME [MARK]: looks at the wire's other end until `sniffed NAME`, which has $frames, $clear and $first.
sniff() {
    local mark=()
    [[ $# -lt 2 ]] || mark=(--mark "$2")
    start_there "$1.looks" "$python" "$hostile/peer.py" sniff w1 "$scratch/$1.json" ${mark[@]+"${mark[@]}"}
    sniffer=$started
    eventually grep -q looks "$scratch/$1.looks"
}
sniffed() {
    # What is on its way comes first.
    sleep 0.2
    stop "$sniffer"
    frames=$(json "$1.json" frames) clear=$(json "$1.json" clear) first=$(json "$1.json" first)
}
# json FILE KEY: a value of the last object in a file.
json() {
    "$python" -c 'import json, sys
lines = [line for line in open(sys.argv[1]) if line.startswith("{")]
print(json.loads(lines[-1]).get(sys.argv[2]) if lines else None)' "$scratch/$1" "$2" 2>/dev/null
}
# nothing_clear NAME SNIFFED: a case: the wire was busy, and the mark is not on it.
nothing_clear() {
    sniffed "$2"
    if [[ ${frames:-0} -lt ${3:-20} ]]; then
        not_ok "$1" "only ${frames:-0} frames were on the wire, so nothing was tried"
    elif [[ $clear != 0 ]]; then
        not_ok "$1" "$clear frames of $frames are in clear, the first is $first"
    else
        ok "$1: $frames frames, none in clear"
    fi
}

# container: a namespace of the network whose packets Linux forwards: c1 there, 10.78.0.2 and fd78::2.
make_container() {
    start container.log unshare --net sleep infinity
    container=$started
    eventually in_own_namespace "$container" || return 1
    ip link add c0 type veth peer name c1 netns "$container" || return 1
    ip addr add 10.78.0.1/24 dev c0
    ip -6 addr add fd78::1/64 dev c0 nodad
    ip link set c0 up
    inside ip link set lo up
    inside ip addr add 10.78.0.2/24 dev c1
    inside ip -6 addr add fd78::2/64 dev c1 nodad
    inside ip link set c1 up
    inside ip route add default via 10.78.0.1
    inside ip -6 route add default via fd78::1
    sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    there ip route add 10.78.0.0/24 via "$linux4"
    there ip -6 route add fd78::/64 via "$linux6"
}
inside() { nsenter --net="/proc/$container/ns/net" "$@"; }
