# 8,000 connections that each ask for 1 KiB again and again: all are answered.
. "$(dirname "$0")/world.sh"
needs wrk
count=$(size 1000 8000) seconds=$(size 5 20)
needs_connections "$count"

# ask NAME: a case, and a line of results.
ask() {
    local name="$1, $count connections" rate errors
    wrk --threads 2 --timeout 20s --latency --connections "$count" --duration "${seconds}s" "http://$ours4/small" >"$scratch/wrk.log" 2>&1
    rate=$(sed -n 's/^Requests\/sec: *//p' "$scratch/wrk.log")
    errors=$(grep -E 'Socket errors|Non-2xx' "$scratch/wrk.log" | tr -s ' \n' ' ')
    if [[ -z $rate || ${rate%.*} -eq 0 || -n $errors ]]; then not_ok "$name: all are answered" "${errors:-$(last_words wrk.log)}"; else ok "$name: all are answered"; fi
    [[ -z $RESULTS ]] || printf '{"scenario": "connections", "daemon": "%s", "count": %d, "per_second": %s, "p99": "%s", "errors": "%s"}\n' "$1" "$count" \
        "${rate:-0}" "$(awk '$1 == "99%" { print $2 }' "$scratch/wrk.log")" "$errors" >>"$RESULTS"
    echo "# $1: ${rate:-0} requests a second"
}
start_daemon 80 serve --plain --root "$scratch/root"
ask serve
stop "$daemon"
start_backends
start_lb
ask lb
