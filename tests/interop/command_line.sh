# What the command line promises: both ends of a TAP interface, services in the background and their end, waiting for sockets, captures on a full
# disk, and certificates that are trusted themselves.
. "$(dirname "$0")/harness.sh"
needs curl openssl ip

ip link set lo up
cd "$scratch" || exit 1
mkdir root && echo content >root/page
ours=10.77.0.2 linux=10.77.0.1
both_ends=(--tap lsc0 --ip "$ours/24" --peer-ip "$linux/24")
fetches() { [[ $(curl -sk --max-time 10 "https://$ours/page") == content ]]; }

# says WORDS COMMAND…: it fails, with these words.
says() {
    local words=$1
    shift
    why=$("$@" 2>&1) && return 1
    [[ $why == *"$words"* ]]
}
both_ends_work() {
    why=$("$LONGSHORE" serve "${both_ends[@]}" --root root --control "$scratch/c" --background --log log 2>&1) || return 1
    fetches
}
stops() {
    why=$("$LONGSHORE" stop "$scratch/c" 2>&1) && [[ $why == "stopped process"* && ! -e $scratch/c ]]
}
try 'serve --peer-ip --background can be used by the next command' both_ends_work
try 'stop ends it' stops
try 'a start that fails is told, with its exit code' says 'is both --ip and --peer-ip' \
    "$LONGSHORE" serve --tap lsc0 --ip $ours/24 --peer-ip $ours/24 --root root --background

nic_works() {
    why=$("$LONGSHORE" nic --host tap:lsc1,ip=$linux/24 --host "rings:$scratch/rings" --wire mem --control "$scratch/c" \
        --state "$scratch/state" --background 2>&1) || return 1
    why+=$("$LONGSHORE" serve --nic "$scratch/rings" --ip "$ours/24" --root root --control "$scratch/s" --background 2>&1) || return 1
    fetches
}
nic_ends() {
    why=$("$LONGSHORE" stop "$scratch/s" 2>&1 && "$LONGSHORE" stop "$scratch/c" 2>&1) && [[ ! -e $scratch/c && ! -e $scratch/rings ]]
}
try 'nic --background and serve --nic --background' nic_works
try 'stop ends both' nic_ends

comes_later() {
    (sleep 1 && exec "$LONGSHORE" serve "${both_ends[@]}" --root root --control "$scratch/c") >later.log 2>&1 &
    pids+=($!)
    later=$!
    why=$("$LONGSHORE" stat "$scratch/c" 2>&1) && [[ $why == *"waiting for $scratch/c"* ]]
}
# Nothing here has a terminal, whose end SIGHUP would tell.
goes_on_at_hangup() {
    kill -HUP "$later"
    why=$("$LONGSHORE" stat "$scratch/c" 2>&1) && fetches && why=$("$LONGSHORE" stop "$scratch/c" 2>&1)
}
try 'a control socket that is not there yet is waited for' comes_later
try 'SIGHUP does not end a server without a terminal' goes_on_at_hangup
try 'what is no socket is told at once' says 'root/page is not a socket' "$LONGSHORE" stat root/page
try 'run --nic without a NIC fails before the program starts' says "no NIC listens at $scratch/none" \
    "$LONGSHORE" run --library "$LONGSHORE" --nic "$scratch/none" -- touch "$scratch/ran"
try 'the program was not started' test ! -e ran

stays_up() {
    why=$("$LONGSHORE" up lsc2 "$linux/24" --user nobody 2>&1) || return 1
    ip -br addr show lsc2 | grep -q "$linux/24" && ip -d link show lsc2 | grep -Eq "user (nobody|$(id -u nobody))"
}
keeps_its_user() {
    why=$("$LONGSHORE" up lsc2 fd79::1/64 2>&1) && ip -d link show lsc2 | grep -Eq "user (nobody|$(id -u nobody))"
}
goes_down() { "$LONGSHORE" down lsc2 && [[ ! -e /sys/class/net/lsc2 ]]; }
if [[ $(id -u) == 0 ]]; then
    try 'up makes an interface that stays, for a user' stays_up
    try 'up on an interface that is there adds an address, and leaves it to its user' keeps_its_user
    try 'down removes it' goes_down
fi

# ---- get from Linux's own TCP, by a certificate that is trusted itself ---------------------------------------
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -addext subjectAltName=IP:$linux -keyout key -out cert -days 2 2>/dev/null
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -addext subjectAltName=IP:$linux -keyout /dev/null -out other -days 2 2>/dev/null
(cd root && exec openssl s_server -accept 443 -cert ../cert -key ../key -WWW -quiet) >s_server.log 2>&1 &
pids+=($!)
server_listens() { (: </dev/tcp/127.0.0.1/443) 2>/dev/null; }
eventually server_listens
get() { timeout 60 "$LONGSHORE" get "https://$linux/page" "${both_ends[@]}" -q -o got "$@"; }
gets() { why=$(get --ca cert 2>&1) && grep -q content got; }
try 'get --ca accepts the self-signed certificate of openssl req -x509' gets
try 'get --ca refuses another one' says certificate get --ca other
full() {
    why=$(get --insecure --pcap /dev/full 2>&1)
    [[ $? == 1 && $(grep -c 'pcap /dev/full: No space left on device; the capture ends at frame' <<<"$why") == 1 ]] && grep -q content got
}
rm -f got
try 'get --pcap on a full disk says so once, and exits with 1' full

