# `longshore nic --cores`: two NICs in one process, each with some of the hosts. Hosts of both reach each other, Linux behind a TAP interface, and
# the other end of the wire; and what happens when the process dies under load, and when it is told to end.
. "$(dirname "$0")/harness.sh"
needs ip curl openssl unshare nsenter python3 taskset

ip link set lo up
make_certificates
peer4=10.77.0.3 get4=10.77.0.4
control=$scratch/control state=$scratch/state files=$scratch/files.sock client=$scratch/client.sock
make_file large 8388608
make_file small 1000
# Nothing but digits, so that any of it shows on the wire.
seq -f '%063.0f' 1 131072 >"$scratch/root/digits"
other_host "$peer4"

cores=2
[[ $(nproc) -lt 2 ]] || cores=$(taskset -pc $$ | sed 's/.*: //; s/-/,/' | cut -d, -f1,2)
# start_nic WIRE OPTION…: Linux is on the first core, so that the server is on the second one, and the client on the first.
start_nic() {
    local wire=$1
    shift
    start nic.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --host "rings:$files" --host "rings:$client,mac=02:00:00:00:00:77" \
        --cores "$cores" --wire "$wire" --control "$control" --state "$state" "$@"
    nic=$started
    eventually "$LONGSHORE" stat "$control"
}
# start_server SOCKET ADDRESS OPTION…
start_server() {
    local socket=$1 ip=$2
    shift 2
    start serve.log "$LONGSHORE" serve --nic "$socket" --ip "$ip/24" --root "$scratch/root" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" "$@"
    server=$started
    eventually listens "$ip" 443
}
# fetch WHERE FILE OPTION…: by curl, there or here, from the server; the bytes compared.
from=$ours4
fetch() {
    local where=$1 file=$2 run=()
    shift 2
    [[ $where == there ]] && run=(there)
    rm -f "$scratch/got"
    ${run[@]+"${run[@]}"} curl -sS --max-time 60 --insecure "$@" -o "$scratch/got" "https://$from/$file" 2>"$scratch/curl.log" ||
        { why="curl exit $?: $(last_words curl.log) $(last_words nic.log) $(last_words serve.log)"; return 1; }
    cmp -s "$scratch/root/$file" "$scratch/got" || { why='the bytes differ'; return 1; }
}
# get FILE: by a client of ours on the first core.
get() {
    rm -f "$scratch/got"
    "$LONGSHORE" get --nic "$client" --ip "$get4/24" --ca "$scratch/ca.pem" --quiet "https://$ours4/$1" -o "$scratch/got" 2>"$scratch/get.log" ||
        { why="$(last_words get.log) $(last_words nic.log)"; return 1; }
    cmp -s "$scratch/root/$1" "$scratch/got" || { why='the bytes differ'; return 1; }
}
# of GROUP COUNTER
of() {
    "$LONGSHORE" stat --all "$control" 2>/dev/null | awk -v group="$1 statistics:" -v name="$2:" \
        '/ statistics:$/ { here = $0 == group } here && $1 == name { gsub(/,/, "", $2); print $2; exit }'
}
# at_least LEAST GROUP COUNTER
at_least() {
    local value
    value=$(of "$2" "$3")
    why="$3 of $2 is ${value:-missing}, not $1 or more"
    [[ ${value:-0} -ge $1 ]]
}
refused() { # NAME SENTENCE OPTION…
    local name=$1 sentence=$2
    shift 2
    if timeout 20 "$LONGSHORE" nic --control "$scratch/other" --state "$scratch/other-state" "$@" >"$scratch/refused.log" 2>&1; then
        not_ok "$name" 'it is not'
    elif grep -q -- "$sentence" "$scratch/refused.log"; then
        ok "$name"
    else
        not_ok "$name" "$(last_words refused.log)"
    fi
}

refused 'more cores than hosts are refused' 'give at most 2' --host "rings:$files" --host "rings:$client" --wire mem --cores 3
refused 'a wire with one thread is refused' 'use packet:' --host "rings:$files" --host "rings:$client" --wire xdp:w0 --cores 2

