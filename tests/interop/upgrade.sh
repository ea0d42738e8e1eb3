# Sourced behind harness.sh by the scripts in which another process takes the place of a service that runs. They have made the TAP, certificates and
# the file `large`, and say:
#
#   command=(…)   the service with its options, but for the interface and its addresses
#   url=…         where it has the files `large` and `marked`, by TLS
#   loads=(…)     URLs under load while it is replaced, each with $clients connections
#
# LONGSHORE_KILLS=N   so many successors are killed after a random time (8)
# LONGSHORE_SEED=N    the same times again
# shellcheck shell=bash
kills=${LONGSHORE_KILLS:-8}
seed=${LONGSHORE_SEED:-$RANDOM}
RANDOM=$seed
echo "# LONGSHORE_SEED=$seed"
ulimit -n 8192 2>/dev/null
# Text that no cipher makes by chance.
mark=plaintext-of-a-file-that-must-not-be-on-the-wire
mkdir -p "$scratch/root"
yes "$mark" | head -c 1024 >"$scratch/root/marked"

# begin LOG OPTION…: $started is its process.
begin() {
    local log=$1
    shift
    start "$log" setsid "${command[@]}" "${our_addresses[@]}" "$@"
}
has_ended() { ! kill -0 "$1" 2>/dev/null; }
says() { grep -q -- "$2" "$scratch/$1"; } # LOG WORDS
answers() { curl -s --max-time 20 --cacert "$scratch/ca.pem" "$@" -o "$scratch/got" "$url/marked" && cmp -s "$scratch/got" "$scratch/root/marked"; }
# first OPTION…: a service that has the place; $service is its process.
first() {
    begin first.log "$@"
    service=$started
    eventually answers
}
# upgrade LOG OPTION…: another one takes the place; $service is it, and $former the one before.
upgrade() {
    local log=$1
    shift
    former=$service
    begin "$log" --take-over "$@"
    service=$started
    eventually says "$log" 'took over from process'
}
# download FILE OPTION…: a large one, which takes ten seconds, or by rate= longer; $download is its process. With from=URL, from there.
download() {
    local into=$1
    shift
    rm -f "$scratch/$into"
    curl -s --limit-rate "${rate:-2M}" --max-time "$patience" --cacert "$scratch/ca.pem" "$@" -o "$scratch/$into" "${from:-$url}/large" &
    download=$!
    eventually test -s "$scratch/$into"
}
# is_whole CASE FILE: the download that has just been waited for ended with $status.
is_whole() {
    if [[ $status -eq 0 ]] && cmp -s "$scratch/$2" "$scratch/root/large"; then ok "$1"; else not_ok "$1" "curl exit $status, or the bytes differ"; fi
}
# refused CASE WORDS OPTION…: a take-over is, and the service goes on.
refused() {
    local name=$1 words=$2
    shift 2
    if "${command[@]}" --take-over "$@" >"$scratch/refused.log" 2>&1; then
        not_ok "$name" 'it is not'
    elif says refused.log "$words" && answers; then
        ok "$name"
    else
        not_ok "$name" "$(last_words refused.log)"
    fi
}

# three_upgrades LABEL OPTION…: under load.
three_upgrades() {
    local label=$1 round at requests wrong running=()
    shift
    for at in "${!loads[@]}"; do
        wrk -t 1 -c "$clients" -d 20 --timeout 60 "${loads[at]}" >"$scratch/wrk-$at.log" 2>&1 &
        running+=("$!")
        pids+=("$!")
    done
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
    for at in "${!loads[@]}"; do
        wait "${running[at]}"
        requests=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$scratch/wrk-$at.log")
        wrong=$(grep -E 'Socket errors|Non-2xx' "$scratch/wrk-$at.log" | tr '\n' ' ')
        if [[ -z $wrong && ${requests:-0} -gt 1000 ]]; then
            ok "$label: $clients connections through three upgrades, no error: $requests requests of ${loads[at]}"
        else
            not_ok "$label: $clients connections through three upgrades, no error" "${requests:-no} requests of ${loads[at]}; $wrong"
        fi
    done
    if [[ $("$LONGSHORE" ss "$control" 2>&1) == *LISTEN* ]]; then ok "$label: the control socket is the new process's"; else
        not_ok "$label: the control socket is the new process's" "$("$LONGSHORE" ss "$control" 2>&1 | head -n 3)"
    fi
}

