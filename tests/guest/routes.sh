# Packets of kernel TLS that the NIC can't encrypt, as their route, their headers or their addresses have become others than those of their
# context, or their interface has been down: the kernel encrypts them, and the connection goes on.
. "$(dirname "$0")/world.sh"
needs ip python3 openssl unshare nsenter

bytes=$((4 << 20))
other_host "$peer4"
peer6=fd77::2 guest6=fd77::3
there ip -6 addr add "$peer6/64" dev w1 nodad
make_certificates
start_tls_peer "$bytes"
start peer6.log nsenter --net="/proc/$other/ns/net" python3 "$here/tls_peer.py" "$peer6" "$scratch/leaf.pem" "$scratch/leaf.key" "$bytes"
mkdir -p "$scratch/guest"
cp "$here/tls_upload.py" "$scratch/guest/"

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
# upload ADDRESS COMMAND OPTION…
upload() {
    address=$1
    shift
    timeout 120 python3 /mnt/tls_upload.py "$address" "$BYTES" "$@"
}
value() { ethtool -S "$1" | awk -v name="$2:" '$1 == name { sum += $2 } END { print sum + 0 }'; }
# by_kernel COMMAND…: packets of it are encrypted by the kernel, as the driver asks for.
by_kernel() {
    before=$(value eth0 tx_tls_fallback)
    "$@" && [ "$(value eth0 tx_tls_fallback)" -gt "$before" ]
}
offloads() { [ "$(value eth0 tx_tls_ctx)" -eq "$1" ]; }
# Another function, whose rings are not its first: contexts of eth0 are not of its time.
another_function() { ip link set eth1 up && ethtool -G eth1 rx 512; }
too_large() {
    ! ethtool -G eth0 rx "$(ethtool -g eth0 | awk '/^RX:/ { print $2; exit }')" tx "$(ethtool -g eth0 | awk '/^TX:/ { print $2; exit }')"
}

modprobe tls && insmod /run/longshore/longshore.ko || exit 1
ip link set eth0 up
ip addr add "$ADDRESS/24" dev eth0
ip addr add "$ADDRESS6/64" dev eth0 nodad
try 'a size of rings that there is no memory for is refused' too_large
try 'the rings are as they were' ping -c 1 -W 5 "$PEER"
try 'an upload' upload "$PEER" true
try 'is left to the NIC' offloads 1
try 'an upload whose checksums the kernel comes to make' by_kernel upload "$PEER" 'ethtool -K eth0 tx-checksum-ipv4 off'
ethtool -K eth0 tx-checksum-ipv4 on
ethtool -K eth0 tls-hw-tx-offload on tso on
try 'it was left to the NIC' offloads 2
try 'an upload with extension headers' by_kernel upload "$PEER6" true destination-options
try 'it was left to the NIC too' offloads 3
ip route add 10.77.0.9 via "$PEER" dev eth0
nat() {
    tc qdisc add dev eth0 clsact &&
        tc filter add dev eth0 egress protocol ip u32 match ip dst 10.77.0.9/32 action nat ingress 10.77.0.9/32 "$PEER" &&
        tc filter add dev eth0 ingress protocol ip u32 match ip src "$PEER/32" action nat egress "$PEER/32" 10.77.0.9
}
try 'an address is translated' nat
try 'an upload to that address' by_kernel upload 10.77.0.9 true
try 'its connection was left to the NIC first' offloads 4
tc qdisc del dev eth0 clsact
# The peer takes no packet with a tag: all come once there is none.
cat >/tmp/tag <<'TAG'
tc qdisc add dev eth0 clsact && tc filter add dev eth0 egress protocol ip u32 match u32 0 0 action vlan push id 5 || exit
(sleep 5; tc qdisc del dev eth0 clsact) >/dev/null 2>&1 &
TAG
try 'an upload whose packets have a tag for a while' by_kernel upload "$PEER" 'sh /tmp/tag'
try 'its connection was left to the NIC first' offloads 5
try 'an upload whose interface goes down and comes back' upload "$PEER" 'ip link set eth0 down && sleep 0.5 && ip link set eth0 up'
try 'it was left to the NIC as well' offloads 6
try 'another function comes' another_function
try 'an upload whose route moves to the other function' upload "$PEER" "ip route add $PEER dev eth1 src $ADDRESS"
try 'it was left to the first function' offloads 7
ip route del "$PEER" dev eth1
# Its end does not come: what the kernel has encrypted for another device, and the NIC would encrypt again, is dropped.
detour() {
    echo "ip link add br0 type bridge forward_delay 0 && ip link set br0 address $(cat /sys/class/net/eth0/address) up &&
        ip link set eth0 master br0 && ip route replace $PEER dev br0 src $ADDRESS && touch /tmp/moved" >/tmp/move
    ! timeout 40 python3 /mnt/tls_upload.py "$PEER" "$BYTES" 'sh /tmp/move' 2>&1 && [ -e /tmp/moved ] && ping -c 1 -W 5 "$PEER"
}
dropped() { [ "$(value eth0 tx0_dropped)" -gt 0 ] || [ "$(value eth0 tx1_dropped)" -gt 0 ]; }
try 'an upload whose route moves to a bridge above the function' detour
try 'is dropped' dropped
ip link del br0
grep -H . /proc/net/tls_stat
ethtool -S eth0 | grep -E 'tls|refused|dropped'
ip link set eth0 down
ip link set eth1 down
try 'the module goes' rmmod longshore
try 'the kernel has nothing to complain of' no_complaint
SCRIPT
if boot_alone 400 --no-driver --smp 2 --functions 2 --wire packet:w0 --pcap "$scratch/wire.pcapng" -- \
    env "BYTES=$bytes" "ADDRESS=$guest4" "ADDRESS6=$guest6" "PEER=$peer4" "PEER6=$peer6"; then
    ok 'the guest runs to the end'
else
    not_ok 'the guest runs to the end' "$(last_words boot.log) $(last_words guest.log)"
fi
repeat_cases guest.log
digest=$(sed -n 's/^digest //p' "$scratch/peer.log" | head -n 1)
came=$(cat "$scratch/peer.log" "$scratch/peer6.log" | grep -c "^ECDHE.* $digest\$")
if [[ $came -eq 7 ]]; then ok 'all uploads came as they were'; else not_ok 'all uploads came as they were' "$came of 7: $(last_words peer.log)"; fi
if grep -qaE '0{40}[0-9]{8}' "$scratch/wire.pcapng"; then
    not_ok 'no plaintext on the wire' 'digits are in the capture in clear'
else
    ok 'no plaintext on the wire'
fi
