# HAProxy with `ktls on` (3.3 and later), in software and behind the NIC: it splices between TLS and plain sockets, 100 MiB each way, and clients update
# their keys in bursts meanwhile.
#
# LONGSHORE_HAPROXY is a directory in which Debian's package of HAProxy is unpacked, with all packages that it depends on.
. "$(dirname "$0")/harness.sh"
needs openssl ip curl nsenter unshare nginx python3

libraries=${LONGSHORE_HAPROXY:-}/usr/lib/x86_64-linux-gnu
haproxy=("$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "${LONGSHORE_HAPROXY:-}/usr/sbin/haproxy")
if [[ ! -x ${haproxy[0]} ]] || ! "${haproxy[@]}" -vv 2>/dev/null | grep -q ' +KTLS'; then
    skip 'ktls_haproxy' 'LONGSHORE_HAPROXY names no unpacked HAProxy that has kernel TLS'
    exit
fi

ip link set lo up
make_certificates
make_openssl_configuration
cat "$scratch/leaf.pem" "$scratch/leaf.key" >"$scratch/both.pem"
megabytes=100
make_file large $((megabytes << 20))
make_file upload $((megabytes << 20))
chmod 755 "$scratch"
chmod 777 "$scratch/root"

other_host "$ours4"
control=$scratch/nic.sock
start nic.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --wire packet:w0 --control "$control" --state "$scratch/state"
if ! eventually "$LONGSHORE" stat "$control"; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi

cat >"$scratch/plain.conf" <<CONF
daemon off;
pid $scratch/plain.pid;
error_log stderr info;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    client_max_body_size 0;
$(temporary_paths plain)
    server {
        listen 127.0.0.1:8081;
        root $scratch/root;
        dav_methods PUT;
    }
}
CONF
start plain.log nginx -e stderr -c "$scratch/plain.conf"
if ! eventually listens 127.0.0.1 8081; then
    not_ok 'nginx starts' "$(last_words plain.log)"
    exit
fi
cat >"$scratch/haproxy.conf" <<CONF
global
    expose-experimental-directives
    log stderr format raw local0
    stats socket $scratch/haproxy.sock
defaults
    mode tcp
    option splice-auto
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen tls
    bind $linux4:8443 ssl crt $scratch/both.pem ktls on ssl-min-ver TLSv1.2
    server plain 127.0.0.1:8081
CONF

fetch() { # LOG VERSION OPTION…
    local log=$1 version=$2
    shift 2
    there timeout "$((patience * 3))" curl -sS --fail --cacert "$scratch/ca.pem" --tlsv"$version" --tls-max "$version" "$@" 2>"$scratch/$log"
}
download() { fetch download.log "$1" -o "$scratch/got" "https://$linux4:8443/large"; }
upload() { fetch upload.log "$1" -T "$scratch/root/upload" "https://$linux4:8443/put" >"$scratch/answer"; }
same() { # NAME CODE LOG FILE FILE
    if [[ $2 -ne 0 ]]; then
        not_ok "$1" "$(last_words "$3") $(last_words server.log)"
    elif cmp -s "$4" "$5"; then
        ok "$1"
    else
        not_ok "$1" 'the bytes differ'
    fi
}
# told sent|received: records of this direction that the library has told of at the end of the program.
told() { sed -n "s/^ *$1 .* in \([0-9,]*\) records.*/\1/p" "$scratch/server.log" | tail -n 1 | tr -d ,; }
# ticks PID: processor time of a process, in ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
# balancer PID: HAProxy's own process below `longshore run`.
balancer() { pgrep -P "$1" || echo "$1"; }

# pipes: how many HAProxy has, which it splices through.
pipes() {
    python3 - "$scratch/haproxy.sock" <<'PYTHON'
import re, socket, sys

stats = socket.socket(socket.AF_UNIX)
stats.connect(sys.argv[1])
stats.sendall(b"show info\n")
answer = stats.makefile().read()
print(sum(int(count) for count in re.findall(r"^Pipes(?:Used|Free): (\d+)", answer, re.M)))
PYTHON
}

# updates MODE SERVER: a client that updates its keys eight times at once in an upload, five times. OpenSSL 4.0 takes them for a direction that the kernel has: the
# upload is answered, HAProxy does not spin over the connection while the client has it open, and others go on.
updates() {
    local name="clients that update their keys in bursts while it splices, $1" how before after hold client
    rm -f "$scratch/hold" "$scratch/updates.log"
    mkfifo "$scratch/hold"
    there timeout 120 python3 "$(dirname "$0")/ktls_haproxy/updates.py" "$linux4" 8443 "$scratch/ca.pem" \
        <"$scratch/hold" >"$scratch/updates.log" 2>&1 &
    client=$!
    exec {hold}>"$scratch/hold"
    eventually grep -q '.' "$scratch/updates.log"
    how=$(last_words updates.log)
    echo "# $1: $how"
    before=$(ticks "$(balancer "$2")")
    sleep 2
    after=$(ticks "$(balancer "$2")")
    exec {hold}>&-
    wait "$client"
    if [[ $how != 'answered: HTTP/1.1 20'* ]]; then
        not_ok "$name" "the upload: $how"
    elif [[ $((after - before)) -gt 20 ]]; then
        not_ok "$name" "HAProxy spins: $((after - before)) ticks in 2 s"
    elif [[ $(pipes) -eq 0 ]]; then
        not_ok "$name" 'HAProxy has spliced nothing'
    elif ! download 1.3; then
        not_ok "$name" "$(last_words download.log)"
    else
        ok "$name"
    fi
}

for mode in software nic; do
    options=()
    [[ $mode == software ]] || options=(--nic "$control")
    start server.log env OPENSSL_CONF="$scratch/openssl.cnf" "$LONGSHORE" run ${options[@]+"${options[@]}"} -- "${haproxy[@]}" -db -f "$scratch/haproxy.conf"
    server=$started
    if ! eventually listens "$linux4" 8443; then
        not_ok "HAProxy, $mode" "$(last_words server.log)"
        continue
    fi
    encrypted=$(counter tx_tls_encrypted_bytes) decrypted=$(counter rx_tls_decrypted_bytes)
    for version in 1.2 1.3; do
        rm -f "$scratch/got" "$scratch/root/put"
        download $version
        same "HAProxy, $mode, TLS $version, from it" $? download.log "$scratch/root/large" "$scratch/got"
        upload $version
        same "HAProxy, $mode, TLS $version, to it" $? upload.log "$scratch/root/upload" "$scratch/root/put"
    done
    encrypted=$(($(counter tx_tls_encrypted_bytes) - encrypted)) decrypted=$(($(counter rx_tls_decrypted_bytes) - decrypted))
    updates $mode "$server"
    stop "$server"
    least=$((2 * megabytes << 20))
    if [[ $(told sent) -lt $((least >> 14)) || $(told received) -lt $((least >> 14)) ]]; then
        not_ok "HAProxy has its records made by kernel TLS, $mode" "$(last_words server.log)"
    elif [[ $mode == nic && ($encrypted -lt $least || $decrypted -lt $((least * 8 / 10))) ]]; then
        not_ok "HAProxy has its records made by kernel TLS, $mode" "the NIC has encrypted $encrypted bytes and decrypted $decrypted"
    else
        ok "HAProxy has its records made by kernel TLS, $mode: $(told sent) sent, $(told received) received"
    fi
done
