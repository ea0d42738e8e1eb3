# `longshore nic` with Linux behind a TAP and longshore's own stack in other processes behind rings: `serve --nic` and `get --nic`, to curl
# on the same machine and on the other end of the wire; and what happens when one of the processes dies.
. "$(dirname "$0")/harness.sh"
needs ip curl openssl unshare nsenter

ip link set lo up
make_certificates
peer4=10.77.0.3
control=$scratch/control state=$scratch/state files=$scratch/files.sock client=$scratch/client.sock
make_file large 8388608
make_file small 1000
make_file shrinks 25165824
make_file empty 0
# Nothing but digits, so that any of it shows in a capture.
seq -f '%063.0f' 1 131072 >"$scratch/root/digits"

other_host "$peer4"

# start_nic OPTION…: Linux is a host of it, and two programs may be; the peer is on its wire.
start_nic() {
    start nic.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --host "rings:$files" --host "rings:$client,mac=02:00:00:00:00:77" \
        --wire packet:w0 --control "$control" --state "$state" "$@"
    nic=$started
    eventually "$LONGSHORE" stat "$control"
}

# start_server OPTION…: what is in `inside` begins its command.
inside=()
start_server() {
    start serve.log ${inside[@]+"${inside[@]}"} "$LONGSHORE" serve --nic "$files" --ip "$ours4/24" --root "$scratch/root" --cert "$scratch/leaf.pem" \
        --key "$scratch/leaf.key" "$@"
    server=$started
    eventually listens "$ours4" 443
}

# fetch WHERE FILE OPTION…: by curl, there or here; the bytes compared.
fetch() {
    local where=$1 file=$2 run=()
    shift 2
    [[ $where == there ]] && run=(there)
    rm -f "$scratch/got"
    ${run[@]+"${run[@]}"} curl -sS --max-time 60 --cacert "$scratch/ca.pem" "$@" -o "$scratch/got" "https://$ours4/$file" 2>"$scratch/curl.log" ||
        { why="curl exit $?: $(last_words curl.log) $(last_words nic.log) $(last_words serve.log)"; return 1; }
    [[ -e $scratch/got ]] || : >"$scratch/got"
    cmp -s "$scratch/root/$file" "$scratch/got" || { why='the bytes differ'; return 1; }
}

# refused NAME SENTENCE COMMAND…: ends with exit code 1 and one error, with the sentence in it.
refused() {
    local name=$1 sentence=$2 code
    shift 2
    timeout 20 "$@" >"$scratch/refused.log" 2>&1
    code=$?
    if [[ $code == 1 && $(grep '^longshore: ' "$scratch/refused.log" | grep -vc ' waiting for ') == 1 ]] && grep -q -- "$sentence" "$scratch/refused.log"; then
        ok "$name"
    else
        not_ok "$name" "exit $code: $(last_words refused.log)"
    fi
}
get() { "$LONGSHORE" get --nic "$client" --ip 10.77.0.4/24 --ca "$scratch/ca.pem" --quiet "$@"; }

# ---- what can't be ------------------------------------------------------------------------------------------
one_file=(--ip "$ours4/24" --root "$scratch/root" --plain)
refused 'no such socket' "$files does not exist; start the NIC" "$LONGSHORE" serve --nic "$files" "${one_file[@]}"
refused 'two hosts of one address' 'give each --host a mac=' "$LONGSHORE" nic --host "rings:$files,mac=02:00:00:00:00:01" \
    --host "rings:$client,mac=02:00:00:00:00:01" --wire mem --control "$scratch/other" --state "$scratch/other-state"
touch "$scratch/plain-file"
refused 'a file where the socket is to be' 'is not a socket' "$LONGSHORE" nic --host "rings:$scratch/plain-file" --wire mem \
    --control "$scratch/other" --state "$scratch/other-state"
rm -rf "$scratch/other-state"

