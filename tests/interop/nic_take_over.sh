# A next version that fails to take over, or is killed at any moment before it serves, leaves the NIC that runs in its place: a download goes on, whose
# records the NIC makes, and at no moment do two workers have the state.
#
# LONGSHORE_KILLS=N   so many next versions are killed after a random time (12)
# LONGSHORE_SEED=N    the same times again
. "$(dirname "$0")/harness.sh"
needs openssl ip curl nginx nsenter unshare python3

kills=${LONGSHORE_KILLS:-12}
seed=${LONGSHORE_SEED:-$RANDOM}
RANDOM=$seed
echo "# LONGSHORE_SEED=$seed"
patience=40
ip link set lo up
make_certificates
mkdir -p "$scratch/root"
head -c 200000000 /dev/urandom >"$scratch/root/large"
chmod 755 "$scratch" "$scratch/root"
other_host "$ours4"

# ---- the NIC, and a next one in $next --------------------------------------------------------------------------
control=$scratch/nic.sock state=$(mktemp -d -p /dev/shm longshore-interop.XXXXXX)
trap 'rm -rf "$state"; leave' EXIT
command=("$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --wire packet:w0 --control "$control" --state "$state" --drain 3)
start_nic() {
    start nic.log "${command[@]}" "$@"
    nic=$started
    eventually serves
}
child_of() { # PID OPTION
    local nic=$1
    child "$2"
}
serves() { [[ -n $(child --worker) && -n $(child --control-process) ]] && timeout 2 "$LONGSHORE" stat "$control"; }
start_next() { # OPTION…
    start next.log "${command[@]}" --take-over "$@"
    next=$started
}
has_ended() { ! kill -0 "$1" 2>/dev/null; }
worker_of() { child_of "$1" --worker 2>/dev/null; }
old_has_no_worker() { [[ -z $(worker_of "$nic") ]]; }
next_has_worker() { [[ -n $(worker_of "$next") ]]; }
# soon COMMAND…: tries without pause; a moment that is not met has passed.
soon() {
    local end=$((SECONDS + 5))
    until "$@"; do [[ $SECONDS -lt $end ]] || return 1; done
}

# ---- a download, and who uses the state ------------------------------------------------------------------------
cat >"$scratch/nginx.conf" <<CONF
daemon off;
worker_processes 1;
pid $scratch/nginx.pid;
error_log stderr info;
events { worker_connections 64; }
http {
    access_log off;
    sendfile on;
$(temporary_paths nginx)
    server {
        listen $linux4:8443 ssl;
        ssl_certificate $scratch/leaf.pem;
        ssl_certificate_key $scratch/leaf.key;
        ssl_conf_command Options KTLS;
        root $scratch/root;
    }
}
CONF
cat >"$scratch/users.py" <<'PYTHON'
# Counts the processes that have mapped the state, until it is told to end: prints the most at a time, and how often it has looked.
import os, signal, sys
over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(1))
name, most, looks = sys.argv[1], 0, 0
def uses(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as line:
            if "--worker" not in line.read():
                return False
        with open(f"/proc/{pid}/maps") as maps:
            return name in maps.read()
    except OSError:
        return False
while not over:
    users = [pid for pid in os.listdir("/proc") if pid.isdigit() and uses(pid)]
    # Each is asked again: one may have ended while the next one was looked at.
    users = [pid for pid in users if uses(pid)]
    most, looks = max(most, len(users)), looks + 1
print(most, looks)
PYTHON

# ---- moments ---------------------------------------------------------------------------------------------------
# goes_on WHAT: the one that ran serves, and the next one has gone.
goes_on() {
    local stays=no
    if eventually has_ended "$next" && eventually serves; then stays=yes; fi
    if [[ $stays == yes ]]; then
        ok "$1: the NIC goes on"
    else
        not_ok "$1: the NIC goes on" "$(last_words next.log) $(last_words nic.log)"
        # For the moments to come.
        kill -9 "$next" 2>/dev/null
        has_ended "$nic" && start_nic
    fi
}
# killed_when NAME MOMENT… : the next one is killed at this moment.
killed_when() {
    local name=$1
    shift
    start_next
    soon "$@"
    kill -9 "$next"
    goes_on "$name"
}
next_serves() { (nic=$next && serves >/dev/null 2>&1); }

: >"$scratch/nic.log"
if ! start_nic; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi
start nginx.log "$LONGSHORE" run --nic "$control" -- nginx -e stderr -c "$scratch/nginx.conf"
nginx=$started
eventually listens "$linux4" 8443
start users.log python3 "$scratch/users.py" "$state/connections-$tap"
users=$started
start curl.log nsenter --net="/proc/$other/ns/net" curl -sS --limit-rate 3M --cacert "$scratch/ca.pem" -o "$scratch/got" "https://$linux4:8443/large"
curl=$started
has_begun() { [[ $(stat -c %s "$scratch/got" 2>/dev/null || echo 0) -gt 300000 ]]; }
eventually has_begun

start_next --pcap "$scratch/nowhere/wire.pcapng"
goes_on 'a next one whose worker can not start'
(
    ulimit -v 220000
    exec "${command[@]}" --take-over
) >"$scratch/next.log" 2>&1 &
next=$!
goes_on 'a next one without memory for the state'
killed_when 'a next one that is killed as soon as the old worker has ended' old_has_no_worker
killed_when 'a next one that is killed as soon as it has a worker' next_has_worker
start_next
soon next_has_worker
kill -9 "$(worker_of "$next")"
goes_on 'a next one whose worker is killed'
start_next
soon next_has_worker
kill -9 "$(worker_of "$next")" "$next"
goes_on 'a next one that is killed with its worker'
start_next
soon next_has_worker
kill -STOP "$next"
goes_on 'a next one that stands still'
start_next
soon next_has_worker
kill -TERM "$next"
goes_on 'a next one that is told to end'

# After a random time: one that has said that it serves has taken over, and its end is that of the NIC.
before=0 after=0 lost=0
for ((kill = 0; kill < kills; kill++)); do
    start_next
    sleep "0.$(printf '%03d' $((RANDOM % 300)))"
    kill -9 "$next" 2>/dev/null
    eventually has_ended "$next"
    if grep -q 'the new NIC serves' "$scratch/nic.log"; then
        after=$((after + 1))
        eventually has_ended "$nic"
        cat "$scratch/nic.log" >>"$scratch/nics.log"
        start_nic || lost=$((lost + 1))
    elif eventually serves; then
        before=$((before + 1))
    else
        lost=$((lost + 1))
        start_nic
    fi
done
if [[ $lost -eq 0 ]]; then
    ok "a next one that is killed after a random time: $before times the NIC goes on, $after times it had served"
else
    not_ok 'a next one that is killed after a random time' "$lost of $kills times there is no NIC: $(last_words nic.log)"
fi

start_next
if eventually next_serves && eventually has_ended "$nic"; then
    ok 'a next one that serves takes over'
    nic=$next
else
    not_ok 'a next one that serves takes over' "$(last_words next.log) $(last_words nic.log)"
fi

still_loads() { kill -0 "$curl" 2>/dev/null; }
if still_loads; then echo '# the download went on through all of it'; fi
if wait "$curl" && cmp -s "$scratch/root/large" "$scratch/got"; then ok 'a download through all of it is whole'; else
    not_ok 'a download through all of it is whole' "$(stat -c %s "$scratch/got") bytes: $(last_words curl.log)"
fi
stop "$users"
read -r most looks <"$scratch/users.log"
if [[ ${most:-9} -eq 1 && ${looks:-0} -gt 100 ]]; then ok "the state has one worker at a time, in $looks looks"; else
    not_ok 'the state has one worker at a time' "${most:-unknown} in ${looks:-no} looks"
fi
stop "$nginx"
records=$(sed -n 's/.* \([0-9,]*\) records by the NIC.*/\1/p' "$scratch/nginx.log" | tail -n 1 | tr -d ,)
if [[ ${records:-0} -gt 100 ]]; then ok "nginx had the NIC make $records records"; else not_ok 'nginx had the NIC make its records' "$(last_words nginx.log)"; fi

# ---- told to end while a next one, with an interface more, is about to take over ----------------------------------
is_there() { ip link show "$1" >/dev/null 2>&1; }
start_next --host "tap:${tap}x"
soon next_has_worker
kill -STOP "$next"
eventually is_there "${tap}x"
kill -TERM "$nic"
if eventually has_ended "$nic" && eventually has_ended "$next" && ! is_there "$tap" && ! is_there "${tap}x"; then
    ok 'a NIC that is told to end during a take-over leaves no interface'
else
    not_ok 'a NIC that is told to end during a take-over leaves no interface' "$(last_words nic.log) $(ip -brief link | tr '\n' ' ')"
fi

# ---- the service manager hears the process that it knows (NotifyAccess=exec) --------------------------------------
cat >"$scratch/manager.py" <<'PYTHON'
# Takes what the main process says, which may name the next one. Prints it, and what it refuses.
import re, socket, struct, sys
heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
heard.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
heard.bind(sys.argv[1])
main = None
print("listening", flush=True)
while True:
    said, credentials, *_ = heard.recvmsg(4096, socket.CMSG_SPACE(12))
    pid = struct.unpack("iII", credentials[0][2][:12])[0]
    main = main or pid
    print("main" if pid == main else "refused", pid, said.decode().split(), flush=True)
    named = re.search(rb"MAINPID=(\d+)", said)
    if named and pid == main:
        main = int(named[1])
PYTHON
stop "$nic"
start manager.log python3 "$scratch/manager.py" "$scratch/notify"
eventually grep -q listening "$scratch/manager.log"
# It takes the NIC for hung after 4 s; a worker that does not answer for 2 s is killed.
export NOTIFY_SOCKET=$scratch/notify WATCHDOG_USEC=4000000
start_nic
start_next --pcap "$scratch/nowhere/wire.pcapng"
eventually has_ended "$next"
eventually serves
start_next
is_main() { grep -q "^main $next .*READY=1" "$scratch/manager.log"; }
if eventually is_main && ! grep -q '^refused' "$scratch/manager.log"; then ok 'the service manager hears of the next one by the one that runs'; else
    not_ok 'the service manager hears of the next one by the one that runs' "$(last_words manager.log)"
fi
nic=$next
is_watched() { grep -q "^main $nic .*WATCHDOG_USEC=4000000.*WATCHDOG=1" "$scratch/manager.log"; }
try 'and from the next one that it does not hang' eventually is_watched
hung=$(worker)
kill -STOP "$hung"
is_another() { [[ -n $(worker) && $(worker) != "$hung" ]] && serves; }
if eventually is_another && grep -q 'the NIC hangs; it is killed' "$scratch/next.log" && kill -0 "$nic"; then ok 'a worker that hangs is killed, and the next one serves'; else
    not_ok 'a worker that hangs is killed, and the next one serves' "$(last_words next.log)"
fi
told=$(grep -c 'WATCHDOG=1' "$scratch/manager.log")
is_told_more() { [[ $(grep -c 'WATCHDOG=1' "$scratch/manager.log") -gt $told ]]; }
if eventually is_told_more && ! grep -q '^refused' "$scratch/manager.log"; then ok 'the service manager hears on'; else
    not_ok 'the service manager hears on' "$(last_words manager.log)"
fi
