# The access logs of `longshore serve` and `longshore lb`: what curl asked for, what was refused, what was given up, in both formats.
. "$(dirname "$0")/harness.sh"
needs curl ip python3

make_tap && make_certificates
make_file page 5000
make_file large 33554432

# serve FORMAT
serve() {
    rm -f "$scratch/log"
    start serve.log "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" \
        --control "$scratch/control" --access-log "$scratch/log" --access-log-format "$1"
    serve=$started
    eventually listens "$ours4" 443
}
get() { curl -s --http1.1 --max-time 60 --cacert "$scratch/ca.pem" "$@"; }
give_up() { get "https://$ours4/large" | head -c 1000 >/dev/null; }
malformed() { printf 'GET /\x01"x HTTP/1.1\r\n\r\n' | timeout 20 openssl s_client -quiet -connect "$ours4:443" >/dev/null 2>&1; }

# logged REGEX: there is a line like it.
logged() {
    why="the log has: $(tail -n 3 "$scratch/log" | tr '\n' ' ' | cut -c 1-300)"
    grep -qE "$1" "$scratch/log"
}
comes() { eventually logged "$1"; }
time='\[[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} \+0000\]'

serve combined
get -o /dev/null --referer http://from/ --user-agent 'a "b"' "https://$ours4/page"
try 'combined: a page' comes "^$linux4 - - $time \"GET /page HTTP/1.1\" 200 5000 \"http://from/\" \"a \\\\x22b\\\\x22\"\$"
get -o /dev/null -r 10-19 "https://$ours4/page"
try 'combined: a part of it' comes "\"GET /page HTTP/1.1\" 206 10 "
get -o /dev/null -I "https://$ours4/page"
try 'combined: its head' comes "\"HEAD /page HTTP/1.1\" 200 0 "
get -o /dev/null "https://$ours4/none?q=1"
try 'combined: what is not there' comes '"GET /none\?q=1 HTTP/1.1" 404 '
malformed
try 'combined: what is no request' comes '"GET /\\x01\\x22x HTTP/1.1" 400 '
stop "$serve"

serve json
for _ in 1 2; do get -o /dev/null "https://$ours4/page" -o /dev/null "https://$ours4/page"; done
give_up
try 'json: a download that was given up' comes '"GET /large HTTP/1.1","status":200,.*"aborted":true'
stop "$serve"
reads_as_json() {
    why=$(python3 - "$scratch/log" "$linux4" 2>&1 <<'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
pages = [line for line in lines if line["request"] == "GET /page HTTP/1.1"]
assert len(pages) == 4, len(pages)
for line in pages:
    assert line["client"].startswith(sys.argv[2] + ":") and line["status"] == 200 and line["bytes"] == 5000 and not line["aborted"], line
    assert line["tls"]["version"] == "TLSv1.3" and line["tls"]["tx"] == "device", line
    assert 0 <= line["duration_us"] < 60e6 and line["user_agent"].startswith("curl/"), line
given_up = [line for line in lines if line["request"] == "GET /large HTTP/1.1"]
assert len(given_up) == 1 and given_up[0]["bytes"] < 33554432, given_up
END
    )
}
try 'json: each line is an object with all of it' reads_as_json
refuses() {
    why=$("$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --access-log /none/log 2>&1) && return 1
    [[ $why == *'/none/log can'*'--access-log'* ]]
}
try 'a file that can not be written is told' refuses

# ---- lb, whose NIC would take connections over that are not logged ------------------------------------------------
if ! command -v nginx >/dev/null; then
    skip 'lb: each request is logged' 'no nginx'
    exit
fi
chmod -R a+rX "$scratch"
cat >"$scratch/nginx.conf" <<END
daemon off; worker_processes 1; pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;
$([[ $(id -u) -ne 0 ]] || echo 'user root;')
events { worker_connections 256; }
http { access_log off; $(temporary_paths nginx)
server { listen $linux4:8081; root $scratch/root; location = /health { return 204; } } }
END
start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
eventually listens "$linux4" 8081
cat >"$scratch/lb.toml" <<END
[frontends.web]
listen = ["$ours4:80"]
pool = "app"
splice = "after-first-request"
routes = [{ host = "nobody.test", pool = "nobody" }]
[pools.app]
backends = ["$linux4:8081"]
health = { path = "/health", status = [204], interval = "1s" }
[pools.nobody]
backends = ["$linux4:8999"]
END
rm -f "$scratch/log"
start lb.log "$LONGSHORE" lb --config "$scratch/lb.toml" "${our_addresses[@]}" --accel splice --access-log "$scratch/log" --access-log-format json
lb=$started
eventually listens "$ours4" 80
answers() { [[ $(curl -s -o /dev/null -w '%{http_code}' --max-time 10 "http://$ours4/page") == 200 ]]; }
eventually answers
for _ in 1 2 3; do pages+=(-o /dev/null "http://$ours4/page"); done
curl -s --max-time 30 --user-agent three "${pages[@]}"
curl -s --max-time 30 --user-agent once -H 'Connection: close' -o "$scratch/got" "http://$ours4/large"
curl -s --max-time 30 --user-agent nobody -H 'Host: nobody.test' -o /dev/null "http://$ours4/page"
printf 'GET /none\r\n\r\n' >"/dev/tcp/$ours4/80"
curl -s --max-time 30 --user-agent gives-up "http://$ours4/large" | head -c 1000 >/dev/null
try 'lb: a response that was given up' comes 'gives-up'
stop "$lb"
each_request_of_lb() {
    why=$(python3 - "$scratch/log" "$linux4" 2>&1 <<'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
of = lambda agent: [line for line in lines if line["user_agent"] == agent]
via = {"frontend": "web", "pool": "app", "backend": sys.argv[2] + ":8081"}
assert len(of("three")) == 3, lines
for line in of("three"):
    assert line["request"] == "GET /page HTTP/1.1" and line["status"] == 200 and line["bytes"] == 5000 and not line["aborted"], line
    assert via.items() <= line.items() and line["client"].startswith(sys.argv[2] + ":"), line
[once] = of("once")
assert once["status"] == 200 and once["bytes"] == 33554432 and not once["aborted"] and via.items() <= once.items(), once
[nobody] = of("nobody")
assert nobody["status"] in (502, 503) and nobody["backend"] is None and nobody["bytes"] > 0, nobody
[given_up] = of("gives-up")
assert given_up["aborted"] and given_up["bytes"] < 33554432, given_up
assert [line["status"] for line in lines if line["request"] == "GET /none"] == [400], lines
END
    )
}
try 'lb: each request is logged, with its backend' each_request_of_lb
