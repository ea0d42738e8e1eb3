# `longshore nic`: Linux's own TCP behind the NIC's process, with curl in another network namespace on every kind of wire.
. "$(dirname "$0")/harness.sh"
needs ip curl python3 unshare nsenter

ip link set lo up
host4=10.77.0.1 host6=fd77::1 peer4=10.77.0.2 peer6=fd77::2
control=$scratch/control state=$scratch/state
make_file large 8000000
make_file small 1000

if ! start_other; then
    skip nic 'no second network namespace'
    exit
fi

# give_peer INTERFACE: moves an interface to the other host, with addresses.
give_peer() {
    ip link set "$1" netns "$other" &&
        there ip addr add "$peer4/24" dev "$1" &&
        there ip -6 addr add "$peer6/64" dev "$1" nodad &&
        there ip link set "$1" up
}

# nic OPTION…: starts it with the host ls0.
nic() {
    start nic.log "$LONGSHORE" nic --host "tap:ls0,ip=$host4/24,ip=$host6/64" --control "$control" --state "$state" "$@"
    nic=$started
    eventually "$LONGSHORE" stat "$control"
}
counter_of() { # GROUP NAME
    "$LONGSHORE" stat --json "$control" 2>/dev/null |
        python3 -c 'import json, sys; print(json.load(sys.stdin).get(sys.argv[1], {}).get(sys.argv[2], 0))' "$1" "$2"
}

serve_files() {
    start http.log python3 -m http.server --bind :: --directory "$scratch/root" 8000
    http=$started
    eventually listens "$host4" 8000
}

# fetch FILE OPTION…: by the peer, over both families, the bytes compared.
fetch() {
    local file=$1 address
    shift
    for address in "$host4" "[$host6]"; do
        rm -f "$scratch/got"
        there curl -s --max-time 60 "$@" -o "$scratch/got" "http://$address:8000/$file" ||
            { why="curl exit $? from $address: $(last_words nic.log)"; return 1; }
        cmp -s "$scratch/root/$file" "$scratch/got" || { why="the bytes differ, from $address"; return 1; }
    done
}

# upload: the other direction, into a socket that counts.
upload() {
    start sink.log python3 -c '
import hashlib, socket, sys
listener = socket.create_server(("0.0.0.0", 8001))
stream, _ = listener.accept()
digest = hashlib.sha256()
while data := stream.recv(1 << 20):
    digest.update(data)
print(digest.hexdigest())'
    local sink=$started
    eventually grep -q ':1F41 ' /proc/net/tcp
    there python3 -c '
import socket, sys
stream = socket.create_connection((sys.argv[1], 8001))
stream.sendfile(open(sys.argv[2], "rb"))
stream.close()' "$host4" "$scratch/root/large"
    wait "$sink"
    why="the digests differ: $(last_words sink.log)"
    [[ $(cat "$scratch/sink.log") == $(sha256sum <"$scratch/root/large" | cut -d ' ' -f 1) ]]
}

# refused NAME SENTENCE OPTION…: ends at once with exit code 1 and one error, with the sentence in it.
refused() {
    local name=$1 sentence=$2 code
    shift 2
    [[ $* == *--state* ]] || set -- --state "$scratch/other-state" "$@"
    [[ $* == *--control* ]] || set -- --control "$scratch/other" "$@"
    timeout 20 "$LONGSHORE" nic "$@" >"$scratch/refused.log" 2>&1
    code=$?
    if [[ $code == 1 && $(grep -c '^longshore: ' "$scratch/refused.log") == 1 ]] && grep -q -- "$sentence" "$scratch/refused.log"; then
        ok "$name"
    else
        not_ok "$name" "exit $code: $(last_words refused.log)"
    fi
}

# ---- what can't be ------------------------------------------------------------------------------------------
refused 'no such interface' 'there is no interface nosuch0' --host tap:ls0 --wire packet:nosuch0
refused 'an interface that is no TAP' 'exists but is not a TAP device' --host tap:lo --wire mem
refused 'the same interface twice' 'is given twice' --host tap:ls0 --wire tap:ls0
refused 'no way to keep state' 'give --state' --host tap:ls0 --wire mem --state /proc/nowhere
if ip link show ls0 >/dev/null 2>&1; then not_ok 'nothing is left of what was refused' 'ls0 is there'; fi
rm -rf "$scratch/other-state"
if command -v setpriv >/dev/null; then
    timeout 20 setpriv --bounding-set -net_admin --inh-caps -net_admin "$LONGSHORE" nic --host tap:ls0 --wire mem \
        --control "$scratch/other" --state "$scratch/other-state" >"$scratch/refused.log" 2>&1
    if grep -q 'no permission to open TAP device' "$scratch/refused.log"; then ok 'without CAP_NET_ADMIN'; else
        not_ok 'without CAP_NET_ADMIN' "$(last_words refused.log)"
    fi
else
    skip 'without CAP_NET_ADMIN' 'no setpriv'
fi

