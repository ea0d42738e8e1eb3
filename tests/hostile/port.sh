# Finding 1: a tenant has the NIC look at its socket, and in that moment binds it to a port at which another user listens.
. "$(dirname "$0")/world.sh"
needs cc
if ! compile thief -shared -fPIC; then
    skip port "no compiler: $(last_words cc.log)"
    exit
fi
world
peer sink.log sink "$ours4" 7000
as_user $victim
start listener.log "${as[@]}" "$python" -m http.server --bind 0.0.0.0 --directory / 9000
eventually listens "$linux4" 9000

attack port "$control" "$ours4" 7000 9000 "$scratch/thief" 6 >"$scratch/port.log" 2>&1
echo "# $(tail -n 1 "$scratch/port.log")"
tries=$(json port.log tries)
[[ $tries =~ ^[0-9]+$ ]] || tries=0
if [[ $tries -lt 20 && $(json port.log stolen) != 1 ]]; then
    not_ok 'a port of another user is not to be had' "only $tries tries: $(last_words port.log)"
elif [[ $(json port.log stolen) != 0 ]]; then
    not_ok 'a port of another user is not to be had' "had at the ${tries}th try"
else
    ok "a port of another user is not to be had: $tries tries"
fi
if [[ $(json port.log left_in_repair) == 0 ]]; then ok 'no socket is in repair mode'; else
    not_ok 'no socket is in repair mode' "$(json port.log left_in_repair) of $tries were"
fi
