# `longshore lb --cores`: two load balancers with a NIC each, in one process and with one address, clients over both of them, and reloads of both.
. "$(dirname "$0")/harness.sh"
needs nginx curl ip wrk

ip link set lo up
ip tuntap add dev "$tap" mode tap vnet_hdr multi_queue || exit 1
sysctl -q -w "net.ipv6.conf.$tap.accept_dad=0" 2>/dev/null
ip addr add "$linux4/24" dev "$tap"
ip -6 addr add "$linux6/64" dev "$tap" nodad
ip link set "$tap" up
make_file large 1048576
make_file larger 3145728
chmod -R a+rX "$scratch"

nginx_conf() { # PORT
    echo "daemon off; worker_processes 1; pid $scratch/nginx-$1.pid; error_log $scratch/nginx-$1-error.log;"
    [[ $(id -u) -eq 0 ]] && echo 'user root;'
    echo 'events { worker_connections 4096; }'
    echo 'http { access_log off; default_type application/octet-stream; keepalive_requests 1000000;'
    local kind
    for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/nginx-$1-$kind;"; done
    echo "server { listen $linux4:$1; root $scratch/root; location = /port { return 200 '$1\n'; } } }"
}
start_nginx() { # PORT
    nginx_conf "$1" >"$scratch/nginx-$1.conf"
    start "nginx-$1.log" nginx -e "$scratch/nginx-$1-error.log" -c "$scratch/nginx-$1.conf"
    eventually listens "$linux4" "$1"
}
start_nginx 8081 && start_nginx 8082 && start_nginx 8083
if ! listens "$linux4" 8083; then
    skip lb_cores "nginx did not start: $(last_words nginx-8083.log)"
    exit
fi
last=$started

limits=
configure() { # BACKEND…
    local backends=''
    for backend in "$@"; do backends+="{ address = \"$linux4:$backend\"$limits }, "; done
    printf '%s\n' 'shutdown-time = "20s"' '[frontends.web]' "listen = [\"$ours4:80\", \"[$ours6]:80\"]" 'pool = "app"' \
        '[pools.app]' "backends = [${backends%, }]" 'health = { path = "/port", interval = "250ms", time-out = "10s", fall = 1 }' >"$scratch/lb.toml"
}
configure 8081 8082

cores=2
[[ $(nproc) -lt 2 ]] || cores=$(taskset -pc $$ 2>/dev/null | sed 's/.*: //; s/-/,/' | cut -d, -f1,2)
# In a session of its own: SIGHUP would be its end otherwise.
start lb.log setsid "$LONGSHORE" lb --config "$scratch/lb.toml" "${our_addresses[@]}" --control "$scratch/control" --cores "$cores" \
    --accel teardown,splice
balancer=$started
if ! eventually listens "$ours4" 80; then
    not_ok 'a load balancer on two cores' "$(last_words lb.log)"
    exit
fi

# of GROUP COUNTER
of() {
    "$LONGSHORE" stat --all "$scratch/control" 2>/dev/null | awk -v group="$1 statistics:" -v name="$2:" \
        '/ statistics:$/ { here = $0 == group } here && $1 == name { print $2; exit }'
}
serving() { for _ in {1..12}; do curl -s --max-time "$patience" "http://$ours4/port"; done | sort -u | paste -sd' '; }
serve() { # BACKENDS
    local got
    got=$(serving)
    why="wanted $1, got $got"
    [[ $got == "$1" ]]
}
reload() { "$LONGSHORE" reload "$scratch/control" >"$scratch/reload.log" 2>&1; }

# same COUNT PARALLEL: so many downloads, each on a connection of its own, over both families by turns.
same() {
    local list=() i wrong=0
    for ((i = 0; i < $1; i++)); do list+=(-o "$scratch/got-$i" "http://$(url_address $((4 + i % 2 * 2)) ours)/large"); done
    curl -s --no-progress-meter --max-time "$patience" --parallel --parallel-immediate --parallel-max "$2" --http1.1 -H 'Connection: close' "${list[@]}"
    for ((i = 0; i < $1; i++)); do cmp -s "$scratch/root/large" "$scratch/got-$i" || wrong=$((wrong + 1)); done
    rm -f "$scratch"/got-*
    why="$wrong of $1 differ"
    [[ $wrong -eq 0 ]]
}
both_work() { # COUNTER LEAST
    local first second total
    first=$(of 'worker 0' "$1") second=$(of 'worker 1' "$1") total=$(of 'frontend web' "$1")
    why="$1: $first and $second of $total"
    [[ ${first:-0} -ge $2 && ${second:-0} -ge $2 && $total -eq $((first + second)) ]]
}
try 'twenty-four downloads, the bytes compared' same 24 8
try 'both cores have accepted some' both_work connections 3
try 'both cores have answered requests' both_work requests 3
try 'both backends serve' serve '8081 8082'

