# Sourced by the scripts that attack the NIC's time: a NIC with hosts of every kind, and the attacks of freeze.py by their names.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/world.sh"
rings=$scratch/rings.sock
others_rings=$scratch/others.sock
hosts=(--host "rings:$rings" --host "rings:$others_rings")
world "${hosts[@]}"
chown $attacker "$rings" "$others_rings"
peer echo.log echo "$ours4" 7007
peer mute.log mute "$ours4" 7001
peer sink.log sink "$ours4" 7000
install -d -o $attacker -m 700 "$scratch/of-attacker"
# Where users may mount file systems of their own, everybody may open this.
mknod -m 666 "$scratch/fuse" c 10 229 2>/dev/null

freeze() { # KIND: begins an attack; $attack_process is its process.
    local more=()
    case $1 in
    linger) more=("$control" "$ours4" 7001) ;;
    fault) more=("$control" "$ours4" 7000 "$scratch/fuse" "$scratch/of-attacker") ;;
    idle) more=("$control" 100) ;;
    bell) more=("$rings" "$ours4" 7001) ;;
    flush) more=("$rings" "$scratch/fuse" "$scratch/of-attacker") ;;
    *) more=("$control") ;;
    esac
    # What is measured is the NIC's time: that of the processors anybody may take.
    start_attack "$1.log" freeze "$1" "${more[@]}"
    attack_process=$started
    renice -n 19 "$attack_process" >/dev/null
    case $1 in
    fault) eventually grep -q mounted "$scratch/fault.log" ;;
    bell) eventually grep -q 'set up' "$scratch/bell.log" ;;
    flush) eventually grep -q passed "$scratch/flush.log" ;;
    esac
}
# thaw: ends the attack; the server of its file system first, for which the attacker itself may wait.
thaw() {
    local one
    for one in $(cat "/proc/$attack_process/task/$attack_process/children" 2>/dev/null); do kill -9 "$one"; done
    stop "$attack_process"
}
# another_nic: in the place of one that may wait for what never comes.
another_nic() {
    local one processes
    processes="$nic $(cat "/proc/$nic/task/$nic/children")"
    disown "$nic"
    for one in $processes; do kill -9 "$one" 2>/dev/null; done
    for one in $processes; do eventually has_ended "$one"; done
    rm -f "$control" "$rings" "$others_rings"
    start_nic "${hosts[@]}"
    chown $attacker "$rings" "$others_rings"
}
has_ended() { ! kill -0 "$1"; }
# What keeps an attack from being tried at all.
cannot() {
    [[ $1 == fault || $1 == flush ]] || return 1
    as $attacker bash -c "exec 3<>'$scratch/fuse'" 2>"$scratch/fuse.log" || { why="no FUSE: $(last_words fuse.log)"; return 0; }
    as $attacker unshare --user --mount true 2>"$scratch/fuse.log" || { why="no user namespaces: $(last_words fuse.log)"; return 0; }
    return 1
}
# go_on NAME LOG: a case: the round trips that `latency` has made are enough to tell, and none took long.
go_on() {
    local longest samples
    longest=$(json "$2" max_us) samples=$(json "$2" samples)
    if [[ ${longest%.*} =~ ^[0-9]+$ && ${longest%.*} -lt 500000 && ${samples:-0} -ge 50 ]]; then ok "$1"; else
        not_ok "$1" "$samples round trips, the longest of $longest µs"
    fi
}
