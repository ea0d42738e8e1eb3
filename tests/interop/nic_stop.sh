# The NIC is stopped, killed and replaced at random moments while files of nginx's go through it, encrypted by it: every download ends with the
# right bytes, and a sniffer on the wire finds none of them in clear.
#
# LONGSHORE_STOPS=N   so many moments (44: each kind four times)
# LONGSHORE_SEED=N    the same moments again
. "$(dirname "$0")/harness.sh"
needs openssl ip curl nginx nsenter unshare python3

stops=${LONGSHORE_STOPS:-44}
ip link set lo up
make_certificates
mkdir -p "$scratch/root"
# Nothing but digits, so that any of it shows on the wire.
seq -f '%063.0f' 1 40000 >"$scratch/root/digits"
chmod 755 "$scratch" "$scratch/root"
other_host "$ours4"
has_ended() { ! kill -0 "$1"; }

# ---- the NIC --------------------------------------------------------------------------------------------------
control=$scratch/nic.sock state=$scratch/state
start_nic() { # OPTION…
    cat "$scratch/nic.log.new" >>"$scratch/nic.log" 2>/dev/null
    start nic.log.new "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --wire packet:w0 --control "$control" --state "$state" --drain 3 "$@"
    nic=$started
    eventually serves
}
# Its own worker, for one that is left of the NIC before it answers too.
serves() { [[ -n $(child --worker) ]] && "$LONGSHORE" stat "$control"; }

# ---- nginx ----------------------------------------------------------------------------------------------------
cat >"$scratch/nginx.conf" <<CONF
daemon off;
worker_processes 2;
pid $scratch/nginx.pid;
error_log stderr info;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
$(temporary_paths nginx)
    server {
        listen $linux4:8081;
        listen $linux4:8443 ssl;
        ssl_certificate $scratch/leaf.pem;
        ssl_certificate_key $scratch/leaf.key;
        ssl_conf_command Options KTLS;
        root $scratch/root;
    }
}
CONF
start_nginx() { # OPTION…
    start nginx.log "$LONGSHORE" run --nic "$control" "$@" -- nginx -e stderr -c "$scratch/nginx.conf"
    nginx=$started
    eventually listens "$linux4" 8443
}
# told LOG WHAT: the number before these words that the library has told at the end of its program.
told() { sed -n "s/.* \([0-9,]*\) $2.*/\1/p" "$scratch/$1" | tail -n 1 | tr -d ,; }

# ---- the other host: downloads one after the other, and a sniffer ---------------------------------------------
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
_, dropped = __import__('struct').unpack('II', wire.getsockopt(263, 6, 8))
print(frames, dropped, found)
PYTHON
start_sniffer() {
    start "$1" nsenter --net="/proc/$other/ns/net" python3 "$scratch/sniff.py" w1
    sniffer=$started
    eventually grep -q listening "$scratch/$1"
}
# read_sniffer LOG: what it has seen, as $frames, $dropped and $found.
read_sniffer() {
    stop "$sniffer"
    read -r frames dropped found < <(tail -n 1 "$scratch/$1")
}
download() { # NUMBER
    local got=$scratch/got.$1 log=$scratch/curl.$1 done=0 bad=0
    while [[ ! -e $scratch/enough ]]; do
        if timeout 120 curl -sS --limit-rate 1500k --cacert "$scratch/ca.pem" -o "$got" "https://$linux4:8443/digits" 2>>"$log" &&
            cmp -s "$scratch/root/digits" "$got"; then
            done=$((done + 1))
        else
            bad=$((bad + 1))
            echo "download $((done + bad)) at $(date +%T.%N): $(wc -c <"$got") bytes" >>"$log"
        fi
    done
    echo "$done $bad" >"$scratch/downloads.$1"
}
start_downloads() {
    rm -f "$scratch/enough" "$scratch"/downloads.* "$scratch"/curl.*
    local number
    for number in 1 2 3 4; do
        # shellcheck disable=SC2016 # expanded by the inner shell
        start "download.$number" nsenter --net="/proc/$other/ns/net" bash -c \
            "$(declare -f download); scratch=$scratch linux4=$linux4; download $number"
    done
}
have_ended() { [[ $(cat "$scratch"/downloads.* 2>/dev/null | wc -l) -eq 4 ]]; }
# counted FIELD: the sum over all downloads: 1 the right ones, 2 the others.
counted() { cat "$scratch"/downloads.* 2>/dev/null | awk -v field="$1" '{ sum += $field } END { print sum + 0 }'; }

