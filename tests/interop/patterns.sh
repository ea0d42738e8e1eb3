# What clients send is searched for patterns by the NIC: `longshore serve` over TLS and plain, `longshore lb` in front of nginx, on good
# links and bad ones.
. "$(dirname "$0")/harness.sh"
needs nginx curl ip

make_tap && make_certificates
mkdir -p "$scratch/root"
printf 'hello\n' >"$scratch/root/index.html"
chmod -R a+rX "$scratch"
printf '%s\n' '# what nobody may send' 'evil.example' '/cmd=[a-z]+;/i' >"$scratch/patterns"

counter() { "$LONGSHORE" stat "$scratch/control" 2>/dev/null | awk -v name="$1:" '$1 == name { print $2; exit }'; }

# fetch URL OPTION…: whether curl gets the page.
fetch() {
    local url=$1
    shift
    rm -f "$scratch/got"
    curl --silent --show-error --max-time 30 --cacert "$scratch/ca.pem" --output "$scratch/got" "$@" "$url" 2>"$scratch/curl.log" || {
        why="curl: $(tail -n 1 "$scratch/curl.log")"
        return 1
    }
    cmp -s "$scratch/root/index.html" "$scratch/got" || { why='the page differs'; return 1; }
}
refused() {
    if fetch "$@"; then
        why='the request was answered'
        return 1
    fi
}
# at_least COUNTER COUNT
at_least() {
    local count
    count=$(counter "$1")
    why="$1 is ${count:-absent}"
    [[ ${count:-0} -ge $2 ]]
}

# ---- serve ---------------------------------------------------------------------------------------------------
for kind in tls plain; do
    case $kind in
    tls) url=https://$ours4/ port=443 options=(--cert "$scratch/leaf.pem" --key "$scratch/leaf.key") ;;
    plain) url=http://$ours4/ port=80 options=(--plain) ;;
    esac
    start "serve-$kind.log" "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" "${options[@]}" \
        --match "$scratch/patterns" --match-action close --control "$scratch/control"
    serve=$started
    eventually listens "$ours4" "$port"
    # Until the NIC has its tables, software searches.
    eventually at_least pattern_sets 1
    try "match, $kind: a request without a pattern is answered" fetch "$url" --header 'X-Note: evil example'
    try "match, $kind: a request with a string is not" refused "$url" --header 'X-Note: see evil.example'
    try "match, $kind: a request with an expression is not" refused "$url" --header 'X-Note: CMD=reboot;'
    try "match, $kind: what was closed is counted" at_least match_closes 2
    try "match, $kind: the log names line and pattern" grep -q 'line 2 of .*evil.example.* closed' "$scratch/serve-$kind.log"
    stop "$serve"
done

# ---- lb ------------------------------------------------------------------------------------------------------
cat >"$scratch/nginx.conf" <<END
daemon off; worker_processes 1; pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;
$([[ $(id -u) -eq 0 ]] && echo 'user root;')
events { worker_connections 256; }
http { access_log off; client_max_body_size 64m; client_body_temp_path $scratch/body; proxy_temp_path $scratch/proxy;
fastcgi_temp_path $scratch/fastcgi; uwsgi_temp_path $scratch/uwsgi; scgi_temp_path $scratch/scgi;
server { listen $linux4:8081; root $scratch/root;
location = /sink { proxy_pass http://$linux4:8081/length; proxy_request_buffering on; }
location = /length { return 200 "hello\n"; } } }
END
start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
eventually listens "$linux4" 8081

head -c 8388608 /dev/urandom >"$scratch/clean"
cp "$scratch/clean" "$scratch/dirty"
printf 'evil.example' | dd of="$scratch/dirty" bs=1 seek=6291450 conv=notrunc status=none

for link in '' '--loss 0.01 --reorder 0.02'; do
    for action in log close; do
        cat >"$scratch/lb.toml" <<END
[frontends.web]
listen = ["$ours4:80"]
pool = "app"
match = { file = "patterns", action = "$action" }

[pools.app]
backends = ["$linux4:8081"]
END
        label="lb, $action${link:+, impaired}"
        # shellcheck disable=SC2086 # options
        start lb.log "$LONGSHORE" lb --config "$scratch/lb.toml" "${our_addresses[@]}" --control "$scratch/control" $link
        lb=$started
        eventually listens "$ours4" 80
        eventually at_least pattern_sets 1
        try "match, $label: an upload without a pattern arrives" fetch "http://$ours4/sink" --data-binary "@$scratch/clean"
        case $action in
        log) try "match, $label: one with a pattern too" fetch "http://$ours4/sink" --data-binary "@$scratch/dirty" ;;
        close) try "match, $label: one with a pattern does not" refused "http://$ours4/sink" --data-binary "@$scratch/dirty" ;;
        esac
        try "match, $label: the log names the pattern" grep -q 'line 2 of .*evil.example' "$scratch/lb.log"
        try "match, $label: the NIC has searched" at_least PatternBytesByNic 4000000
        echo "# by the NIC $(counter PatternBytesByNic) bytes, by software $(counter PatternBytesBySoftware)"
        stop "$lb"
    done
done

name='match: a wrong file is told by line'
echo '/(/' >"$scratch/patterns"
if "$LONGSHORE" config check "$scratch/lb.toml" 2>"$scratch/check.log"; then
    not_ok "$name" 'the configuration was accepted'
elif grep -q 'match.file.*patterns: line 1: the expression is wrong' "$scratch/check.log"; then
    ok "$name"
else
    not_ok "$name" "$(tail -n 1 "$scratch/check.log")"
fi
