# What the NIC decrypts for Linux's own TCP: OpenSSL's s_client and s_server with kernel TLS receive from ones without it on another host, over a wire
# that loses and reorders packets, while the NIC dies and comes back.
. "$(dirname "$0")/harness.sh"
needs openssl ip nsenter unshare python3

ip link set lo up
make_certificates
make_file large 20000000
host4=10.78.0.1 peer4=10.78.0.2
control=$scratch/nic.sock state=$scratch/state
make_openssl_configuration

# ---- another host: a namespace, with its end of the wire --------------------------------------------------------
other_host "$peer4"

start_nic() { # LOG OPTION…
    local log=$1
    shift
    start "$log" "$LONGSHORE" nic --host "tap:rx0,ip=$host4/24" --wire packet:w0 --control "$control" --state "$state" "$@"
    nic=$started
    eventually "$LONGSHORE" stat "$control"
}
# opened LOG: records that the NIC has opened for the program of this log.
opened() { sed -n 's/^ *\([0-9,]*\) of the records by the NIC.*/\1/p' "$scratch/$1" | tail -n 1 | tr -d ,; }
is_bound_there() { there ss -Htln | grep -q ":$1 "; }

# download NAME MINIMUM OPTION…: s_client with kernel TLS gets the file, of which the NIC opens at least so many records.
download() {
    local name=$1 minimum=$2 server records
    shift 2
    (cd "$scratch/root" && start server.log nsenter --net="/proc/$other/ns/net" openssl s_server -accept "$peer4:4433" -cert "$scratch/leaf.pem" -key "$scratch/leaf.key" -WWW "$@" &&
        echo "$started" >"$scratch/server.pid")
    server=$(cat "$scratch/server.pid")
    eventually is_bound_there 4433
    asking large env OPENSSL_CONF="$scratch/openssl.cnf" timeout 90 "$LONGSHORE" run --nic "$control" -- openssl s_client -connect "$peer4:4433" -quiet \
        -CAfile "$scratch/ca.pem" "$@" >"$scratch/answer" 2>"$scratch/client.log"
    kill "$server" 2>/dev/null
    records=$(opened client.log)
    if ! tail -c 20000000 "$scratch/answer" | cmp -s - "$scratch/root/large"; then
        not_ok "$name" "the bytes differ: $(last_words client.log)"
    elif [[ ${records:-0} -lt $minimum ]]; then
        not_ok "$name" "the NIC has opened ${records:-no} records: $(last_words client.log)"
    else
        ok "$name: $records records opened by the NIC"
    fi
}

if ! start_nic nic.log; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi
# OpenSSL 3.0 asks for receiving in TLS 1.2 only.
download 's_client with kernel TLS behind the NIC, TLS 1.2' 800 -tls1_2
download 's_client with kernel TLS behind the NIC, TLS 1.2, ChaCha20' 800 -tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305
stop "$nic"
if ! start_nic nic2.log "${impaired[@]}"; then
    not_ok 'the NIC starts on a lossy wire' "$(last_words nic2.log)"
    exit
fi
download 's_client with kernel TLS behind the NIC, loss and reordering' 200 -tls1_2
(sleep 0.5 && eventually kill_worker) &
download 's_client with kernel TLS behind the NIC, which dies' 1 -tls1_2
wait $!
stop "$nic"
