# `longshore get` from openssl s_server: versions and ciphers, and key updates that the server asks for.
. "$(dirname "$0")/harness.sh"
needs openssl ip

make_tap && make_certificates
make_file large 4194304

fetch() { # URL OPTION…
    local url=$1
    shift
    rm -f "$scratch/got"
    timeout 60 "$LONGSHORE" get "$url" "${our_addresses[@]}" --ca "$scratch/ca.pem" -o "$scratch/got" "$@" >"$scratch/get.log" 2>&1
}

# ---- -WWW: files, HTTP/1.0, the end of the connection is the end of the body -----------------------------------
port=4500
for suite in "${suites[@]}"; do
    read -r version cipher suite_name <<<"$suite"
    pick=(-tls1_2 -cipher "$cipher")
    [[ $version == 1.3 ]] && pick=(-tls1_3 -ciphersuites "$cipher")
    for family in 4 6; do
        port=$((port + 1))
        cd "$scratch/root" || exit 1
        start s_server.log openssl s_server -accept "$(url_address "$family" linux):$port" -WWW -quiet \
            -cert "$scratch/leaf.pem" -key "$scratch/leaf.key" "${pick[@]}"
        server=$started
        eventually listens "$(address "$family" linux)" "$port"
        for label in offload impaired; do
            options=(--offload both)
            [[ $label == impaired ]] && options+=("${impaired[@]}")
            name="get from s_server, $label, TLS $version $suite_name, IPv$family"
            if ! fetch "https://$(url_address "$family" linux):$port/large" "${options[@]}"; then
                not_ok "$name" "$(last_words get.log) $(last_words s_server.log)"
            elif cmp -s "$scratch/root/large" "$scratch/got"; then
                ok "$name"
            else
                not_ok "$name" 'the bytes differ'
            fi
        done
        stop "$server"
    done
done

# ---- key updates: s_server sends what stands on its stdin, and obeys `K` and `k` at the start of a read ---------
# Lines of digits, so that no chunk of the body is taken for a command.
seq -f '%063.0f' 1 32768 >"$scratch/root/lines"
size=$(stat -c %s "$scratch/root/lines")

for label in offload impaired software; do
    options=(--offload both)
    [[ $label == software ]] && options=(--offload none)
    [[ $label == impaired ]] && options+=("${impaired[@]}")
    for letter in k K; do
        port=$((port + 1))
        name="get from s_server, $label, the server changes its key in mid-download ($letter)"
        mkfifo "$scratch/commands-$port"
        # Opened for both directions, so that it waits for nobody; and named at the command itself, for what
        # runs in the background reads nothing otherwise.
        exec 5<>"$scratch/commands-$port"
        # Not what the server before it has said.
        : >"$scratch/s_server.log"
        openssl s_server -accept "$linux4:$port" -tls1_3 -naccept 2 \
            -cert "$scratch/leaf.pem" -key "$scratch/leaf.key" <&5 >"$scratch/s_server.log" 2>&1 &
        server=$!
        pids+=("$server")
        if ! eventually grep -aq ACCEPT "$scratch/s_server.log"; then
            not_ok "$name" "s_server did not start: $(last_words s_server.log)"
        else
            fetch "https://$linux4:$port/lines" "${options[@]}" &
            client=$!
            if eventually grep -aq 'GET /lines' "$scratch/s_server.log"; then
                printf 'HTTP/1.1 200 OK\r\nContent-Length: %s\r\nConnection: close\r\n\r\n' "$size" >&5
                third=$((size / 192 * 64))
                head -c "$third" "$scratch/root/lines" >&5
                sleep 0.5
                printf '%s\n' "$letter" >&5
                sleep 0.5
                tail -c "+$((third + 1))" "$scratch/root/lines" | head -c "$third" >&5
                sleep 0.5
                printf '%s\n' "$letter" >&5
                sleep 0.5
                tail -c "+$((third * 2 + 1))" "$scratch/root/lines" >&5
            fi
            wait "$client"
            code=$?
            if ! cmp -s "$scratch/root/lines" "$scratch/got"; then
                not_ok "$name" "exit $code, bytes differ: $(last_words get.log)"
            elif [[ $(grep -ac 'SSL_do_handshake -> 1' "$scratch/s_server.log") -lt 2 ]]; then
                not_ok "$name" 's_server sent no key update'
            else
                ok "$name"
            fi
        fi
        exec 5>&-
        stop "$server"
    done
done
