# The scripts of bpftrace that come with longshore, on `lb` whose wire loses and reorders packets of both directions, with TLS on both sides:
# what they print against its counters.
. "$(dirname "$0")/harness.sh"
needs bpftrace nginx curl openssl ip
scripts=$(cd "$(dirname "$0")/../../packaging/bpftrace" && pwd)
if ! lacks=$(timeout 60 bpftrace -e 'BEGIN { exit() }' 2>&1); then
    skip probes "bpftrace can't work here: $(tail -n 1 <<<"$lacks")"
    exit
fi

make_tap && make_certificates
make_file large 4194304
chmod -R a+rX "$scratch"
cat >"$scratch/nginx.conf" <<END
daemon off; worker_processes 1; pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;
$([[ $(id -u) -eq 0 ]] && echo 'user root;')
events { worker_connections 256; }
http { access_log off; default_type application/octet-stream;
$(temporary_paths nginx)
server { listen $linux4:8443 ssl; root $scratch/root; ssl_certificate $scratch/leaf.pem; ssl_certificate_key $scratch/leaf.key; } }
END
cat >"$scratch/lb.toml" <<END
[lb]
tap = "$tap"
ip = ["$ours4/24"]
cert = ["$scratch/leaf.pem"]
key = ["$scratch/leaf.key"]

[frontends.web]
listen = ["$ours4:443"]
tls = true
pool = "app"

[pools.app]
backends = ["$linux4:8443"]
tls = true
ca = "$scratch/ca.pem"
sni = "longshore.test"
health = { check = "none" }
END
chmod 600 "$scratch/leaf.key"

start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
if ! eventually listens "$linux4" 8443; then
    skip probes "nginx did not start: $(last_words nginx.log)"
    exit
fi

lists() { # PROGRAM
    why=$(bpftrace -l "usdt:$1:longshore:*" 2>&1)
    [[ $(grep -c '^usdt:.*:longshore:' <<<"$why") -eq 14 ]]
}
try 'bpftrace lists the probes' lists "$LONGSHORE"
if command -v strip >/dev/null; then
    strip --remove-section=.comment --remove-section=.note -o "$scratch/stripped" "$LONGSHORE"
    try 'bpftrace lists them when the program is stripped as in the Debian package' lists "$scratch/stripped"
fi

# tracing SCRIPT: bpftrace, which takes its probes away by a file of tracefs, mounted for it alone where it is not.
# shellcheck disable=SC2016 # expanded by the inner shell
tracing() {
    exec unshare --mount sh -c '[ -e /sys/kernel/tracing/uprobe_events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec bpftrace "$0"' "$1"
}
# trace NAME BEGINNING: one of the scripts, until it has written a line that begins so; its process is added to `tracers`.
trace() {
    sed "s#/usr/bin/longshore#$LONGSHORE#" "$scripts/$1.bt" >"$scratch/$1.bt"
    start "$1.log" tracing "$scratch/$1.bt"
    tracers+=("$started")
    eventually grep -q "$2" "$scratch/$1.log"
}
tracers=()
if ! trace connections '^TIME' || ! trace resync '^Tracing'; then
    not_ok probes "bpftrace does not attach: $(last_words connections.log) $(last_words resync.log)"
    exit
fi

control=$scratch/control
start lb.log "$LONGSHORE" lb --config "$scratch/lb.toml" --control "$control" "${impaired[@]}"
if ! eventually listens "$ours4" 443; then
    not_ok probes "lb did not start: $(last_words lb.log)"
    exit
fi
fetch() { curl -s --cacert "$scratch/ca.pem" --max-time 120 -o "$scratch/got.$1" "https://$ours4/large"; }
fetches() {
    local round at jobs
    for round in 1 2 3; do
        jobs=()
        for at in 1 2 3 4; do fetch "$at" & jobs+=("$!"); done
        for at in "${!jobs[@]}"; do
            why="curl has failed: $?"
            wait "${jobs[at]}" || return 1
            why='the bytes differ'
            cmp -s "$scratch/root/large" "$scratch/got.$((at + 1))" || return 1
        done
    done
}
try 'files come whole over the lossy wire, with both scripts attached' fetches
# Frames for an address that the NIC has no function with.
ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:99 dev "$tap"
for _ in 1 2 3 4 5; do echo >/dev/udp/10.77.0.9/9; done

# Once nothing moves any more, the scripts end and print.
all() { "$LONGSHORE" stat --all "$control"; }
tcp() { all | grep -E 'Tcp(InSegs|OutSegs|Ext|Retrans|Active|Passive)|rx_tls_re|rx_no_function'; }
is_still() {
    local before
    before=$(tcp)
    sleep 1
    [[ -n $before && $before == "$(tcp)" ]]
}
eventually is_still
open=$("$LONGSHORE" ss --json "$control" | grep -o '"state": *"[^"]*"' | grep -vc LISTEN)
for pid in "${tracers[@]}"; do kill -INT "$pid"; done
for pid in "${tracers[@]}"; do wait "$pid"; done

# traced MAP [KEY]: the sum of a map's counts, of all keys or of those that match.
traced() {
    sed -n "s/^@$1\(\[${2:-.*}\]\)\{0,1\}: \([0-9]*\)$/\2/p" "$scratch/connections.log" "$scratch/resync.log" | awk '{ sum += $1 } END { print sum + 0 }'
}
agrees() { # COUNT IN THE TRACE, COUNT BY COUNTERS, LEAST
    why="$1 traced, $2 counted"
    [[ $1 -eq $2 && $1 -ge $3 ]]
}
opens=$(($(counter TcpActiveOpens) + $(counter TcpPassiveOpens)))
try 'connections opened: as counted' agrees "$(traced opened)" "$opens" 12
try 'connections closed: those that are not open' agrees "$(traced closed)" $((opens - open)) 12
try 'retransmissions: as counted' agrees "$(traced retransmitted)" "$(counter TcpRetransSegs)" 1
try 'retransmission timeouts: as counted' agrees "$(traced timed_out)" "$(counter TcpExtTCPTimeouts)" 0
try 'drops by reason: as counted' agrees "$(traced dropped '.*rx_no_function')" "$(counter rx_no_function)" 1
try 'losses of the offload: as counted' agrees "$(traced lost)" "$(counter rx_tls_resync_req_start)" 1
for pair in 'late header:rx_tls_resumed_late_header' counted:rx_tls_resumed_counted confirmed:rx_tls_resync_res_ok; do
    try "resumed, ${pair%%:*}: as counted" agrees "$(traced resumed "${pair%%:*}")" "$(counter "${pair#*:}")" 0
done
try 'questions of the NIC: as counted' agrees "$(traced requests)" "$(counter rx_tls_resync_req_end)" 0
tells_lives() {
    why=$(last_words connections.log)
    grep -qE "^[0-9:]{8} $ours4:443 +$linux4:[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ [a-z]" "$scratch/connections.log"
}
try 'a connection that ended has a line' tells_lives
has_times() {
    why=$(last_words resync.log)
    grep -q '^@without_offload_us\[' "$scratch/resync.log"
}
try 'the time without offload has a histogram' has_times
