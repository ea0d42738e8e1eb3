# TLS 1.3 of a kernel that leaves it to the NIC: Debian's, with a tls.ko of drivers/linux/patches. OpenSSL in the guest sends to and receives from
# OpenSSL on the other end of a wire, which is as it is, or loses 1 % of the packets; and both change the keys of a connection.
. "$(dirname "$0")/world.sh"
needs ip python3 openssl unshare nsenter patch

ciphers=(TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256)
bytes=$((4 << 20))
if [[ -z ${LONGSHORE_KERNEL_SOURCE:-} ]]; then
    skip 'tls13' "no source of the kernel: ${LONGSHORE_KERNEL_SOURCE_LACKS:-run me by tests/guest/run}"
    exit
fi
mkdir -p "$scratch/guest"
cp "$here"/{tls13_rekey,tls_upload}.py "$scratch/guest/"
name='tls.ko is built with the patch, without a warning'
if "$here/tls_module.sh" "$LONGSHORE_KERNEL_SOURCE" "$LONGSHORE_GUEST_ROOT" "$scratch/guest" 2>"$scratch/make.log" && ! grep -q 'warning:' "$scratch/make.log"; then
    ok "$name"
else
    not_ok "$name" "$(last_words make.log)"
    exit
fi
other_host "$peer4"
make_certificates

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
use || exit 1
# After a KeyUpdate the NIC decrypts again when the window that was open then has come.
sysctl -q -w net.ipv4.tcp_rmem='4096 131072 262144'
awk -v lines=$((BYTES / 64)) 'BEGIN { for (line = 0; line < lines; line++) printf "%063d\n", line }' >/tmp/digits
# told WHEN: what the kernel and the NIC have counted until now.
told() { { cat /proc/net/tls_stat && ethtool -S "$dev"; } | sed "s/^ */$1 /"; }
upload() { timeout 120 python3 /mnt/tls_upload.py "$PEER" "$BYTES" "$1" tls13; }
offload() { echo "ethtool -K $dev tls-hw-tx-offload $1 tls-hw-rx-offload $1"; }
for cipher in $CIPHERS; do
    client="openssl s_client -ktls -tls1_3 -ciphersuites $cipher -quiet -nocommands"
    $client -connect "$PEER:4433" -no_ign_eof </tmp/digits 2>&1 | tail -n 3
    echo "received $cipher $(echo | $client -connect "$PEER:4435" -ign_eof 2>/tmp/log | sha256sum | cut -d ' ' -f 1)"
    tail -n 3 /tmp/log
done
told moved
timeout 120 python3 /mnt/tls13_rekey.py "$PEER" $((2 * BYTES)) blocks true true true 2>&1
told changed
timeout 120 python3 /mnt/tls13_rekey.py "$PEER" $((2 * BYTES)) polls true "$(offload off)" "$(offload on)" 2>&1
told returned
# by_openssl: its client sends a KeyUpdate that asks for one, by the command K, and is understood behind it.
by_openssl() {
    before=$(changes)
    { echo before && sleep 2 && echo K && sleep 2 && echo behind && sleep 2 && echo Q; } |
        timeout 60 openssl s_client -ktls -tls1_3 -connect "$PEER:4436" >/tmp/answers 2>&1
    grep -qx before /tmp/answers && grep -qx behind /tmp/answers && [ "$(changes)" -eq $((before + 2)) ]
}
changes() { awk '/^Tls.xRekeyOk/ { sum += $2 } END { print sum }' /proc/net/tls_stat; }
[ "$WIRE" != 'nothing lost' ] || try 'OpenSSL changes the keys of both ends' by_openssl
try "an upload whose checksums the kernel comes to make, $WIRE" upload "ethtool -K $dev tx-checksum-ipv4 off"
ethtool -K "$dev" tx-checksum-ipv4 on
ethtool -K "$dev" tls-hw-tx-offload on tso on
try "an upload whose interface goes down and comes back, $WIRE" upload "ip link set $dev down && sleep 0.5 && ip link set $dev up"
told ended
ip link set "$dev" down
rmmod longshore
try "the kernel has nothing to complain of, $WIRE" no_complaint
exit 0
SCRIPT

