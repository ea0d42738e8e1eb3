# curl and wrk against `longshore serve` whose NIC sets connections up and finishes them: plain HTTP and HTTPS, with each part
# alone and with all of them; what was on the wire is dissected by tshark.
. "$(dirname "$0")/harness.sh"
needs curl openssl ip
. "$(dirname "$0")/serving.sh"

# Of the connections of one request the client closes some before `serve` does: of these nothing but a FIN is left to the NIC, if
# there is no TLS on them.
did_it() {
    local setups teardowns
    setups=$(counter AccelSetups) teardowns=$(counter AccelTeardowns)
    why="AccelSetups ${setups:=0}, AccelTeardowns ${teardowns:=0}"
    case $1 in
        setup) [[ $setups -gt 50 && $teardowns -eq 0 ]] ;;
        teardown) [[ $setups -eq 0 && $teardowns -gt 0 ]] ;;
        *) [[ $setups -gt 50 && ($teardowns -gt 0 || $scheme == https) ]] ;;
    esac
}

for accel in setup teardown all; do
    for kind in http:80 https:443; do
        scheme=${kind%:*} port=${kind#*:}
        [[ $accel != teardown || $scheme == http ]] || continue
        options=(--cert "$scratch/leaf.pem" --key "$scratch/leaf.key")
        [[ $scheme == https ]] || options=(--plain)
        label="serve --accel $accel, $scheme"
        if ! serve --accel "$accel" "${options[@]}"; then
            not_ok "$label" "serve did not start: $(last_words serve.log)"
            continue
        fi
        try "$label: files over both families" get large
        try "$label: HEAD, missing file, index and keep-alive" codes
        try "$label: a range" range
        try "$label: 60 connections of one request" short
        [[ $accel != all ]] || load "$label: wrk" 1
        try "$label: the NIC did its part" did_it "$accel"
        sleep 0.3
        try "$label: all connections end" all_end
        stop "$serve"
        try "$label: Linux has found no wrong checksum" no_checksum_errors
        [[ $accel != all ]] || dissect "$label: tshark finds no malformed packet"
    done
done
