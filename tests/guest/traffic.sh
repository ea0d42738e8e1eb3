# Linux in a guest sends and receives by the driver, to Linux on the other end of the NIC's wire, which knows nothing of it.
. "$(dirname "$0")/world.sh"
needs ip python3 unshare nsenter

megabytes=64
other_host "$peer4"
make_file down $((megabytes << 20))

if ! start_nic; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi
start_peer

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
upload() { busybox nc "$PEER" 9002 </tmp/up >/dev/null; }
counted() { ethtool -S "$dev" | awk -v name="$1" '$1 ~ name { sum += $2 } END { exit !(sum > 0) }'; }

try 'the module loads and has an interface' use
try 'ping' ping -c 3 -W 10 "$PEER"
try 'large ping' ping -c 3 -W 10 -s 1472 "$PEER"
head -c "$BYTES" /dev/urandom >/tmp/up
try 'download has the same bytes' download
echo "up $(sha256sum /tmp/up | cut -d ' ' -f 1)"
try 'upload' upload
try 'the device has checked checksums' counted '^rx.*_csum_unnecessary:'
try 'the device has coalesced' counted '^rx.*_lro_packets:'
try 'the device has segmented' counted '^tx.*_tso_packets:'
try 'ethtool -i' sh -c "ethtool -i $dev | grep -qx 'driver: longshore'"
try 'rings of other sizes' ethtool -G "$dev" rx 256 tx 128
try 'download with them' download
try 'the device merges no packets' ethtool -K "$dev" lro off
try 'and pauses between interrupts' ethtool -C "$dev" rx-usecs 50
try 'download so' download
try 'the module goes' rmmod longshore
try 'the module comes again' use
try 'download by it' download
ip link set "$dev" down
try 'the module goes again' rmmod longshore
try 'the kernel has nothing to complain of' no_complaint
SCRIPT
boot 280 -- env "SHA256=$(down_sha256)" "BYTES=$((megabytes << 20))"
code=$?
repeat_cases guest.log
if [[ $code -ne 0 ]]; then
    not_ok 'the guest runs to the end' "code $code: $(last_words boot.log)"
elif [[ $(sed -n 's/^up \([0-9a-f]*\).*/\1/p' "$scratch/guest.log") == $(sha256sum "$scratch/up" | cut -d ' ' -f 1) ]]; then
    ok 'upload has the same bytes'
else
    not_ok 'upload has the same bytes' 'the bytes differ'
fi
