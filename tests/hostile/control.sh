# Finding 5: users who keep the NIC busy by its control socket: by sockets that linger, by answers that they do not read, by sockets that another
# thread has locked, by clients that say nothing. The packets of others go on, and so do the questions of root.
. "$(dirname "$0")/frozen.sh"

attaches() { timeout 3 "$python" "$hostile/tries.py" "$control" "$ours4" 7000 >"$scratch/tries.log" 2>&1; }
freezes() { # KIND WHAT
    local stat attached before=$failures
    if cannot "$1"; then
        skip "$2" "$why"
        return
    fi
    freeze "$1"
    sleep 0.5
    stat=no attached=no
    "$python" "$hostile/availability.py" latency "$ours4" 7007 2 >"$scratch/latency.log" 2>&1 &
    local latency=$!
    timeout 3 "$LONGSHORE" stat "$control" >"$scratch/stat.log" 2>&1 && stat=yes
    attaches && attached=yes
    wait "$latency"
    kill -0 "$attack_process" 2>/dev/null || echo "# the attack has ended: $(last_words "$1.log")"
    thaw
    echo "# $1: $(cat "$scratch/latency.log")"
    go_on "$2: the packets of others go on" latency.log
    if [[ $stat == yes ]]; then ok "$2: root is answered"; else not_ok "$2: root is answered" "$(last_words stat.log)"; fi
    if [[ $attached == yes ]]; then ok "$2: others attach"; else not_ok "$2: others attach" "$(last_words tries.log)"; fi
    [[ $failures == "$before" ]] || another_nic
}
freezes linger 'sockets that linger'
freezes unread 'answers that are not read'
freezes idle 'a hundred clients that say nothing'
# The last: a NIC that waits for such a page can't even be killed.
freezes fault 'sockets that are locked'
if [[ $(deaths) == 0 ]]; then ok 'the NIC has lived through all of it'; else not_ok 'the NIC has lived through all of it' "$(last_words nic.log)"; fi
