# `longshore lb` in front of two nginx: HTTP as clients use it, the PROXY protocol, a backend that dies under load.
# lb_accel.sh does the same with the NIC's help.
. "$(dirname "$0")/harness.sh"
needs nginx curl ip
accel=${accel:-none} load_time=${load_time:-10}
lb=lb
[[ $accel == none ]] || lb="lb --accel $accel"

make_tap
make_file large 1048576
printf 'hello\n' >"$scratch/root/small"
chmod -R a+rX "$scratch"

# nginx_conf NUMBER: ports 808N (HTTP), 809N (HTTP after a PROXY header).
nginx_conf() {
    echo "daemon off; worker_processes 1; pid $scratch/nginx-$1.pid; error_log $scratch/nginx-$1-error.log;"
    [[ $(id -u) -eq 0 ]] && echo 'user root;'
    echo 'events { worker_connections 1024; }'
    echo 'http { access_log off; default_type application/octet-stream; keepalive_requests 1000000;'
    echo 'client_max_body_size 16m;'
    local kind
    for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/nginx-$1-$kind;"; done
    echo "server { listen $linux4:808$1; listen [$linux6]:808$1; root $scratch/root;"
    echo "location = /name { return 200 'backend $1\n'; }"
    # shellcheck disable=SC2016 # nginx's own variables
    echo 'location = /tell { return 200 "$request_method $host $http_x_forwarded_for $http_x_forwarded_proto $http_via\n"; }'
    echo "location = /health { return 204; }"
    # What is put is proxied once more, so that nginx reads all of it; it answers with the length it has got.
    echo "location = /sink { proxy_pass http://$linux4:807$1/length; proxy_request_buffering on; }"
    echo '}'
    # shellcheck disable=SC2016
    echo "server { listen $linux4:807$1; location = /length { return 200 \"\$content_length\\n\"; } }"
    # shellcheck disable=SC2016
    echo "server { listen $linux4:809$1 proxy_protocol; location / { return 200 \"\$proxy_protocol_addr \$proxy_protocol_server_port\\n\"; } }"
    echo '}'
}
nginx_pids=(0 0 0)
start_nginx() {
    nginx_conf "$1" >"$scratch/nginx-$1.conf"
    start "nginx-$1.log" nginx -e "$scratch/nginx-$1-error.log" -c "$scratch/nginx-$1.conf"
    nginx_pids[$1]=$started
    eventually listens "$linux4" "808$1"
}

cat >"$scratch/lb.toml" <<END
shutdown-time = "5s"

[frontends.web]
listen = ["$ours4:80", "[$ours6]:80"]
pool = "app"
via = "lb1"
routes = [
    { host = "one.test", pool = "one" },
    { host = "*.six.test", pool = "six" },
    { path = "/tunnel", pool = "upgrade" },
    { host = "nobody.test", pool = "nobody" },
]

[frontends.proxied]
listen = ["$ours4:81"]
accept-proxy = true
pool = "one"

[frontends.v1]
listen = ["$ours4:82"]
pool = "v1"

[frontends.v2]
listen = ["$ours4:83"]
mode = "tcp"
pool = "v2"

[frontends.bytes]
listen = ["$ours4:84"]
mode = "tcp"
pool = "app"

[frontends.persistent]
listen = ["$ours4:85"]
pool = "app"
splice = "after-first-request"

[pools.app]
backends = ["$linux4:8081", "$linux4:8082"]
health = { path = "/health", status = [204], interval = "250ms", rise = 1, fall = 2 }

[pools.one]
backends = ["$linux4:8081"]

[pools.six]
backends = ["[$linux6]:8082"]

[pools.v1]
backends = [{ address = "$linux4:8091", proxy = "v1" }]

[pools.v2]
backends = [{ address = "$linux4:8092", proxy = "v2" }]

[pools.upgrade]
backends = ["$linux4:8085"]
health = { check = "none" }

[pools.nobody]
backends = ["$linux4:8086"]
health = { check = "none" }
END

name="$lb: config check takes a configuration, and says what is wrong with another one"
sed 's/pool = "app"/pool = "ap"/' "$scratch/lb.toml" >"$scratch/wrong.toml"
told=$("$LONGSHORE" config check "$scratch/wrong.toml" 2>&1)
if "$LONGSHORE" config check "$scratch/lb.toml" >/dev/null && [[ $told == *wrong.toml*pool*'"ap"'* ]]; then
    ok "$name"
else
    not_ok "$name" "$told"
fi

