# `longshore guest`, as a user has it: a command in a guest with the driver that is built in, and the other end of its wire.
. "$(dirname "$0")/world.sh"

guest() { timeout 200 "$LONGSHORE" guest "$@" >"$scratch/guest.log" 2>"$scratch/boot.log"; }

# shellcheck disable=SC2016 # expanded in the guest
guest --time 180 --smp 2 --functions 2 --loss 0.01 --pcap "$scratch/wire.pcapng" --share "$scratch" --peer 'iperf3 --server' -- \
    sh -c 'ethtool -i "$NETDEV" && nproc && ls -d /sys/class/net/eth1 && echo it writes >/mnt/written &&
        { iperf3 --client "$PEER" --bytes 4M >/tmp/log || ! cat /tmp/log; } && exit 7'
code=$?
if [[ $code -ne 7 ]]; then
    not_ok 'the exit code of a command is passed on' "$code: $(last_words guest.log) $(last_words boot.log)"
else
    ok 'the exit code of a command is passed on'
fi
# told NAME LINE: it is among what the command prints.
told() { if grep -qx "$2" "$scratch/guest.log"; then ok "$1"; else not_ok "$1" "$(last_words guest.log)"; fi; }
told 'what it prints goes to the standard output' 'driver: longshore'
told 'it has processors' 2
told 'it has functions' /sys/class/net/eth1
if [[ $(cat "$scratch/written" 2>/dev/null) == 'it writes' ]]; then ok 'it shares a directory'; else not_ok 'it shares a directory' 'no file'; fi
if [[ $(stat --format %s "$scratch/wire.pcapng" 2>/dev/null || echo 0) -gt $((4 << 20)) ]]; then
    ok 'its wire is captured'
else
    not_ok 'its wire is captured' "$(ls -l "$scratch")"
fi
if [[ -z $(ip netns list | grep longshore-) && -z $(ls -d /run/longshore/guest-* 2>/dev/null) ]]; then
    ok 'nothing of it is left'
else
    not_ok 'nothing of it is left' "$(ip netns list) $(ls -d /run/longshore/guest-*)"
fi

# What a run leaves that is killed, the next one removes.
"$LONGSHORE" guest --time 180 --peer 'echo it writes >/root/written; sleep 200' -- sleep 100 >/dev/null 2>&1 &
killed=$!
qemu() { pgrep -f "qemu-system-x86_64 .*/run/longshore/guest-$killed/"; }
has_namespace() { ip netns list | grep -q "^longshore-$killed"; }
if eventually qemu; then
    if grep -qx 'Seccomp:\s*2' "/proc/$(qemu | head -n 1)/status"; then ok 'QEMU has the system calls only that it needs'; else
        not_ok 'QEMU has the system calls only that it needs' "$(grep Seccomp "/proc/$(qemu | head -n 1)/status")"
    fi
fi
sleep 1
if [[ ! -e $LONGSHORE_GUEST_ROOT/root/written ]]; then ok 'what the peer writes is not kept'; else
    not_ok 'what the peer writes is not kept' "$LONGSHORE_GUEST_ROOT/root/written"
    rm "$LONGSHORE_GUEST_ROOT/root/written"
fi
has_namespace || echo '# there is no namespace before it is killed'
kill -9 "$killed"
wait "$killed" 2>/dev/null
guest --time 1 -- true
code=$?
if ! has_namespace && [[ -z $(ls -d "/run/longshore/guest-$killed"* 2>/dev/null) ]]; then ok 'what a killed run has left is removed'; else
    not_ok 'what a killed run has left is removed' "$(ip netns list) $(ls -d /run/longshore/*)"
fi
if [[ $code -eq 124 ]]; then ok 'its time is limited'; else not_ok 'its time is limited' "code $code"; fi
mkfifo "$scratch/pipe"
guest --console "$scratch/pipe" -- true
code=$?
if [[ $code -eq 125 ]] && grep -q 'nothing reads' "$scratch/boot.log"; then ok 'a console that is a pipe needs a reader'; else
    not_ok 'a console that is a pipe needs a reader' "code $code: $(last_words boot.log)"
fi
cat "$scratch/pipe" >"$scratch/piped" &
pids+=("$!")
guest --console "$scratch/pipe" --time 150 -- true
code=$?
if [[ $code -eq 0 ]] && grep -q 'Linux version' "$scratch/piped"; then ok 'and has its messages then'; else
    not_ok 'and has its messages then' "code $code: $(last_words boot.log)"
fi
guest --driver / -- true
code=$?
if [[ $code -eq 125 ]] && grep -q 'has no Kbuild' "$scratch/boot.log"; then
    ok 'no guest is code 125, with the reason'
else
    not_ok 'no guest is code 125, with the reason' "code $code: $(last_words boot.log)"
fi
