# `longshore serve --take-over`: another process takes the place of the one that runs, and no client notices, whatever it does meanwhile and
# whichever of the two is killed.
#
# LONGSHORE_KILLS=N   so many successors are killed after a random time (8)
# LONGSHORE_SEED=N    the same times again
. "$(dirname "$0")/harness.sh"
needs curl ip openssl wrk

kills=${LONGSHORE_KILLS:-8}
seed=${LONGSHORE_SEED:-$RANDOM}
RANDOM=$seed
echo "# LONGSHORE_SEED=$seed"
ulimit -n 8192 2>/dev/null
control=$scratch/control
make_certificates
make_file large 20000000
# Text that no cipher makes by chance.
mark=plaintext-of-a-file-that-must-not-be-on-the-wire
yes "$mark" | head -c 1024 >"$scratch/root/marked"

# serve LOG OPTION…: $started is its process.
serve() {
    local log=$1
    shift
    start "$log" setsid "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" \
        --control "$control" "$@"
}
has_ended() { ! kill -0 "$1" 2>/dev/null; }
says() { grep -q -- "$2" "$scratch/$1"; } # LOG WORDS
answers() { curl -s --max-time 20 --cacert "$scratch/ca.pem" "$@" -o "$scratch/got" "https://$ours4/marked" && cmp -s "$scratch/got" "$scratch/root/marked"; }
# first OPTION…: a server that has the place; $serve is its process.
first() {
    serve first.log "$@"
    serve=$started
    eventually answers
}
# upgrade LOG OPTION…: another one takes the place; $serve is it, and $former the one before.
upgrade() {
    local log=$1
    shift
    former=$serve
    serve "$log" --take-over "$@"
    serve=$started
    eventually says "$log" 'took over from process'
}
# download FILE OPTION…: a large one, which takes ten seconds; $download is its process.
download() {
    local into=$1
    shift
    curl -s --limit-rate 2M --max-time "$patience" --cacert "$scratch/ca.pem" "$@" -o "$scratch/$into" "https://$ours4/large" &
    download=$!
    eventually test -s "$scratch/$into"
}
# is_whole CASE FILE: the download that has just been waited for ended with $status.
is_whole() {
    if [[ $status -eq 0 ]] && cmp -s "$scratch/$2" "$scratch/root/large"; then ok "$1"; else not_ok "$1" "curl exit $status, or the bytes differ"; fi
}

