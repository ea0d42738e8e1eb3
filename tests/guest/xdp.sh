# Programs of XDP on the driver's interface: each action, the kernel's TCP and TLS by the NIC meanwhile, and programs that come and go under load.
. "$(dirname "$0")/world.sh"
needs ip python3 openssl unshare nsenter

megabytes=8
other_host "$peer4"
make_certificates
# Longer packets than a program has a buffer for, if the guest asks for them.
ip link set w0 mtu 9000
there ip link set w1 mtu 9000
make_file down $((megabytes << 20))
start_tls_peer $((megabytes << 20))
if ! start_nic || ! eventually grep -q 'listening 4433' "$scratch/peer.log"; then
    not_ok 'the NIC starts' "$(last_words nic.log) $(last_words peer.log)"
    exit
fi
digest=$(sed -n 's/^digest //p' "$scratch/peer.log")
start file_peer.log nsenter --net="/proc/$other/ns/net" python3 "$here/peer.py" "$peer4" "$scratch/root/down" "$scratch/up"
start udp_peer.log nsenter --net="/proc/$other/ns/net" python3 "$here/xdp.py" serve "$peer4" w1
mkdir -p "$scratch/guest"
cp "$here/xdp.py" "$scratch/guest/"

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
use || exit 1
programs=/sys/fs/bpf
mount -t bpf bpf "$programs" && modprobe veth || exit 1
ip link add v0 type veth peer name v1
# Its end of a pair takes packets of XDP when it has a poll of its own.
ethtool -K v1 gro on && ip link set v0 up && ip link set v1 up || exit 1

attach() { ip -force link set dev "$dev" xdpdrv pinned "$programs/$1"; }
detach() { ip link set dev "$dev" xdpdrv off; }
# value NAME: of a counter, of all queues together.
value() { ethtool -S "$dev" | awk -v name="_$1:" '$1 ~ name "$" { sum += $2 } END { print sum + 0 }'; }
# counts NAME MORE COMMAND…: it has grown by so much at least afterwards.
counts() {
    local counter=$1 more=$2 grown
    grown=$(value "$1")
    shift 2
    "$@" || return 1
    grown=$(($(value "$counter") - grown))
    echo "$counter has grown by $grown"
    [ "$grown" -ge "$more" ]
}
# answered PORT COUNT BACK: so many of five have come, and come back to the peer.
answered() {
    local told
    told=$(python3 /mnt/xdp.py ask "$PEER" "$1" 5)
    echo "answered, come back: $told"
    [ "$told" = "$2 $3" ]
}
client() { openssl s_client -ktls -tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256 -quiet -nocommands -connect "$PEER:$1" "$2" 2>/dev/null; }
tls_download() { client 4434 -ign_eof </dev/null | sha256sum | cut -d ' ' -f 1 | grep -qx "$DIGEST"; }
# The kernel's counters of TLS, which have no queue.
decrypted() { ethtool -S "$dev" | awk '$1 == "rx_tls_decrypted_bytes:" { print $2 }'; }
decrypted_more() { [ "$(decrypted)" -gt "$1" ]; }
decrypts() {
    local before
    before=$(decrypted)
    tls_download && decrypted_more "$before"
}
soon() { # COMMAND…: waits until it holds
    local tries
    for tries in $(seq 100); do
        ! "$@" || return 0
        sleep 0.1
    done
    return 1
}
lro() { ethtool -k "$dev" | grep -q "^large-receive-offload: $1"; }
refused() { ! "$@" 2>/tmp/refusal; }
other_end() { cat /sys/class/net/v1/statistics/rx_packets; }
reaches_veth() {
    local before
    before=$(other_end)
    answered 5005 0 0 && [ $(($(other_end) - before)) -ge 5 ]
}
# A download during which programs come, take each other's place, and go.
under_load() {
    download >/tmp/load 2>&1 &
    load=$!
    for program in pass drop tx; do
        attach "$program" || return 1
        sleep 0.3
    done
    detach && wait "$load"
}
# Long packets of a connection are redirected, but for those that the NIC has decrypted.
holds_plaintext() {
    local before download
    python3 /mnt/xdp.py look v1 >/tmp/looked &
    looks=$!
    before=$(decrypted)
    tls_download &
    download=$!
    soon decrypted_more "$before"
    attach tls && soon grep -q ciphertext /tmp/looked
    attach pass && wait "$download" || return 1
    kill "$looks"
    echo "held: $(value xdp_held), $(sort /tmp/looked | uniq -c)"
    [ "$(value xdp_held)" -gt 0 ] && grep -q ciphertext /tmp/looked && ! grep -q clear /tmp/looked
}
has_gone() { ! ip link show "$dev" | grep -q xdp; }