# ---- no wire: hosts of both cores, and Linux -------------------------------------------------------------------
if ! start_nic mem || ! start_server "$files" "$ours4"; then
    not_ok 'a NIC on two cores' "$(last_words nic.log) $(last_words serve.log)"
    exit
fi
try 'from the second core to the first one' get large
try 'from the second core to Linux on the first one' fetch here large
try 'a small file to Linux' fetch here small
try 'the NICs encrypt' at_least 16000000 nic tx_tls_encrypted_bytes
try 'the NICs decrypt' at_least 4000000 nic rx_tls_decrypted_bytes
for worker in 0 1; do
    for counter in rx_packets tx_packets tx_passed rx_passed; do
        try "worker $worker works: $counter" at_least 20 "worker $worker" "$counter"
    done
done
if command -v ping >/dev/null; then
    one_answer() {
        local text
        text=$(ping -c 3 -i 0.2 -W 5 "$ours4" 2>&1)
        why=$(tr '\n' ' ' <<<"$text" | cut -c 1-300)
        [[ $(grep -c 'icmp_seq' <<<"$text") -eq 3 && $text != *DUP* ]]
    }
    try 'a ping has one answer' one_answer
fi
if [[ $cores == *,* ]]; then
    pinned() {
        local task name allowed
        why=
        for task in /proc/"$(worker)"/task/*; do
            name=$(<"$task/comm") allowed=$(awk '/^Cpus_allowed_list/ { print $2 }' "$task/status")
            case ${task##*/}:$name in
            "$(worker)":*) [[ $allowed == "${cores%,*}" ]] || why+="$name on $allowed " ;;
            *:'nic 1') [[ $allowed == "${cores#*,}" ]] || why+="$name on $allowed " ;;
            *) [[ $allowed == *[,-]* ]] || why+="$name on $allowed alone " ;;
            esac
        done
        [[ -z $why ]] && grep -qx 'nic 1' /proc/"$(worker)"/task/*/comm
    }
    try 'each NIC has its processor, and other threads have all' pinned
fi
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
before=$(($(ticks "$(worker)") + $(ticks "$server")))
sleep 3
spent=$(($(ticks "$(worker)") + $(ticks "$server") - before))
if [[ $spent -le 4 ]]; then ok 'idle, all sleep'; else not_ok 'idle, all sleep' "$spent ticks in 3 s"; fi
first=$server
if start_server "$client" "$get4"; then
    from=$get4
    try 'a host and Linux, both on the first core' fetch here large
    from=$ours4
    try 'beside the other server' fetch here large
    stop "$server"
else
    not_ok 'a host and Linux, both on the first core' "$(last_words serve.log)"
fi
stop "$first"
stop "$nic"
if [[ -e $files || -e $client ]]; then not_ok 'the sockets go with the NIC' 'they are there'; else ok 'the sockets go with the NIC'; fi

# ---- a wire ----------------------------------------------------------------------------------------------------
cat >"$scratch/sniff.py" <<'PYTHON'
import re, signal, socket, sys
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
wire.bind((sys.argv[1], 0))
wire.settimeout(0.2)
over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(1))
print("listening", flush=True)
frames = found = 0
while not over:
    try:
        frame = wire.recv(1 << 17)
    except (TimeoutError, InterruptedError):
        continue
    frames += 1
    found += len(re.findall(rb'[0-9]{24}', frame))
print(frames, found)
PYTHON
start sniff.log nsenter --net="/proc/$other/ns/net" python3 "$scratch/sniff.py" w1
sniffer=$started
eventually grep -q listening "$scratch/sniff.log"
if ! start_nic packet:w0 || ! start_server "$files" "$ours4"; then
    not_ok 'a NIC on two cores with a wire' "$(last_words nic.log) $(last_words serve.log)"
    exit
fi
try 'the wire to the second core' fetch there large
try 'the wire to the second core, TLS 1.2' fetch there digits --tlsv1.2 --tls-max 1.2
try 'the first core receives for the second' at_least 100 'worker 0' rx_passed_on
try 'the second core sends by itself' at_least 1000000 nic tx_tls_encrypted_bytes
try 'from core to core beside the wire' get large
several() {
    local i list=() jobs=()
    for i in 1 2 3 4; do
        there curl -sS --max-time 60 --insecure -o "$scratch/got-$i" "https://$ours4/large" 2>"$scratch/curl.log" &
        jobs+=($!)
    done
    why=
    for i in 1 2 3 4; do
        wait "${jobs[i - 1]}" && cmp -s "$scratch/root/large" "$scratch/got-$i" || why+="$i: $(last_words curl.log) differs "
    done
    rm -f "$scratch"/got-*
    [[ -z $why ]]
}
try 'four downloads at once' several

# The process is killed while hosts of both cores have connections.
survives() {
    fetch there digits --limit-rate 2M &
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
try 'a download goes on when the process is killed' survives
try 'a new download' fetch there large
try 'from core to core again' get large

# The next one has one core, and the one behind it two again.
takes_over() {
    fetch there digits --limit-rate 2M &
    local download=$! both=$cores before code
    for cores in 1 "$both"; do
        sleep 1
        before=$nic
        start_nic packet:w0 --take-over
        wait "$before" || { why="the one before: exit $?: $(last_words nic.log)"; return 1; }
    done
    wait "$download"
    code=$?
    why="$(last_words curl.log) $(last_words nic.log) $(last_words serve.log)"
    return "$code"
}
try 'a download goes on when NICs with other cores take over' takes_over
try 'from core to core behind that' get large
try 'two cores again' at_least 20 'worker 1' rx_packets

# ---- the end ---------------------------------------------------------------------------------------------------
fetch there digits --limit-rate 4M &
download=$!
sleep 0.5
status=0 begun=$SECONDS
kill "$nic"
wait "$download" || status=$?
if [[ $status -eq 0 ]]; then ok 'a download that is under way ends when the NIC drains'; else
    not_ok 'a download that is under way ends when the NIC drains' "$(last_words curl.log)"
fi
status=0
wait "$nic" || status=$?
if [[ $status -eq 0 && $((SECONDS - begun)) -le 12 ]]; then ok 'SIGTERM ends it in order'; else
    not_ok 'SIGTERM ends it in order' "exit $status after $((SECONDS - begun)) s: $(last_words nic.log)"
fi
stop "$sniffer"
read -r frames found < <(tail -n 1 "$scratch/sniff.log")
if [[ ${frames:-0} -lt 1000 ]]; then not_ok 'no plaintext on the wire' "$frames frames were seen"; elif [[ $found -ne 0 ]]; then
    not_ok 'no plaintext on the wire' "$found places in clear"
else
    ok 'no plaintext on the wire'
fi

# ---- a lossy wire, and one with a queue for each core --------------------------------------------------------------
# The server comes back to each NIC of the same address and MTU.
if start_nic packet:w0 "${impaired[@]}" && eventually fetch there small; then
    try 'over a wire with loss and reordering' fetch there large
else
    not_ok 'the NIC on a lossy wire' "$(last_words nic.log) $(last_words serve.log)"
fi
stop "$nic"
if start_nic tap:ls9 --faults; then
    # Linux has two interfaces of this NIC then: the one of the wire is another host's.
    ip link set ls9 netns "$other" && there ip link set ls9 up && there ip addr flush dev w1 && there ip addr add "$peer4/24" dev ls9
    eventually fetch there small
    try 'a TAP interface as the wire' fetch there large
    fails() {
        local before after
        before=$(of nic rx_fault_dropped)
        "$LONGSHORE" fault "$control" --host "$files" drop 3 >"$scratch/fault.log" 2>&1 && fetch there small
        after=$(of nic rx_fault_dropped)
        why="rx_fault_dropped from $before to $after: $(last_words fault.log)"
        [[ $((after - before)) -eq 3 ]]
    }
    try 'a host of the second core fails on purpose' fails
    if "$LONGSHORE" fault "$control" --host "$client" drop 3 >"$scratch/fault.log" 2>&1 || ! grep -q 'no host is at' "$scratch/fault.log"; then
        not_ok 'a host that has not come does not' "$(last_words fault.log)"
    else
        ok 'a host that has not come does not'
    fi
    stop "$nic"
else
    not_ok 'a TAP interface as the wire' "$(last_words nic.log)"
fi