# whole LABEL OPTION…: every case with these options.
whole() {
    local label=$1 round load requests wrong status=0
    shift
    if ! first --take-over "$@"; then
        not_ok "$label: without a predecessor it only serves" "$(last_words first.log)"
        stop "$serve"
        return
    fi
    ok "$label: without a predecessor it only serves"
    if command -v tshark >/dev/null; then
        start tshark.log tshark -q -i "$tap" -s 200 -w "$scratch/wire.pcapng"
        capture=$started
        eventually test -s "$scratch/wire.pcapng"
    fi

    # ---- three upgrades under load ----------------------------------------------------------------------------
    wrk -t 1 -c 1000 -d 20 --timeout 60 "https://$ours4/marked" >"$scratch/wrk.log" 2>&1 &
    load=$!
    pids+=("$load")
    sleep 6
    for round in 1 2 3; do
        if ! upgrade "next-$round.log" "$@"; then
            not_ok "$label: upgrade $round under load" "$(last_words "next-$round.log") $(last_words first.log)"
            break
        fi
        if eventually has_ended "$former"; then ok "$label: upgrade $round under load"; else
            not_ok "$label: upgrade $round under load" 'the old process goes on'
        fi
    done
    wait "$load"
    requests=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$scratch/wrk.log")
    wrong=$(grep -E 'Socket errors|Non-2xx' "$scratch/wrk.log" | tr '\n' ' ')
    if [[ -z $wrong && ${requests:-0} -gt 1000 ]]; then
        ok "$label: 1,000 connections through three upgrades, no error: $requests requests"
    else
        not_ok "$label: 1,000 connections through three upgrades, no error" "${requests:-no} requests; $wrong"
    fi
    if [[ $("$LONGSHORE" ss "$control" 2>&1) == *LISTEN* ]]; then ok "$label: the control socket is the new process's"; else
        not_ok "$label: the control socket is the new process's" "$("$LONGSHORE" ss "$control" 2>&1 | head -n 3)"
    fi

    # A session of the first process's ticket is resumed by the second.
    resumes() { # ARGUMENT…
        local text
        text=$( (printf 'HEAD /marked HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'; sleep 1) |
            timeout "$patience" openssl s_client -connect "$ours4:443" -CAfile "$scratch/ca.pem" "$@" 2>/dev/null)
        grep -qE '^Reused, TLSv1' <<<"$text"
    }
    rm -f "$scratch/session"
    resumes -sess_out "$scratch/session"
    upgrade resumed.log "$@"
    if eventually has_ended "$former" && resumes -sess_in "$scratch/session"; then ok "$label: tickets stay good"; else
        not_ok "$label: tickets stay good" "$(last_words resumed.log)"
    fi

    # ---- downloads that go on in the old process ---------------------------------------------------------------
    local slow slow2
    download slow --http1.1
    slow=$download
    download slow2 --http2
    slow2=$download
    upgrade crossing.log "$@"
    if answers && answers --http2; then ok "$label: new clients are served meanwhile"; else not_ok "$label: new clients are served meanwhile" "$(last_words crossing.log)"; fi
    if "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --control "$control" --take-over "$@" >"$scratch/refused.log" 2>&1; then
        not_ok "$label: a second take-over is refused" 'it is not'
    elif says refused.log 'another take-over is under way: process'; then
        ok "$label: a second take-over is refused"
    else
        not_ok "$label: a second take-over is refused" "$(last_words refused.log)"
    fi
    wait "$slow" || status=$?
    is_whole "$label: a response that had begun is whole" slow
    status=0
    wait "$slow2" || status=$?
    is_whole "$label: one of HTTP/2 too" slow2
    if eventually has_ended "$former"; then ok "$label: the old process ends after its last connection"; else
        not_ok "$label: the old process ends after its last connection" "$("$LONGSHORE" ss "$control" | head -n 3)"
    fi

    # ---- one of the two is killed ------------------------------------------------------------------------------
    status=0
    download slow --http1.1
    upgrade kept.log "$@"
    kill -9 "$former"
    wait "$download" || status=$?
    if [[ $status -ne 0 ]] && eventually answers && says kept.log 'has ended before its connections had'; then
        ok "$label: the new process serves when the old one is killed"
    else
        not_ok "$label: the new process serves when the old one is killed" "$(last_words kept.log)"
    fi
    local killed=0 back=0 unserved=0
    status=0
    download slow --http1.1
    for ((round = 0; round < kills; round++)); do
        serve killed.log --take-over "$@"
        sleep "$((RANDOM % 2)).$((RANDOM % 900 + 100))"
        ! says killed.log 'took over' || back=$((back + 1))
        # It may have ended by itself: a former one is not quite gone.
        kill -9 "$started" 2>/dev/null && killed=$((killed + 1))
        wait "$started" 2>/dev/null
        answers || unserved=$((unserved + 1))
    done
    wait "$download" || status=$?
    is_whole "$label: a response is whole though $killed successors were killed, $back of which served" slow
    if [[ $unserved -eq 0 ]] && ! has_ended "$serve"; then ok "$label: the old process serves again each time"; else
        not_ok "$label: the old process serves again each time" "$unserved of $kills times not: $(last_words kept.log)"
    fi
    # ---- the end of both ---------------------------------------------------------------------------------------
    download slow --http1.1
    upgrade last.log "$@"
    if "$LONGSHORE" stop "$control" >"$scratch/stop.log" 2>&1 && eventually has_ended "$former" && ! [[ -e $control ]]; then
        ok "$label: longshore stop ends both"
    else
        not_ok "$label: longshore stop ends both" "$(last_words stop.log)"
    fi
    kill "$download" 2>/dev/null
    wait "$download" 2>/dev/null
    stop "$serve"
    if [[ -n ${capture:-} ]]; then
        stop "$capture"
        if [[ $(wc -c <"$scratch/wire.pcapng") -lt 1000000 ]]; then
            not_ok "$label: no plaintext on the wire" "only $(wc -c <"$scratch/wire.pcapng") bytes in the capture: $(last_words tshark.log)"
        elif grep -qaF "$mark" "$scratch/wire.pcapng"; then
            not_ok "$label: no plaintext on the wire" 'it is in the capture'
        else
            ok "$label: no plaintext on the wire"
        fi
    fi
}

make_tap
whole 'one core'

