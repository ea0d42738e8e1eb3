# Which queue a flow comes by: that of the table's entry for its hash, whatever `ethtool -X`, `-L` and `-N` set, and after a reset.
. "$(dirname "$0")/world.sh"
needs ip python3 unshare nsenter

other_host "$peer4"
# About 180 packets for each connection.
make_file down $((256 << 10))
if ! start_nic; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi
start_peer
mkdir -p "$scratch/guest"
cp "$here/rss.py" "$scratch/guest/"

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
use || exit 1
# flows QUEUES [addresses]: they come where the table says, and by these queues.
flows() {
    queues=$1
    shift
    by=$(python3 /mnt/rss.py "$dev" "$ADDRESS" "$PEER" 9001 "$@" 2>&1)
    echo "$by instead of $queues"
    [ "$by" = "$queues" ]
}
refused() { ! "$@"; }
# As many queues as it says, before it is up for the first time: statistics are asked for by queue then too.
has_its_queues() {
    insmod /run/longshore/longshore.ko || return 1
    dev=$(ls /sys/bus/pci/drivers/longshore/*/net) || return 1
    set -- "/sys/class/net/$dev/queues/"rx-*
    [ $# -eq "$(ethtool -l "$dev" | awk '/^Combined:/ { count = $2 } END { print count }')" ]
}
checked() { ethtool -S "$dev" | awk '/csum_unnecessary:/ { sum += $2 } END { print sum }'; }
# The kernel is not told that checksums are right, and they are not counted as such.
unchecked() {
    before=$(checked)
    ethtool -K "$dev" rx off && download && [ "$(checked)" = "$before" ]
    code=$?
    ethtool -K "$dev" rx on && download && [ "$(checked)" -gt "$before" ] && return "$code"
}
# has TEXT: a line of what `ethtool -x` shows.
has() { ethtool -x "$dev" | grep -q "$1"; }
key=6d:5a:56:da:25:5b:0e:c2:41:67:25:3d:43:a3:8f:b0:d0:ca:2b:cb:ae:7b:30:b4:77:cb:2d:a3:80:30:f2:0c:6a:42:b7:3b:be:ac:01:fa

try 'three queues' ethtool -L "$dev" combined 3
try 'the table is spread over them' has '^ *0: *0 *1 *2 *0 *1 *2 *0 *1$'
try 'a key' ethtool -X "$dev" hkey "$key"
try 'the key is shown' has "^$key$"
try 'flows come where the table says' flows '0 1 2'
try 'a queue that is not there is refused' refused ethtool -X "$dev" weight 0 0 0 1
try 'another table' ethtool -X "$dev" weight 0 1 2
try 'flows come by its queues' flows '1 2'
try 'more queues' ethtool -L "$dev" combined 4
try 'leave a table alone that was set' flows '1 2'
try 'fewer queues than it has are refused' refused ethtool -L "$dev" combined 2
ip link set "$dev" down && ip link set "$dev" up
try 'key and table outlast the interface going down' flows '1 2'
ip link set "$dev" down
try 'a table is set while it is down' ethtool -X "$dev" weight 1 0 3
ip link set "$dev" up
try 'and holds when it is up' flows '0 2'
try 'the one of before' ethtool -X "$dev" weight 0 1 2
echo 1 >"/sys/bus/pci/devices/$(basename "$(dirname /sys/bus/pci/drivers/longshore/*/net)")/reset"
try 'and a reset' flows '1 2'
try 'and is shown' has "^$key$"
try 'the default table' ethtool -X "$dev" default
try 'flows come by all queues again' flows '0 1 2 3'
try 'two queues' ethtool -L "$dev" combined 2
try 'flows come by both' flows '0 1'
try 'a hash of addresses' ethtool -N "$dev" rx-flow-hash tcp4 sd
try 'flows of the same addresses come by one queue' flows 0 addresses
try 'a hash of one address is refused' refused ethtool -N "$dev" rx-flow-hash tcp4 s
try 'what is not of IP has no hash to show' refused ethtool -n "$dev" rx-flow-hash ether
try 'packets whose checksums are not to be looked at' unchecked
ip link set "$dev" down
try 'the module goes' rmmod longshore
try 'a new one has no more queues than it says' has_its_queues
try 'it goes' rmmod longshore
try 'the kernel has nothing to complain of' no_complaint
SCRIPT
if boot 240 --smp 2 -- env "SHA256=$(down_sha256)"; then ok 'the guest runs to the end'; else not_ok 'the guest runs to the end' "$(last_words boot.log) $(last_words guest.log)"; fi
repeat_cases guest.log
