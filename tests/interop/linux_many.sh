# Thousands of connections through one NIC's process at a time: nginx with kernel TLS behind it, and wrk on another host. Every request must be
# answered, and the NIC's memory per connection is told.
#
# LONGSHORE_CONNECTIONS=N   connections at a time (2000); 10,000 take about 4 GiB of memory in all, and a minute
. "$(dirname "$0")/harness.sh"
needs openssl ip nginx wrk nsenter unshare

connections=${LONGSHORE_CONNECTIONS:-2000}
# Each has a descriptor here and one there; beside them are the files that are being sent, and the library's own descriptors.
files=$((connections * 3 / 2 + 2048))
if ! ulimit -n "$files" 2>/dev/null; then
    skip linux_many "no $files descriptors: raise the limit (ulimit -Hn is $(ulimit -Hn)), or give LONGSHORE_CONNECTIONS less"
    exit
fi
ip link set lo up
make_certificates
make_file small 1000
chmod 755 "$scratch" "$scratch/root"

# ---- another host: a namespace, with its end of the wire --------------------------------------------------------
other_host "$ours4"
# As many may wait to be accepted as begin at once.
sysctl -q -w net.core.somaxconn=$((2 * connections)) net.ipv4.tcp_max_syn_backlog=$((2 * connections))
there sysctl -q -w net.ipv4.ip_local_port_range='10000 65000'

# ---- the NIC, and nginx behind it ---------------------------------------------------------------------------------
control=$scratch/nic.sock
start nic.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --wire packet:w0 --control "$control" --state "$scratch/state"
nic=$started
if ! eventually "$LONGSHORE" stat "$control"; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi
cat >"$scratch/nginx.conf" <<CONF
daemon off;
worker_processes 1;
worker_rlimit_nofile $files;
pid $scratch/nginx.pid;
error_log stderr warn;
events { worker_connections $((2 * connections + 256)); }
http {
    access_log off;
    sendfile on;
    keepalive_requests 1000000;
    keepalive_timeout 300;
    client_header_timeout 300;
$(temporary_paths nginx)
    server {
        listen $linux4:8443 ssl backlog=65535;
        ssl_certificate $scratch/leaf.pem;
        ssl_certificate_key $scratch/leaf.key;
        ssl_protocols TLSv1.3;
        ssl_conf_command Options KTLS;
        root $scratch/root;
    }
}
CONF
start nginx.log "$LONGSHORE" run --nic "$control" -- nginx -e stderr -c "$scratch/nginx.conf"
nginx=$started
if ! eventually listens "$linux4" 8443; then
    not_ok 'nginx behind the NIC' "$(last_words nginx.log)"
    exit
fi
resident() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$(worker)/status"; }
idle=$(resident)

name="$connections connections through the NIC"
seconds=$((10 + connections / 250))
there timeout $((seconds + 120)) wrk -t 1 -c "$connections" -d "$seconds" --timeout 100s "https://$linux4:8443/small" >"$scratch/wrk.log" 2>&1 &
wrk=$!
most=$idle
while kill -0 "$wrk" 2>/dev/null; do
    now=$(resident)
    ((now > most)) && most=$now
    sleep 0.5
done
wait "$wrk"
requests=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$scratch/wrk.log")
flows=$(counter tls_flows)
if [[ ${requests:-0} -lt $connections ]] || grep -q 'Socket errors\|Non-2xx' "$scratch/wrk.log"; then
    not_ok "$name" "${requests:-no} requests answered, $flows connections with the NIC: $(last_words wrk.log) $(last_words nginx.log)"
elif [[ $flows -lt $connections ]]; then
    not_ok "$name" "$flows of them had their records made by the NIC: $(last_words nginx.log)"
else
    ok "$name: $requests requests"
fi
bytes=$(((most - idle) * 1024 / connections))
# Beside what is retained, which --retain bounds.
if [[ $bytes -lt 16384 ]]; then ok "$bytes bytes of the NIC's memory for each of them"; else not_ok "the NIC's memory for each of them" "$bytes bytes"; fi
"$LONGSHORE" stat --all "$control" | grep -E 'dropped|no_room|resets|refused|ooo' | grep -v ': 0$' | sed 's/^ */# /'
stop "$nginx"
stop "$nic"
