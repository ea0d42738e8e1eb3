# `longshore serve --cores`: two servers with a NIC each, in one process and with one address, and clients over both of them.
. "$(dirname "$0")/harness.sh"
needs curl openssl ip

ip link set lo up
ip tuntap add dev "$tap" mode tap vnet_hdr multi_queue || exit 1
sysctl -q -w "net.ipv6.conf.$tap.accept_dad=0" 2>/dev/null
ip addr add "$linux4/24" dev "$tap"
ip -6 addr add "$linux6/64" dev "$tap" nodad
ip link set "$tap" up
make_certificates
make_file large 4194304
# Text that no cipher makes by chance.
mark=plaintext-of-a-file-that-must-not-be-on-the-wire
yes "$mark" | head -c 65536 >"$scratch/root/marked"

cores=2
[[ $(nproc) -lt 2 ]] || cores=$(taskset -pc $$ 2>/dev/null | sed 's/.*: //; s/-/,/' | cut -d, -f1,2)
serve() { # OPTION…
    start serve.log setsid "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" \
        --control "$scratch/control" --cores "$cores" "$@"
    serve=$started
    eventually listens "$ours4" 443
}
# of GROUP COUNTER
of() {
    "$LONGSHORE" stat --all "$scratch/control" 2>/dev/null | awk -v group="$1 statistics:" -v name="$2:" \
        '/ statistics:$/ { here = $0 == group } here && $1 == name { print $2; exit }'
}
if ! serve; then
    not_ok 'a server on two cores' "$(last_words serve.log)"
    exit
fi

# same COUNT FILE PARALLEL OPTION…: so many downloads, each on a connection of its own, over both families by turns.
same() {
    local count=$1 file=$2 parallel=$3 list=() i wrong=0
    shift 3
    for ((i = 0; i < count; i++)); do list+=(-o "$scratch/got-$i" "https://$(url_address $((4 + i % 2 * 2)) ours)/$file"); done
    curl -s --no-progress-meter --max-time "$patience" --parallel --parallel-immediate --parallel-max "$parallel" --http1.1 -H 'Connection: close' \
        --cacert "$scratch/ca.pem" "$@" "${list[@]}"
    for ((i = 0; i < count; i++)); do cmp -s "$scratch/root/$file" "$scratch/got-$i" || wrong=$((wrong + 1)); done
    rm -f "$scratch"/got-*
    why="$wrong of $count differ"
    [[ $wrong -eq 0 ]]
}
both_work() { # COUNTER LEAST
    local first second total
    first=$(of 'worker 0' "$1") second=$(of 'worker 1' "$1") total=$(of http "$1")
    why="$1: $first and $second of $total"
    [[ ${first:-0} -ge $2 && ${second:-0} -ge $2 && $total -eq $((first + second)) ]]
}
try 'many connections, the bytes compared' same 60 marked 12
try 'sixteen downloads at once, the bytes compared' same 16 large 16
try 'both cores have accepted some' both_work connections 10
try 'both cores have answered requests' both_work requests 10

encrypted() {
    why="tx_tls_encrypted_packets is $(of nic tx_tls_encrypted_packets)"
    [[ $(of nic tx_tls_encrypted_packets) -gt 1000 ]]
}
try 'the NICs have encrypted' encrypted
if command -v ping >/dev/null; then
    one_answer() {
        local text
        text=$(ping -c 3 -i 0.2 -W 5 "$ours4" 2>&1; ping -c 3 -i 0.2 -W 5 "$ours6" 2>&1)
        why=$(tr '\n' ' ' <<<"$text" | cut -c 1-300)
        [[ $(grep -c 'icmp_seq' <<<"$text") -eq 6 && $text != *DUP* ]]
    }
    try 'a ping has one answer' one_answer
