# curl downloads from `longshore serve`: every version and cipher, IPv4 and IPv6, with and without impairment.
. "$(dirname "$0")/harness.sh"
needs curl openssl ip

make_tap && make_certificates
make_file large 8388608
make_file small 1000
printf '<p>index</p>\n' >"$scratch/root/index.html"

serve=0
# serve LABEL OPTION…
serve() {
    local label=$1
    shift
    start "serve-$label.log" "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" \
        --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" --control "$scratch/control" "$@"
    serve=$started serve_log=serve-$label.log
    eventually listens "$ours4" 443
}

# fetch FAMILY VERSION CIPHER OPTION…: the large file, with what was negotiated checked.
fetch() {
    local family=$1 version=$2 cipher=$3
    shift 3
    local pick
    if [[ $version == 1.3 ]]; then
        pick=(--tlsv1.3 --tls13-ciphers "$cipher")
    else
        pick=(--tlsv1.2 --tls-max 1.2 --ciphers "$cipher")
    fi
    rm -f "$scratch/got"
    curl --silent --show-error --verbose --max-time 90 --cacert "$scratch/ca.pem" "${pick[@]}" "$@" \
        --output "$scratch/got" "https://$(url_address "$family" ours)/large" 2>"$scratch/curl.log" || {
        why="curl exit $?: $(grep -a '^curl:' "$scratch/curl.log" | tail -n 1)"
        return 1
    }
    cmp -s "$scratch/root/large" "$scratch/got" || { why='the bytes differ'; return 1; }
    grep -q "SSL connection using TLSv$version / $cipher" "$scratch/curl.log" ||
        { why="negotiated $(grep -a 'SSL connection using' "$scratch/curl.log")"; return 1; }
}

every_suite() { # LABEL FAMILY…
    local label=$1 family version cipher name
    shift
    for family in "$@"; do
        for suite in "${suites[@]}"; do
            read -r version cipher name <<<"$suite"
            if fetch "$family" "$version" "$cipher"; then
                ok "curl from serve, $label, TLS $version $name, IPv$family"
            else
                not_ok "curl from serve, $label, TLS $version $name, IPv$family" "$why"
            fi
        done
    done
}

counter() { "$LONGSHORE" stat "$scratch/control" 2>/dev/null | awk -v name="$1:" '$1 == name { print $2; exit }'; }

# The offload must have done the work, or the cases above would prove nothing about it.
offload_did_it() {
    local packets
    packets=$(counter tx_tls_encrypted_packets)
    if [[ ${packets:-0} -gt 1000 ]]; then
        ok "serve, $1: the NIC encrypted $packets packets"
    else
        not_ok "serve, $1: the NIC encrypted" "tx_tls_encrypted_packets is '${packets:-absent}'"
    fi
}

# ---- no impairment -------------------------------------------------------------------------------------------
if serve offload --offload both; then
    every_suite offload 4 6
    offload_did_it offload

    name='curl from serve: a range'
    curl -s --max-time 20 --cacert "$scratch/ca.pem" -r 100000-299999 -o "$scratch/got" "https://$ours4/large"
    if cmp -s "$scratch/got" <(tail -c +100001 "$scratch/root/large" | head -c 200000); then
        ok "$name"
    else
        not_ok "$name" 'the bytes differ'
    fi

    name='curl from serve: HEAD, missing file, index and keep-alive'
    codes=$(curl -s --max-time 20 --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_code} ' -I "https://$ours4/small" \
        --next -s --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_code} ' "https://$ours4/absent" \
        --next -s --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_code}:%{num_connects}' "https://$ours4/")
    if [[ $codes == '200 404 200:0' ]]; then ok "$name"; else not_ok "$name" "status codes and connects: $codes"; fi

    name='curl from serve: 16 at once'
    list=()
    for i in {1..16}; do list+=(-o "$scratch/got-$i" "https://$ours4/large"); done
    curl -s --no-progress-meter --max-time 120 --parallel --parallel-immediate --parallel-max 16 --http1.1 --cacert "$scratch/ca.pem" "${list[@]}"
    wrong=0
    for i in {1..16}; do cmp -s "$scratch/root/large" "$scratch/got-$i" || wrong=$((wrong + 1)); done
    rm -f "$scratch"/got-*
    if [[ $wrong -eq 0 ]]; then ok "$name"; else not_ok "$name" "$wrong of 16 differ"; fi

    name='longshore ss lists a live connection'
    curl -s --max-time 60 --limit-rate 2M --cacert "$scratch/ca.pem" -o /dev/null "https://$ours4/large" &
    slow=$!
    pids+=("$slow")
    sleep 1
    listing=$("$LONGSHORE" ss "$scratch/control" 2>&1)
    if grep -q ESTAB <<<"$listing" && grep -q 'cwnd' <<<"$listing"; then
        ok "$name"
    else
        not_ok "$name" "$(tr '\n' ' ' <<<"$listing" | cut -c 1-200)"
    fi
    stop "$slow"

    name='serve refuses TLS 1.1 and answers with an alert'
    curl -s --max-time 20 --insecure --tlsv1.0 --tls-max 1.1 -o /dev/null "https://$ours4/small" --ciphers 'ALL:@SECLEVEL=0'
    if [[ $? -eq 35 ]]; then ok "$name"; else not_ok "$name" "curl did not fail with 35"; fi
else
    not_ok 'curl from serve, offload' "serve did not start: $(last_words "$serve_log")"
fi
stop "$serve"

if serve software --offload none; then
    for suite in "${suites[@]}"; do
        read -r version cipher name <<<"$suite"
        if fetch 4 "$version" "$cipher"; then
            ok "curl from serve, software, TLS $version $name, IPv4"
        else
            not_ok "curl from serve, software, TLS $version $name, IPv4" "$why"
        fi
    done
else
    not_ok 'curl from serve, software' "serve did not start: $(last_words "$serve_log")"
fi
stop "$serve"

# ---- with loss and reordering --------------------------------------------------------------------------------
if serve impaired --offload both "${impaired[@]}"; then
    every_suite 'offload, impaired' 4 6
    offload_did_it 'impaired'
else
    not_ok 'curl from serve, impaired' "serve did not start: $(last_words "$serve_log")"
fi
stop "$serve"