# ---- a moment -------------------------------------------------------------------------------------------------
# The control process has the supervisor's mask: it ends with its worker, and SIGTERM and SIGINT are nothing to it.
kinds=(take-over KILL-control {TERM,INT,KILL}-{worker,supervisor,both})
declare -A tally
seed=${LONGSHORE_SEED:-$RANDOM}
RANDOM=$seed
echo "# LONGSHORE_SEED=$seed"
# What is still to come before all kinds come again, in random order.
to_come=()
next_kind() { # sets $kind
    ((${#to_come[@]})) || to_come=("${kinds[@]}")
    local at=$((RANDOM % ${#to_come[@]}))
    kind=${to_come[at]}
    unset "to_come[$at]"
    to_come=(${to_come[@]+"${to_come[@]}"})
}
stop_once() {
    local kind signal target old pids=()
    next_kind
    sleep "0.$((RANDOM % 900 + 100))"
    tally[$kind]=$((${tally[$kind]:-0} + 1))
    if [[ $kind == take-over ]]; then
        old=$nic
        start_nic --take-over || return 1
        eventually has_ended "$old"
        return
    fi
    signal=${kind%-*} target=${kind#*-}
    case $target in
    worker) pids=("$(child --worker)") ;;
    supervisor) pids=("$nic") ;;
    both) pids=("$nic" "$(child --worker)") ;;
    control) pids=("$(child --control-process)") ;;
    esac
    kill -"$signal" ${pids[@]+"${pids[@]}"} 2>/dev/null
    # A supervisor ends when it is told to, or when its worker has ended as it was told.
    if [[ $target == control || $signal$target == KILLworker ]]; then
        eventually "$LONGSHORE" stat "$control"
    else
        eventually has_ended "$nic" && start_nic
    fi
}

# stop_often TIMES OPTION…: with these options of `longshore run`.
stop_often() {
    local times=$1 name="downloads while the NIC is stopped $1 times${2:+, $2}" moment
    shift
    if ! start_nginx "$@"; then
        not_ok "$name" "$(last_words nginx.log)"
        return
    fi
    start_sniffer sniffer.log
    start_downloads
    tally=()
    for ((moment = 0; moment < times; moment++)); do
        if ! stop_once; then
            not_ok "$name" "no NIC after moment $moment: $(last_words nic.log.new)"
            break
        fi
    done
    touch "$scratch/enough"
    eventually have_ended
    echo "# $(for moment in "${!tally[@]}"; do echo "$moment ${tally[$moment]}"; done | sort | paste -sd, -)"
    if [[ $(counted 2) -eq 0 && $(counted 1) -gt 0 ]]; then
        ok "$name: $(counted 1) whole"
    else
        not_ok "$name" "$(counted 2) of $(($(counted 1) + $(counted 2))) failed: $(cat "$scratch"/curl.* | tail -n 4 | tr '\n' ' ')"
        grep -v notice "$scratch/nginx.log" | tail -n 5 | sed 's/^/# nginx: /'
    fi
    read_sniffer sniffer.log
    name="no byte in clear while the NIC is stopped $times times${1:+, $1}"
    if [[ ${frames:-0} -gt 100 && $found -eq 0 && $dropped -eq 0 ]]; then
        ok "$name: $frames frames"
    else
        not_ok "$name" "$found pieces of the file are in ${frames:-no} frames; the sniffer missed ${dropped:-all} more"
    fi
    stop "$nginx"
    records=$(told nginx.log 'records by the NIC')
    if [[ ${records:-0} -gt 500 ]]; then ok "nginx had the NIC make $records records"; else not_ok 'nginx had the NIC make its records' "$(last_words nginx.log)"; fi
}

: >"$scratch/nic.log"
if ! start_nic; then
    not_ok 'the NIC starts' "$(last_words nic.log.new)"
    exit
fi
stop_often $((stops / 2))
stop_often $((stops - stops / 2)) --zerocopy

# ---- a program that is held up while the NIC starts again can't bring its keys: Linux goes on asking at its first interval ------
# descendants PID: itself, and what it has started.
descendants() {
    local pid
    echo "$1"
    for pid in $(cat "/proc/$1/task/"*/children 2>/dev/null); do descendants "$pid"; done
}
signal_nginx() { # SIGNAL
    local pid
    for pid in $(descendants "$nginx"); do kill "-$1" "$pid"; done
}
has_begun() { [[ $(stat -c %s "$scratch/got" 2>/dev/null || echo 0) -gt 300000 ]]; }
# backing_off: how often in a row Linux has doubled its interval, once it has sent something again.
backing_off() {
    local its
    its=$(ss -Htin "src $linux4:8443" | grep unacked:) || return
    [[ $its =~ backoff:([0-9]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}
held_up() {
    local before=$SECONDS intervals
    rm -f "$scratch/got"
    # More than the peer's Linux takes unread, and the program reads it slowly.
    for _ in 1 2 3 4 5 6 7 8; do cat "$scratch/root/digits"; done >"$scratch/root/large"
    start held.log nsenter --net="/proc/$other/ns/net" curl -sS --limit-rate 3M --cacert "$scratch/ca.pem" -o "$scratch/got" "https://$linux4:8443/large"
    local curl=$started
    why='it does not begin' && eventually has_begun || return
    signal_nginx STOP
    why='the NIC does not start again' && kill_worker && eventually serves || return
    sleep 8
    intervals=$(backing_off)
    signal_nginx CONT
    why="Linux has ${intervals:-nothing in flight and no} intervals doubled" && [[ ${intervals:-99} -le 2 ]] || return
    why='it does not end' && wait "$curl" && cmp -s "$scratch/root/large" "$scratch/got" || return
    why="it took $((SECONDS - before)) s" && [[ $((SECONDS - before)) -lt 60 ]]
}
start_nginx
try 'a download goes on soon after its program, which was held up while the NIC started again' held_up
stop "$nginx"

# ---- the sniffer finds what is there, and an end without connections leaves nothing ------------------------------
start_nginx
start_sniffer plain.log
there curl -sS -o "$scratch/got" "http://$linux4:8081/digits"
read_sniffer plain.log
if [[ ${found:-0} -gt 1000 ]]; then ok 'the sniffer finds a file that is sent in clear'; else not_ok 'the sniffer finds a file that is sent in clear' "$found pieces"; fi

# A connection that is still there keeps the interface, for the next NIC.
# shellcheck disable=SC2016 # expanded by the inner shell
start idle.log nsenter --net="/proc/$other/ns/net" bash -c 'exec 3<>"/dev/tcp/$0/8081"; sleep 60' "$linux4"
idle=$started
connected() { ss -Htn state established "src $linux4:8081" | grep -q .; }
eventually connected
stop "$nic"
if ip link show "$tap" >/dev/null 2>&1 && grep -q "$tap stays" "$scratch/nic.log.new"; then
    ok 'an interface with a connection stays'
else
    not_ok 'an interface with a connection stays' "$(last_words nic.log.new)"
fi
start_nic
stop "$idle"
stop "$nginx"
gone() { ! ss -Htn "src $linux4" | grep -v TIME-WAIT | grep -q .; }
eventually gone
stop "$nic"
if ip link show "$tap" >/dev/null 2>&1; then not_ok 'an interface without connections goes' "$(last_words nic.log.new)"; else ok 'an interface without connections goes'; fi
