# `longshore get` from nginx: every version and cipher, IPv4 and IPv6, with and without impairment.
. "$(dirname "$0")/harness.sh"
needs nginx openssl ip zstd

make_tap && make_certificates
make_file large 8388608
chmod -R a+rX "$scratch"

# One port for each suite.
{
    echo "daemon off; worker_processes 1; pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;"
    [[ $(id -u) -eq 0 ]] && echo 'user root;'
    echo 'events { worker_connections 256; }'
    echo "http { access_log off; sendfile on; default_type application/octet-stream;"
    for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/nginx-$kind;"; done
    port=4430
    for suite in "${suites[@]}"; do
        read -r version cipher name <<<"$suite"
        echo "server { listen $linux4:$port ssl; listen [$linux6]:$port ssl; root $scratch/root;"
        echo "ssl_certificate $scratch/leaf.pem; ssl_certificate_key $scratch/leaf.key; ssl_protocols TLSv$version;"
        if [[ $version == 1.3 ]]; then echo "ssl_conf_command Ciphersuites $cipher;"; else echo "ssl_ciphers $cipher;"; fi
        echo '}'
        port=$((port + 1))
    done
    # What compresses: gzip as it goes, and zstd beforehand.
    echo "server { listen $linux4:4480; listen $linux4:4481 ssl; root $scratch/root; gzip on;"
    echo "ssl_certificate $scratch/leaf.pem; ssl_certificate_key $scratch/leaf.key; ssl_protocols TLSv1.3; gzip_types application/octet-stream;"
    # A ticket that comes before the NIC knows the connection lets it miss the beginning of the response, of which it then decompresses nothing.
    echo "ssl_conf_command NumTickets 0;"
    echo 'location /moved { return 302 /text; }'
    echo 'location /zstd { gzip off; add_header Content-Encoding zstd; } }'
    echo '}'
} >"$scratch/nginx.conf"

start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
if ! eventually listens "$linux4" 4430; then
    skip 'get from nginx' "nginx did not start: $(last_words nginx.log)"
    exit
fi

for label in offload impaired software; do
    options=(--offload both) families='4 6'
    [[ $label == software ]] && options=(--offload none) families=4
    [[ $label == impaired ]] && options+=("${impaired[@]}")
    for family in $families; do
        port=4430
        for suite in "${suites[@]}"; do
            read -r version cipher suite_name <<<"$suite"
            name="get from nginx, $label, TLS $version $suite_name, IPv$family"
            rm -f "$scratch/got"
            timeout 90 "$LONGSHORE" get "https://$(url_address "$family" linux):$port/large" "${our_addresses[@]}" \
                --ca "$scratch/ca.pem" -o "$scratch/got" "${options[@]}" >"$scratch/get.log" 2>&1
            code=$?
            if [[ $code -ne 0 ]]; then
                not_ok "$name" "exit $code: $(last_words get.log)"
            elif cmp -s "$scratch/root/large" "$scratch/got"; then
                ok "$name"
            else
                not_ok "$name" 'the bytes differ'
            fi
            port=$((port + 1))
        done
    done
done

name='get refuses a certificate that no authority signed'
if timeout 30 "$LONGSHORE" get "https://$linux4:4433/large" "${our_addresses[@]}" -o /dev/null >"$scratch/get.log" 2>&1; then
    not_ok "$name" 'it was accepted'
elif grep -qi 'certificate' "$scratch/get.log"; then
    ok "$name"
else
    not_ok "$name" "the error does not say so: $(last_words get.log)"
fi

name='get --insecure accepts it'
timeout 30 "$LONGSHORE" get "https://$linux4:4433/large" "${our_addresses[@]}" --insecure -o "$scratch/got" >"$scratch/get.log" 2>&1
if cmp -s "$scratch/root/large" "$scratch/got"; then ok "$name"; else not_ok "$name" "the bytes differ: $(last_words get.log)"; fi

name='get says so when a file is missing'
if timeout 30 "$LONGSHORE" get "https://$linux4:4433/absent" "${our_addresses[@]}" --insecure -o /dev/null >"$scratch/get.log" 2>&1; then
    not_ok "$name" 'exit 0'
elif grep -q 404 "$scratch/get.log"; then
    ok "$name"
else
    not_ok "$name" "the error does not say 404: $(last_words get.log)"
fi

name='get says so when nobody listens'
if timeout 30 "$LONGSHORE" get "https://$linux4:9/x" "${our_addresses[@]}" --insecure -o /dev/null >"$scratch/get.log" 2>&1; then
    not_ok "$name" 'exit 0'
elif grep -qi 'refused' "$scratch/get.log"; then
    ok "$name"
else
    not_ok "$name" "the error does not say refused: $(last_words get.log)"
fi

head --bytes 5M /dev/urandom | od -An -tx1 -v >"$scratch/root/text"
size=$(stat --format %s "$scratch/root/text")
truncate -s 64M "$scratch/root/zeroes"
zstd --quiet "$scratch/root/text" -o "$scratch/root/zstd"
chmod -R a+rX "$scratch/root"
compressed() { timeout 90 "$LONGSHORE" get "$1" "${our_addresses[@]}" --ca "$scratch/ca.pem" --compressed "${@:2}" >"$scratch/get.log" 2>&1; }
# Who decompresses is told: all of it the NIC, some of it, or software.
for label in offload impaired software; do
    options=() share="$size of them by the NIC"
    [[ $label == impaired ]] && options=("${impaired[@]}") share='[0-9]* of them by the NIC'
    [[ $label == software ]] && options=(--offload none) share='0 of them by the NIC'
    for place in "http://$linux4:4480" "https://$linux4:4481"; do
        for pair in text:gzip zstd:zstd; do
            name="get decompresses ${pair#*:}, $label, ${place%%:*}"
            rm -f "$scratch/got"
            if ! compressed "$place/${pair%:*}" -o "$scratch/got" "${options[@]}"; then
                not_ok "$name" "$(last_words get.log)"
            elif ! cmp -s "$scratch/root/text" "$scratch/got"; then
                not_ok "$name" 'the bytes differ'
            elif grep -q "$size bytes decompressed, $share" "$scratch/get.log"; then
                ok "$name"
            else
                not_ok "$name" "$(last_words get.log)"
            fi
        done
    done
done
name='get keeps nothing of the answer that sends it elsewhere'
if ! compressed "https://$linux4:4481/moved" -o "$scratch/got"; then
    not_ok "$name" "$(last_words get.log)"
elif cmp -s "$scratch/root/text" "$scratch/got"; then
    ok "$name"
else
    not_ok "$name" 'the bytes differ'
fi
name='get refuses a decompression bomb by name'
if compressed "http://$linux4:4480/zeroes" -o "$scratch/bomb" --max-size 8M; then
    not_ok "$name" 'it succeeded'
elif grep -q 'a decompression bomb' "$scratch/get.log" && [[ ! -e $scratch/bomb ]]; then
    ok "$name"
else
    not_ok "$name" "$(last_words get.log)"
fi