# ---- through the switch, and over the wire -------------------------------------------------------------------
if ! start_nic --pcap "$scratch/wire.pcapng" || ! start_server; then
    not_ok 'a server behind the NIC' "$(last_words nic.log) $(last_words serve.log)"
    exit
fi
refused 'the control socket' 'not of --control' "$LONGSHORE" serve --nic "$control" "${one_file[@]}"
refused 'a second program on one socket' 'one more --host rings:SOCKET' "$LONGSHORE" serve --nic "$files" "${one_file[@]}"
if setpriv --reuid=65534 --clear-groups true 2>/dev/null; then
    refused 'another user' 'permission denied to connect' setpriv --reuid=65534 --clear-groups "$LONGSHORE" get --nic "$client" --ip 10.77.0.4/24 \
        "https://$ours4/small" -o /dev/null --insecure
else
    skip 'another user' 'no other user here'
fi
for version in 1.2 1.3; do
    only=(--tlsv$version --tls-max $version)
    try "Linux's TCP to the server through the switch, TLS $version" fetch here large "${only[@]}"
    try "the wire to the server, TLS $version" fetch there large "${only[@]}"
done
try 'a small file' fetch there small
try 'an empty file' fetch there empty
encrypted=$(counter tx_tls_encrypted_bytes)
if [[ ${encrypted:-0} -gt 32000000 ]]; then ok "the NIC encrypts: $encrypted bytes"; else not_ok 'the NIC encrypts' "$encrypted bytes"; fi
if get "https://$ours4/large" -o "$scratch/got" 2>"$scratch/get.log" && cmp -s "$scratch/root/large" "$scratch/got"; then
    ok 'a client on rings from a server on rings'
else
    not_ok 'a client on rings from a server on rings' "$(last_words get.log)"
fi
decrypted=$(counter rx_tls_decrypted_bytes)
if [[ ${decrypted:-0} -gt 4000000 ]]; then ok "the NIC decrypts: $decrypted bytes"; else not_ok 'the NIC decrypts' "$decrypted bytes"; fi
if get "https://$ours4/small" -o "$scratch/got" 2>"$scratch/get.log"; then ok 'another client after it'; else
    not_ok 'another client after it' "$(last_words get.log)"
fi
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
before=$(($(ticks "$(worker)") + $(ticks "$server")))
sleep 3
spent=$(($(ticks "$(worker)") + $(ticks "$server") - before))
if [[ $spent -le 4 ]]; then ok 'idle, both sleep'; else not_ok 'idle, both sleep' "$spent ticks in 3 s"; fi

# ---- the NIC dies --------------------------------------------------------------------------------------------
# Downloads slowly while the NIC is killed, and again.
survives() {
    fetch "$1" digits --limit-rate 2M --tls-max "$2" &
    local download=$! time code
    for time in 1 2; do
        sleep 1
        eventually kill_worker
    done
    wait "$download"
    code=$?
    why="$(last_words curl.log) $(last_words nic.log) $(last_words serve.log)"
    return "$code"
}
try 'a download over the wire goes on when the NIC is killed, TLS 1.3' survives there 1.3
try 'a download through the switch goes on when the NIC is killed, TLS 1.2' survives here 1.2
has_come_back() { [[ $(grep -c 'is there again' "$scratch/serve.log") -ge 4 ]]; }
if eventually has_come_back; then ok 'the server has come back to each NIC'; else
    not_ok 'the server has come back to each NIC' "$(last_words serve.log)"
fi
before=$(counter tx_tls_encrypted_bytes)
try 'a new download' fetch there large
if [[ $(counter tx_tls_encrypted_bytes) -gt $((before + 8000000)) ]]; then ok 'the NIC encrypts it'; else
    not_ok 'the NIC encrypts it' "$(counter tx_tls_encrypted_bytes) bytes after $before"
fi

