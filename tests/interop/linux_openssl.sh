# OpenSSL's own server with kernel TLS behind the NIC, to OpenSSL's client on another host that knows nothing of it and changes its keys: both ways, over a
# wire that loses and reorders packets.
#
# OpenSSL 3.0 does not change the keys of a direction that it has given to the kernel: after a key update of its own, also one that it was asked for, its
# peer can't open what comes, on any kernel. So the updates here are the client's. Those of both sides through the NIC are `cargo test -p longshore-ktls
# --test oracle`'s.
. "$(dirname "$0")/harness.sh"
needs openssl ip nsenter unshare

ip link set lo up
make_certificates
make_file large 5000000
make_openssl_configuration
lines=200
seq -f '%063.0f' 1 $lines >"$scratch/lines"

other_host "$ours4"
control=$scratch/nic.sock
start nic.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --wire packet:w0 --control "$control" --state "$scratch/state" "${impaired[@]}"
nic=$started
if ! eventually "$LONGSHORE" stat "$control"; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi
is_bound() { ss -Htln | grep -q ":$1 "; }
serve() { # LOG OPTION…: s_server with kernel TLS behind the NIC; its standard input has no end
    local log=$1
    shift
    (cd "$scratch/root" && exec env OPENSSL_CONF="$scratch/openssl.cnf" "$LONGSHORE" run --nic "$control" -- openssl s_server -accept "$linux4:4433" \
        -cert "$scratch/leaf.pem" -key "$scratch/leaf.key" "$@" < <(exec sleep 300)) >"$scratch/$log" 2>&1 &
    server=$!
    pids+=("$server")
    eventually is_bound 4433
}

for version in 2 3; do
    name="s_server with kernel TLS 1.$version behind the NIC, loss and reordering: a file"
    serve server.log "-tls1_$version" -WWW
    encrypted=$(counter tx_tls_encrypted_bytes)
    asking large there timeout 90 openssl s_client -connect "$linux4:4433" -quiet -CAfile "$scratch/ca.pem" >"$scratch/answer" 2>"$scratch/client.log"
    encrypted=$(($(counter tx_tls_encrypted_bytes) - encrypted))
    stop "$server"
    if ! tail -c 5000000 "$scratch/answer" | cmp -s - "$scratch/root/large"; then
        not_ok "$name" "the bytes differ: $(last_words client.log) $(last_words server.log)"
    elif [[ $encrypted -lt 5000000 ]]; then
        not_ok "$name" "the NIC has encrypted $encrypted bytes: $(last_words server.log)"
    else
        ok "$name: the NIC has encrypted $encrypted bytes"
    fi
done

name="s_client changes its keys, s_server with kernel TLS behind the NIC"
serve server.log -tls1_3 -quiet
has_updated() { [[ $(grep -c KEYUPDATE "$scratch/client.log") -ge $1 ]]; }
has_lines() { [[ $(grep -c '^[0-9]\{63\}$' "$scratch/server.log") -ge $1 ]]; }
{
    for ((round = 1; round <= 4; round++)); do
        cat "$scratch/lines"
        eventually has_lines $((round * lines))
        # A line of one letter, alone: a key update.
        echo k
        eventually has_updated "$round"
    done
} | there timeout 60 openssl s_client -connect "$linux4:4433" -tls1_3 -CAfile "$scratch/ca.pem" >"$scratch/client.log" 2>&1 &
talks=$!
wait "$talks"
stop "$server"
got=$(grep -c '^[0-9]\{63\}$' "$scratch/server.log")
updates=$(grep -c KEYUPDATE "$scratch/client.log")
if [[ $got -eq $((4 * lines)) && $updates -ge 3 ]]; then
    ok "$name: $updates updates"
else
    not_ok "$name" "$got of $((4 * lines)) lines, $updates updates: $(last_words client.log) $(last_words server.log)"
fi
stop "$nic"