# ---- a TAP as the wire --------------------------------------------------------------------------------------
if nic --wire tap:lw0 && give_peer lw0 && serve_files; then
    try 'files over a TAP' fetch large
    try 'an upload over a TAP' upload
    super=$(counter_of ls0 tx_super_frames)
    if [[ ${super:-0} -gt 0 ]]; then ok "super-frames from Linux: $super"; else not_ok 'super-frames from Linux' none; fi
    before=$(awk '{ print $14 + $15 }' "/proc/$(worker)/stat")
    sleep 3
    spent=$(($(awk '{ print $14 + $15 }' "/proc/$(worker)/stat") - before))
    if [[ $spent -le 3 ]]; then ok 'idle, it sleeps'; else not_ok 'idle, it sleeps' "$spent ticks in 3 s"; fi
    refused 'a control socket in use' 'control socket of a running longshore' --host tap:ls7 --wire mem --control "$control"
    stop "$nic"
    if ip link show ls0 >/dev/null 2>&1; then not_ok 'the TAP goes with it' 'ls0 is there'; else ok 'the TAP goes with it'; fi
else
    not_ok 'the NIC on a TAP' "$(last_words nic.log)"
fi
there ip link del lw0 2>/dev/null

# ---- a lossy wire -------------------------------------------------------------------------------------------
if nic --wire tap:lw0 "${impaired[@]}" --duplicate 0.005 --pcap "$scratch/wire.pcapng" && give_peer lw0; then
    try 'files over a wire with loss, reordering and duplicates' fetch large
    try 'an upload over it' upload
    if [[ $(stat -c %s "$scratch/wire.pcapng") -gt 1000000 ]]; then ok 'it is captured'; else not_ok 'it is captured' 'too little'; fi
    stop "$nic"
else
    not_ok 'the NIC on a lossy wire' "$(last_words nic.log)"
fi
there ip link del lw0 2>/dev/null

# ---- a veth as the wire, by a packet socket; the NIC dies --------------------------------------------------------
ip link add v0 type veth peer name v1
# Linux has the interface too, and would answer for the addresses of ls0.
sysctl -q -w net.ipv4.conf.v0.arp_ignore=1
refused 'a wire that is down' 'v0 is down; run: ip link set v0 up' --host tap:ls7 --wire packet:v0
ip link set v0 up
give_peer v1

started_again() { [[ $(grep -c 'it restarts in' "$scratch/nic.log") == "$1" ]]; }

# Downloads slowly while the NIC is killed, and again.
survives() {
    there curl -s --max-time 60 --limit-rate 2M -o "$scratch/got" "http://$host4:8000/large" &
    local curl=$! time
    for time in 1 2; do
        sleep 1
        eventually kill_worker
    done
    wait "$curl" || { why="curl exit $?: $(last_words nic.log)"; return 1; }
    why='the bytes differ'
    cmp -s "$scratch/root/large" "$scratch/got" || return 1
    why="it was not started again: $(last_words nic.log)"
    eventually started_again 2
}
if nic --wire packet:v0; then
    try 'files over a veth by AF_PACKET' fetch large
    try 'an upload over a veth by AF_PACKET' upload
    carried=$(counter_of wire tx_bytes)
    if [[ ${carried:-0} -gt 16000000 ]]; then ok "the NIC has carried them"; else not_ok 'the NIC has carried them' "$carried bytes"; fi
    super=$(counter_of wire rx_super_frames)
    if [[ ${super:-0} -gt 0 ]]; then ok "super-frames from a veth: $super"; else not_ok 'super-frames from a veth' none; fi
    try 'a download goes on when the NIC is killed' survives
    try 'and a new one comes' fetch small
    before=$(worker)
    ip link set v0 down
    sleep 0.3
    ip link set v0 up
    try 'an interface that was down' fetch small
    name='the NIC outlives an interface that is set down'
    if [[ $(worker) == "$before" ]]; then ok "$name"; else not_ok "$name" "$(last_words nic.log)"; fi
    stop "$nic"
else
    not_ok 'the NIC on a veth by AF_PACKET' "$(last_words nic.log)"
fi

# ---- the same by AF_XDP ------------------------------------------------------------------------------------
# Frames between a veth's ends have unfinished checksums unless the sender is told; ethtool's `tx off`.
finish_checksums() {
    there python3 - "$1" <<'EOF'
import array, fcntl, socket, struct, sys
ETHTOOL_STXCSUM, SIOCETHTOOL = 0x17, 0x8946
value = array.array("B", struct.pack("II", ETHTOOL_STXCSUM, 0))
request = struct.pack("16sP", sys.argv[1].encode(), value.buffer_info()[0])
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), SIOCETHTOOL, request)
EOF
}
if ! finish_checksums v1 2>"$scratch/ethtool.log"; then
    skip 'files over a veth by AF_XDP' "checksums: $(last_words ethtool.log)"
elif nic --wire xdp:v0; then
    try 'files over a veth by AF_XDP' fetch large
    try 'an upload over a veth by AF_XDP' upload
    refused 'an interface that AF_XDP has' 'has an XDP program or socket already' --host tap:ls7 --wire xdp:v0
    try 'a download goes on when the NIC is killed, by AF_XDP' survives
    stop "$nic"
else
    not_ok 'the NIC on a veth by AF_XDP' "$(last_words nic.log)"
fi
ip link del v0

# ---- two hosts and no wire ---------------------------------------------------------------------------------
# An interface that was there stays, with its addresses.
ip tuntap add dev lp0 mode tap vnet_hdr
if nic --host tap:lp0 --wire mem; then
    stop "$nic"
    if ip link show lp0 >/dev/null 2>&1; then ok 'an interface of somebody else stays'; else
        not_ok 'an interface of somebody else stays' 'lp0 is gone'
    fi
    if nic --host tap:lp0 --wire mem && give_peer lp0; then try 'two hosts of one NIC' fetch large; fi
    stop "$nic"
else
    not_ok 'the NIC with two hosts' "$(last_words nic.log)"
fi
