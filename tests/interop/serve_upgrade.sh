# `longshore serve --take-over`: another process takes the place of the one that runs, and no client notices, whatever it does meanwhile and
# whichever of the two is killed. What it has in common with `lb`'s, and its variables, are in upgrade.sh.
. "$(dirname "$0")/harness.sh"
needs curl ip openssl wrk

control=$scratch/control
make_certificates
make_file large 20000000
. "$(dirname "$0")/upgrade.sh"
command=("$LONGSHORE" serve --root "$scratch/root" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" --control "$control")
url=https://$ours4
loads=("$url/marked")
clients=1000

make_tap
whole 'one core'

# ---- what does not fit ------------------------------------------------------------------------------------------
if first; then
    misfits_are_refused
    successors_that_break_off
    stop "$service"
    stop_ends_a_successor
    first
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
        stop "$service"
        # As systemd has it, the one that takes over is not told that it is watched.
        start first.log env NOTIFY_SOCKET="$scratch/notify" WATCHDOG_USEC=1000000 setsid "${command[@]}" "${our_addresses[@]}"
        service=$started
        eventually answers
        former=$service
        start next.log env NOTIFY_SOCKET="$scratch/notify" setsid "${command[@]}" "${our_addresses[@]}" --take-over
        service=$started
        if eventually says notified.log "^$former MAINPID=$service$" && eventually says notified.log "^$service WATCHDOG=1"; then
            ok 'the service manager hears of the new process, and from it'
        else
            not_ok 'the service manager hears of the new process, and from it' "$(last_words notified.log)"
        fi
        stop "$manager"
    fi
    stop "$service"
    if [[ $(id -u) -eq 0 ]] && id nobody >/dev/null 2>&1; then
        chmod 755 "$scratch" "$scratch/root"
        another_user
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
    stop "$service"
    is_limited
else
    not_ok 'a server with one core' "$(last_words first.log)"
    stop "$service"
fi

# ---- several cores ----------------------------------------------------------------------------------------------
make_wide_tap
kills=3
whole 'two cores' --cores 2
