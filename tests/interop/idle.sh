# Daemons with nothing to do: the time of processors that they take, and their memory. Goals: no time at all; 64 MiB for `serve`, 32 for `lb`, 48 for `nic`.
. "$(dirname "$0")/harness.sh"
needs ip

seconds=${LONGSHORE_IDLE_SECONDS:-10}
mkdir -p "$scratch/root"
ip link set lo up
cat >"$scratch/lb.toml" <<'END'
[frontends.web]
listen = ["10.79.0.2:80"]
pool = "app"

[pools.app]
backends = ["10.79.0.1:8081"]
END

names=() processes=()
daemon() { # NAME ARGUMENT…
    start "$1.log" "$LONGSHORE" "${@:2}" --control "$scratch/$1.sock"
    names+=("$1") processes+=("$started")
    eventually "$LONGSHORE" stat "$scratch/$1.sock" || not_ok "$1 begins" "$(last_words "$1.log")"
}
daemon serve serve --tap id0 --ip 10.77.0.2/24 --peer-ip 10.77.0.1/24 --root "$scratch/root"
daemon lb lb --config "$scratch/lb.toml" --tap id1 --ip 10.79.0.2/24 --peer-ip 10.79.0.1/24
daemon nic nic --host tap:id2,ip=10.80.0.1/24 --wire mem

# family PID: it, and its children.
family() {
    local child
    echo "$1"
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do family "$child"; done
}
# Hundredths of a second.
took() {
    local pid sum=0 user system
    for pid in $(family "$1"); do
        read -r user system < <(sed 's/.*) //' "/proc/$pid/stat" | cut -d ' ' -f 12,13)
        sum=$((sum + user + system))
    done
    echo "$sum"
}
# KiB: what processes share counts once.
memory() {
    local pid
    for pid in $(family "$1"); do cat "/proc/$pid/smaps_rollup"; done | awk '/^Pss:/ { sum += $2 } END { print sum + 0 }'
}

before=()
sleep 2 # what the start leaves to be done
for process in "${processes[@]}"; do before+=("$(took "$process")"); done
sleep "$seconds"
# A timer once a second is allowed for: one hundredth of what there is.
rests() {
    why="$2 hundredths of a second in $seconds s"
    [[ $2 -le $seconds ]]
}
fits() {
    why="$2 KiB, more than $3 MiB"
    [[ $2 -gt 0 && $2 -le $(($3 * 1024)) ]]
}
goals=(64 32 48)
for i in 0 1 2; do
    after=$(took "${processes[i]}") used=$(memory "${processes[i]}")
    echo "# ${names[i]}: $((after - before[i])) hundredths of a second in $seconds s, $used KiB"
    try "${names[i]} that is idle takes no time" rests "${names[i]}" $((after - before[i]))
    try "${names[i]} that is idle has at most ${goals[i]} MiB" fits "${names[i]}" "$used" "${goals[i]}"
done
