# A virtual machine's device stays when the NIC's worker dies, and when a next version takes over: its function fails, and is enabled again.
. "$(dirname "$0")/harness.sh"
needs ip python3 nsenter unshare

other_host "$ours4"
control=$scratch/nic.sock state=$scratch/state socket=$scratch/vfio.sock
command=("$LONGSHORE" nic --wire packet:w0 --control "$control" --state "$state" --drain 0)
host=(--host "vfio-user:$socket,queues=1")
is_enabled() { grep -qx "enabled $1" "$scratch/vmm.log"; }
is_closed() { grep -qx closed "$scratch/vmm.log"; }
has_ended() { ! kill -0 "$1" 2>/dev/null; }
start_next() { # OPTION…
    start next.log "${command[@]}" --take-over "$@"
    next=$started
}
start_vmm() {
    : >"$scratch/vmm.log"
    start vmm.log python3 "$(dirname "$0")/vmm.py" "$socket" 1
}
# again N NAME: the function is enabled for the Nth time, by the same gate.
again() {
    if eventually is_enabled "$1" && [[ $(pidof_gate) == "$gate" ]] && ! is_closed; then ok "$2"; else
        not_ok "$2" "$(last_words vmm.log) $(last_words nic.log) $(last_words next.log)"
    fi
}
pidof_gate() { pgrep -f -- "--state $state .*--guest-gate" | head -n 1; }

start nic.log "${command[@]}" "${host[@]}"
nic=$started
eventually "$LONGSHORE" stat "$control"
start_vmm
eventually is_enabled 1
gate=$(pidof_gate)
again 1 'a virtual machine enables its function'
kill -9 "$(child --worker)"
again 2 'and again when the worker has died'

start_next "${host[@]}" --pcap "$scratch/nowhere/wire.pcapng"
eventually has_ended "$next"
again 3 'and when a next version could not take over'
start_next "${host[@]}"
eventually has_ended "$nic"
nic=$next
again 4 'and when one has taken over'
kill -9 "$(child --worker)"
again 5 "and when that one's worker has died"
cp "$scratch/next.log" "$scratch/nic.log"
start_next "${host[@]}"
eventually has_ended "$nic"
nic=$next
again 6 'and when another one has taken over'

start_next --host "vfio-user:$scratch/other.sock,queues=1"
if eventually is_closed && grep -q 'lose their devices' "$scratch/next.log"; then ok 'a next version without its socket takes its device away, and says so'; else
    not_ok 'a next version without its socket takes its device away, and says so' "$(last_words vmm.log) $(last_words next.log)"
fi
eventually has_ended "$nic"
nic=$next
stop "$nic"
if [[ -z $(pidof_gate) ]]; then ok 'the gate ends with the NIC'; else not_ok 'the gate ends with the NIC' "$(pidof_gate)"; fi