try 'programs are loaded' python3 /mnt/xdp.py pin "$programs" "$dev" v0
ip link set "$dev" mtu 3499
try 'a program is refused with a large MTU' refused attach pass
try 'and by why' grep -q 'MTU' /tmp/refusal
ip link set "$dev" mtu 1500
try 'a program is attached' attach pass
try 'the NIC merges no packets' lro off
try 'the largest MTU' ip link set "$dev" mtu 3498
try 'packets of the largest MTU are passed' counts xdp_pass 3 ping -q -c 3 -M do -s 3470 "$PEER"
try 'a larger one is refused with a program' refused ip link set "$dev" mtu 3499
ip link set "$dev" mtu 1500
try 'passed packets are right' counts xdp_pass 100 download
try 'the NIC decrypts what is passed' counts xdp_pass 100 decrypts
python3 /mnt/xdp.py whole "$PEER"
try 'as is what comes in packets of its own' counts xdp_pass 100 decrypts
try 'no plaintext is redirected' holds_plaintext
try 'another takes its place' attach drop
try 'datagrams to its port are dropped' counts xdp_drop 5 answered 5001 0 0
try 'others come' counts xdp_pass 5 answered 5010 5 0
try 'one that moves the ends of packets' attach tag
try 'the kernel gets them' counts xdp_pass 5 answered 5007 5 0
try 'one that sends back' attach tx
try 'the peer gets its datagrams' counts xdp_tx 5 answered 5002 0 5
try 'one that gives up' attach aborted
try 'its datagrams are lost' counts xdp_aborted 5 answered 5003 0 0
try 'one that gives no action' attach unknown
try 'its datagrams are lost too' counts xdp_aborted 5 answered 5006 0 0
try 'one that redirects to the same device' attach own
try 'the peer gets what is redirected' counts xdp_xmit 5 answered 5004 0 5
try 'one that redirects to another device' attach map
try 'the other device gets it' counts xdp_redirect 5 reaches_veth
try 'other queues' ethtool -L "$dev" combined 1
ip link set "$dev" down && ip link set "$dev" up
try 'the program goes on, also when the interface has been down' counts xdp_redirect 5 reaches_veth
echo 1 >"/sys/bus/pci/devices/$(basename "$(dirname /sys/bus/pci/drivers/longshore/*/net)")/reset"
try 'and after a reset' counts xdp_redirect 5 reaches_veth
try 'the program is detached' detach
try 'it has gone' has_gone
try 'the NIC merges packets again' lro on
try 'programs come and go during a download' under_load
try 'the NIC decrypts as before' decrypts
attach tx
ip link set "$dev" down
try 'the module goes with a program attached' rmmod longshore
try 'the kernel has nothing to complain of' no_complaint
SCRIPT
if boot 240 --smp 2 -- env "SHA256=$(down_sha256)" "DIGEST=$digest"; then ok 'the guest runs to the end'; else not_ok 'the guest runs to the end' "$(last_words boot.log) $(last_words guest.log)"; fi
repeat_cases guest.log