# ---- what does not fit ------------------------------------------------------------------------------------------
if first; then
    refused() { # CASE WORDS OPTION…
        local name=$1 words=$2
        shift 2
        if "$LONGSHORE" serve --root "$scratch/root" --control "$control" --take-over "$@" >"$scratch/refused.log" 2>&1; then
            not_ok "$name" 'it is not'
        elif says refused.log "$words" && answers; then
            ok "$name"
        else
            not_ok "$name" "$(last_words refused.log)"
        fi
    }
    refused 'another interface is refused' 'its interface is ls0, not ls9' --tap ls9 --ip 10.79.0.2/24
    refused 'another number of cores is refused' 'it has one queue of ls0, not 2' "${our_addresses[@]}" --cores 2
    refused 'an impaired link is refused' 'impairs its link' "${our_addresses[@]}" --loss 0.1
    if command -v python3 >/dev/null; then
        told=$(python3 -c '
import socket, sys
it = socket.socket(socket.AF_UNIX)
it.connect(sys.argv[1])
it.sendall(b"{\"command\":\"take_over\",\"version\":7,\"service\":[]}\n")
print(it.recv(1000).decode())' "$control")
        if [[ $told == *'takes over by version 7'* ]] && answers; then ok 'another version is refused'; else not_ok 'another version is refused' "$told"; fi
    fi
    # The service manager hears which process is the main one, and from it.
    if command -v python3 >/dev/null; then
        start notified.log python3 -u -c '
import socket, sys
it = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
it.bind(sys.argv[1])
it.setsockopt(socket.SOL_SOCKET, 16, 1)  # SO_PASSCRED
while True:
    data, ancillary, _, _ = it.recvmsg(100, 100)
    print(int.from_bytes(ancillary[0][2][:4], sys.byteorder), data.decode())' "$scratch/notify"
        manager=$started
        eventually test -S "$scratch/notify"
        stop "$serve"
        # As systemd has it, the one that takes over is not told that it is watched.
        start first.log env NOTIFY_SOCKET="$scratch/notify" WATCHDOG_USEC=1000000 setsid "$LONGSHORE" serve "${our_addresses[@]}" \
            --root "$scratch/root" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" --control "$control"
        serve=$started
        eventually answers
        former=$serve
        start next.log env NOTIFY_SOCKET="$scratch/notify" setsid "$LONGSHORE" serve "${our_addresses[@]}" \
            --root "$scratch/root" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" --control "$control" --take-over
        serve=$started
        if eventually says notified.log "^$former MAINPID=$serve$" && eventually says notified.log "^$serve WATCHDOG=1"; then
            ok 'the service manager hears of the new process, and from it'
        else
            not_ok 'the service manager hears of the new process, and from it' "$(last_words notified.log)"
        fi
        stop "$manager"
    fi
    # A process that has become another user.
    stop "$serve"
    if [[ $(id -u) -eq 0 ]] && id nobody >/dev/null 2>&1; then
        chmod 755 "$scratch" "$scratch/root"
        first --user nobody
        upgrade user.log --user nobody && eventually has_ended "$former" && upgrade user.log --user nobody && eventually has_ended "$former"
        if answers && says user.log 'took over'; then ok 'servers of another user than root take over'; else
            not_ok 'servers of another user than root take over' "$(last_words user.log)"
        fi
        if "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --control "$control" --take-over >"$scratch/refused.log" 2>&1; then
            not_ok "another user's process is refused" 'it is not'
        elif says refused.log "which is user $(id -u nobody)'s" && answers; then
            ok "another user's process is refused"
        else
            not_ok "another user's process is refused" "$(last_words refused.log)"
        fi
        stop "$serve"
    fi
    # Connections that the NIC has set up, runs and finishes.
    first --accel all --handoff t4
    status=0
    download slow --http1.1
    upgrade accel.log --accel all --handoff t4
    wait "$download" || status=$?
    is_whole 'a response is whole that the NIC runs' slow
    if answers && eventually has_ended "$former"; then ok 'connections that the NIC finishes are waited for'; else
        not_ok 'connections that the NIC finishes are waited for' "$(last_words accel.log)"
    fi
    # Connections that take too long are reset.
    stop "$serve"
    first --drain 2
    status=0
    download slow --http1.1
    upgrade limited.log
    wait "$download" || status=$?
    if [[ $status -ne 0 ]] && eventually has_ended "$former" && answers; then ok 'a connection does not outlast --drain'; else
        not_ok 'a connection does not outlast --drain' "curl exit $status: $(last_words limited.log)"
    fi
else
    not_ok 'a server with one core' "$(last_words first.log)"
fi
stop "$serve"

# ---- several cores ----------------------------------------------------------------------------------------------
ip link del "$tap"
ip tuntap add dev "$tap" mode tap vnet_hdr multi_queue
sysctl -q -w "net.ipv6.conf.$tap.accept_dad=0" 2>/dev/null
ip addr add "$linux4/24" dev "$tap"
ip -6 addr add "$linux6/64" dev "$tap" nodad
ip link set "$tap" up
kills=3
whole 'two cores' --cores 2