# resumes ARGUMENT…: a session of TLS is.
resumes() {
    local text
    text=$( (printf 'HEAD /marked HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'; sleep 1) |
        timeout "$patience" openssl s_client -connect "$ours4:443" -CAfile "$scratch/ca.pem" "$@" 2>/dev/null)
    grep -qE '^Reused, TLSv1' <<<"$text"
}

passes_on() { [[ $("$LONGSHORE" stat --all "$control" 2>&1) =~ rx_passed_to_predecessor:\ *[1-9] ]]; }

# downloads_go_on LABEL OPTION…: in the old process.
downloads_go_on() {
    local label=$1 slow slow2 status=0
    shift
    download slow --http1.1
    slow=$download
    download slow2 --http2
    slow2=$download
    upgrade crossing.log "$@"
    if answers && answers --http2; then ok "$label: new clients are served meanwhile"; else not_ok "$label: new clients are served meanwhile" "$(last_words crossing.log)"; fi
    if eventually passes_on; then ok "$label: what is passed on is counted"; else
        not_ok "$label: what is passed on is counted" "$("$LONGSHORE" stat --all "$control" 2>&1 | grep -F passed_to)"
    fi
    refused "$label: a second take-over is refused" 'another take-over is under way: process' "${our_addresses[@]}" "$@"
    wait "$slow" || status=$?
    is_whole "$label: a response that had begun is whole" slow
    status=0
    wait "$slow2" || status=$?
    is_whole "$label: one of HTTP/2 too" slow2
    if eventually has_ended "$former"; then ok "$label: the old process ends after its last connection"; else
        not_ok "$label: the old process ends after its last connection" "$("$LONGSHORE" ss "$control" | head -n 3)"
    fi
}

# one_is_killed LABEL OPTION…: the old process, and then successors.
one_is_killed() {
    local label=$1 round killed=0 back=0 unserved='' status=0
    shift
    # It must not be over before.
    rate=400K download slow --http1.1
    upgrade kept.log "$@"
    kill -9 "$former"
    wait "$download" || status=$?
    if [[ $status -ne 0 ]] && eventually answers && says kept.log 'has ended before its connections had'; then
        ok "$label: the new process serves when the old one is killed"
    else
        not_ok "$label: the new process serves when the old one is killed" "$(last_words kept.log)"
    fi
    status=0
    # When it is over, the old process ends for good.
    rate=700K download slow --http1.1
    for ((round = 0; round < kills; round++)); do
        begin killed.log --take-over "$@"
        sleep "$((RANDOM % 2)).$((RANDOM % 900 + 100))"
        ! says killed.log 'took over' || back=$((back + 1))
        # It may have ended by itself: a former one is not quite gone.
        kill -9 "$started" 2>/dev/null && killed=$((killed + 1))
        wait "$started" 2>/dev/null
        answers || unserved+=" $round: curl exit $?;"
    done
    wait "$download" || status=$?
    is_whole "$label: a response is whole though $killed successors were killed, $back of which served" slow
    if [[ -z $unserved ]] && ! has_ended "$service"; then ok "$label: the old process serves again each time"; else
        not_ok "$label: the old process serves again each time" "not in round$unserved $(last_words kept.log)"
    fi
}

# both_end LABEL OPTION…: by one command, though the old process has a client.
both_end() {
    local label=$1
    shift
    download slow --http1.1
    upgrade last.log "$@"
    if "$LONGSHORE" stop "$control" >"$scratch/stop.log" 2>&1 && eventually has_ended "$former" && ! [[ -e $control ]]; then
        ok "$label: longshore stop ends both"
    else
        not_ok "$label: longshore stop ends both" "$(last_words stop.log)"
    fi
    kill "$download" 2>/dev/null
    wait "$download" 2>/dev/null
    stop "$service"
}

