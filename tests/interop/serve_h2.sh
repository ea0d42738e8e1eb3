# HTTP/2 from `longshore serve`: curl, nghttp and h2load, on a good link and on a bad one; what the log, the counters and a capture say of it.
. "$(dirname "$0")/harness.sh"
needs curl openssl ip

make_tap && make_certificates
make_file large 4194304
make_file page 262144
make_file small 1000
for i in {1..100}; do make_file "f$i" $((i * 700)); done
# What would be found in a capture if it were in clear.
yes 'plain text of a page' | head -c 300000 >"$scratch/root/text"

# serve LABEL OPTION…
serve() {
    local label=$1
    shift
    rm -f "$scratch/log" "$scratch/capture.pcapng"
    start "serve-$label.log" "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --cert "$scratch/leaf.pem" \
        --key "$scratch/leaf.key" --control "$scratch/control" --access-log "$scratch/log" "$@"
    serve=$started serve_log=serve-$label.log
    eventually listens "$ours4" 443
}
counter() { "$LONGSHORE" stat "$scratch/control" 2>/dev/null | awk -v name="$1:" '$1 == name { print $2; exit }'; }
get() { curl -s --http2 --max-time 60 --cacert "$scratch/ca.pem" "$@"; }

# is NAME EXPECTED ACTUAL
is() { if [[ $3 == "$2" ]]; then ok "$1"; else not_ok "$1" "'$3', not '$2'"; fi; }

# same FILE…: each was fetched whole.
same() {
    local file
    for file in "$@"; do
        cmp -s "$scratch/root/$file" "$scratch/got-$file" || { why="$file differs: $(last_words "$serve_log")"; return 1; }
    done
}

# At a time, over one connection.
a_hundred() {
    local list=() files=() i got
    for i in {1..100}; do list+=(-o "$scratch/got-f$i" "https://$ours4/f$i") files+=("f$i"); done
    rm -f "$scratch"/got-*
    got=$(counter connections)
    get --no-progress-meter --parallel --parallel-max 100 "${list[@]}" || { why="curl exit $?"; return 1; }
    same "${files[@]}" || return 1
    why="$(($(counter connections) - got)) connections"
    [[ $(counter connections) -le $((got + 2)) ]]
}

# fetches: the large file, and a part of it.
fetches() {
    rm -f "$scratch"/got-*
    get -o "$scratch/got-large" "https://$ours4/large" -o "$scratch/got-text" "https://$ours4/text" || { why="curl exit $?"; return 1; }
    same large text || return 1
    get -r 100000-299999 -o "$scratch/got" "https://$ours4/large"
    why='a part differs'
    cmp -s "$scratch/got" <(tail -c +100001 "$scratch/root/large" | head -c 200000)
}

# ---- a good link ---------------------------------------------------------------------------------------------
if serve good --pcap "$scratch/capture.pcapng"; then
    is 'HTTP/2 is agreed on' '2 200' "$(get -o /dev/null -w '%{http_version} %{http_code}' "https://$ours4/small")"
    is 'HTTP/1.1 is, if a client wants that' '1.1 200' \
        "$(curl -s --http1.1 --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_version} %{http_code}' "https://$ours4/small")"
    try 'curl: files are whole' fetches
    try 'curl: a hundred at a time' a_hundred
    is 'curl: head, missing file and upload' '200 404 405' "$(get -o /dev/null -w '%{http_code} ' -I "https://$ours4/small" \
        --next -s --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_code} ' "https://$ours4/absent" \
        --next -s --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_code}' --data-binary @"$scratch/root/large" "https://$ours4/small")"
    name='the NIC reads files in place and encrypts them'
    if [[ $(counter file_bytes_zero_copy) -gt 4000000 && $(counter tx_tls_encrypted_packets) -gt 50 ]]; then ok "$name"; else
        not_ok "$name" "file_bytes_zero_copy is $(counter file_bytes_zero_copy), tx_tls_encrypted_packets $(counter tx_tls_encrypted_packets)"
    fi
    logs() { grep -q '"GET /f100 HTTP/2.0" 200 70000 "-" "curl/' "$scratch/log"; }
    try 'the access log has it' eventually logs

    if command -v nghttp >/dev/null; then
        nghttp --null-out --stat --no-verify-peer "https://$ours4/large" "https://$ours4/small" >"$scratch/nghttp.log" 2>&1
        is 'nghttp: two files' 2 "$(grep -c ' 200 .* /\(large\|small\)$' "$scratch/nghttp.log")"
    else
        skip 'nghttp: two files' 'no nghttp'
    fi
    stop "$serve"
    if grep -qa 'plain text of a page' "$scratch/capture.pcapng"; then not_ok 'no clear text on the wire' 'it is there'; else
        ok 'no clear text on the wire'
    fi
    if command -v tshark >/dev/null; then
        malformed=$(tshark -r "$scratch/capture.pcapng" -Y '_ws.malformed && http2' 2>/dev/null | head -n 3)
        path=$(tshark -r "$scratch/capture.pcapng" -Y http2.headers.path -T fields -e http2.headers.path 2>/dev/null | grep -o '/f100$')
        is 'tshark reads it with the keys' '/f100 ' "$path $malformed"
    else
        skip 'tshark reads it with the keys' 'no tshark'
    fi
else
    not_ok 'HTTP/2 from serve' "serve did not start: $(last_words "$serve_log")"
fi

# ---- many streams --------------------------------------------------------------------------------------------
if serve load; then
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
else
    not_ok 'many streams' "serve did not start: $(last_words "$serve_log")"
fi
stop "$serve"

# ---- a bad one, and software ---------------------------------------------------------------------------------
if serve impaired "${impaired[@]}"; then
    try 'impaired: files are whole' fetches
    try 'impaired: a hundred at a time' a_hundred
else
    not_ok 'impaired' "serve did not start: $(last_words "$serve_log")"
fi
stop "$serve"

if serve software --offload none; then
    try 'software: files are whole' fetches
else
    not_ok 'software' "serve did not start: $(last_words "$serve_log")"
fi
stop "$serve"

if serve without --no-http2; then
    is 'without HTTP/2: HTTP/1.1 is agreed on' '1.1 200' "$(get -o /dev/null -w '%{http_version} %{http_code}' "https://$ours4/small")"
else
    not_ok 'without HTTP/2' "serve did not start: $(last_words "$serve_log")"
fi
stop "$serve"
