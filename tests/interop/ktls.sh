# Programs that know kernel TLS, on a kernel that has none: `longshore run` with nginx, HAProxy and OpenSSL, against curl, wrk and OpenSSL.
. "$(dirname "$0")/harness.sh"
needs openssl ip curl nginx

ip link set lo up
linux4=127.0.0.1
make_certificates
for size in 0 1 1024 16384 16385 262144 5000000; do make_file "f$size" "$size"; done
cat "$scratch/leaf.pem" "$scratch/leaf.key" >"$scratch/both.pem"
run=("$LONGSHORE" run --)

# sent LOG: records that the program of this log has sent in the library.
sent() { sed -n 's/^ *sent .* in \([0-9,]*\) records.*/\1/p' "$scratch/$1" | tail -n 1 | tr -d ,; }

# ---- nginx: files by sendfile --------------------------------------------------------------------------------
cat >"$scratch/nginx.conf" <<EOF
daemon off;
worker_processes 2;
pid $scratch/nginx.pid;
error_log $scratch/nginx.errors info;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    keepalive_requests 1000000;
$(temporary_paths nginx)
    server {
        listen $linux4:8443 ssl;
        ssl_certificate $scratch/leaf.pem;
        ssl_certificate_key $scratch/leaf.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_conf_command Options KTLS;
        root $scratch/root;
    }
}
EOF
chmod 755 "$scratch" "$scratch/root"
start nginx.log "${run[@]}" nginx -c "$scratch/nginx.conf"
nginx=$started
if ! eventually listens "$linux4" 8443; then
    not_ok 'nginx with kernel TLS' "$(last_words nginx.log)"
    exit
fi
for version in 1.2 1.3; do
    for size in 0 1 1024 16384 16385 262144 5000000; do
        name="curl from nginx with kernel TLS $version, $size bytes"
        timeout 60 curl -sS --cacert "$scratch/ca.pem" --tlsv$version --tls-max $version -o "$scratch/got" \
            "https://$linux4:8443/f$size" 2>"$scratch/curl.log"
        if cmp -s "$scratch/root/f$size" "$scratch/got"; then ok "$name"; else not_ok "$name" "$(last_words curl.log)"; fi
    done
    # Several transfers at once that read slowly: the socket is full, and what was accepted is sent all the same.
    name="curl from nginx with kernel TLS $version, slowly"
    for copy in 1 2 3; do
        timeout 60 curl -sS --cacert "$scratch/ca.pem" --tlsv$version --tls-max $version --limit-rate 4M -o "$scratch/got$copy" \
            "https://$linux4:8443/f5000000" 2>>"$scratch/curl.log" &
        copies[copy]=$!
    done
    wait "${copies[@]}"
    if cmp -s "$scratch/root/f5000000" "$scratch/got1" && cmp -s "$scratch/got1" "$scratch/got2" && cmp -s "$scratch/got1" "$scratch/got3"; then
        ok "$name"
    else
        not_ok "$name" "$(last_words curl.log)"
    fi
done
if command -v wrk >/dev/null; then
    timeout 60 wrk -t 1 -c 64 -d 4 "https://$linux4:8443/f16385" >"$scratch/wrk.log" 2>&1
    requests=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$scratch/wrk.log")
    if [[ ${requests:-0} -gt 100 ]] && ! grep -q 'Socket errors\|Non-2xx' "$scratch/wrk.log"; then
        ok "wrk from nginx with kernel TLS: $requests requests"
    else
        not_ok 'wrk from nginx with kernel TLS' "$(last_words wrk.log)"
    fi
else
    skip 'wrk from nginx with kernel TLS' 'no wrk'
fi
stop "$nginx"
records=$(sent nginx.log)
if [[ ${records:-0} -gt 1000 ]]; then ok "nginx had the library make $records records"; else not_ok 'nginx had the library make its records' "$(last_words nginx.log)"; fi

# ---- OpenSSL's own tools, both ends with kernel TLS --------------------------------------
make_openssl_configuration
# Lines of digits, so that none of them is a command of the tools.
lines=20000
seq -f '%063.0f' 1 $lines >"$scratch/lines"
mkfifo "$scratch/stdin"
# talk NAME SERVER-OPTIONS CLIENT-OPTIONS: the client sends the lines.
talk() {
    local name=$1 server_options=$2 client_options=$3 server got client_sent server_had
    # With a standard input that has no end, for it ends with that.
    # shellcheck disable=SC2086,SC2016 # options; the inner shell expands
    OPENSSL_CONF=$scratch/openssl.cnf STDIN=$scratch/stdin start server.log bash -c 'exec "$0" "$@" 0<>"$STDIN"' "${run[@]}" openssl s_server -accept "$linux4:4433" -naccept 1 $server_options \
        -cert "$scratch/leaf.pem" -key "$scratch/leaf.key" -quiet
    server=$started
    eventually is_bound 4433
    # shellcheck disable=SC2086 # options
    {
        cat "$scratch/lines"
        eventually has_lines server.log "$lines"
    } | OPENSSL_CONF=$scratch/openssl.cnf timeout 60 "${run[@]}" openssl s_client -connect "$linux4:4433" $client_options \
        -CAfile "$scratch/ca.pem" >"$scratch/client.log" 2>&1
    stop "$server"
    got=$(grep -c '^[0-9]\{63\}$' "$scratch/server.log")
    client_sent=$(sent client.log)
    server_had=$(grep -c 'TLS records of' "$scratch/server.log")
    if [[ $got -eq $lines && ${client_sent:-0} -gt 50 && $server_had -eq 1 ]]; then
        ok "$name"
    else
        not_ok "$name" "$got of $lines lines; $(last_words client.log); $(last_words server.log)"
    fi
}
is_bound() { ss -Htln | grep -q ":$1 "; }
has_lines() { [[ $(grep -c '^[0-9]\{63\}$' "$scratch/$1") -ge $2 ]]; }
talk 's_client to s_server, both with kernel TLS 1.2' -tls1_2 -tls1_2
talk 's_client to s_server, both with kernel TLS 1.3' -tls1_3 -tls1_3
talk 's_client to s_server, both with kernel TLS 1.2, ChaCha20' '-tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305' -tls1_2

# ---- HAProxy before nginx's place ------------------------------------------------------------------------------
if command -v haproxy >/dev/null; then
    cat >"$scratch/haproxy.cfg" <<EOF
global
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend tls
    bind $linux4:9443 ssl crt $scratch/both.pem
    default_backend files
backend files
    server one $linux4:8081
EOF
    sed "s/8443 ssl/8081/; /ssl_/d" "$scratch/nginx.conf" >"$scratch/plain.conf"
    start plain.log nginx -c "$scratch/plain.conf"
    plain=$started
    start haproxy.log "${run[@]}" haproxy -f "$scratch/haproxy.cfg"
    haproxy=$started
    if eventually listens "$linux4" 8081 && eventually listens "$linux4" 9443; then
        for size in 1024 5000000; do
            timeout 60 curl -sS --cacert "$scratch/ca.pem" -o "$scratch/got" "https://$linux4:9443/f$size" 2>"$scratch/curl.log"
            if cmp -s "$scratch/root/f$size" "$scratch/got"; then
                ok "curl from HAProxy under the library, $size bytes"
            else
                not_ok "curl from HAProxy under the library, $size bytes" "$(last_words curl.log) $(last_words haproxy.log)"
            fi
        done
    else
        not_ok 'HAProxy under the library' "$(last_words haproxy.log) $(last_words plain.log)"
    fi
    stop "$haproxy"
    stop "$plain"
else
    skip 'HAProxy under the library' 'no haproxy'
fi
