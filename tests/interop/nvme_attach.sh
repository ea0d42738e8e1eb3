# A namespace as an NBD export, as nbdcopy and fio use it: on Linux's own TCP, in software and with the NIC's help, and on our stack inside TLS.
. "$(dirname "$0")/harness.sh"
needs ip nbdcopy

ip link set lo up
nqn=nqn.2024-01.org.example:disk
host4=10.79.0.1 target4=10.79.0.2 secure4=10.79.0.3 ours4=10.79.0.4
control=$scratch/nic.sock size=33554432
head -c 32 /dev/urandom >"$scratch/secret"
gzip -c "$scratch/secret" | tail -c 8 | head -c 4 >>"$scratch/secret"
echo "NVMeTLSkey-1:01:$(base64 --wrap=0 "$scratch/secret"):" >"$scratch/key"
chmod 600 "$scratch/key"

# ---- the NIC's wire and the TAPs are ports of one bridge -----------------------------------------------------
ip link add kn0 type bridge && ip link set kn0 up
for port in kw0 kt0 kt1 ko0; do
    ip tuntap add dev "$port" mode tap vnet_hdr && ip link set "$port" master kn0 && ip link set "$port" up
done
start target.log "$LONGSHORE" nvme target --tap kt0 --ip "$target4/24" --ns mem:64M --nqn "$nqn"
start secure.log "$LONGSHORE" nvme target --tap kt1 --ip "$secure4/24" --ns mem:64M --nqn "$nqn" --psk "$scratch/key"
start nic.log "$LONGSHORE" nic --host "tap:kh0,ip=$host4/24" --wire tap:kw0 --control "$control" --state "$scratch/state"
if ! eventually "$LONGSHORE" stat "$control" || ! eventually listens "$target4" 4420 || ! eventually listens "$secure4" 4420; then
    not_ok 'the NIC and the targets start' "$(last_words nic.log) $(last_words target.log) $(last_words secure.log)"
    exit
fi

# attached NAME TARGET OPTION…: a file goes there and comes back by nbdcopy, and fio verifies what it writes.
attached() {
    local name=$1 to=$2 uri="nbd+unix:///?socket=$scratch/nbd" attach
    shift 2
    make_file data "$size"
    rm -f "$scratch/nbd" "$scratch/back"
    start attach.log "$LONGSHORE" nvme attach "$to" --nqn "$nqn" --nbd "$scratch/nbd" --control "$scratch/attach.sock" --digest both "$@"
    attach=$started
    if ! eventually "$LONGSHORE" stat "$scratch/attach.sock"; then
        not_ok "$name" "$(last_words attach.log)"
    elif ! timeout 120 nbdcopy "$scratch/root/data" "$uri" >"$scratch/nbdcopy.log" 2>&1 ||
        ! timeout 120 nbdcopy "$uri" "$scratch/back" >"$scratch/nbdcopy.log" 2>&1; then
        not_ok "$name" "$(last_words nbdcopy.log) $(last_words attach.log)"
    elif cmp -s -n "$size" "$scratch/root/data" "$scratch/back"; then
        ok "$name"
    else
        not_ok "$name" 'the bytes differ'
    fi
    "$LONGSHORE" stat --all "$scratch/attach.sock" >"$scratch/stat.log" 2>&1
    if ! command -v fio >/dev/null; then
        skip "fio verifies, $name" 'no fio'
    elif timeout 120 fio --name=verify --ioengine=nbd "--uri=$uri" --rw=randwrite --size=16M --bsrange=4k-256k --bs_unaligned=0 --iodepth=16 \
        --verify=crc32c --verify_fatal=1 --verify_state_save=0 >"$scratch/fio.log" 2>&1; then
        ok "fio verifies, $name"
    else
        not_ok "fio verifies, $name" "$(grep -aiE 'verify|error|failed' "$scratch/fio.log" | head -n 3 | tr '\n' ' ')"
    fi
    stop "$attach"
}
attached 'attach on Linux TCP, in software' "$target4" --kernel
placed_before=$(counter rx_nvmeotcp_bytes)
attached 'attach on Linux TCP, placed and checked by the NIC' "$target4" --kernel --nic "$control"
placed=$(($(counter rx_nvmeotcp_bytes) - placed_before))
told=$(awk '$1 == "rx_bytes_placed:" { gsub(/,/, "", $2); print $2 }' "$scratch/stat.log")
if [[ $placed -gt $((size / 2)) && ${told:-0} -gt $((size / 2)) ]]; then
    ok "the NIC placed $placed bytes, and attach says so"
else
    not_ok 'the NIC placed bytes' "$placed, attach says ${told:-nothing}"
fi
attached 'attach inside TLS' "$secure4" --tap ko0 --ip "$ours4/24" --psk "$scratch/key"
