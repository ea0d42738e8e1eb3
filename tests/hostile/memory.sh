# Finding 8: a tenant holds all the memory for what peers have not acknowledged, by many connections to a peer that acknowledges nothing. Other tenants
# have connections, and send on them.
. "$(dirname "$0")/world.sh"
world --retain 4194304
peer mute.log mute "$ours4" 7001
peer sink.log sink "$ours4" 7000
as_user $attacker
start hog.log "${as[@]}" env LD_PRELOAD="$scratch/libktls.so" LONGSHORE_NIC="$control" "$python" "$scratch/hostile/hog.py" "$ours4" 7001 600
hog=$started
eventually grep -q holds "$scratch/hog.log"
echo "# $(tail -n 1 "$scratch/hog.log")"
for time in 1 2; do
    sniff memory
    start_victim victim.log "$ours4" 7000 1
    victim_ends
    echo "# the other: $(tail -n 1 "$scratch/victim.log")"
    name="another tenant sends while one holds what memory it can get ($time)"
    if [[ $(json victim.log error) == None && $(json victim.log sent) -gt 100000 ]]; then ok "$name"; else not_ok "$name" "$(last_words victim.log)"; fi
    nothing_clear "$name: nothing in clear" memory
done
if kill -0 "$hog" 2>/dev/null; then ok 'and it has held it all the time'; else not_ok 'and it has held it all the time' "$(last_words hog.log)"; fi
