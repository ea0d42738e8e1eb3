# fio and nbdcopy use a namespace through our initiator's NBD export: Linux's target in a guest behind it, both digests, with
# and without impairment.
. "$(dirname "$0")/harness.sh"
needs ip fio nbdcopy
needs_guest

nqn=nqn.2024-01.org.example:linux
make_guest_network
make_file data 33554432

cat "$(dirname "$0")/guest/linux_target" - >"$scratch/script" <<'SCRIPT'
sleep 1000
SCRIPT
start_guest guest.log "$scratch/script" --set "ADDRESS=$guest4" --time 300
if ! eventually grep -q 'TARGET READY' "$scratch/guest.log"; then
    not_ok 'fio through our initiator' "the guest's target did not start: $(last_words guest.log)"
    exit
fi

# verify NAME OPTION…: writes the export's first 64 MiB in blocks of all sizes, reads them back, compares their CRC-32C.
verify() {
    local name=$1
    shift
    if timeout 120 fio --name=verify --ioengine=nbd "--uri=nbd+unix:///?socket=$scratch/nbd" --rw=randwrite --size=16M \
        --bsrange=4k-256k --bs_unaligned=0 --iodepth=16 --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
        --output-format=json "$@" >"$scratch/fio.log" 2>&1; then
        ok "$name"
    else
        not_ok "$name" "$(grep -aiE 'verify|error|failed' "$scratch/fio.log" | head -n 3 | tr '\n' ' ')"
    fi
}

for label in offload impaired; do
    options=(--offload both --digest both)
    [[ $label == impaired ]] && options+=("${impaired[@]}")
    rm -f "$scratch/nbd"
    start attach.log "$LONGSHORE" nvme attach "$guest4:4420" --tap "$tap" --ip "$ours4/24" --nqn "$nqn" --nbd "$scratch/nbd" \
        --control "$scratch/control" "${options[@]}"
    attach=$started
    if ! eventually test -S "$scratch/nbd"; then
        not_ok "attach, $label" "$(last_words attach.log)"
        stop "$attach"
        continue
    fi
    verify "fio verifies a namespace, $label"
    verify "fio verifies it from four connections, $label" --numjobs=4 --offset_increment=16M

    name="nbdcopy writes and reads 32 MiB, $label"
    if ! timeout 120 nbdcopy "$scratch/root/data" "nbd+unix:///?socket=$scratch/nbd" >"$scratch/nbdcopy.log" 2>&1; then
        not_ok "$name" "$(last_words nbdcopy.log)"
    elif ! timeout 120 nbdcopy "nbd+unix:///?socket=$scratch/nbd" "$scratch/back" >"$scratch/nbdcopy.log" 2>&1; then
        not_ok "$name" "$(last_words nbdcopy.log)"
    elif cmp -s -n 33554432 "$scratch/root/data" "$scratch/back"; then
        ok "$name"
    else
        not_ok "$name" 'the bytes differ'
    fi
    placed=$("$LONGSHORE" stat "$scratch/control" 2>/dev/null | awk '$1 == "rx_nvmeotcp_bytes:" { print $2; exit }')
    if [[ ${placed:-0} -gt 1000000 ]]; then
        ok "the NIC placed $placed bytes of them, $label"
    else
        not_ok "the NIC placed bytes, $label" "rx_nvmeotcp_bytes is '${placed:-absent}'"
    fi
    stop "$attach"
    make_file data 33554432
done