if ! start_nginx 1 || ! start_nginx 2; then
    skip lb "nginx did not start: $(last_words nginx-1.log) $(last_words nginx-2.log)"
    exit
fi
start lb.log "$LONGSHORE" lb --config "$scratch/lb.toml" "${our_addresses[@]}" --control "$scratch/control" \
    --accel "$accel"
balancer=$started
if ! eventually listens "$ours4" 80; then
    not_ok lb "it did not start: $(last_words lb.log)"
    exit
fi

get() { curl -s --no-progress-meter --max-time 20 "$@" 2>>"$scratch/curl.log"; }
# is NAME WANTED GOT
is() { if [[ $2 == "$3" ]]; then ok "$1"; else not_ok "$1" "wanted '$2', got '$3'"; fi; }
counter() { # GROUP NAME
    "$LONGSHORE" stat --all "$scratch/control" 2>/dev/null |
        awk -v group="$1 statistics:" -v name="$2:" '/statistics:$/ { on = $0 == group } on && $1 == name { print $2 }'
}

# ---- HTTP ----------------------------------------------------------------------------------------------------
is "$lb: GET" hello "$(get "http://$ours4/small")"
is "$lb: GET over IPv6" hello "$(get "http://[$ours6]/small")"
is "$lb: a backend over IPv6 for a client over IPv4" hello "$(get --resolve "a.six.test:80:$ours4" http://a.six.test/small)"
get -o "$scratch/got" "http://$ours4/large"
name="$lb: GET of 1 MiB"
if cmp -s "$scratch/got" "$scratch/root/large"; then ok "$name"; else not_ok "$name" 'the bytes differ'; fi
is "$lb: HEAD" '200 1048576 0' "$(get -I -o /dev/null -w '%{http_code} %header{content-length} %{size_download}' "http://$ours4/large")"
is "$lb: both backends serve in turn" 'backend 1 backend 2 ' \
    "$(for _ in 1 2 3 4; do get "http://$ours4/name"; done | sort -u | tr '\n' ' ')"
is "$lb: the backend is told of the client" "GET $ours4 $linux4 http 1.1 lb1" "$(get "http://$ours4/tell")"
is "$lb: what a client claims to be is not passed on" "GET $ours4 $linux4 http 1.1 lb1" \
    "$(get -H 'X-Forwarded-For: 1.2.3.4' -H 'X-Forwarded-Proto: https' "http://$ours4/tell")"
is "$lb: routed by host" 'backend 1 backend 1' \
    "$(get --resolve "one.test:80:$ours4" http://one.test/name http://one.test/name | paste -sd' ')"
is "$lb: keep-alive" '200:1 200:0 200:0 ' \
    "$(get -w '%{http_code}:%{num_connects} ' -o /dev/null "http://$ours4/small" -o /dev/null "http://$ours4/large" -o /dev/null "http://$ours4/name")"
is "$lb: HTTP/1.0" 'hello' "$(get -0 "http://$ours4/small")"
is "$lb: POST of 1 MiB in chunks" 1048576 \
    "$(get -H 'Transfer-Encoding: chunked' -H 'Expect:' --data-binary "@$scratch/root/large" "http://$ours4/sink")"
continued() { curl -sv --max-time 20 -H 'Expect: 100-continue' --data-binary "@$scratch/root/large" "$1" 2>&1 | tr -d '\r'; }
is "$lb: POST of 1 MiB with its length, after 100 Continue" '1048576 1' \
    "$(continued "http://$ours4/sink" | awk '/^< HTTP\/1.1 100/ { n++ } /^1048576$/ { got = $0 } END { print got, n }')"
is "$lb: nobody serves: 502" 502 "$(get -o /dev/null -w '%{http_code}' --resolve "nobody.test:80:$ours4" http://nobody.test/)"

# raw REQUEST…: one after the other on one connection; the status lines that come back.
raw() {
    # shellcheck disable=SC2016
    timeout 10 bash -c 'exec 3<>"/dev/tcp/$0/80"; printf "$1" >&3; cat <&3' "$ours4" "$1" 2>/dev/null | tr -d '\r' |
        awk '/^HTTP/ { printf "%s ", $2 }'
}
host='Host: a.test\r\n'
close='Connection: close\r\n'
is "$lb: three requests at once are answered in order" '200 404 200 ' \
    "$(raw "GET /small HTTP/1.1\r\n$host\r\nGET /none HTTP/1.1\r\n$host\r\nGET /small HTTP/1.1\r\n$host$close\r\n")"
