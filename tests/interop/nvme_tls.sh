# NVMe over TLS with a Linux 6.12 and its handshake daemon (GnuTLS, kTLS) as the peer: identities of both versions, with
# and without impairment. GnuTLS takes external keys with SHA-256 only, so that keys of 48 bytes are OpenSSL's to try.
. "$(dirname "$0")/harness.sh"
needs ip openssl sha256sum
needs_guest tls

here=$(dirname "$0")
nqn=nqn.2024-01.org.example:linux
ours=nqn.2024-01.org.example:longshore
linux_host=nqn.2014-08.org.nvmexpress:uuid:6c6f6e67-7368-4f72-8001-000000000001
make_guest_network
# Our target is .4, on a TAP of its own.
ip tuntap add dev ls1 mode tap vnet_hdr
ip link set ls1 master br0 up
make_file data 16777216

# A key for each host, the second one under an identity of version 0.
new_key() { # in the interchange format (NVMe/TCP Transport 1.1 §3.6.1.5)
    head -c 32 /dev/urandom >"$scratch/secret"
    # gzip's trailer begins with the CRC-32.
    gzip -c "$scratch/secret" | tail -c 8 | head -c 4 >>"$scratch/secret"
    echo "NVMeTLSkey-1:01:$(openssl base64 -A -in "$scratch/secret"):"
}
new_key >"$scratch/key-a"
new_key >"$scratch/key-b"

# ---- Linux's initiator against our target --------------------------------------------------------------------
new_key >"$scratch/key-ours"
echo "$linux_host $(cat "$scratch/key-ours")" >"$scratch/keys"
start target.log env RUST_LOG=debug "$LONGSHORE" nvme target --tap ls1 --ip 10.77.0.4/24 --nqn "$ours" --ns mem:64M \
    --psk "$scratch/keys" --control "$scratch/control" "${impaired[@]}"

cat "$here/guest/tls" "$here/guest/linux_initiator" "$here/guest/linux_target" - >"$scratch/script" <<'SCRIPT'
gives_key $NQN 1 $KEY_A nqn.2014-08.org.example:a
gives_key $NQN 0 $KEY_B nqn.2014-08.org.example:b
gives_key $OURS 1 $KEY_OURS
cycle() {
    seq 1 9999999 | head -c 16777216 >/tmp/written
    dd if=/tmp/written of=$disk bs=256k oflag=direct conv=fsync || return 1
    forget
    dd if=$disk bs=256k count=64 iflag=direct 2>/dev/null | cmp - /tmp/written
}
attempt 'Linux connects over TLS to our target, both digests, a bad wire' connects 10.77.0.4 4420 $OURS --tls --hdr-digest --data-digest
attempt 'Linux writes and reads 16 MiB over TLS on our target' cycle
attempt 'Linux disconnects from our target' disconnects $OURS
wrong=$(gives_key $OURS 1 $KEY_A | sed -n 's/^Inserted TLS key //p')
fails() { ! nvme connect -t tcp -a 10.77.0.4 -s 4420 -n $OURS --tls --tls_key $1; }
attempt 'Linux with another key is refused by our target' fails $(printf %d 0x$wrong)
echo KEYS READY
sleep 1000
SCRIPT
start_guest guest.log "$scratch/script" --image tls --set "ADDRESS=$guest4" --set TLS=yes \
    --set "KEY_A=$(cat "$scratch/key-a")" --set "KEY_B=$(cat "$scratch/key-b")" \
    --set "KEY_OURS=$(cat "$scratch/key-ours")" --set "OURS=$ours" --time 300
eventually grep -q 'KEYS READY' "$scratch/guest.log"
repeat_cases guest.log
"$LONGSHORE" stat "$scratch/control" >"$scratch/stat.log" 2>&1
for counter in tx_tls_encrypted_packets rx_tls_decrypted_packets tx_nvmeotcp_digest_packets; do
    packets=$(awk -v name="$counter:" '$1 == name { print $2; exit }' "$scratch/stat.log")
    if [[ ${packets:-0} -gt 100 ]]; then
        ok "our target over TLS: $counter counts"
    else
        not_ok "our target over TLS: $counter counts" "it is '${packets:-absent}'"
    fi
done

# ---- our initiator against Linux's target --------------------------------------------------------------------
if ! grep -q 'KEYS READY' "$scratch/guest.log"; then
    not_ok 'NVMe over TLS with nvmet' "the guest's target did not start: $(last_words guest.log)"
    exit
fi

# nvme COMMAND HOST KEY VERSION OPTION…: its output is in nvme.log. The guest's libnvme derives keys in the old way.
nvme() {
    local command=$1 host=$2 key=$3 version=$4
    shift 4
    timeout 120 "$LONGSHORE" nvme "$command" "$guest4:4420" --tap "$tap" --ip "$ours4/24" --nqn "$nqn" \
        --hostnqn "nqn.2014-08.org.example:$host" --psk "$scratch/key-$key" --psk-identity "$version" --psk-compat "$@" \
        >"$scratch/nvme.log" 2>&1
}

for case in 'a 1' 'b 0'; do
    read -r host version <<<"$case"
    name="connect-check over TLS with nvmet, identity version $version"
    if ! nvme connect-check "$host" "$host" "$version" --digest both; then
        not_ok "$name" "$(last_words nvme.log)"
    elif grep -q 'TLSv1.3 AES-128-GCM' "$scratch/nvme.log"; then
        ok "$name"
    else
        not_ok "$name" "$(last_words nvme.log)"
    fi
done

for label in offload impaired software; do
    options=(--offload both --digest both)
    [[ $label == software ]] && options=(--offload none --digest both)
    [[ $label == impaired ]] && options+=("${impaired[@]}")
    name="16 MiB over TLS to nvmet and back, $label"
    rm -f "$scratch/back"
    if ! nvme write a a 1 -i "$scratch/root/data" -q "${options[@]}"; then
        not_ok "$name" "write: $(last_words nvme.log)"
    elif ! nvme read a a 1 -o "$scratch/back" --length 16777216 -q "${options[@]}"; then
        not_ok "$name" "read: $(last_words nvme.log)"
    elif [[ $(sha256sum <"$scratch/root/data") == $(sha256sum <"$scratch/back") ]]; then
        ok "$name"
    else
        not_ok "$name" 'the SHA-256 differs'
    fi
    make_file data 16777216
done

name='nvmet refuses a host that it has no key of'
if nvme connect-check stranger a 1; then
    not_ok "$name" 'exit 0'
elif grep -q 'PSK identity' "$scratch/nvme.log"; then
    ok "$name"
else
    not_ok "$name" "$(last_words nvme.log)"
fi
name='nvmet refuses a host with another key'
if nvme connect-check b a 0; then
    not_ok "$name" 'exit 0'
elif grep -q 'PSK identity' "$scratch/nvme.log"; then
    ok "$name"
else
    not_ok "$name" "$(last_words nvme.log)"
fi
