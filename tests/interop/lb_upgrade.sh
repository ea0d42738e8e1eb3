# `longshore lb --take-over`: another process takes the place of the one that runs, and neither clients nor backends notice, whatever is under way
# and whichever of the two is killed. What it has in common with `serve`'s, and its variables, are in upgrade.sh.
. "$(dirname "$0")/harness.sh"
needs curl ip nginx openssl wrk

control=$scratch/control
make_certificates
make_file large 20000000
. "$(dirname "$0")/upgrade.sh"
chmod -R a+rX "$scratch"
# What is not for others to see goes to backends in TLS, too.
cat >"$scratch/nginx.conf" <<END
daemon off; worker_processes 1; pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;
$([[ $(id -u) -eq 0 ]] && echo 'user root;')
events { worker_connections 8192; }
http { access_log off; default_type application/octet-stream; keepalive_requests 100;
$(for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/nginx-$kind;"; done)
$(for port in 8081 8082; do echo "server { listen $linux4:$port backlog=4096; root $scratch/root; location = /port { return 200 '$port\n'; } }"; done)
server { listen $linux4:8443 ssl backlog=4096; root $scratch/root; ssl_certificate $scratch/leaf.pem; ssl_certificate_key $scratch/leaf.key; }
}
END
configure() {
    cat >"$scratch/lb.toml" <<END
shutdown-time = "5s"

[frontends.secure]
listen = ["$ours4:443"]
tls = true
pool = "secure"

[frontends.web]
listen = ["$ours4:80"]
pool = "app"

[frontends.bytes]
listen = ["$ours4:81"]
mode = "tcp"
pool = "app"

[pools.secure]
backends = ["$linux4:8443"]
tls = true
ca = "ca.pem"
sni = "longshore.test"
health = { path = "/marked", interval = "250ms" }

[pools.app]
# Nothing listens at the last one.
backends = ["$linux4:8081", "$linux4:8082", "$linux4:8083"]
health = { path = "/port", interval = "250ms" }
END
}
command=("$LONGSHORE" lb --config "$scratch/lb.toml" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key" --control "$control")
url=https://$ours4
loads=("$url/marked" "http://$ours4/port")
clients=300

configure
make_tap
with_nginx() {
    start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
    nginx=$started
    eventually listens "$linux4" 8443
}
if ! with_nginx; then
    skip lb_upgrade "nginx did not start: $(last_words nginx.log)"
    exit
fi
# What a backend is known for goes with the place.
knows_backends() { # LABEL
    if says next-3.log "backend app $linux4:8083 is down, as the process before knew"; then ok "$1: a backend that is down is known to be"; else
        not_ok "$1: a backend that is down is known to be" "$(last_words next-3.log)"
    fi
}
whole 'one core'
knows_backends 'one core'

if first --accel splice; then
    misfits_are_refused
    successors_that_break_off
    # Bytes that the NIC relays, by a response and by a tunnel; and `drain`, which stays.
    "$LONGSHORE" lb drain "$control" app "$linux4:8082"
    status=0
    from=http://$ours4 download slow --http1.1 -H 'Connection: close'
    slow=$download
    from=http://$ours4:81 download tunnel --http1.1
    tunnel=$download
    are_spliced() { [[ $("$LONGSHORE" stat --all "$control") =~ accel_curr_splices:\ *2 ]]; }
    if eventually are_spliced; then ok 'the NIC relays'; else not_ok 'the NIC relays' "$("$LONGSHORE" stat --all "$control" | grep -F splices | paste -sd' ')"; fi
    upgrade spliced.log --accel splice
    ports=$(for _ in {1..12}; do curl -s --max-time 20 "http://$ours4/port"; done | sort -u | paste -sd' ')
    if [[ $ports == 8081 ]]; then ok 'a backend that drains goes on draining'; else not_ok 'a backend that drains goes on draining' "$ports answer"; fi
    wait "$slow" || status=$?
    is_whole 'a response is whole that the NIC relays' slow
    status=0
    wait "$tunnel" || status=$?
    is_whole 'a tunnel is whole that the NIC relays' tunnel
    if eventually has_ended "$former"; then ok 'splices are waited for'; else not_ok 'splices are waited for' "$(last_words spliced.log)"; fi
    stop "$service"
    stop_ends_a_successor
    keeps_its_place
    if [[ $(id -u) -eq 0 ]] && id nobody >/dev/null 2>&1; then
        chmod 755 "$scratch"
        another_user
    fi
    is_limited
    # The other service is not this one.
    first
    if "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --control "$control" --take-over >"$scratch/refused.log" 2>&1; then
        not_ok 'another service is refused' 'it is not'
    elif says refused.log 'it is `longshore lb`, not `longshore serve`' && answers; then
        ok 'another service is refused'
    else
        not_ok 'another service is refused' "$(last_words refused.log)"
    fi
    stop "$service"
else
    not_ok 'a load balancer with one core' "$(last_words first.log)"
    stop "$service"
fi

# ---- several cores ----------------------------------------------------------------------------------------------
stop "$nginx"
make_wide_tap
with_nginx
kills=3
whole 'two cores' --cores 2 --accel splice
knows_backends 'two cores'
