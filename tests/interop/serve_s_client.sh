# openssl s_client against `longshore serve`: every version and cipher, IPv4 and IPv6, key updates asked by the peer, resumption.
. "$(dirname "$0")/harness.sh"
needs openssl ip

make_tap && make_certificates
make_file large 4194304

# ask VERSION OPTION… : the commands on stdin go to s_client; the body of the last response must be the large file.
ask() {
    local version=$1
    shift
    timeout 60 openssl s_client -connect "$ours4:443" -servername longshore.test -CAfile "$scratch/ca.pem" \
        -verify_return_error "-tls${version/./_}" "$@" >"$scratch/answer" 2>"$scratch/s_client.log"
}

# every_suite LABEL: the body over each family, in each version with each cipher.
every_suite() {
    local suite family version cipher name pick
    for suite in "${suites[@]}"; do
        read -r version cipher name <<<"$suite"
        pick=(-tls1_2 -cipher "$cipher")
        [[ $version == 1.3 ]] && pick=(-tls1_3 -ciphersuites "$cipher")
        for family in 4 6; do
            { sleep 0.3; request 'Connection: close'$'\r\n'; } |
                timeout 60 openssl s_client -connect "$(url_address "$family" ours):443" -servername longshore.test \
                    -CAfile "$scratch/ca.pem" -verify_return_error -ign_eof "${pick[@]}" \
                    >"$scratch/answer" 2>"$scratch/s_client.log"
            case_of "s_client to serve, $1, TLS $version $name, IPv$family"
        done
    done
}

# What came after the last response head, as long as the file.
body_is_the_file() {
    local at size
    size=$(stat -c %s "$scratch/root/large")
    at=$(grep -abo $'^Content-Type: [a-z/-]*\r' "$scratch/answer" | tail -n 1 | cut -d: -f1)
    [[ -n $at ]] || { why="no response: $(last_words s_client.log)"; return 1; }
    local head
    head=$(grep -abo $'^\r$' <(tail -c "+$((at + 1))" "$scratch/answer") | head -n 1 | cut -d: -f1)
    cmp -s -n "$size" <(tail -c "+$((at + head + 3))" "$scratch/answer") "$scratch/root/large" ||
        { why='the bytes differ'; return 1; }
}

request() { printf 'GET /large HTTP/1.1\r\nHost: longshore.test\r\n%s\r\n' "${1:-}"; }
case_of() { # NAME
    if body_is_the_file; then ok "$1"; else not_ok "$1" "$why"; fi
}

for label in offload impaired software; do
    options=(--offload both)
    [[ $label == software ]] && options=(--offload none)
    [[ $label == impaired ]] && options+=("${impaired[@]}")
    start "serve-$label.log" "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" \
        --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" --control "$scratch/control" "${options[@]}"
    serve=$started
    if ! eventually listens "$ours4" 443; then
        not_ok "s_client to serve, $label" "serve did not start: $(last_words "serve-$label.log")"
        stop "$serve"
        continue
    fi

    every_suite "$label"

    # `k`: the client changes its own key. `K`: and asks the server to change its key too, here in mid-download.
    : >"$scratch/answer"
    { handshake_is_complete; printf 'k\n'; sleep 0.3; request 'Connection: close'$'\r\n'; sleep 2; } | ask 1.3
    case_of "s_client to serve, $label, TLS 1.3, the client's key changes (k)"

    : >"$scratch/answer"
    { handshake_is_complete; printf 'K\n'; sleep 0.3; request 'Connection: close'$'\r\n'; sleep 2; } | ask 1.3
    case_of "s_client to serve, $label, TLS 1.3, both keys change (K)"

    : >"$scratch/answer"
    { handshake_is_complete; request 'Connection: close'$'\r\n'; sleep 0.01; printf 'K\n'; sleep 2; } | ask 1.3
    case_of "s_client to serve, $label, TLS 1.3, both keys change in mid-download (K)"

    : >"$scratch/answer"
    { handshake_is_complete; request; sleep 0.7; for _ in 1 2 3; do printf 'K\n'; sleep 0.2; done
        request 'Connection: close'$'\r\n'; sleep 2; } | ask 1.3
    case_of "s_client to serve, $label, TLS 1.3, keys change three times between two responses"

    name="s_client to serve, $label, TLS 1.3, resumes a session"
    { sleep 0.5; request 'Connection: close'$'\r\n'; sleep 1; } | ask 1.3 -sess_out "$scratch/session"
    { sleep 0.5; request 'Connection: close'$'\r\n'; sleep 1; } | ask 1.3 -sess_in "$scratch/session"
    if ! body_is_the_file; then
        not_ok "$name" "$why"
    elif grep -aq '^Reused, TLSv1.3' "$scratch/answer"; then
        ok "$name"
    else
        not_ok "$name" 'a full handshake took place'
    fi
    stop "$serve"
done