# ---- files from where they are; one shrinks while it is sent, and the server dies ----------------------------------
stop "$server"
if start_server --zerocopy; then try 'from the page cache, without a copy' fetch there large; else
    not_ok 'from the page cache, without a copy' "$(last_words serve.log)"
fi
before=$(worker)
there curl -s --max-time 30 --limit-rate 1M --cacert "$scratch/ca.pem" -o "$scratch/got" "https://$ours4/shrinks" &
download=$!
sleep 1
truncate --size 100 "$scratch/root/shrinks"
if wait "$download"; then not_ok 'a file that shrinks ends its download' 'it came whole'; else ok 'a file that shrinks ends its download'; fi
try 'others go on' fetch there large
there curl -s --max-time 30 --limit-rate 1M --cacert "$scratch/ca.pem" -o "$scratch/got" "https://$ours4/large" &
download=$!
sleep 1
kill -9 "$server"
wait "$server" 2>/dev/null
# A refusal comes from Linux.
linux_answers() {
    there curl -s --max-time 5 "http://$linux4:9/"
    [[ $? == 7 ]]
}
try 'Linux goes on when the server is killed' linux_answers
if start_server --offload rx; then try 'another server comes in its place' fetch there small; else
    not_ok 'another server comes in its place' "$(last_words serve.log)"
fi
kill "$download" 2>/dev/null
wait "$download" 2>/dev/null
stop "$server"

# ---- files whose pages the NIC does not wait for -------------------------------------------------------------------
# The files of the root, in an overlay in their place that only the command sees.
cat >"$scratch/in_overlay" <<'END'
#!/usr/bin/env bash
set -euo pipefail
root=$1 layers=$2
shift 2
mount -t tmpfs none "$layers"
mkdir "$layers/lower" "$layers/upper" "$layers/work"
cp "$root"/* "$layers/lower"
mount -t overlay none -o "lowerdir=$layers/lower,upperdir=$layers/upper,workdir=$layers/work" "$root"
exec "$@"
END
chmod +x "$scratch/in_overlay"
mkdir "$scratch/layers"
inside=(unshare --mount "$scratch/in_overlay" "$scratch/root" "$scratch/layers")
if "${inside[@]}" true 2>/dev/null; then
    inside+=(env RUST_LOG=debug)
    if start_server --zerocopy && fetch there large && grep -q 'sending by copying.*not a regular file on a local' "$scratch/serve.log"; then
        ok 'files of an overlay are copied'
    else
        not_ok 'files of an overlay are copied' "$(last_words serve.log)"
    fi
    stop "$server"
else
    skip 'files of an overlay are copied' 'no overlays here'
fi
inside=()
if [[ $(worker) == "$before" ]]; then ok 'the NIC has not been started again for that'; else
    not_ok 'the NIC has not been started again for that' "$(last_words nic.log)"
fi
stop "$nic"
if [[ -e $files || -e $client ]]; then not_ok 'the sockets go with the NIC' 'they are there'; else ok 'the sockets go with the NIC'; fi
if [[ $(stat -c %s "$scratch/wire.pcapng") -gt 1000000 ]]; then
    if grep -qa '000000000000000000000000000000000000000000000000' "$scratch/wire.pcapng"; then
        not_ok 'no plaintext on the wire' 'it is in the capture'
    else
        ok 'no plaintext on the wire'
    fi
else
    not_ok 'no plaintext on the wire' 'nothing was captured'
fi

# ---- a lossy wire ---------------------------------------------------------------------------------------------
if start_nic "${impaired[@]}" && start_server; then
    try 'over a wire with loss and reordering' fetch there large
    stop "$server"
    if start_server --accel teardown,lazy-tcb --handoff t4; then
        try 'a server whose connections the NIC runs and ends' fetch there large
        stop "$server"
    else
        not_ok 'a server whose connections the NIC runs and ends' "$(last_words serve.log)"
    fi
    stop "$nic"
else
    not_ok 'the NIC on a lossy wire' "$(last_words nic.log) $(last_words serve.log)"
fi
