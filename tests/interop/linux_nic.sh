# Linux's own TCP behind the NIC's process: nginx, HAProxy and OpenSSL with kernel TLS, to curl, wrk and OpenSSL on another host that
# know nothing of it. The wire loses and reorders packets, is captured, and the NIC dies and comes back.
. "$(dirname "$0")/harness.sh"
needs openssl ip curl nginx nsenter unshare

ip link set lo up
make_certificates
cat "$scratch/leaf.pem" "$scratch/leaf.key" >"$scratch/both.pem"
for size in 0 1 1024 16384 16385 262144 5000000; do make_file "f$size" "$size"; done
# Nothing but digits, so that any of it shows in a capture.
seq -f '%063.0f' 1 20000 >"$scratch/root/digits"
chmod 755 "$scratch" "$scratch/root"

# ---- another host: a namespace, with its end of the wire ------------------------------------------------------
other_host "$ours4"
has_died() { [[ $(grep -c 'NIC died' "$scratch/nic2.log") -eq $1 ]]; }
has_ended() { ! kill -0 "$1"; }

# ---- the NIC --------------------------------------------------------------------------------------------------
control=$scratch/nic.sock state=$scratch/state
start_nic() {
    local log=$1
    shift
    start "$log" "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --wire packet:w0 --control "$control" --state "$state" "$@"
    nic=$started
    eventually "$LONGSHORE" stat "$control"
}

# ---- nginx ----------------------------------------------------------------------------------------------------
nginx_configuration() { # NAME LISTEN TLS-LINES
    cat <<CONF
daemon off;
worker_processes 2;
pid $scratch/$1.pid;
error_log stderr info;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    keepalive_requests 1000000;
$(temporary_paths "$1")
    server {
        listen $linux4:$2;
        $3
        root $scratch/root;
    }
}
CONF
}
nginx_configuration tls '8443 ssl' "ssl_certificate $scratch/leaf.pem; ssl_certificate_key $scratch/leaf.key;
        ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Options KTLS;" >"$scratch/tls.conf"
nginx_configuration plain 8081 '' >"$scratch/plain.conf"

# start_nginx LOG OPTION…: with the library and these options of `longshore run`.
start_nginx() {
    local log=$1
    shift
    start "$log" "$LONGSHORE" run --nic "$control" "$@" -- nginx -e stderr -c "$scratch/tls.conf"
    nginx=$started
    eventually listens "$linux4" 8443
}
# told LOG WHAT: the number before these words that the library has told at the end of its program.
told() { sed -n "s/.* \([0-9,]*\) $2.*/\1/p" "$scratch/$1" | tail -n 1 | tr -d ,; }
fetch() { # URL-PATH OPTION…
    local path=$1
    shift
    there timeout 90 curl -sS --cacert "$scratch/ca.pem" "$@" "https://$linux4:8443/$path" 2>"$scratch/curl.log"
}
wrk_there() { # LOG SECONDS PATH
    there timeout $(($2 + 40)) wrk -t 1 -c 64 -d "$2" --timeout 20s "https://$linux4:8443/$3" >"$scratch/$1" 2>&1
    requests=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$scratch/$1")
    [[ ${requests:-0} -gt 100 ]] && ! grep -q 'Socket errors\|Non-2xx' "$scratch/$1"
}

# ---- with loss and reordering, captured -------------------------------------------------------------------------
wire=(--loss 0.01 --reorder 0.01 --seed 7)
if ! start_nic nic.log "${wire[@]}" --pcap "$scratch/wire.pcapng"; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi
if ! start_nginx nginx.log --zerocopy; then
    not_ok 'nginx behind the NIC' "$(last_words nginx.log)"
    exit
fi
for version in 1.2 1.3; do
    for size in 0 1 1024 16384 16385 262144 5000000; do
        name="curl from nginx behind the NIC, loss and reordering, TLS $version, $size bytes"
        fetch "f$size" --tlsv$version --tls-max $version -o "$scratch/got"
        if cmp -s "$scratch/root/f$size" "$scratch/got"; then ok "$name"; else not_ok "$name" "$(last_words curl.log)"; fi
    done
done
fetch digits -o "$scratch/got"
if ! cmp -s "$scratch/root/digits" "$scratch/got"; then not_ok 'curl gets the digits' "$(last_words curl.log)"; fi
if command -v wrk >/dev/null; then
    if wrk_there wrk.log 5 f16385; then
        ok "wrk from nginx behind the NIC, loss and reordering: $requests requests"
    else
        not_ok 'wrk from nginx behind the NIC, loss and reordering' "$(last_words wrk.log)"
    fi