is "$lb: length and chunks at once: 400" '400 ' \
    "$(raw "POST / HTTP/1.1\r\n${host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")"
is "$lb: two lengths: 400" '400 ' "$(raw "POST / HTTP/1.1\r\n${host}Content-Length: 5\r\nContent-Length: 6\r\n\r\n")"
is "$lb: a bare line feed: 400" '400 ' "$(raw "GET / HTTP/1.1\n${host}\r\n")"
is "$lb: a folded field: 400" '400 ' "$(raw "GET / HTTP/1.1\r\n${host}A: b\r\n c\r\n\r\n")"
is "$lb: a head that is too large: 431" '431 ' "$(raw "GET / HTTP/1.1\r\n${host}A: $(head -c 20000 /dev/zero | tr '\0' x)\r\n\r\n")"

name="$lb: an upgrade becomes a tunnel"
if command -v python3 >/dev/null; then
    cat >"$scratch/upgrade.py" <<'END'
import socket, sys
server = socket.create_server((sys.argv[1], 8085))
while True:
    peer, _ = server.accept()
    head = b""
    while b"\r\n\r\n" not in head and (data := peer.recv(4096)):
        head += data
    if b"upgrade: echo" not in head.lower():
        peer.close()
        continue
    peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhere ")
    while data := peer.recv(65536):
        peer.sendall(data.upper())
    peer.close()
END
    start upgrade.log python3 "$scratch/upgrade.py" "$linux4"
    eventually listens "$linux4" 8085
    # shellcheck disable=SC2016
    got=$(timeout 10 bash -c 'exec 3<>"/dev/tcp/$0/80"
        printf "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n" >&3
        until_read() { text=; while [[ $text != *"$1" ]] && IFS= read -r -d "" -N 1 -t 10 byte <&3; do text+=$byte; done; }
        until_read "here "; got=${text##*$'\''\n'\''}
        for word in over and out; do printf "%s " "$word" >&3; until_read "${word^^} "; got+=$text; done
        printf %s "$got"' "$ours4")
    is "$name" 'here OVER AND OUT ' "$got"
    stop "$started"
else
    skip "$name" 'no python3'
fi

# ---- the PROXY protocol --------------------------------------------------------------------------------------
is "$lb: PROXY version 1 to nginx" "$linux4 82" "$(get "http://$ours4:82/")"
is "$lb: PROXY version 2 to nginx, in TCP mode" "$linux4 83" "$(get "http://$ours4:83/")"
is "$lb: PROXY from a client" "GET $ours4:81 198.51.100.7 http 1.1 longshore" \
    "$(timeout 10 bash -c 'exec 3<>"/dev/tcp/$0/81"
        printf "PROXY TCP4 198.51.100.7 198.51.100.1 4000 80\r\nGET /tell HTTP/1.1\r\nHost: $0:81\r\nConnection: close\r\n\r\n" >&3
        cat <&3' "$ours4" | tail -n 1 | sed "s/^GET $ours4 /GET $ours4:81 /")"
get -o "$scratch/got" "http://$ours4:84/large"
name="$lb: TCP mode"
if cmp -s "$scratch/got" "$scratch/root/large"; then ok "$name"; else not_ok "$name" 'the bytes differ'; fi

if [[ $accel == *splice* ]]; then
    # Several requests on one connection: the NIC has it from the second on.
    get -o "$scratch/got" "http://$ours4:84/name" "http://$ours4:84/small" "http://$ours4:84/name" "http://$ours4:84/large" >/dev/null
    get --http1.1 -o /dev/null "http://$ours4:85/large" -o /dev/null "http://$ours4:85/name" -o "$scratch/got" "http://$ours4:85/large"
    name="$lb: a persistent connection is forwarded after its first request"
    if cmp -s "$scratch/got" "$scratch/root/large"; then ok "$name"; else not_ok "$name" 'the bytes differ'; fi
    before=$(counter 'frontend web' splices)
    # Long enough that it is not over before the NIC has it.
    make_file huge 33554432
    chmod a+r "$scratch/root/huge"
    get -H 'Connection: close' -o "$scratch/got" "http://$ours4/huge"
    name="$lb: the NIC relays a long response to curl's last request"
    if ! cmp -s "$scratch/got" "$scratch/root/huge"; then
        not_ok "$name" 'the bytes differ'
    else
        is "$name" $((before + 1)) "$(counter 'frontend web' splices)"
    fi
    name="$lb: responses to clients that keep the connection are counted as not spliced"
    refused=$(counter 'frontend web' splice_refused_keep_alive)
    if [[ ${refused:-0} -ge 1 ]]; then ok "$name"; else not_ok "$name" "splice_refused_keep_alive is '${refused:-absent}'"; fi
    for frontend in bytes web persistent; do
        name="$lb: the NIC relays for frontend $frontend"
        if [[ $frontend == web ]] && ! command -v python3 >/dev/null; then
            skip "$name" 'no python3'
            continue
        fi
        splices=$(counter "frontend $frontend" splices)
        if [[ ${splices:-0} -ge 1 ]]; then ok "$name"; else not_ok "$name" "splices is '${splices:-absent}'"; fi
    done
fi

if [[ $accel == *teardown* ]]; then
    # curl closes first, and the load balancer has nothing left to send.
    name="$lb: the NIC finishes connections"
    teardowns=$("$LONGSHORE" stat --all "$scratch/control" 2>/dev/null | awk '$1 == "AccelTeardowns:" { print $2; exit }')
    if [[ ${teardowns:-0} -ge 1 ]]; then ok "$name"; else not_ok "$name" "AccelTeardowns is '${teardowns:-absent}'"; fi
fi

# ---- draining ------------------------------------------------------------------------------------------------
"$LONGSHORE" lb drain "$scratch/control" app "$linux4:8081"
is "$lb: a drained backend gets nothing new" 'backend 2' "$(for _ in 1 2 3 4; do get "http://$ours4/name"; done | sort -u)"
"$LONGSHORE" lb resume "$scratch/control" app "$linux4:8081"
is "$lb: and is taken back" 2 "$(for _ in 1 2 3 4; do get "http://$ours4/name"; done | sort -u | wc -l)"

# ---- a backend dies under load -------------------------------------------------------------------------------
is_up() { [[ $(counter "backend app/$linux4:8082" up) == "$1" ]]; }
name="$lb: a backend dies under load, and nobody notices"
if command -v wrk >/dev/null; then
    wrk -t 1 -c 32 -d "$load_time" --timeout 10 "http://$ours4/name" >"$scratch/wrk.log" 2>&1 &
    load=$!
    pids+=("$load")
    sleep 3
    # Its worker goes first, so that nobody is told to close connections in order; the master is stopped before, so that
    # it starts no other.
    kill -STOP "${nginx_pids[2]}"
    worker=$(ps -o pid= --ppid "${nginx_pids[2]}")
    kill -9 $worker "${nginx_pids[2]}" 2>/dev/null
    wait "${nginx_pids[2]}" 2>/dev/null
    eventually is_up 0
    down=$(counter "backend app/$linux4:8082" up)
    sleep 1
    start_nginx 2
    wait "$load"
    done_=$(awk '/requests in/ { print $1 }' "$scratch/wrk.log")
    failed=$(grep -E 'Socket errors|Non-2xx' "$scratch/wrk.log" | tr '\n' ' ')
    served=$(counter "backend app/$linux4:8082" requests)
    if [[ -z $failed && ${done_:-0} -gt 1000 ]]; then
        ok "$name: $done_ requests, $(counter 'pool app' retries) retried"
    else
        not_ok "$name" "${done_:-no} requests; $failed"
    fi
    is "$lb: the dead backend was found to be down" 0 "$down"
    why=$(grep -o "backend app $linux4:8082 is down: .*" "$scratch/lb.log" | head -n 1)
    is "$lb: the log says why" "backend app $linux4:8082 is down: connection refused" "$why"
    eventually is_up 1
    is "$lb: it is up again" 1 "$(counter "backend app/$linux4:8082" up)"
    for _ in 1 2 3 4; do get "http://$ours4/name"; done >/dev/null
    name="$lb: and serves again"
    if [[ $(counter "backend app/$linux4:8082" requests) -gt $served ]]; then ok "$name"; else not_ok "$name" 'no request'; fi
else
    skip "$name" 'no wrk'
fi

# ---- the end -------------------------------------------------------------------------------------------------
name="$lb: SIGTERM lets a download come to its end"
get --limit-rate 400k -o "$scratch/got" "http://$ours4/large" &
slow=$!
sleep 0.5
kill -TERM "$balancer"
wait "$slow"
if cmp -s "$scratch/got" "$scratch/root/large" && eventually bash -c "! kill -0 $balancer"; then
    ok "$name"
else
    not_ok "$name" "the bytes differ, or it stayed: $(last_words lb.log)"
fi
