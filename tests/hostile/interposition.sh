# Finding 10: a program whose records the library makes writes by every way that the C library has. What comes to the peer is records, or nothing.
. "$(dirname "$0")/world.sh"
needs cc
if ! compile interpose; then
    skip interposition "no compiler: $(last_words cc.log)"
    exit
fi
ip link set lo up
start receiver.log "$python" -c "
import socket
listener = socket.create_server(('127.0.0.1', 7000))
print('listens', flush=True)
while True:
    connection, _ = listener.accept()
    came = b''
    while data := connection.recv(65536):
        came += data
    print(len(came), 'clear' if b'not to be read' in came else 'unreadable', flush=True)"
eventually grep -q listens "$scratch/receiver.log"
as_user $victim
came() { [[ $(wc -l <"$scratch/receiver.log") -gt $1 ]]; }
by() { # FUNCTION
    local said lines bytes how
    lines=$(wc -l <"$scratch/receiver.log")
    said=$("${as[@]}" env LD_PRELOAD="$scratch/libktls.so" timeout 10 "$scratch/interpose" 127.0.0.1 7000 "$1" 2>&1)
    if [[ $said == absent ]]; then
        skip "$1" 'this C library has it not'
        return
    fi
    eventually came "$lines"
    read -r bytes how < <(tail -n 1 "$scratch/receiver.log")
    case $how in
    clear) not_ok "$1 on a TLS socket" "$bytes bytes came, in clear" ;;
    *) ok "$1 on a TLS socket: $bytes bytes came, none readable ($said)" ;;
    esac
}
for function in write __write writev send __send sendto sendmsg sendmmsg pwrite pwrite64 pwritev pwritev64 pwritev2 pwritev64v2 sendfile sendfile64 splice \
    vmsplice tee copy_file_range dprintf vdprintf __dprintf_chk __vdprintf_chk aio_write aio_write64 lio_listio lio_listio64; do
    by "$function"
done

# ---- past the library, where the NIC makes the records ----------------------------------------------------------------
world
peer sink.log sink "$ours4" 7000
sniff past
as_user $victim
said=$("${as[@]}" env LD_PRELOAD="$scratch/libktls.so" LONGSHORE_NIC="$control" timeout 10 "$scratch/interpose" "$ours4" 7000 syscall 2>&1)
echo "# $said"
nothing_clear 'a system call past the library, on a socket whose records the NIC makes' past 3
