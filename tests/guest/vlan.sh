# A VLAN on each of two functions of a NIC: whole packets of it pass both ways, cut and summed by the NIC or not, and no other VLAN has them.
# Of multicast packets those come whose groups the interface has joined.
. "$(dirname "$0")/world.sh"
mkdir -p "$scratch/guest"
cp "$here/peer.py" "$scratch/guest/"

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
far() { ip netns exec far "$@"; }
# vlan NUMBER ADDRESS ADDRESS6: on the near function, and on the far one, whose addresses end in 2.
vlan() {
    ip link add link eth0 name "eth0.$1" type vlan id "$1" && ip -n far link add link eth1 name "eth1.$1" type vlan id "$1" &&
        addresses "eth0.$1" "eth1.$1" "$2" "$3"
}
addresses() { # NEAR FAR PREFIX PREFIX6
    ip addr add "$3.1/24" dev "$1" && ip addr add "$4::1/64" dev "$1" nodad && ip link set "$1" up &&
        ip -n far addr add "$3.2/24" dev "$2" && ip -n far addr add "$4::2/64" dev "$2" nodad && ip -n far link set "$2" up
}
# up ADDRESS: the far side receives the file, whole. down ADDRESS: it sends it.
sum() { sha256sum | cut -d ' ' -f 1; }
up() {
    rm -f /tmp/came
    timeout 60 busybox nc "$1" 9002 </tmp/file >/dev/null
    [ "$(sum </tmp/came)" = "$SUM" ]
}
down() { [ "$(timeout 60 busybox nc "$1" 9001 </dev/null | sum)" = "$SUM" ]; }
both() { up "$1" && down "$1"; }
segmented() { far ethtool -S eth1 | awk '/^ *tx.*_tso_packets:/ { sum += $2 } END { exit !(sum > 100) }'; }
has() { ethtool -k "$1" | grep -q "^$2: on"; }
refused() { ! "$@"; }
# comes GROUP: packets that the far side sends to it come, also by a VLAN.
packets() { cat /sys/class/net/eth0/statistics/rx_packets; }
comes() {
    before=$(packets)
    far ping -c 20 -i 0.1 -W 1 -I eth1.5 "$1"
    [ "$(($(packets) - before))" -ge 20 ]
}
many() { for n in $(seq 10 49); do ip maddr "$1" "33:33:00:00:00:$n" dev eth0 || return; done; }

modprobe tls && modprobe 8021q && insmod /run/longshore/longshore.ko || exit 1
ip netns add far
ip link set eth1 netns far
ip link set eth0 up
ip -n far link set eth1 up
head -c 8M /dev/urandom >/tmp/file
SUM=$(sum </tmp/file)
ip netns exec far python3 /mnt/peer.py :: /tmp/file /tmp/came &
peer=$!

try 'a VLAN on each function' vlan 5 10.5.0 fd05
try 'ping' ping -c 3 -W 10 10.5.0.2
try 'ping by IPv6' ping -c 3 -W 10 fd05::2
try 'ping with all that the MTU allows' ping -c 3 -W 10 -M do -s 1472 10.5.0.2
try 'the NIC cuts and sums for it' has eth0.5 tcp-segmentation-offload
try 'TCP both ways' both 10.5.0.2
try 'TCP by IPv6 both ways' both fd05::2
try 'the device has segmented' segmented
try 'segments that the kernel has cut' ethtool -K eth0.5 tso off gso off
try 'TCP with them both ways' both 10.5.0.2
try 'and summed' ethtool -K eth0.5 tx off
try 'TCP with these both ways' both 10.5.0.2
ethtool -K eth0.5 tso on tx on
try 'packets that the device does not merge' far ethtool -K eth1 lro off
try 'TCP by them both ways' both 10.5.0.2
try 'a VLAN in the VLAN' sh -c 'ip link add link eth0.5 name inner type vlan id 7 && ip link set inner mtu 1496 &&
    ip -n far link add link eth1.5 name inner type vlan id 7 && ip -n far link set inner mtu 1496'
try 'has addresses' addresses inner inner 10.7.0 fd07
try 'ping in it' ping -c 3 -W 10 -M do -s 1468 10.7.0.2
try 'TCP in it both ways' both 10.7.0.2
try 'another VLAN' vlan 6 10.6.0 fd06
try 'ping in that' ping -c 3 -W 10 10.6.0.2
ip -n far addr del 10.6.0.2/24 dev eth1.6
try 'what is sent in one is not for the other' refused ping -c 1 -W 2 10.6.0.2
try 'a group that the interface has not joined does not come' refused comes ff05::1234
try 'it joins' ip maddr add 33:33:00:00:12:34 dev eth0.5
try 'the group comes' comes ff05::1234
try 'and no other' refused comes ff05::1235
try 'more groups than the device takes' many add
try 'all come' comes ff05::1235
try 'fewer' many del
try 'the others do not come again' refused comes ff05::1235
try 'all groups are asked for' ip link set eth0 allmulticast on
try 'these come' comes ff05::1235
try 'and not any longer' ip link set eth0 allmulticast off
try 'as before' refused comes ff05::1235
echo 1 >"/sys/class/net/eth0/device/reset"
try 'the group comes after a reset' comes ff05::1234
try 'and no other one' refused comes ff05::1235
try 'nothing was refused' sh -c "! ethtool -S eth0 | grep refused: | grep -v ': 0$'"
try 'a smaller MTU' ip link set eth0 mtu 1000
try 'holds for the VLAN' sh -c 'ip link show eth0.5 | grep -q "mtu 1000"'
ip -n far link set eth1 mtu 1000
try 'ping with all that this MTU allows' ping -c 3 -W 10 -M do -s 972 10.5.0.2
try 'TCP with it both ways' both 10.5.0.2
kill "$peer"
ip netns del far
ip link set eth0 down
try 'the module goes' rmmod longshore
try 'the kernel has nothing to complain of' no_complaint
SCRIPT
if boot_alone 240 --no-driver --functions 2 --wire mem --; then ok 'the guest runs to the end'; else not_ok 'the guest runs to the end' "$(last_words boot.log) $(last_words guest.log)"; fi
repeat_cases guest.log