"$LONGSHORE" lb drain "$scratch/control" app "$linux4:8081" >"$scratch/drain.log" 2>&1
try 'a backend is drained on both cores' serve 8082
"$LONGSHORE" lb resume "$scratch/control" app "$linux4:8081" >"$scratch/drain.log" 2>&1
try 'and serves again' serve '8081 8082'

wrk -t 1 -c 64 -d 4 --timeout 60 "http://$ours4/port" >"$scratch/wrk.log" 2>&1 &
load=$!
pids+=("$load")
sleep 1
sets=('8083' '8081 8082 8083' '8082 8083' '8081' '8083 8081')
failed=
for round in {1..10}; do
    # shellcheck disable=SC2086 # several words
    configure ${sets[round % 5]}
    reload || { failed=1; break; }
    sleep 0.05
done
if [[ -z $failed ]]; then ok 'ten reloads under load'; else not_ok 'ten reloads under load' "$(last_words reload.log)"; fi
configure 8083
reload
try 'removed backends get nothing new from either core' serve 8083
limits=', max-connections = 1' configure 8083
if reload; then
    not_ok 'what can not be divided is refused' 'it is not'
elif grep -q 'lb.toml:6: pools.app.backends\[0\].max-connections = 1: each of 2 cores' "$scratch/reload.log"; then
    ok 'what can not be divided is refused'
else
    not_ok 'what can not be divided is refused' "$(last_words reload.log)"
fi
wait "$load"
requests=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$scratch/wrk.log")
wrong=$(grep -E 'Socket errors|Non-2xx' "$scratch/wrk.log" | tr '\n' ' ')
if [[ -z $wrong && ${requests:-0} -gt 100 ]]; then ok 'no client notices'; else not_ok 'no client notices' "${requests:-no} requests; $wrong"; fi

# One core checks; both hear that a backend is gone.
limits=
configure 8082 8083
reload
stop "$last"
is_down() { [[ $(of "backend app/$linux4:8083" up) == 0 ]]; }
if eventually is_down; then ok 'a backend that is gone is down'; else not_ok 'a backend that is gone is down' "$(last_words lb.log)"; fi
before=$(of 'pool app' retries)
try 'both cores know it' serve 8082
retries=$(($(of 'pool app' retries) - before))
if [[ $retries -eq 0 ]]; then ok 'no request has to find out'; else not_ok 'no request has to find out' "$retries retries"; fi

lists() {
    local listing
    listing=$("$LONGSHORE" ss "$scratch/control" 2>&1)
    why="$(grep -c LISTEN <<<"$listing") listeners: $(tail -n 3 <<<"$listing" | tr '\n' ' ' | cut -c 1-200)"
    [[ $(grep -c LISTEN <<<"$listing") -eq 4 ]]
}
try 'longshore ss has the sockets of both' lists

# In the middle of responses: they are finished.
for i in 1 2 3 4; do
    curl -s --limit-rate 500K --max-time "$patience" -o "$scratch/slow-$i" "http://$ours4/larger" &
    slow[i]=$!
done
begun() { for i in 1 2 3 4; do [[ -s $scratch/slow-$i ]] || return; done; }
eventually begun
kill "$balancer"
wrong=0
for i in 1 2 3 4; do
    wait "${slow[i]}"
    cmp -s "$scratch/slow-$i" "$scratch/root/larger" || wrong=$((wrong + 1))
done
if [[ $wrong -eq 0 ]]; then ok 'SIGTERM lets responses finish'; else not_ok 'SIGTERM lets responses finish' "$wrong of 4 are cut short"; fi
status=0
wait "$balancer" || status=$?
if [[ $status -ne 0 ]]; then
    not_ok 'it ends in order' "exit $status: $(last_words lb.log)"
elif grep -q 'panicked' "$scratch/lb.log"; then
    not_ok 'it ends in order' "it has panicked: $(grep -m 1 panicked "$scratch/lb.log")"
else
    ok 'it ends in order'
fi
