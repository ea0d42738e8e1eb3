# tshark dissects what our initiator and our target say to each other: no malformed packet, every digest right, in the clear
# and decrypted by the key log.
. "$(dirname "$0")/harness.sh"
needs ip tshark openssl

nqn=nqn.2024-01.org.example:longshore
make_guest_network
# Our target is .4, on a TAP of its own.
ip tuntap add dev ls1 mode tap vnet_hdr
ip link set ls1 master br0 up
make_file data 4194304
{
    printf 'NVMeTLSkey-1:01:'
    head -c 32 /dev/urandom >"$scratch/secret"
    # gzip's trailer begins with the CRC-32.
    gzip -c "$scratch/secret" | tail -c 8 | head -c 4 >>"$scratch/secret"
    openssl base64 -A -in "$scratch/secret"
    echo :
} >"$scratch/keys"
# Its dissector for NVMe/TCP does not offer itself for what is inside of TLS.
echo 'DissectorTable.get("tls.port"):add(4420, Dissector.get("nvme-tcp"))' >"$scratch/nvme.lua"

# dissect OPTION…: tshark with the settings of this case.
dissect() {
    tshark -r "$scratch/capture.pcapng" -X "lua_script:$scratch/nvme.lua" -o nvme-tcp.check_hdgst:TRUE \
        -o nvme-tcp.check_ddgst:TRUE ${settings[@]+"${settings[@]}"} "$@" 2>"$scratch/tshark.log"
}
# count FILTER: packets that it is true of.
count() { dissect -Y "$1" -T fields -e frame.number | wc -l; }

for label in 'in the clear' 'over TLS, the initiator'"'"'s capture' 'over TLS, the target'"'"'s capture'; do
    name="tshark and NVMe/TCP $label"
    rm -f "$scratch"/{capture.pcapng,keylog}
    tls=() settings=() ours=() theirs=()
    capture=(--pcap "$scratch/capture.pcapng" --keylog "$scratch/keylog")
    if [[ $label == *target* ]]; then theirs=("${capture[@]}"); else ours=("${capture[@]}"); fi
    if [[ $label == *TLS* ]]; then
        tls=(--psk "$scratch/keys")
        # Some secrets come after packets that are in the capture already, and tshark reads it once: the secrets inside
        # of it do not do.
        settings=(-d tcp.port==4420,tls -o "tls.keylog_file:$scratch/keylog")
    fi
    start target.log "$LONGSHORE" nvme target --tap ls1 --ip 10.77.0.4/24 --nqn "$nqn" --ns mem:64M "${tls[@]}" "${theirs[@]}"
    target=$started
    eventually grep -q '^listening' "$scratch/target.log"
    # Writes, and reads it all back.
    timeout 60 "$LONGSHORE" nvme write 10.77.0.4:4420 --tap "$tap" --ip "$ours4/24" --nqn "$nqn" --digest both \
        -i "$scratch/root/data" --verify -q "${tls[@]}" "${ours[@]}" >"$scratch/nvme.log" 2>&1
    code=$?
    stop "$target"
    if [[ $code -ne 0 ]]; then
        not_ok "$name" "exit $code: $(last_words nvme.log)"
        continue
    fi
    pdus=$(count nvme-tcp) sent=$(count 'nvme-tcp.type == 6') received=$(count 'nvme-tcp.type == 7')
    # A probe for a lost tail repeats a part of a longer segment. tshark cannot fit it in, and says that of that packet.
    malformed=$(count '(_ws.malformed || nvme-tcp.unknown_data) && !tcp.analysis.retransmission && !tcp.analysis.out_of_order')
    wrong=$(count 'nvme-tcp.hdgst.status == 0 || nvme-tcp.ddgst.status == 0')
    right=$(count 'nvme-tcp.hdgst.status == 1')
    if [[ $sent -gt 0 && $received -gt 0 && $right -gt 20 && $malformed -eq 0 && $wrong -eq 0 ]]; then
        ok "$name: $pdus packets with PDUs"
    else
        not_ok "$name" "$pdus packets with PDUs, H2CData in $sent, C2HData in $received, $malformed malformed, digests right in $right and wrong in $wrong: $(last_words tshark.log)"
    fi
done
