# Faults that the NIC makes when it is asked to (`longshore fault`): kernel TLS in a guest lives with them.
. "$(dirname "$0")/world.sh"
needs ip python3 openssl unshare nsenter

megabytes=8
other_host "$peer4"
make_certificates
start_tls_peer $((megabytes << 20))
if ! start_nic || ! eventually grep -q 'listening 4433' "$scratch/peer.log"; then
    not_ok 'the NIC starts' "$(last_words nic.log) $(last_words peer.log)"
    exit
fi
fault() { "$LONGSHORE" fault "$control" --host "$socket" "$@" >"$scratch/fault.log" 2>&1; }
if fault drop 1 || ! grep -q -- --faults "$scratch/fault.log"; then
    not_ok 'a NIC without --faults refuses them' "$(last_words fault.log)"
else
    ok 'a NIC without --faults refuses them'
fi
kill "$nic" && wait "$nic"
start_nic --faults
digest=$(sed -n 's/^digest //p' "$scratch/peer.log")

cat "$here/guest_cases" - >"$scratch/script" <<'SCRIPT'
exec 3>&1
# step WHEN FAULT: who reads this makes the NIC fail now, or no longer, and says so.
step() {
    echo "$1 $2" >&3
    until [ -e "/mnt/$1-$2" ]; do sleep 0.1; done
}
# download FAULT: the NIC fails before it, or when part of it has come and the rest waits.
download() {
    step before "$1"
    openssl s_client -ktls -tls1_2 -quiet -nocommands -connect "$PEER:4434" -ign_eof </dev/null 2>/tmp/log | {
        head -c 1048576
        step during "$1"
        cat
    } | sha256sum | cut -d ' ' -f 1 | sed "s/^/$1 /"
    step after "$1"
}
use || exit 1
for fault in none drop corrupt late refuse; do download $fault; done
cat /proc/net/tls_stat
ethtool -S "$dev"
no_complaint && echo 'complaints 0'
SCRIPT

# Makes it fail as the guest says, once for each of its steps.
provoke() {
    local step last=''
    while sleep 0.1; do
        step=$(tr -d '\r' <"$scratch/guest.log" | grep -E '^(before|during|after) ' | tail -n 1)
        [[ $step != "$last" ]] || continue
        case $step in
        'during drop') fault drop 3 ;;
        'during corrupt') fault corrupt ;;
        'during late') fault late 300 && fault corrupt ;;
        'after late') fault late 0 ;;
        'before refuse') fault refuse 1 ;;
        'after refuse') fault refuse 0 ;;
        esac
        last=$step
        : >"$scratch/guest/${step/ /-}"
    done
}
mkdir -p "$scratch/guest"
: >"$scratch/guest.log"
provoke &
pids+=("$!")
boot 200 --
code=$?
tr -d '\r' <"$scratch/guest.log" >"$scratch/told"
value() { awk -v name="$1" '$1 == name || $1 == name ":" { print $2; exit }' "$scratch/told"; }
if [[ $code -ne 0 ]]; then
    not_ok 'the guest runs to the end' "code $code: $(last_words boot.log) $(last_words guest.log)"
    exit
fi
for fault in none drop corrupt late refuse; do
    if [[ $(value "$fault") == "$digest" ]]; then ok "$fault: the same bytes"; else not_ok "$fault: the same bytes" "$(last_words told)"; fi
done
counts() { # NAME LEAST
    if [[ $(counter "$1") -ge $2 ]]; then ok "$1 has counted: $(counter "$1")"; else not_ok "$1 has counted" "$(counter "$1")"; fi
}
counts rx_fault_dropped 3
counts rx_tls_err 1
counts contexts_fault_refused 1
if [[ $(value TlsRxSw) -ge 1 ]]; then ok 'where a context is refused, the kernel decrypts'; else not_ok 'where a context is refused, the kernel decrypts' "TlsRxSw $(value TlsRxSw)"; fi
if [[ $(value TlsDecryptError) == 0 && $(value complaints) == 0 ]]; then ok 'the kernel has nothing to complain of'; else not_ok 'the kernel has nothing to complain of' "$(last_words told)"; fi
