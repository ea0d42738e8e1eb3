# Kernel TLS of a guest has the NIC encrypt and decrypt: OpenSSL in the guest sends to and receives from OpenSSL on the other end of a wire that loses
# and reorders packets.
. "$(dirname "$0")/world.sh"
needs ip python3 openssl unshare nsenter

ciphers=(ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384)
megabytes=16
other_host "$peer4"
make_certificates

start_tls_peer $((megabytes << 20))

if ! start_nic --loss 0.01 --reorder 0.01 --seed 7 --pcap "$scratch/wire.pcapng" || ! eventually grep -q "listening 4433" "$scratch/peer.log"; then
    not_ok 'the NIC starts' "$(last_words nic.log) $(last_words peer.log)"
    exit
fi

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
use || exit 1
awk -v lines=$((BYTES / 64)) 'BEGIN { for (line = 0; line < lines; line++) printf "%063d\n", line }' >/tmp/digits
for cipher in $CIPHERS; do
    client="openssl s_client -ktls -tls1_2 -cipher $cipher -quiet -nocommands"
    $client -connect "$PEER:4433" -no_ign_eof </tmp/digits 2>&1 | tail -n 3
    echo "received $cipher $($client -connect "$PEER:4434" -ign_eof </dev/null 2>/tmp/log | sha256sum | cut -d ' ' -f 1)"
    tail -n 3 /tmp/log
done
cat /proc/net/tls_stat
ethtool -S "$dev"
ip link set "$dev" down
rmmod longshore
dmesg | grep -E 'WARNING|BUG|Oops|refcount'
exit 0
SCRIPT
boot 240 -- env "CIPHERS=${ciphers[*]}" "BYTES=$((megabytes << 20))"
code=$?
tr -d '\r' <"$scratch/guest.log" >"$scratch/told"
if [[ $code -ne 0 ]]; then
    not_ok 'the guest runs to the end' "code $code: $(last_words boot.log) $(last_words guest.log)"
    exit
fi
digest=$(sed -n 's/^digest //p' "$scratch/peer.log")
# same NAME LINE LOG
same() { if grep -qx "$2" "$scratch/$3"; then ok "$1, the same bytes"; else not_ok "$1, the same bytes" "$(last_words peer.log) $(last_words told)"; fi; }
for cipher in "${ciphers[@]}"; do
    same "$cipher sent" "$cipher $digest" peer.log
    same "$cipher received" "received $cipher $digest" told
done
# value NAME: of a counter of the guest's.
value() { awk -v name="$1" '$1 == name || $1 == name ":" { print $2; exit }' "$scratch/told"; }
at_least() { # NAME WHAT LEAST
    if [[ $(value "$2") -ge $3 ]]; then ok "$1: $(value "$2")"; else not_ok "$1" "$2 is $(value "$2")"; fi
}
at_least 'kernel TLS has left sending to the NIC' TlsTxDevice 4
at_least 'the NIC has encrypted all bytes' tx_tls_encrypted_bytes $((2 * megabytes << 20))
at_least 'records were recovered for retransmissions' tx_tls_ooo 1
at_least 'kernel TLS has left receiving to the NIC' TlsRxDevice 4
# How much depends on what the kernel has come to when the NIC asks it where a record begins.
at_least 'the NIC has decrypted' rx_tls_decrypted_bytes $((1 << 16))
at_least 'the NIC has asked where records begin' rx_tls_resync_req_pkt 1
at_most() { if [[ $(value "$2") -le $3 ]]; then ok "$1"; else not_ok "$1" "$2 is $(value "$2")"; fi; }
at_most 'no record was wrong' TlsDecryptError 0
at_most 'no descriptor was refused' rx0_refused 0
if grep -qaE '0{40}[0-9]{8}' "$scratch/wire.pcapng"; then
    not_ok 'no plaintext on the wire' 'digits are in the capture in clear'
else
    ok 'no plaintext on the wire'
fi
if grep -E 'WARNING|BUG|Oops|refcount' "$scratch/told"; then
    not_ok 'the kernel has nothing to complain of' "$(grep -m 1 -E 'WARNING|BUG|Oops|refcount' "$scratch/told")"
else
    ok 'the kernel has nothing to complain of'
fi
