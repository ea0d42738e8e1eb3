# What `serve --pcap --keylog` wrote, tshark decrypts: with the key log, and with the secrets inside the capture.
. "$(dirname "$0")/harness.sh"
needs tshark curl openssl ip

make_tap && make_certificates
make_file page.bin 300000

# exported_is_the_file TSHARK OPTION…
exported_is_the_file() {
    rm -rf "$scratch/objects"
    tshark -r "$scratch/capture.pcapng" "$@" -Q --export-objects "http,$scratch/objects" >"$scratch/tshark.log" 2>&1
    local object
    for object in "$scratch"/objects/*; do
        cmp -s "$object" "$scratch/root/page.bin" && return 0
    done
    return 1
}

for suite in "${suites[@]}"; do
    read -r version cipher suite_name <<<"$suite"
    name="TLS $version $suite_name"
    rm -f "$scratch/capture.pcapng" "$scratch/keys"
    start serve.log "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --cert "$scratch/leaf.pem" \
        --key "$scratch/leaf.key" --offload both --pcap "$scratch/capture.pcapng" --keylog "$scratch/keys"
    serve=$started
    if ! eventually listens "$ours4" 443; then
        not_ok "capture, $name" "serve did not start: $(last_words serve.log)"
        stop "$serve"
        continue
    fi
    pick=(--tlsv1.2 --tls-max 1.2 --ciphers "$cipher")
    [[ $version == 1.3 ]] && pick=(--tlsv1.3 --tls13-ciphers "$cipher")
    curl -s --http1.1 --max-time 30 --cacert "$scratch/ca.pem" "${pick[@]}" -o "$scratch/got" "https://$ours4/page.bin"
    sleep 0.3
    stop "$serve"
    if ! cmp -s "$scratch/got" "$scratch/root/page.bin"; then
        not_ok "capture, $name" 'the download itself went wrong'
        continue
    fi
    if exported_is_the_file -o "tls.keylog_file:$scratch/keys"; then
        ok "capture, $name, decrypted by tshark with the key log"
    else
        not_ok "capture, $name, decrypted by tshark with the key log" "$(last_words tshark.log)"
    fi
    if exported_is_the_file; then
        ok "capture, $name, decrypted by tshark with the secrets inside"
    else
        not_ok "capture, $name, decrypted by tshark with the secrets inside" "$(last_words tshark.log)"
    fi
done

# ---- a client's capture: its keys are made of a frame that has passed already ---------------------------------
(cd "$scratch/root" && exec openssl s_server -accept 4444 -cert "$scratch/leaf.pem" -key "$scratch/leaf.key" -quiet -WWW) \
    >"$scratch/server.log" 2>&1 &
pids+=($!)
sleep 0.5
"$LONGSHORE" get "https://$linux4:4444/page.bin" "${our_addresses[@]}" --peer-ip "$linux4/24" --insecure --quiet \
    --output "$scratch/got" --pcap "$scratch/capture.pcapng" >"$scratch/get.log" 2>&1
if ! cmp -s "$scratch/got" "$scratch/root/page.bin"; then
    not_ok 'capture of get' "the download itself went wrong: $(last_words get.log)"
elif tshark -r "$scratch/capture.pcapng" -d tcp.port==4444,tls -Y http.request -T fields -e http.request.uri 2>/dev/null | grep -q page.bin; then
    ok 'capture of get, decrypted by tshark with the secrets inside'
else
    not_ok 'capture of get, decrypted by tshark with the secrets inside' 'no request in it'
fi
