# TLS 1.3 with an external pre-shared key: `get` from openssl s_server, s_client from `serve`, both cipher suites, with and
# without impairment, and what a wrong key or an unknown identity gets.
. "$(dirname "$0")/harness.sh"
needs openssl ip

make_tap && make_certificates
make_file large 4194304

identity='NVMe0R01 nqn.2014-08.org.example:host nqn.2014-08.org.example:disk'

# What s_server and s_client are given, and our file for the same key: AES-128-GCM by -psk, which knows no other suite.
theirs_128=(-psk_identity "$identity" -psk "$(printf '5a%.0s' {1..32})")
printf '%s:%s\n' "$identity" "$(printf '5a%.0s' {1..32})" >"$scratch/ours-128"

# AES-256-GCM by a session, of which one of OpenSSL's own connections makes the first.
make_session() {
    local port=4600
    start session.log openssl s_server -accept "$linux4:$port" -tls1_3 -ciphersuites TLS_AES_256_GCM_SHA384 \
        -cert "$scratch/leaf.pem" -key "$scratch/leaf.key" -quiet
    eventually listens "$linux4" $port || return 1
    { sleep 1; } | openssl s_client -connect "$linux4:$port" -tls1_3 -sess_out "$scratch/session.pem" >/dev/null 2>&1
    stop "$started"
    local key
    key=$(openssl sess_id -in "$scratch/session.pem" -noout -text | sed -n 's/.*Resumption PSK: *//p')
    [[ ${#key} -eq 96 ]] || return 1
    printf '%s:%s\n' "$identity" "$key" >"$scratch/ours-256"
}
theirs_256=(-psk_identity "$identity" -psk_session "$scratch/session.pem")
make_session || not_ok 'a session for AES-256-GCM' "$(last_words session.log)"

# ---- get from s_server ---------------------------------------------------------------------------------------
port=4610
fetch() { # KEYS OPTION…
    local keys=$1
    shift
    rm -f "$scratch/got"
    timeout 60 "$LONGSHORE" get "https://$linux4:$port/large" "${our_addresses[@]}" --psk "$keys" -o "$scratch/got" "$@" \
        >"$scratch/get.log" 2>&1
}

for bits in 128 256; do
    port=$((port + 1))
    declare -n theirs=theirs_$bits
    cd "$scratch/root" || exit 1
    start s_server.log openssl s_server -accept "$linux4:$port" -WWW -nocert -tls1_3 "${theirs[@]}"
    server=$started
    if ! eventually listens "$linux4" "$port"; then
        not_ok "get --psk from s_server, AES-$bits-GCM" "s_server did not start: $(last_words s_server.log)"
        continue
    fi
    for label in offload impaired software; do
        options=(--offload both)
        [[ $label == software ]] && options=(--offload none)
        [[ $label == impaired ]] && options+=("${impaired[@]}")
        name="get --psk from s_server, $label, AES-$bits-GCM"
        if ! fetch "$scratch/ours-$bits" "${options[@]}"; then
            not_ok "$name" "$(last_words get.log)"
        elif ! grep -q "AES-$bits-GCM" "$scratch/get.log"; then
            not_ok "$name" "another cipher: $(last_words get.log)"
        elif cmp -s "$scratch/root/large" "$scratch/got"; then
            ok "$name"
        else
            not_ok "$name" 'the bytes differ'
        fi
    done

    name="get --psk says that s_server has another key, AES-$bits-GCM"
    sed 's/:[^:]*$//' "$scratch/ours-$bits" | tr '\n' ':' >"$scratch/wrong"
    sed 's/.*://; s/./7/g' "$scratch/ours-$bits" >>"$scratch/wrong"
    if fetch "$scratch/wrong"; then
        not_ok "$name" 'exit 0'
    elif grep -q "another key for PSK identity \`$identity\`" "$scratch/get.log"; then
        ok "$name"
    else
        not_ok "$name" "$(last_words get.log)"
    fi
    stop "$server"
done

name='get --psk refuses a server that has a certificate only'
port=$((port + 1))
start s_server.log openssl s_server -accept "$linux4:$port" -WWW -tls1_3 -cert "$scratch/leaf.pem" -key "$scratch/leaf.key"
eventually listens "$linux4" "$port"
if fetch "$scratch/ours-128"; then not_ok "$name" 'exit 0'; else ok "$name"; fi
stop "$started"

# ---- s_client from serve -------------------------------------------------------------------------------------
request() { printf 'GET /large HTTP/1.1\r\nHost: longshore.test\r\nConnection: close\r\n\r\n'; }
ask() { timeout 60 openssl s_client -connect "$ours4:443" -tls1_3 "$@" >"$scratch/answer" 2>"$scratch/s_client.log"; }
# s_client stays until the file is there, or ten seconds behind the request.
change_keys_and_request() {
    handshake_is_complete
    printf 'K\n'
    eventually grep -qs KEYUPDATE "$scratch/s_client.log"
    request
    local waited=0
    while ((waited++ < 100)) && ! body_is_the_file; do sleep 0.1; done
}
# What comes last in the answer is the body, and then what s_client says at the end.
body_is_the_file() {
    local head size
    size=$(stat -c %s "$scratch/root/large")
    head=$(grep -abo $'^\r$' "$scratch/answer" | head -n 1 | cut -d: -f1)
    [[ -n $head ]] || { why="no response: $(last_words s_client.log)"; return 1; }
    cmp -s -n "$size" <(tail -c "+$((head + 3))" "$scratch/answer") "$scratch/root/large" || { why='the bytes differ'; return 1; }
}

for label in offload impaired software; do
    options=(--offload both)
    [[ $label == software ]] && options=(--offload none)
    [[ $label == impaired ]] && options+=("${impaired[@]}")
    for bits in 128 256; do
        declare -n theirs=theirs_$bits
        start serve.log env RUST_LOG=debug "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --psk "$scratch/ours-$bits" "${options[@]}"
        serve=$started
        if ! eventually listens "$ours4" 443; then
            not_ok "s_client to serve --psk, $label, AES-$bits-GCM" "serve did not start: $(last_words serve.log)"
            stop "$serve"
            continue
        fi
        name="s_client to serve --psk, $label, AES-$bits-GCM, both keys change (K)"
        : >"$scratch/answer"
        : >"$scratch/s_client.log"
        change_keys_and_request | ask "${theirs[@]}"
        if ! body_is_the_file; then
            not_ok "$name" "$why"
        elif grep -aq '^Reused, TLSv1.3' "$scratch/answer"; then
            ok "$name"
        else
            not_ok "$name" "$(grep -a 'Cipher is' "$scratch/answer")"
        fi

        if [[ $label == software ]]; then
            name="serve --psk refuses an unknown identity, AES-$bits-GCM"
            ask "${theirs[@]}" -psk_identity stranger </dev/null
            if grep -q 'unknown psk identity' "$scratch/s_client.log" && grep -q 'stranger' "$scratch/serve.log"; then
                ok "$name"
            else
                not_ok "$name" "$(last_words s_client.log) $(last_words serve.log)"
            fi
        fi
        stop "$serve"
    done
done