# whole LABEL OPTION…: every case with these options.
whole() {
    local label=$1 capture=''
    shift
    if ! first --take-over "$@"; then
        not_ok "$label: without a predecessor it only serves" "$(last_words first.log)"
        stop "$service"
        return
    fi
    ok "$label: without a predecessor it only serves"
    if command -v tshark >/dev/null; then
        start tshark.log tshark -q -i "$tap" -s 500 -w "$scratch/wire.pcapng"
        capture=$started
        eventually test -s "$scratch/wire.pcapng"
    fi
    three_upgrades "$label" "$@"
    # A session of the first process's ticket is resumed by the second.
    rm -f "$scratch/session"
    resumes -sess_out "$scratch/session"
    upgrade resumed.log "$@"
    if eventually has_ended "$former" && resumes -sess_in "$scratch/session"; then ok "$label: tickets stay good"; else
        not_ok "$label: tickets stay good" "$(last_words resumed.log)"
    fi
    downloads_go_on "$label" "$@"
    one_is_killed "$label" "$@"
    both_end "$label" "$@"
    [[ -z $capture ]] || look_at_capture "$label" "$capture"
}

look_at_capture() { # LABEL PROCESS
    stop "$2"
    if [[ $(wc -c <"$scratch/wire.pcapng") -lt 1000000 ]]; then
        not_ok "$1: no plaintext on the wire" "only $(wc -c <"$scratch/wire.pcapng") bytes in the capture: $(last_words tshark.log)"
    elif grep -qaF "$mark" "$scratch/wire.pcapng"; then
        not_ok "$1: no plaintext on the wire" 'it is in the capture'
    else
        ok "$1: no plaintext on the wire"
    fi
    rm -f "$scratch/wire.pcapng"
}

# misfits_are_refused: of a service that runs on one core.
misfits_are_refused() {
    local told
    refused 'another interface is refused' 'its interface is ls0, not ls9' --tap ls9 --ip "$ours4/24" --ip "$ours6/64"
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
}

# as_successor LOG PROGRAM ARGUMENT…: claims the place of a service that runs on one core, and does what the program says, in Python; $successor is it.
claims='
import json, os, socket, sys, time
control, service, tap = sys.argv[1:4]
it = socket.socket(socket.AF_UNIX)
it.connect(control)
claim = {"command": "take_over", "version": 3, "service": service, "tap": tap, "queues": 1, "packets_only": False}
it.sendall(json.dumps(claim).encode() + b"\n")
estate, descriptors, _, _ = socket.recv_fds(it, 1 << 16, 8)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

def is_given():
    heard, more = b"", b"."
    try:
        socket.send_fds(it, [b"{\"ready\":{\"listens\":[443]}}\n"], [theirs.fileno()])
        while more and b"\"given\"" not in heard:
            more = it.recv(1 << 16)
            heard += more
    except OSError:
        pass
    return b"\"given\"" in heard
'
as_successor() {
    local log=$1 program=$2
    shift 2
    start "$log" python3 -u -c "$claims$program" "$control" "${command[1]}" "$tap" "$@"
    successor=$started
}

