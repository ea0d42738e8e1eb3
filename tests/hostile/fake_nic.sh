# Finding 4: another user listens where the NIC would, and waits for keys and sockets of programs that take it for the NIC.
. "$(dirname "$0")/world.sh"
make_world
peer sink.log sink 0.0.0.0 7000
# Before there is a NIC, the other host is reached by the wire itself.
ip addr add 10.79.0.1/24 dev w0
there ip addr add 10.79.0.2/24 dev w1
# A directory in which every user may make files, as /tmp.
shared=$scratch/shared
mkdir -m 1777 "$shared"

given() { # LOG: what the impostor has: sums of `bytes`, `descriptors` and `keys` over all who have come.
    "$python" -c 'import json, sys
came = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
print(len(came), sum(one.get("descriptors", 0) for one in came), sum(one.get("keys", 0) for one in came))' "$scratch/$1"
}
got_nothing() { # NAME LOG
    local came descriptors keys
    read -r came descriptors keys < <(given "$2")
    echo "# $came came, with $descriptors descriptors and $keys sets of keys"
    if [[ $keys == 0 && $descriptors == 0 ]]; then ok "$1"; else not_ok "$1" "it was given $descriptors descriptors and $keys sets of keys"; fi
}

# ---- from the beginning ---------------------------------------------------------------------------------------
as_user $attacker
start fake1.log "${as[@]}" "$python" "$scratch/hostile/fake_nic.py" "$shared/nic.sock" control
impostor=$started
eventually grep -q listens "$scratch/fake1.log"
sniff fake
nic_path=$shared/nic.sock start_victim victim1.log 10.79.0.2 7000 1
victim_ends
echo "# the program: $(tail -n 1 "$scratch/victim1.log")"
got_nothing 'another user who listens at the control path gets neither keys nor sockets' fake1.log
if [[ $(json victim1.log error) == None ]]; then ok 'the program goes on in software'; else not_ok 'the program goes on in software' "$(last_words victim1.log)"; fi
sniffed fake
stop "$impostor"

# ---- in the place of a NIC that has ended ---------------------------------------------------------------------
control=$shared/nic.sock
rm -f "$control"
if ! start_nic; then
    # It may refuse to listen where others write.
    control=$scratch/nic.sock
    stop "$nic"
    start_nic || not_ok 'the NIC starts' "$(last_words nic.log)"
fi
sniff again
start_victim victim2.log "$ours4" 7000 2 --waits
victim_address victim2.log
# It dies, so that nothing was settled with it.
disown "$nic"
eventually kill_worker
kill -9 "$nic"
rm -f "$control"
mkdir -p "$(dirname "$control")"
chmod 1777 "$(dirname "$control")"
as_user $attacker
start fake2.log "${as[@]}" "$python" "$scratch/hostile/fake_nic.py" "$control" control
impostor=$started
eventually grep -q listens "$scratch/fake2.log"
victim_goes_on
victim_ends
echo "# the program: $(tail -n 1 "$scratch/victim2.log")"
got_nothing 'nor does one who takes the place of a NIC that has ended' fake2.log
nothing_clear 'and nothing leaves in clear meanwhile' again
stop "$impostor"

# ---- a host on rings --------------------------------------------------------------------------------------------
as_user $attacker
start fake3.log "${as[@]}" "$python" "$scratch/hostile/fake_nic.py" "$shared/rings.sock" rings
eventually grep -q listens "$scratch/fake3.log"
timeout 8 "$LONGSHORE" get --nic "$shared/rings.sock" --ip 10.77.0.4/24 --insecure --quiet -o /dev/null "https://$ours4/x" >"$scratch/get.log" 2>&1
echo "# $(last_words get.log)"
got_nothing 'another user who listens at the path of rings gets no memory' fake3.log
