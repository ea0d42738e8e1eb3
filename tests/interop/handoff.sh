# curl and wrk against `longshore serve` whose NIC runs the connections that a policy chooses, while they are taken back at random:
# plain HTTP, and HTTPS with its records made and opened by the NIC; what was on the wire is dissected by tshark.
. "$(dirname "$0")/harness.sh"
needs curl openssl ip
. "$(dirname "$0")/serving.sh"

# All connections are taken back, every now and then.
restore_at_random() {
    while sleep "0.0$((RANDOM % 9 + 1))"; do "$LONGSHORE" restore "$scratch/control"; done
}

did_it() {
    local accepted restored
    accepted=$(counter HandoffAccepted) restored=$(counter HandoffRestored)
    why="HandoffAccepted ${accepted:=0}, HandoffRestored ${restored:=0}"
    [[ $accepted -gt 20 && $restored -gt 5 ]]
}

# The records were the NIC's, though it did not have the connection all the time.
did_tls() {
    local device software
    device=$(counter TlsTxRecordsDevice) software=$(counter TlsTxRecordsSw)
    why="TlsTxRecordsDevice ${device:=0}, TlsTxRecordsSw ${software:=0}"
    [[ $device -gt 1000 && $device -gt $software ]]
}

they_agree() {
    local errors
    errors=$(counter DriverErrors)
    why="DriverErrors ${errors:=0}"
    [[ $errors -eq 0 ]]
}

for policy in fcfs t4 predict; do
    for kind in http:80 https:443; do
        scheme=${kind%:*} port=${kind#*:}
        options=(--offload both --cert "$scratch/leaf.pem" --key "$scratch/leaf.key")
        [[ $scheme == https ]] || options=(--plain)
        label="serve --handoff $policy, $scheme"
        if ! serve --handoff "$policy" "${options[@]}"; then
            not_ok "$label" "serve did not start: $(last_words serve.log)"
            continue
        fi
        start restore.log restore_at_random
        restoring=$started
        try "$label: files over both families" get large
        try "$label: HEAD, missing file, index and keep-alive" codes
        try "$label: a range" range
        try "$label: 60 connections of one request" short
        load "$label: wrk, and restores" 1
        stop "$restoring"
        load "$label: wrk" 1
        try "$label: the NIC ran connections and gave them back" did_it
        [[ $scheme == http ]] || try "$label: the NIC made the records" did_tls
        try "$label: host and NIC agree about every connection" they_agree
        sleep 0.3
        try "$label: all connections end" all_end
        stop "$serve"
        try "$label: Linux has found no wrong checksum" no_checksum_errors
        dissect "$label: tshark finds no malformed packet"
    done
done