fi
if [[ $cores == *,* ]]; then
    pinned() {
        local task lists
        lists=$(for task in /proc/"$serve"/task/*; do awk '/^Cpus_allowed_list/ { print $2 }' "$task/status"; done | sort -nu | tr '\n' ' ')
        why="$lists, not ${cores/,/ }"
        [[ $lists == "${cores/,/ } " ]]
    }
    try 'each thread has its processor' pinned
fi

# Under load: connections that stay, reloads, and then the end.
capture=
if command -v tshark >/dev/null; then
    start tshark.log tshark -q -i "$tap" -w "$scratch/wire.pcapng"
    capture=$started
    eventually grep -q '^Capturing on' "$scratch/tshark.log"
fi
# Eight at a time, each on a connection of its own.
curl -s --no-progress-meter --max-time "$patience" --parallel --parallel-max 8 --http1.1 -H 'Connection: close' --cacert "$scratch/ca.pem" -o /dev/null \
    -w '%{http_code}\n' "https://$ours4/marked?[1-100000]" >"$scratch/codes" 2>"$scratch/load.log" &
load=$!
pids+=("$load")
answered() { [[ $(wc -l <"$scratch/codes") -ge $1 ]] || ! kill -0 "$load"; }
eventually answered 40
for i in 1 2 3; do "$LONGSHORE" reload "$scratch/control" >"$scratch/reload.log" 2>&1 || break; done
if [[ $(cat "$scratch/reload.log") == reloaded ]]; then ok 'a reload under load'; else not_ok 'a reload under load' "$(last_words reload.log)"; fi
before=$(wc -l <"$scratch/codes")
eventually answered $((before + 40))
wrong=$(grep -cv '^200$' "$scratch/codes")
if [[ $wrong -eq 0 && $(wc -l <"$scratch/codes") -ge $((before + 40)) ]]; then ok 'no client notices'; else not_ok 'no client notices' "$wrong of $(wc -l <"$scratch/codes") failed"; fi
lists() {
    local listing
    listing=$("$LONGSHORE" ss "$scratch/control" 2>&1)
    why="$(grep -c LISTEN <<<"$listing") listeners: $(tail -n 3 <<<"$listing" | tr '\n' ' ' | cut -c 1-200)"
    [[ $(grep -c LISTEN <<<"$listing") -eq 4 ]] && grep -q 'ESTAB\|TIME-WAIT\|FIN-WAIT' <<<"$listing"
}
try 'longshore ss has the sockets of both' lists
status=0
kill "$serve"
wait "$serve" || status=$?
if [[ $status -eq 0 ]] && ! grep -qi 'panicked\|error' "$scratch/serve.log"; then ok 'SIGTERM ends it under load'; else
    not_ok 'SIGTERM ends it under load' "exit $status: $(last_words serve.log)"
fi
stop "$load"
if [[ -n $capture ]]; then
    stop "$capture"
    if [[ $(wc -c <"$scratch/wire.pcapng") -lt 1000000 ]]; then
        not_ok 'no plaintext on the wire' "only $(wc -c <"$scratch/wire.pcapng") bytes in the capture: $(last_words tshark.log)"
    elif grep -qaF "$mark" "$scratch/wire.pcapng"; then
        not_ok 'no plaintext on the wire' 'it is in the capture'
    else
        ok 'no plaintext on the wire'
    fi
fi

# A link that loses and reorders.
if serve "${impaired[@]}"; then
    try 'an impaired link: downloads at once, the bytes compared' same 6 large 6
    try 'an impaired link: many connections, the bytes compared' same 30 marked 10
    try 'an impaired link: both cores have accepted some' both_work connections 3
else
    not_ok 'a server on two cores with an impaired link' "$(last_words serve.log)"
fi
stop "$serve"

# An interface that was made with one queue.
ip tuntap add dev ls1 mode tap
if "$LONGSHORE" serve --tap ls1 --ip 10.78.0.2/24 --root "$scratch/root" --cores 2 >"$scratch/refused.log" 2>&1; then
    not_ok 'an interface with one queue is refused' 'it is not'
elif grep -q 'ls1 exists but is not a TAP device with several queues: .* multi_queue' "$scratch/refused.log"; then
    ok 'an interface with one queue is refused'
else
    not_ok 'an interface with one queue is refused' "$(last_words refused.log)"
fi