# successors_that_break_off: of a service that runs on one core. One says what is no word, one hangs up, and both live on: they may read the queue.
# One hangs up behind a process that has no connections, which waits for its end all the same.
successors_that_break_off() {
    local manner status
    command -v python3 >/dev/null || return 0
    for manner in 'says what is no word' 'hangs up' 'hangs up behind an idle process'; do
        download=
        [[ $manner == *idle* ]] || download slow --http1.1
        as_successor broken.log '
assert is_given()
if sys.argv[4].startswith("hangs up"):
    it.close()
else:
    it.sendall(b"\"later\"\n")
print("has it")
time.sleep(600)' "$manner"
        if eventually says broken.log 'has it' && sleep 0.5 && ! answers --max-time 2; then
            ok "a successor that $manner still has the place"
        else
            not_ok "a successor that $manner still has the place" "$(last_words broken.log)"
        fi
        # Longer than the old process would wait for a word.
        [[ -n $download ]] || sleep 10
        kill -9 "$successor"
        if [[ -z $download ]]; then
            if eventually answers; then ok "a successor that $manner gives the place back by its end"; else
                not_ok "a successor that $manner gives the place back by its end" "$(last_words first.log)"
            fi
            continue
        fi
        status=0
        wait "$download" || status=$?
        is_whole "a successor that $manner gives the place back by its end" slow
    done
}

# stop_ends_a_successor: one that has the place already, and does not listen yet when the process before it ends.
stop_ends_a_successor() {
    command -v python3 >/dev/null || return 0
    first
    as_successor between.log '
assert is_given()
open("/proc/self/comm", "w").write("longshore")
print("has it")
while it.recv(1 << 16):
    pass
time.sleep(1)
listener = socket.socket(fileno=descriptors[0])
listener.listen(128)
time.sleep(600)'
    if eventually says between.log 'has it' && "$LONGSHORE" stop "$control" >"$scratch/stop.log" 2>&1 && eventually has_ended "$service" &&
        eventually has_ended "$successor"; then
        ok 'longshore stop ends a process that is just taking over, too'
    else
        not_ok 'longshore stop ends a process that is just taking over, too' "$(last_words stop.log) $(last_words between.log)"
    fi
    stop "$successor"
    stop "$service"
}

# keeps_its_place: a service that was told to end, and has requests under way.
keeps_its_place() {
    command -v python3 >/dev/null || return 0
    first
    download slow --http1.1
    as_successor late.log '
print("has claimed it")
while not os.path.exists(sys.argv[4]):
    time.sleep(0.05)
print("it is given" if is_given() else "it is kept")
time.sleep(600)' "$scratch/is-ending"
    if eventually says late.log 'has claimed it' && kill "$service" && sleep 0.5 && touch "$scratch/is-ending" &&
        eventually says late.log 'it is' && says late.log 'it is kept' && ! has_ended "$service"; then
        ok 'a service that was told to end gives its place to nobody'
    else
        not_ok 'a service that was told to end gives its place to nobody' "$(last_words late.log) $(last_words first.log)"
    fi
    kill "$download" 2>/dev/null
    wait "$download" 2>/dev/null
    stop "$successor"
    stop "$service"
}

# another_user: a process that has become another user.
another_user() {
    first --user nobody
    upgrade user.log --user nobody && eventually has_ended "$former" && upgrade user.log --user nobody && eventually has_ended "$former"
    if answers && says user.log 'took over'; then ok 'services of another user than root take over'; else
        not_ok 'services of another user than root take over' "$(last_words user.log)"
    fi
    refused "another user's process is refused" "which is user $(id -u nobody)'s" "${our_addresses[@]}"
    stop "$service"
}

# is_limited: connections that take too long are reset.
is_limited() {
    local status=0
    first --drain 2
    download slow --http1.1
    upgrade limited.log
    wait "$download" || status=$?
    if [[ $status -ne 0 ]] && eventually has_ended "$former" && answers; then ok 'a connection does not outlast --drain'; else
        not_ok 'a connection does not outlast --drain' "curl exit $status: $(last_words limited.log)"
    fi
    stop "$service"
}

# make_wide_tap: one of several queues in place of the other.
make_wide_tap() {
    ip link del "$tap"
    ip tuntap add dev "$tap" mode tap vnet_hdr multi_queue
    sysctl -q -w "net.ipv6.conf.$tap.accept_dad=0" 2>/dev/null
    ip addr add "$linux4/24" dev "$tap"
    ip -6 addr add "$linux6/64" dev "$tap" nodad
    ip link set "$tap" up
}