# value WHEN NAME: of a counter.
value() { awk -v when="$1" -v name="$2" '$1 == when && ($2 == name || $2 == name ":") { print $3; exit }' "$scratch/told"; }
at_least() { # NAME WHEN WHAT LEAST
    if [[ $(value "$2" "$3") -ge $4 ]]; then ok "$1, $wire: $(value "$2" "$3")"; else not_ok "$1, $wire" "$3 is $(value "$2" "$3")"; fi
}
at_most() { if [[ $(value "$2" "$3") -le $4 ]]; then ok "$1, $wire"; else not_ok "$1, $wire" "$3 is $(value "$2" "$3")"; fi; }
# same NAME COUNT LINE LOG: there are so many of the line.
same() {
    if [[ $(grep -cx "$3" "$scratch/$4") -eq $2 ]]; then ok "$1, $wire, the same bytes"; else not_ok "$1, $wire, the same bytes" "$(last_words peer.log) $(last_words told)"; fi
}

twice=$(awk -v lines=$((2 * bytes / 64)) 'BEGIN { for (line = 0; line < lines; line++) printf "%063d\n", line }' | sha256sum | cut -d ' ' -f 1)
for loss in 0 0.01; do
    if [[ $loss == 0 ]]; then wire='nothing lost'; else wire='1 % lost'; fi
    start_tls_peer "$bytes"
    peer=$started
    if ! start_nic --loss "$loss" --seed 7 --pcap "$scratch/wire.pcapng" || ! eventually grep -q 'listening 4433' "$scratch/peer.log"; then
        not_ok 'the NIC starts' "$(last_words nic.log) $(last_words peer.log)"
        exit
    fi
    boot 240 -- env "CIPHERS=${ciphers[*]}" "BYTES=$bytes" "WIRE=$wire"
    code=$?
    tr -d '\r' <"$scratch/guest.log" >"$scratch/told"
    if [[ $code -ne 0 ]]; then
        not_ok "the guest runs to the end, $wire" "code $code: $(last_words boot.log) $(last_words guest.log)"
        exit
    fi
    repeat_cases guest.log
    digest=$(sed -n 's/^digest //p' "$scratch/peer.log")
    for cipher in "${ciphers[@]}"; do
        # Two more uploads are by the one that OpenSSL likes best.
        same "$cipher sent" "$([[ $cipher == *AES_256* ]] && echo 3 || echo 1)" "$cipher $digest" peer.log
        same "$cipher received" 1 "received $cipher $digest" told
    done
    at_least 'kernel TLS has left sending to the NIC' moved TlsTxDevice 6
    at_least 'kernel TLS has left receiving to the NIC' moved TlsRxDevice 6
    at_least 'the NIC has encrypted all bytes' moved tx_tls_encrypted_bytes $((3 * bytes))
    at_least 'the NIC has decrypted most' moved rx_tls_decrypted_bytes $((2 * bytes))
    same 'sent and received back, with three changes of keys each' 2 "echoed $twice changed 3" told
    at_most 'a sender that polls is told of room when there is' polls in_vain 20
    at_least 'the NIC was given each key to send with' changed tx_tls_ctx $((6 + 4))
    at_least 'the NIC was given each key to receive with' changed rx_tls_ctx $((6 + 4))
    at_least 'the NIC has encrypted all bytes by all keys' changed tx_tls_encrypted_bytes $((5 * bytes))
    by_keys=$(($(value changed rx_tls_decrypted_bytes) - $(value moved rx_tls_decrypted_bytes)))
    # By the first key alone it would be a quarter.
    if [[ $by_keys -ge $bytes ]]; then ok "the NIC has decrypted by later keys, $wire: $by_keys of $((2 * bytes)) bytes"; else not_ok "the NIC has decrypted by later keys, $wire" "$by_keys of $((2 * bytes)) bytes"; fi
    at_most 'keys that are not left to the NIC are not given to it' returned tx_tls_ctx $((6 + 4 + 3))
    at_least 'the NIC was given the key behind these' returned tx_tls_ctx $((6 + 4 + 3))
    at_least 'the kernel has encrypted for the driver' ended tx_tls_fallback 1
    [[ $loss == 0 ]] || at_least 'records were recovered for retransmissions' moved tx_tls_ooo 1
    at_most 'no record was wrong' ended TlsDecryptError 0
    at_most 'no descriptor was refused' ended rx0_refused 0
    if grep -qaE '0{40}[0-9]{8}' "$scratch/wire.pcapng"; then
        not_ok "no plaintext on the wire, $wire" 'digits are in the capture in clear'
    else
        ok "no plaintext on the wire, $wire"
    fi
    stop "$nic"
    stop "$peer"
done
