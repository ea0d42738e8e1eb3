# `longshore metrics`: what it serves is read by Prometheus's own parser of OpenMetrics; services that end and come back; other requests.
# `longshore top`, on a terminal and without one.
. "$(dirname "$0")/harness.sh"
needs curl ip /usr/bin/python3
if ! /usr/bin/python3 -c 'import prometheus_client.openmetrics.parser' 2>/dev/null; then
    skip metrics 'no python3-prometheus-client'
    exit
fi

ip link set lo up
mkdir "$scratch/root" && echo content >"$scratch/root/page"
address=127.0.0.1:9477

serve() {
    "$LONGSHORE" serve --tap lsc0 --ip "$ours4/24" --peer-ip "$linux4/24" --root "$scratch/root" --control "$scratch/web.sock" \
        --background >"$scratch/serve.log" 2>&1
}
fetch() { curl -sk --max-time 10 "https://$ours4/page" >/dev/null; }
scrape() { curl -s --max-time 10 "http://$address/metrics"; }

# value NAME LABEL=VALUE…: of the sample with these labels among them, as the parser reads it.
value() {
    scrape | /usr/bin/python3 -c '
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
name, labels = sys.argv[1], dict(each.split("=", 1) for each in sys.argv[2:])
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        if sample.name == name and labels.items() <= sample.labels.items():
            print(int(sample.value))' "$@"
}
is() { # VALUE NAME LABEL=VALUE…
    local got
    got=$(value "${@:2}" 2>&1)
    why="$2 is '$(tail -n 1 <<<"$got")', not $1"
    [[ $got == "$1" ]]
}

serve || why=$(last_words serve.log)
fetch
start metrics.log "$LONGSHORE" metrics --listen "$address" "$scratch/web.sock" gone="$scratch/none.sock"
eventually curl -s "http://$address/"
try 'a counter is read by the parser' is 1 longshore_http_requests_total service=web
try 'a gauge is' is 0 longshore_http_connections_open service=web
try 'a service that answers is up' is 1 longshore_up service=web
try 'one that is not there is down' is 0 longshore_up service=gone

counts_on() {
    local before after
    before=$(value longshore_nic_tx_bytes_total)
    fetch
    after=$(value longshore_nic_tx_bytes_total)
    why="tx_bytes went from '$before' to '$after'"
    [[ $before -gt 0 && $after -gt $before ]]
}
try 'counters grow between scrapes' counts_on

sees_requests() {
    fetch &
    why=$("$LONGSHORE" top "$scratch/web.sock" gone="$scratch/none.sock" --count 1 2>&1)
    grep -qE '^ +web .* up$' <<<"$why" && grep -qE '^ +gone .* down: ' <<<"$why" && grep -qE '^ +web +http +requests +[0-9]+ ' <<<"$why"
}
try 'top prints services, up and down, and counters' sees_requests
has_a_screen() {
    (sleep 2; printf '\t\t\t\t'; sleep 1; printf 'q') |
        timeout 30 script -qec "stty rows 40 cols 120; '$LONGSHORE' top '$scratch/web.sock'" /dev/null >"$scratch/screen.log"
    local code=$?
    why="exit code $code: $(tr -d '\033' <"$scratch/screen.log" | tail -c 300)"
    [[ $code -eq 0 ]] && grep -aq 'longshore top' "$scratch/screen.log" && grep -aq tx_bytes "$scratch/screen.log"
}
# The terminal goes, and does not send a signal.
ends_with_its_terminal() {
    local code
    # shellcheck disable=SC2016 # expanded by python
    python3 -c '
import fcntl, os, pty, signal, struct, sys, termios, time
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.execv(sys.argv[1], [sys.argv[1], "top", sys.argv[2]])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
signal.alarm(60)
seen = b""
while b"longshore top" not in seen:
    seen += os.read(terminal, 65536)
os.close(terminal)
for _ in range(200):
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        sys.exit(0)
    time.sleep(0.05)
os.kill(pid, signal.SIGKILL)
sys.exit("it goes on")' "$LONGSHORE" "$scratch/web.sock" >"$scratch/terminal.log" 2>&1
    code=$?
    why=$(last_words terminal.log)
    [[ $code -eq 0 ]]
}
try 'top ends with its terminal' ends_with_its_terminal
if command -v script >/dev/null; then try 'top has a screen, whose keys work' has_a_screen; else skip 'top has a screen, whose keys work' 'no script'; fi
none_there() {
    why=$("$LONGSHORE" top "$scratch/none.sock" --count 1 2>&1) && return 1
    [[ $why == *'there is no control socket at'* ]]
}
try 'top says when no service answers' none_there

content_type() {
    why=$(curl -sI --max-time 10 "http://$address/metrics" | tr -d '\r' | grep -i '^content-type: ')
    [[ $why == *application/openmetrics-text* ]]
}
try 'HEAD tells the type of the content' content_type
answers() { why=$(curl -s -o /dev/null -w '%{http_code}' "${@:2}") && [[ $why == "$1" ]]; }
try 'another path is 404' answers 404 "http://$address/secret"
try 'POST is 405' answers 405 -d x "http://$address/metrics"

"$LONGSHORE" stop "$scratch/web.sock" >/dev/null
try 'a service that has ended is down' is 0 longshore_up service=web
serve
try 'and up when it is back' is 1 longshore_up service=web

# Eight clients that ask nothing do not keep a scraper out for longer than their time.
silent() {
    local fds=() fd
    for _ in {1..12}; do
        exec {fd}<>"/dev/tcp/${address/:/\/}" && fds+=("$fd")
    done
    why='no answer within 10 s'
    eventually is 1 longshore_up service=web
    local code=$?
    for fd in "${fds[@]}"; do exec {fd}>&-; done
    return "$code"
}
try 'clients that ask nothing are closed' silent
ends() { kill "$started" && wait "$started"; }
try 'SIGTERM ends it with 0' ends
"$LONGSHORE" stop "$scratch/web.sock" >/dev/null
