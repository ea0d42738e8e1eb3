# HTTP/2 of `longshore lb`'s clients: curl, nghttp and h2load before it, nginx behind, which gets HTTP/1.1; on a good link and on a bad one.
. "$(dirname "$0")/harness.sh"
needs nginx curl openssl ip

make_tap && make_certificates
make_file large 4194304
make_file page 262144
make_file small 1000
for i in {1..100}; do make_file "f$i" $((i * 700)); done
chmod -R a+rX "$scratch"

cat >"$scratch/nginx.conf" <<END
daemon off; worker_processes 1; pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;
$([[ $(id -u) -eq 0 ]] && echo 'user root;')
events { worker_connections 4096; }
http { access_log off; default_type application/octet-stream; keepalive_requests 1000000; client_max_body_size 16m;
$(for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/nginx-$kind;"; done)
$(for port in 8081 8082; do
    echo "server { listen $linux4:$port; root $scratch/root;"
    echo "location = /tell { return 200 \"\$server_protocol \$http_via \$http_x_forwarded_proto \$http_cookie\n\"; }"
    echo "location = /sink { proxy_pass http://$linux4:8071/length; proxy_request_buffering on; } }"
done)
server { listen $linux4:8071; location = /length { return 200 "\$content_length\n"; } }
}
END
start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
if ! eventually listens "$linux4" 8081; then
    skip lb_h2 "nginx did not start: $(last_words nginx.log)"
    exit
fi
cat >"$scratch/lb.toml" <<END
[frontends.secure]
listen = ["$ours4:443"]
tls = true
pool = "app"

[frontends.older]
listen = ["$ours4:444"]
tls = true
http2 = false
pool = "app"

[pools.app]
backends = ["$linux4:8081", "$linux4:8082"]
END

# lb LABEL OPTION…
lb() {
    local label=$1
    shift
    rm -f "$scratch/log"
    start "lb-$label.log" "$LONGSHORE" lb --config "$scratch/lb.toml" "${our_addresses[@]}" --cert "$scratch/leaf.pem" \
        --key "$scratch/leaf.key" --control "$scratch/control" --access-log "$scratch/log" "$@"
    lb=$started lb_log=lb-$label.log
    eventually listens "$ours4" 443
}
# The first frontend's.
counter() { "$LONGSHORE" stat --json "$scratch/control" 2>/dev/null | grep -o "\"$1\": *[0-9]*" | head -n 1 | grep -o '[0-9]*$'; }
get() { curl -s --http2 --max-time 60 --cacert "$scratch/ca.pem" "$@"; }

# is NAME EXPECTED ACTUAL
is() { if [[ $3 == "$2" ]]; then ok "$1"; else not_ok "$1" "'$3', not '$2'"; fi; }

# At a time, over one connection.
a_hundred() {
    local list=() i
    for i in {1..100}; do list+=(-o "$scratch/got-f$i" "https://$ours4/f$i"); done
    rm -f "$scratch"/got-*
    get --no-progress-meter --parallel --parallel-max 100 "${list[@]}" || { why="curl exit $?"; return 1; }
    for i in {1..100}; do
        cmp -s "$scratch/root/f$i" "$scratch/got-f$i" || { why="f$i differs: $(last_words "$lb_log")"; return 1; }
    done
}
fetches() {
    get -o "$scratch/got-large" "https://$ours4/large" || { why="curl exit $?"; return 1; }
    why="the large file differs: $(last_words "$lb_log")"
    cmp -s "$scratch/root/large" "$scratch/got-large"
}

if lb good; then
    is 'HTTP/2 is agreed on' '2 200' "$(get -o /dev/null -w '%{http_version} %{http_code}' "https://$ours4/small")"
    is 'HTTP/1.1 is, if a client wants that' '1.1 200' \
        "$(curl -s --http1.1 --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_version} %{http_code}' "https://$ours4/small")"
    is 'HTTP/1.1 is, where the frontend has no other' '1.1 200' "$(get -o /dev/null -w '%{http_version} %{http_code}' "https://$ours4:444/small")"
    is 'the backend gets HTTP/1.1, and is told' 'HTTP/1.1 2 longshore https a=1; b=2' "$(get -H 'Cookie: a=1' -H 'Cookie: b=2' "https://$ours4/tell")"
    try 'curl: a file is whole' fetches
    try 'curl: a hundred at a time' a_hundred
    is 'curl: an upload with a length' 4194304 "$(get --data-binary @"$scratch/root/large" "https://$ours4/sink")"
    is 'curl: an upload without' 4194304 "$(get -T - "https://$ours4/sink" <"$scratch/root/large")"
    is 'curl: head and missing file' '200 404' "$(get -o /dev/null -w '%{http_code} ' -I "https://$ours4/small" \
        --next -s --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_code}' "https://$ours4/absent")"
    logs() { grep -q '"GET /f100 HTTP/2.0" 200 70000 "-" "curl/' "$scratch/log"; }
    try 'the access log has it' eventually logs

    if command -v nghttp >/dev/null; then
        nghttp --null-out --stat --no-verify-peer "https://$ours4/large" "https://$ours4/small" >"$scratch/nghttp.log" 2>&1
        is 'nghttp: two files' 2 "$(grep -c ' 200 .* /\(large\|small\)$' "$scratch/nghttp.log")"
    else
        skip 'nghttp: two files' 'no nghttp'
    fi
    if command -v h2load >/dev/null; then
        # Default windows of 64 KiB; then one that holds all.
        for bits in 16 30; do
            h2load -n 400 -c 4 -m 100 -w "$bits" -W "$bits" "https://$ours4/page" "https://$ours4/small" >"$scratch/h2load.log" 2>&1
            is "h2load: 4 connections of 100 streams, windows of $bits bits" '400 succeeded, 0 failed' \
                "$(grep -o '400 succeeded, 0 failed' "$scratch/h2load.log" || last_words h2load.log)"
        done
    else
        skip 'h2load: 4 connections of 100 streams' 'no h2load'
    fi
    stop "$lb"
else
    not_ok 'HTTP/2 through lb' "lb did not start: $(last_words "$lb_log")"
fi

if lb impaired "${impaired[@]}"; then
    try 'impaired: a file is whole' fetches
    try 'impaired: a hundred at a time' a_hundred
    is 'impaired: an upload' 4194304 "$(get -T - "https://$ours4/sink" <"$scratch/root/large")"
    stop "$lb"
else
    not_ok 'impaired' "lb did not start: $(last_words "$lb_log")"
fi
