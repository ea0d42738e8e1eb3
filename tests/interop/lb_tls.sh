# TLS of `longshore lb`'s frontends, with curl and OpenSSL as clients and nginx behind: certificates by name, both versions, tunnels, ends of
# connections, what the wire shows, reloads under load. And TLS to backends: nginx and OpenSSL, both versions, certificates that are refused.
. "$(dirname "$0")/harness.sh"
needs nginx curl openssl ip

make_tap
make_file large 1048576
printf 'a marker that nobody may see\n' >"$scratch/root/secret"
files=$scratch/files
mkdir "$files"
chmod -R a+rX "$scratch"

certificate() { # FILE NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$2" \
        -addext "subjectAltName=DNS:$2" -keyout "$files/$1.key" -out "$files/$1.pem" 2>>"$scratch/openssl.log"
    chmod 600 "$files/$1.key"
}
certificate first first.test
certificate second '*.second.test'
certificate backend backend.test

cat >"$scratch/nginx.conf" <<END
daemon off; worker_processes 1; pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;
$([[ $(id -u) -eq 0 ]] && echo 'user root;')
events { worker_connections 4096; }
http { access_log off; default_type application/octet-stream; keepalive_requests 1000000; client_max_body_size 16m;
$(for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/nginx-$kind;"; done)
server { listen $linux4:8081; root $scratch/root;
location = /tell { return 200 "\$scheme \$http_x_forwarded_for \$http_x_forwarded_proto\n"; }
location = /sink { proxy_pass http://$linux4:8071/length; proxy_request_buffering on; } }
$(for port in 8443 8444 8445; do
    # What has come in clear gets 400.
    echo "server { listen $linux4:$port ssl$([[ $port -ne 8445 ]] || echo ' proxy_protocol'); root $scratch/root; ssl_certificate $files/backend.pem;"
    echo "ssl_certificate_key $files/backend.key; ssl_protocols TLSv1.$([[ $port -eq 8444 ]] && echo 2 || echo 3);"
    echo "location = /tell { return 200 \"\$scheme \$ssl_protocol \$ssl_server_name \$http_x_forwarded_proto \$proxy_protocol_addr\n\"; } }"
done)
server { listen $linux4:8071; location = /length { return 200 "\$content_length\n"; } }
}
END
start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
if ! eventually listens "$linux4" 8081; then
    skip lb_tls "nginx did not start: $(last_words nginx.log)"
    exit
fi
cat >"$files/lb.toml" <<END
[lb]
cert = ["$files/first.pem", "$files/second.pem"]
key = ["$files/first.key", "$files/second.key"]

[frontends.secure]
listen = ["$ours4:443", "[$ours6]:443"]
tls = true
pool = "app"

[frontends.bytes]
listen = ["$ours4:444"]
mode = "tcp"
tls = true
pool = "app"

[frontends.proxied]
listen = ["$ours4:445"]
accept-proxy = true
tls = true
pool = "app"

[frontends.plain]
listen = ["$ours4:80"]
pool = "app"

[frontends.inner]
listen = ["$ours4:81"]
pool = "newer"
routes = [{ host = "older.test", pool = "older" }, { host = "named.test", pool = "named" }, { host = "openssl.test", pool = "openssl" },
    { host = "another.test", pool = "another" }, { host = "unknown.test", pool = "unknown" }, { host = "clear.test", pool = "clear" }]

[frontends.inner-bytes]
listen = ["$ours4:447"]
mode = "tcp"
pool = "newer"

[pools.app]
backends = ["$linux4:8081"]

[pools.newer]
backends = ["$linux4:8443"]
tls = true
ca = "backend.pem"
sni = "backend.test"
health = { path = "/tell", interval = "500ms" }

[pools.older]
backends = [{ address = "$linux4:8444", tls = true }]
verify = false
health = { path = "/tell", interval = "500ms" }

[pools.named]
backends = [{ address = "$linux4:8445", proxy = "v2" }]
tls = true
ca = "backend.pem"
sni = "backend.test"
health = { path = "/tell", interval = "500ms" }

[pools.openssl]
backends = ["$linux4:8446"]
tls = true
verify = false
health = { check = "none" }

[pools.another]
backends = ["$linux4:8443"]
tls = true
ca = "backend.pem"
sni = "another.test"
panic-threshold = 0
health = { path = "/tell", interval = "500ms", fall = 1 }

[pools.unknown]
backends = ["$linux4:8443"]
tls = true
ca = "first.pem"
sni = "backend.test"
panic-threshold = 0
health = { check = "tcp", interval = "500ms", fall = 1 }

[pools.clear]
backends = [{ address = "$linux4:8081", tls = true }]
verify = false
panic-threshold = 0
health = { check = "tcp", interval = "500ms", fall = 1 }
END
name='config check wants certificates for TLS, and TLS for certificates'
sed -i "s/^\[lb\]/[lb]\ntap = \"$tap\"\nip = [\"$ours4\/24\", \"$ours6\/64\"]/" "$files/lb.toml"
other=$(sed '/^\[pools/,$!{/^tls/d}' "$files/lb.toml" >"$files/wrong.toml"; "$LONGSHORE" config check "$files/wrong.toml" 2>&1)
missing=$(sed '/^cert\|^key/d' "$files/lb.toml" >"$files/wrong.toml"; "$LONGSHORE" config check "$files/wrong.toml" 2>&1)
if "$LONGSHORE" config check "$files/lb.toml" >/dev/null && [[ $other == *lb.cert*'tls = true'* && $missing == *.tls*--cert* ]]; then
    ok "$name"
else
    not_ok "$name" "$other; $missing; $("$LONGSHORE" config check "$files/lb.toml" 2>&1)"
fi

start lb.log setsid "$LONGSHORE" lb --config "$files/lb.toml" --accel all --control "$scratch/control" \
    --access-log "$scratch/access.log" --access-log-format json --pcap "$scratch/wire.pcapng"
balancer=$started
if ! eventually listens "$ours4" 80; then
    not_ok lb_tls "it did not start: $(last_words lb.log)"
    exit
fi

get() { curl --http1.1 -s --insecure --no-progress-meter --max-time 60 "$@" 2>>"$scratch/curl.log"; }
is() { if [[ $2 == "$3" ]]; then ok "$1"; else not_ok "$1" "wanted '$2', got '$3'"; fi; }
same() { if cmp -s "$2" "$3"; then ok "$1"; else not_ok "$1" 'the bytes differ'; fi; }
count() { # GROUP NAME
    "$LONGSHORE" stat --all "$scratch/control" 2>/dev/null |
        awk -v group="$1 statistics:" -v name="$2:" '/statistics:$/ { on = $0 == group } on && $1 == name { gsub(/,/, "", $2); print $2 }'
}
client() { timeout 30 openssl s_client -quiet -connect "$@" 2>>"$scratch/client.log"; }

# ---- HTTP --------------------------------------------------------------------------------------------------------
for version in 1.2 1.3; do
    get "--tlsv$version" --tls-max "$version" -o "$scratch/got" "https://$ours4/large"
    same "GET of 1 MiB, TLS $version" "$scratch/got" "$scratch/root/large"
done
is 'GET over IPv6' "$(cat "$scratch/root/secret")" "$(get "https://[$ours6]/secret")"
is 'the backend is told of TLS' "http $linux4 https" "$(get "https://$ours4/tell")"
is 'and of none' "http $linux4 http" "$(get -H 'X-Forwarded-Proto: https' "http://$ours4/tell")"
is 'POST of 1 MiB in chunks' 1048576 "$(get -H 'Transfer-Encoding: chunked' -H 'Expect:' --data-binary "@$scratch/root/large" "https://$ours4/sink")"
is 'keep-alive' '200:1 200:0 200:0 ' \
    "$(get -w '%{http_code}:%{num_connects} ' -o /dev/null "https://$ours4/secret" -o /dev/null "https://$ours4/large" -o /dev/null "https://$ours4/tell")"
is 'HTTP/2 is agreed on with a client that offers it' 'HTTP/2 200' "$(get --http2 -o /dev/null -w 'HTTP/%{http_version} %{http_code}' "https://$ours4/secret")"
three='GET /tell HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /tell HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
is 'three requests at once are answered in order' '200 404 200 ' \
    "$(printf "$three" | client "$ours4:443" | tr -d '\r' | awk '/^HTTP/ { printf "%s ", $2 }')"
is 'length and chunks at once: 400' '400 ' \
    "$(printf 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' | client "$ours4:443" |
        tr -d '\r' | awk '/^HTTP/ { printf "%s ", $2 }')"
get --connect-to "::$ours4:444" -o "$scratch/got" https://a.test/large
same 'TCP mode' "$scratch/got" "$scratch/root/large"
is 'PROXY before TLS' "http $linux4 https" "$(get --haproxy-protocol "https://$ours4:445/tell")"

# ---- TLS to backends -----------------------------------------------------------------------------------------------
start s_server.log openssl s_server -accept "$linux4:8446" -cert "$files/backend.pem" -key "$files/backend.key" -www
eventually listens "$linux4" 8446
inner() { get -H "Host: $1" "http://$ours4:81$2" "${@:3}"; }
inner a /large -o "$scratch/got"
same 'TLS 1.3 to nginx: GET of 1 MiB' "$scratch/got" "$scratch/root/large"
inner older.test /large -o "$scratch/got"
same 'TLS 1.2 to nginx: GET of 1 MiB' "$scratch/got" "$scratch/root/large"
is 'the backend has its name and TLS 1.3' 'https TLSv1.3 backend.test http' "$(inner a /tell | sed 's/ *$//')"
is 'without `sni` there is no name; TLS 1.2' 'https TLSv1.2  http' "$(inner older.test /tell | sed 's/ *$//')"
is 'PROXY before TLS to a backend' "https TLSv1.3 backend.test http $linux4" "$(inner named.test /tell)"
is 'OpenSSL answers' 200 "$(inner openssl.test / -o /dev/null -w '%{http_code}')"
get "http://$ours4:447/large" -o "$scratch/got"
same 'TCP mode with TLS to the backend' "$scratch/got" "$scratch/root/large"
reused=$(count "backend newer/$linux4:8443" connections_reused)
for _ in 1 2 3; do inner a /tell >/dev/null; done
is 'connections are used again' $((reused + 3)) "$(count "backend newer/$linux4:8443" connections_reused)"
for pool in "another $linux4:8443" "unknown $linux4:8443" "clear $linux4:8081"; do
    down() { [[ $(count "backend ${pool/ //}" up) == 0 ]]; }
    if eventually down; then ok "${pool% *}: a backend that does not prove itself is down"; else
        not_ok "${pool% *}: a backend that does not prove itself is down" "$(last_words lb.log)"
    fi
    is "${pool% *}: nobody is served by it" 503 "$(inner "${pool% *}.test" /tell -o /dev/null -w '%{http_code}')"
done
if grep -q "backend unknown $linux4:8443 is down: .*certificate" "$scratch/lb.log"; then ok 'the log tells why'; else
    not_ok 'the log tells why' "$(grep 'is down' "$scratch/lb.log" | tail -n 3)"
fi
is 'nothing is spliced to them' '0 0' "$(count 'frontend inner' splices) $(count 'frontend inner-bytes' splices)"

# ---- certificates ------------------------------------------------------------------------------------------------
fingerprint() { openssl x509 -noout -fingerprint -sha256 2>/dev/null; }
presented() { timeout "$patience" openssl s_client -connect "$ours4:443" -servername "$1" </dev/null 2>/dev/null | fingerprint; }
shows() { is "$1" "$(fingerprint <"$files/$3.pem")" "$(presented "$2")"; }
shows 'a name gets its certificate' first.test first
shows 'a wildcard gets its certificate' www.second.test second
shows 'another name gets the first certificate' other.test first
openssl s_client -connect "$ours4:443" -sess_out "$scratch/session" <<<Q >/dev/null 2>&1
(printf 'GET /tell HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'; sleep 1) |
    timeout 30 openssl s_client -connect "$ours4:443" -tls1_2 -sess_out "$scratch/session" >/dev/null 2>&1
is 'a session is resumed' Reused "$(timeout 30 openssl s_client -connect "$ours4:443" -tls1_2 -sess_in "$scratch/session" </dev/null 2>/dev/null | grep -o '^Reused')"

# ---- clients that misbehave ----------------------------------------------------------------------------------------
refuses() { [[ $(count 'frontend secure' handshake_failures) -ge $1 ]]; }
printf 'GET / HTTP/1.1\r\nHost: a\r\n\r\n' | timeout 10 bash -c 'exec 3<>"/dev/tcp/$0/443"; cat >&3; cat <&3' "$ours4" >"$scratch/clear" 2>/dev/null
if ! grep -q HTTP "$scratch/clear" && eventually refuses 1; then ok 'a client in clear gets no HTTP'; else
    not_ok 'a client in clear gets no HTTP' "$(head -c 100 "$scratch/clear")"
fi
timeout 20 bash -c 'echo R; sleep 1; printf "GET /tell HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"; sleep 2' |
    timeout 20 openssl s_client -connect "$ours4:443" -tls1_2 >"$scratch/renegotiated" 2>&1
if grep -q '^HTTP/1.1 200' "$scratch/renegotiated"; then
    not_ok 'renegotiation is refused' 'it was answered'
else
    is 'renegotiation is refused, and others are served' "http $linux4 https" "$(get "https://$ours4/tell")"
fi
# Killed in the middle of a response.
openssl s_client -quiet -connect "$ours4:443" >/dev/null 2>&1 < <(printf 'GET /large HTTP/1.1\r\nHost: a\r\n\r\n'; sleep 30) &
killed=$!
sleep 0.5
kill -9 "$killed"
wait "$killed" 2>/dev/null
is_quiet() { [[ $(count 'frontend secure' connections_open) == 0 && $(count "backend app/$linux4:8081" active) == 0 ]]; }
if eventually is_quiet; then ok 'clients that go leave nothing'; else
    not_ok 'clients that go leave nothing' "$(count 'frontend secure' connections_open) connections, $(count "backend app/$linux4:8081" active) requests"
fi

# ---- the wire, and who has made the records ------------------------------------------------------------------------
frames() { # PORT: what the wire has had of it
    tshark -r "$scratch/wire.pcapng" -c 20000 -Y "tcp.port == $1" -T fields -e tcp.payload 2>/dev/null | tr -d '\n'
}
marker=$(printf 'a marker that nobody may see' | od -An -tx1 | tr -d ' \n')
records=$("$LONGSHORE" stat --all "$scratch/control" | awk '$1 == "TlsTxRecordsDevice:" { gsub(/,/, "", $2); print $2; exit }')
if [[ ${records:-0} -gt 10 ]]; then ok "the NIC makes records: $records"; else not_ok 'the NIC makes records' "${records:-none}"; fi
is 'splices of TLS' '0 0' "$(count 'frontend secure' splices) $(count 'frontend bytes' splices)"
is 'the access log tells of TLS' TLSv1.3 "$(sed -n 's/.*"tls":{"version":"\(TLSv1.3\)".*/\1/p' "$scratch/access.log" | head -n 1)"

# ---- reloads under load --------------------------------------------------------------------------------------------
name='certificates and backends are changed under load, and no client notices'
if command -v wrk >/dev/null; then
    timeout 90 wrk -t 1 -c 32 -d 5 --timeout 60 "https://$ours4/tell" >"$scratch/wrk.log" 2>&1 &
    load=$!
    for _ in {1..10}; do
        certificate second '*.second.test'
        "$LONGSHORE" reload "$scratch/control" >"$scratch/reload.log" 2>&1 || not_ok 'reload' "$(last_words reload.log)"
        sleep 0.2
    done
    shows 'a renewed certificate is shown' www.second.test second
    wait "$load"
    requests=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$scratch/wrk.log")
    wrong=$(grep -E 'Socket errors|Non-2xx' "$scratch/wrk.log" | tr '\n' ' ')
    if [[ -z $wrong && ${requests:-0} -gt 100 ]]; then ok "$name: $requests requests"; else not_ok "$name" "${requests:-no} requests; $wrong"; fi
else
    skip "$name" 'no wrk'
fi
before=$(presented first.test)
cp "$files/second.key" "$files/first.key"
name='a key of another certificate is refused, and what was there stays'
if told=$("$LONGSHORE" reload "$scratch/control" 2>&1) || [[ $told != *"can't be used"* ]]; then not_ok "$name" "$told"; else
    is "$name" "$before" "$(presented first.test)"
fi
kill -TERM "$balancer"
wait "$balancer" 2>/dev/null

name='nothing of what was sent in TLS is in the capture of its ports'
if ! command -v tshark >/dev/null; then
    skip "$name" 'no tshark'
elif [[ $(frames 8081) != *"$marker"* ]]; then
    not_ok "$name" 'the capture has nothing of the backend: it shows nothing'
elif [[ $(frames 443)$(frames 444)$(frames 445)$(frames 8443)$(frames 8444) == *"$marker"* ]]; then
    not_ok "$name" 'the content is in the capture'
else
    ok "$name"
fi