else
    skip 'wrk from nginx behind the NIC, loss and reordering' 'no wrk'
fi
encrypted=$(counter tx_tls_encrypted_bytes)
[[ ${encrypted:-0} -gt 10000000 ]] && ok "the NIC has encrypted $encrypted bytes" || not_ok 'the NIC has encrypted most of it' "$encrypted bytes"
# The same digits in clear, to see that the search would find them.
start plain.log nginx -e stderr -c "$scratch/plain.conf"
plain=$started
stop "$nginx"
eventually listens "$linux4" 8081
cp "$scratch/wire.pcapng" "$scratch/encrypted.pcapng"
there timeout 60 curl -sS -o "$scratch/got" "http://$linux4:8081/digits" 2>"$scratch/curl.log"
records=$(told nginx.log 'records by the NIC')
if [[ ${records:-0} -gt 500 ]]; then ok "nginx had the NIC make $records records"; else not_ok 'nginx had the NIC make its records' "$(last_words nginx.log)"; fi

# ---- HAProxy, which asks for no kernel TLS, before a plain nginx ------------------------------------------------
if command -v haproxy >/dev/null; then
    cat >"$scratch/haproxy.cfg" <<CONF
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend tls
    bind $linux4:8443 ssl crt $scratch/both.pem
    default_backend files
backend files
    server one $linux4:8081
CONF
    start haproxy.log "$LONGSHORE" run --nic "$control" -- haproxy -f "$scratch/haproxy.cfg"
    haproxy=$started
    name='curl from HAProxy behind the NIC, loss and reordering'
    eventually listens "$linux4" 8443
    fetch f5000000 -o "$scratch/got"
    if cmp -s "$scratch/root/f5000000" "$scratch/got"; then ok "$name"; else not_ok "$name" "$(last_words curl.log) $(last_words haproxy.log)"; fi
    stop "$haproxy"
else
    skip 'curl from HAProxy behind the NIC, loss and reordering' 'no haproxy'
fi
stop "$plain"
stop "$nic"
shown() { grep -aoE '[0-9]{24}' "$1" | wc -l; }
if [[ $(shown "$scratch/wire.pcapng") -lt 1000 ]]; then
    not_ok 'no byte of a file on the wire' 'a file that was served in clear is not found in the capture'
elif [[ $(shown "$scratch/encrypted.pcapng") -gt 0 ]]; then
    not_ok 'no byte of a file on the wire' "$(shown "$scratch/encrypted.pcapng") pieces of it are in the capture"
else
    ok 'no byte of a file on the wire'
fi

# ---- the NIC is killed and comes back -----------------------------------------------------------------------------
if command -v wrk >/dev/null; then
    # The interface is a new one, with another address.
    there ip neigh flush dev w1
    if ! start_nic nic2.log || ! start_nginx nginx2.log; then
        not_ok 'the NIC and nginx start again' "$(last_words nic2.log) $(last_words nginx2.log)"
        exit
    fi
    (
        for ((deaths = 0; deaths < 4; deaths++)); do
            sleep 6
            eventually kill_worker
        done
    ) &
    killer=$!
    name='wrk for 30 s while the NIC is killed four times'
    if wrk_there wrk2.log 30 f262144; then ok "$name: $requests requests"; else not_ok "$name" "$(last_words wrk2.log)"; fi
    wait "$killer"
    if eventually has_died 4; then ok 'the NIC was started again each time'; else not_ok 'the NIC was started again each time' "$(last_words nic2.log)"; fi
    fetch f5000000 -o "$scratch/got"
    if cmp -s "$scratch/root/f5000000" "$scratch/got"; then
        ok 'curl from the same nginx when the NIC has come back'
    else
        not_ok 'curl from the same nginx when the NIC has come back' "$(last_words curl.log)"
    fi
    stop "$nginx"
    records=$(told nginx2.log 'records by the NIC')
    if [[ ${records:-0} -gt 500 ]]; then ok "nginx had the NIC make $records records, over its deaths"; else not_ok 'nginx had the NIC make its records, over its deaths' "$(last_words nginx2.log)"; fi
    # Connections that nginx has closed while the NIC was away are reset after half a minute; until then they keep the interface.
    no_connections() { [[ -z $(ss -Htn src "$linux4") ]]; }
    eventually no_connections
    kill "$nic"
    eventually has_ended "$nic"
    stop "$nic"
else
    skip 'the NIC is killed and comes back' 'no wrk'
fi
if ip link show "$tap" >/dev/null 2>&1; then not_ok 'the NIC takes its interface away' "$tap is still there"; else ok 'the NIC takes its interface away'; fi
