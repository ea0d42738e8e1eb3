# Sourced by every script here, after interop's harness: Linux with clients that behave and with backends on the TAP, and a namespace with those that
# do not, whose packets Linux forwards.
# shellcheck shell=bash
pressure=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$pressure/../interop/harness.sh"
needs ip python3 nsenter setpriv
export PYTHONDONTWRITEBYTECODE=1

# size SMALL WHOLE: what this run takes of the two.
size() { if [[ -n ${WHOLE:-} ]]; then echo "$2"; else echo "$1"; fi; }
# Each connection is a file of its client's, and two of a backend's; its ports are those of one address.
needs_connections() {
    ulimit -n "$(ulimit -Hn)"
    if [[ $(ulimit -n) -lt $(($1 + 500)) ]]; then
        skip "$(basename "$0" .sh)" "$1 connections take $(($1 + 500)) open files, and \`ulimit -Hn\` is $(ulimit -Hn)"
        exit
    fi
    sysctl -q -w net.ipv4.ip_local_port_range='10000 65000' net.ipv4.tcp_tw_reuse=1 net.core.somaxconn=16384
}

make_tap || exit
make_file large 262144
make_file small 1024
chmod -R a+rX "$scratch"
if ! start_other || ! ip link add c0 type veth peer name c1 netns "$other"; then
    skip "$(basename "$0" .sh)" 'no second network namespace, or no veth'
    exit
fi
ip addr add 10.78.0.129/24 dev c0
ip link set c0 up
there ip addr add 10.78.0.2/24 dev c1
there ip link set c1 up
there ip route add default via 10.78.0.129
there sysctl -q -w net.ipv4.ip_local_port_range='10000 65000'
sysctl -q -w net.ipv4.ip_forward=1

# start_daemon READY COMMAND…: longshore with the TAP; $daemon is its process.
start_daemon() {
    local ready=$1
    shift
    start daemon.log "$LONGSHORE" "$@" "${our_addresses[@]}" --gateway "$linux4" --control "$scratch/control"
    daemon=$started
    eventually "$LONGSHORE" stat "$scratch/control" && eventually listens "$ours4" "$ready" && return
    not_ok "$(basename "$0" .sh): longshore starts" "$(last_words daemon.log)"
    exit
}

# start_backends: two nginx, which take what is put to /sink.
start_backends() {
    needs nginx
    local number
    {
        echo "daemon off; worker_processes 1; worker_rlimit_nofile $(ulimit -n); pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;"
        [[ $(id -u) -ne 0 ]] || echo 'user root;'
        echo "events { worker_connections $(($(ulimit -n) / 2)); }"
        echo 'http { access_log off; keepalive_requests 1000000; client_max_body_size 16m; send_timeout 600;'
        temporary_paths nginx
        for number in 1 2; do
            echo "server { listen $linux4:808$number backlog=16384; root $scratch/root; location = /health { return 204; }"
            # nginx reads all of what it passes on; it answers with the length.
            echo "location = /sink { proxy_pass http://$linux4:8079/; } }"
        done
        # shellcheck disable=SC2016 # nginx's own variable
        echo "server { listen $linux4:8079; location / { return 200 \"\$content_length\"; } }"
        echo '}'
    } >"$scratch/nginx.conf"
    start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
    eventually listens "$linux4" 8081
}

# start_lb OPTION…: lb in front of them.
start_lb() {
    cat >"$scratch/lb.toml" <<END
[frontends.web]
listen = ["$ours4:80"]
pool = "app"
[pools.app]
backends = ["$linux4:8081", "$linux4:8082"]
health = { path = "/health", status = [204], interval = "1s" }
END
    start_daemon 80 lb --config "$scratch/lb.toml" "$@"
}

# press SCENARIO PORT TITLE OPTION…
press() {
    local scenario=$1 port=$2 title=$3
    shift 3
    python3 "$pressure/pressure.py" "$scenario" --daemon "${name:-$LONGSHORE}" --title "$title" --pid "$daemon" --there "$other" --address "${tls:-}$ours4" \
        --port "$port" --log "$scratch/victims.log" ${WHOLE:+--whole} ${RESULTS:+--results "$RESULTS"} "$@" || failures=$((failures + 1))
}
victims=(--victim "/small=$scratch/root/small" --victim "/small=$scratch/root/small" --victim "/large=$scratch/root/large")
