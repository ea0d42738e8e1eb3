# The driver in C of drivers/example, which is written from docs/device.md and the C header alone, behind `longshore nic`: Linux on the same
# machine pings it, and so does Linux on the other end of the wire.
. "$(dirname "$0")/harness.sh"
needs cc ip python3 unshare nsenter

peer4=10.77.0.3
control=$scratch/control socket=$scratch/echo.sock
if ! cc -std=c11 -Wall -Wextra -Werror -O2 -o "$scratch/echo" "$(dirname "$0")/../../drivers/example/echo.c" 2>"$scratch/cc.log"; then
    not_ok 'the driver in C compiles' "$(last_words cc.log)"
    exit
fi
ok 'the driver in C compiles'

cat >"$scratch/ping.py" <<'PING'
import os, socket, struct, sys

def checksum(data):
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF

address, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ping = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
ping.settimeout(5)
for number in range(count):
    rest = struct.pack(">HH", os.getpid() & 0xFFFF, number) + os.urandom(size)
    ping.sendto(struct.pack(">BBH", 8, 0, checksum(b"\x08\0\0\0" + rest)) + rest, (address, 0))
    while True:
        packet, (source, _) = ping.recvfrom(1 << 16)
        answer = packet[(packet[0] & 15) * 4 :]
        if source == address and answer[0] == 0 and answer[4:] == rest:
            break
    if checksum(answer) != 0:
        sys.exit("a wrong checksum")
PING

# pings [WHERE] COUNT BYTES
pings() {
    local run=()
    [[ $1 == there ]] && run=(there) && shift
    ${run[@]+"${run[@]}"} timeout 60 python3 "$scratch/ping.py" "$ours4" "$1" "$2" 2>"$scratch/ping.log" ||
        { why="$(last_words ping.log) $(last_words echo.log) $(last_words nic.log)"; return 1; }
}

has_ended() { ! kill -0 "$1" 2>/dev/null; }

other_host "$peer4"
start nic.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --host "rings:$socket" --wire packet:w0 --control "$control" --state "$scratch/state"
nic=$started
eventually "$LONGSHORE" stat "$control"
start echo.log "$scratch/echo" "$socket" "$ours4"
echo=$started
if ! eventually grep -q "^$ours4 is at " "$scratch/echo.log"; then
    not_ok 'the driver has a function' "$(last_words echo.log) $(last_words nic.log)"
    exit
fi
ok 'the driver has a function'
try 'Linux behind the same NIC pings the driver' pings 200 56
try 'large packets of it too' pings 20 1472
try 'Linux on the other end of the wire pings the driver' pings there 200 56

stop "$echo"
start echo.log "$scratch/echo" "$socket" "$ours4"
echo=$started
eventually grep -q "^$ours4 is at " "$scratch/echo.log"
try 'a driver that comes after another one answers' pings 20 56
stop "$nic"
if eventually has_ended "$echo" && grep -q 'the NIC has gone' "$scratch/echo.log"; then
    ok 'the driver hears that the NIC has gone'
else
    not_ok 'the driver hears that the NIC has gone' "$(last_words echo.log)"
fi
