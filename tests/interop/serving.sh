# Sourced behind harness.sh by the scripts that have curl and wrk against `longshore serve`, with what the NIC does turned on.
# shellcheck shell=bash

make_tap && make_certificates
make_file large 4194304
make_file small 1000
printf '<p>index</p>\n' >"$scratch/root/index.html"

# serve OPTION…: on ports of its own kind; `$scheme` and `$port` say which.
serve() {
    rm -f "$scratch/capture.pcapng"
    start serve.log "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --control "$scratch/control" \
        --pcap "$scratch/capture.pcapng" "$@"
    serve=$started
    eventually listens "$ours4" "$port"
}

counter() { "$LONGSHORE" stat "$scratch/control" 2>/dev/null | awk -v name="$1:" '$1 == name { print $2; exit }'; }

# get FILE OPTION…: over each family, the bytes compared.
get() {
    local file=$1 family
    shift
    for family in 4 6; do
        rm -f "$scratch/got"
        curl -s --max-time 20 --cacert "$scratch/ca.pem" "$@" -o "$scratch/got" "$scheme://$(url_address "$family" ours)/$file" ||
            { why="curl exit $?, IPv$family"; return 1; }
        cmp -s "$scratch/root/$file" "$scratch/got" || { why="the bytes differ, IPv$family"; return 1; }
    done
}

codes() {
    local got
    got=$(curl -s --max-time 20 --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_code} ' -I "$scheme://$ours4/small" \
        --next -s --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_code} ' "$scheme://$ours4/absent" \
        --next -s --cacert "$scratch/ca.pem" -o /dev/null -w '%{http_code}:%{num_connects}' "$scheme://$ours4/")
    why="status codes and connects: $got"
    [[ $got == '200 404 200:0' ]]
}

range() {
    curl -s --max-time 20 --cacert "$scratch/ca.pem" -r 100000-299999 -o "$scratch/got" "$scheme://$ours4/large"
    why='the bytes differ'
    cmp -s "$scratch/got" <(tail -c +100001 "$scratch/root/large" | head -c 200000)
}

# Many connections, each for one request.
short() {
    local list=() i wrong=0
    for i in {1..60}; do list+=(-o "$scratch/got-$i" "$scheme://$ours4/small"); done
    curl -s --max-time 30 --parallel --parallel-max 12 --http1.1 -H 'Connection: close' --cacert "$scratch/ca.pem" "${list[@]}"
    for i in {1..60}; do cmp -s "$scratch/root/small" "$scratch/got-$i" || wrong=$((wrong + 1)); done
    rm -f "$scratch"/got-*
    why="$wrong of 60 differ"
    [[ $wrong -eq 0 ]]
}

load() {
    if ! command -v wrk >/dev/null; then
        skip "$1" 'no wrk'
        return
    fi
    wrk -t 1 -c 16 -d "${2}s" "$scheme://$ours4/small" >"$scratch/wrk.log" 2>&1
    local requests
    requests=$(awk '/requests in/ { print $1 }' "$scratch/wrk.log")
    if [[ ${requests:-0} -gt 100 ]] && ! grep -q 'Socket errors\|Non-2xx' "$scratch/wrk.log"; then
        ok "$1: $requests requests"
    else
        not_ok "$1" "$(tr '\n' ' ' <"$scratch/wrk.log" | cut -c 1-300)"
    fi
}

# No connection is left when everybody has gone, but for those that rest in TIME-WAIT.
all_end() {
    local connections
    connections=$("$LONGSHORE" ss "$scratch/control" 2>&1)
    why="left: $(grep -v LISTEN <<<"$connections" | tr '\n' ' ' | cut -c 1-200)"
    [[ $connections == *LISTEN* ]] &&
        ! grep -q 'ESTAB\|CLOSE-WAIT\|LAST-ACK\|SYN-\|FIN-WAIT\|CLOSING' <<<"$connections"
}

# dissect NAME: what tshark thinks of the capture.
dissect() {
    if ! command -v tshark >/dev/null; then
        skip "$1" 'no tshark'
        return
    fi
    local bad total filter
    filter='_ws.malformed && !tcp.analysis.retransmission && !tcp.analysis.out_of_order'
    tshark -r "$scratch/capture.pcapng" -q -z "io,stat,0,tcp,$filter" >"$scratch/counts" 2>"$scratch/tshark.log"
    # The only interval: its bounds, then frames and bytes of each filter.
    read -r total bad < <(awk -F'|' '/<>/ { print $3 + 0, $5 + 0 }' "$scratch/counts")
    [[ ${bad:-1} -eq 0 ]] || bad=$(tshark -r "$scratch/capture.pcapng" -Y "$filter" 2>/dev/null | head -n 3)
    if [[ ${bad:-1} == 0 && $total -gt 100 ]]; then
        ok "$1: $total packets"
    else
        not_ok "$1" "of $total packets: $(tr '\n' ' ' <<<"$bad" | cut -c 1-300) $(last_words tshark.log)"
    fi
}

# Checksums are left to the TAP where it takes them, so that a capture has them unfinished: Linux, which receives them, counts.
no_checksum_errors() {
    why=$(awk '/^Tcp: [A-Z]/ { for (i = 2; i <= NF; i++) name[i] = $i }
        /^Tcp: [0-9]/ { for (i = 2; i <= NF; i++) if (name[i] ~ /^(InErrs|InCsumErrors)$/ && $i > 0) print name[i], $i }' /proc/net/snmp)
    [[ -z $why ]]
}
