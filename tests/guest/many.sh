# Connections that are offloaded come and go without a trace, and go on when the interface or the module goes away.
. "$(dirname "$0")/world.sh"
needs ip python3 cc unshare nsenter

count=${LONGSHORE_MANY:-3000}
other_host "$peer4"
mkdir -p "$scratch/guest"
if ! cc -static -O2 -o "$scratch/guest/many" "$here/many.c" 2>"$scratch/cc.log"; then
    skip many "no static C library: $(last_words cc.log)"
    exit
fi
if ! start_nic; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi
cat >"$scratch/echo.py" <<'ECHO'
# Sends back what comes to port 9003.
import selectors, socket, sys
listener = socket.create_server((sys.argv[1], 9003), backlog=1024)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        try:
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
            elif data := key.fileobj.recv(65536):
                key.fileobj.sendall(data)
            else:
                raise OSError("closed")
        except OSError:
            selector.unregister(key.fileobj)
            key.fileobj.close()
ECHO
start echo.log nsenter --net="/proc/$other/ns/net" python3 "$scratch/echo.py" "$peer4"

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
many() { /mnt/many "$PEER" 9003 "$@"; }
current() { awk '/^TlsCurr(Tx|Rx)Device/ { sum += $2 } END { print sum }' /proc/net/tls_stat; }
all_have_come() { [ "$(awk '/^TlsRxDevice[ \t]/ { print $2 }' /proc/net/tls_stat)" -ge "$COUNT" ]; }
gone() { [ "$(current)" = 0 ]; }
# Some connections are held while the interface goes down and up; they are kernel TLS without the NIC from then on.
held() {
    mkfifo /tmp/ask /tmp/told
    many 0 50 </tmp/ask >/tmp/told &
    exec 3>/tmp/ask 4</tmp/told
    read -r word <&4
    [ "$(current)" = 100 ] || return 1
    ip link set "$dev" down
    ip link set "$dev" up
    echo >&3
    read -r word <&4
    exec 3>&- 4<&-
    [ "$word" = echoed ] && wait $!
}
# The module goes while connections come and go, which fail then.
goes() {
    many 100000 >/dev/null 2>&1 &
    sleep 2
    rmmod longshore || return 1
    kill $! 2>/dev/null
    use
}
try 'the module loads' use
try "$COUNT connections" many "$COUNT"
try 'all were offloaded' all_have_come
try 'none is left' gone
try 'connections go on when the interface goes down' held
try 'the module goes with offloaded connections' goes
try 'and comes again' many 100
ip link set "$dev" down
try 'the module goes' rmmod longshore
try 'the kernel has nothing to complain of' no_complaint
SCRIPT
if boot 500 --smp 2 -- env "COUNT=$count"; then ok 'the guest runs to the end'; else not_ok 'the guest runs to the end' "$(last_words boot.log) $(last_words guest.log)"; fi
repeat_cases guest.log
same_number() { [[ $(counter "$1") -ge $count && $(counter "$1") == $(counter "$2") ]]; }
for direction in tx rx; do
    if same_number "${direction}_tls_ctx" "${direction}_tls_del"; then ok "the NIC has no $direction context left"; else not_ok "the NIC has no $direction context left" "$(counter ${direction}_tls_ctx) made, $(counter ${direction}_tls_del) ended"; fi
done
