# A host on rings passes a file whose file system never answers when it is closed: a process that has it can't end, not even when it is killed.
# And what stays of a host's socket when the NIC's processes die: who may connect.
. "$(dirname "$0")/frozen.sh"

becomes_host() { as $attacker "$python" -c 'import sys, rings; rings.set_up(sys.argv[1])' "$1"; }
export PYTHONPATH=$scratch/hostile
is_another() { [[ -n $(worker) && $(worker) != "$killed" ]] && reaches_peer; }
stays_the_attackers() { # NAME
    local owner
    owner=$(stat -c %u "$others_rings")
    if [[ $owner == "$attacker" ]] && eventually becomes_host "$others_rings"; then ok "$1"; else
        not_ok "$1" "it belongs to $owner: $(last_words nic.log)"
    fi
}

name='a worker is killed while a host passes a file that can not be closed: the next one serves'
if cannot flush; then
    skip "$name" "$why"
    kill_worker
    eventually is_another
else
    freeze flush
    sleep 0.5
    kill_worker
    if eventually is_another; then ok "$name"; else not_ok "$name" "$(last_words nic.log)"; fi
    thaw
    eventually is_another
fi
stays_the_attackers "a host's socket is still its own when the worker has died"

before=$(worker)
gate=$(child --gate)
kill -9 "$gate"
is_other_gate() { [[ -n $(child --gate) && $(child --gate) != "$gate" ]]; }
eventually is_other_gate
stays_the_attackers 'and when the gate has died'
if [[ $(worker) == "$before" ]]; then ok 'for which the worker is not started again'; else not_ok 'for which the worker is not started again' "$(last_words nic.log)"; fi

start next.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24,ip=$linux6/64" --wire packet:w0 --control "$control" --state "$state" "${hosts[@]}" --take-over
next=$started
has_taken_over() { has_ended "$nic"; }
eventually has_taken_over
nic=$next
eventually reaches_peer
stays_the_attackers 'and when another version has taken over'
stop "$nic"
if [[ -e $rings || -e $others_rings ]]; then not_ok 'the sockets go with the NIC' "$(last_words next.log)"; else ok 'the sockets go with the NIC'; fi