# ---- other names, other commands -----------------------------------------------------------------------------
renamed_stops() {
    cp "$LONGSHORE" longshore-next
    why=$(./longshore-next serve "${both_ends[@]}" --root root --control "$scratch/c" --pcap kept.pcapng --background 2>&1) || return 1
    [[ $(stat -c %a kept.pcapng) == 600 ]] || { why='others may read the capture, keys and all' && return 1; }
    why=$("$LONGSHORE" stop "$scratch/c" 2>&1)
}
try 'a service of a file with another name is stopped; its capture is for its user only' renamed_stops
nic_full() {
    "$LONGSHORE" nic --host "tap:lsc3,ip=$linux/24" --wire mem --control "$scratch/c" --state "$scratch/state" --pcap /dev/full >nic.log 2>&1 &
    local nic=$!
    pids+=("$nic")
    eventually "$LONGSHORE" stat "$scratch/c" || return 1
    ping -c 1 -W 1 -I lsc3 "$ours" >/dev/null 2>&1
    "$LONGSHORE" stop "$scratch/c" >/dev/null 2>&1
    wait "$nic"
    local code=$?
    why="exit code $code: $(tail -n 1 nic.log)"
    [[ $code == 1 ]] && grep -q 'the capture ends at frame' nic.log
}
try 'nic --pcap on a full disk exits with 1' nic_full
target_goes_on() {
    "$LONGSHORE" nvme target --ns mem:1M "${both_ends[@]}" --control "$scratch/c" >target.log 2>&1 &
    local service=$!
    pids+=("$service")
    eventually "$LONGSHORE" stat "$scratch/c" && kill -HUP "$service" &&
        eventually grep -q 'reads no file again while it runs' target.log && "$LONGSHORE" stop "$scratch/c" >/dev/null 2>&1 ||
        { why=$(cat target.log) && return 1; }
}
try 'a target without a terminal says at SIGHUP that it reads nothing again' target_goes_on
survives() {
    nohup "$LONGSHORE" serve "${both_ends[@]}" --root root --control "$scratch/c" >nohup.log 2>&1 &
    local service=$!
    pids+=("$service")
    eventually "$LONGSHORE" stat "$scratch/c" || return 1
    kill -HUP "$service"
    why=$("$LONGSHORE" stat "$scratch/c" 2>&1) && "$LONGSHORE" stop "$scratch/c" >/dev/null
}
try 'SIGHUP ends none that nohup started' survives

# ---- readers that go, names that are addresses, files that change --------------------------------------------
cat >lb.toml <<LB
[frontends.web]
listen = ["$ours:80"]
pool = "app"
[pools.app]
backends = ["$linux:8081"]
LB
# The interface that `nic` has left has the same network.
ip link del lsc3
start serve.log "$LONGSHORE" serve "${both_ends[@]}" --root root --control "$scratch/c"
eventually fetches
reader_goes() { # COMMAND…
    { sleep 0.2; "$LONGSHORE" "$@" 2>reader.log; } | true
    local code=${PIPESTATUS[0]}
    why="exit code $code: $(head -n 1 reader.log)"
    [[ $code == 0 && ! -s reader.log ]]
}
for command in "ss $scratch/c" "stat $scratch/c --all" 'stat --explain' 'completions bash' 'config check lb.toml'; do
    # shellcheck disable=SC2086 # words
    try "a reader that has seen enough ends it quietly: ${command%% *}" reader_goes $command
done
warns_once() {
    local i
    for i in {1..5}; do openssl s_client -connect "$ours:443" -servername "$ours" </dev/null >/dev/null 2>&1; done
    why="$(grep -c 'IP address presented as hostname' serve.log) warnings"
    [[ $(grep -c 'IP address presented as hostname' serve.log) == 1 ]]
}
try 'five handshakes that name an address are one warning' warns_once
head -c 24M /dev/zero >root/changes
changes() {
    curl -sk --max-time 60 --limit-rate 4M -o got "https://$ours/changes" &
    local download=$!
    sleep 1
    head -c 1M /dev/urandom | dd of=root/changes bs=1M conv=notrunc status=none
    wait "$download" && { why='it came whole' && return 1; }
    why=$("$LONGSHORE" stat "$scratch/c" 2>&1)
    [[ $why == *'files_changed: 1'* ]] && grep -q 'the file changed while it was sent' serve.log
}
try 'a file that is overwritten while it is sent ends its download' changes
comes_whole() {
    why='the bytes differ'
    curl -sk --max-time 60 -o got "https://$ours/changes" && cmp -s got root/changes
}
try 'the next download has the new content' comes_whole
"$LONGSHORE" stop "$scratch/c" >/dev/null 2>&1
