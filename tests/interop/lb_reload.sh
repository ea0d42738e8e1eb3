# `longshore lb` reads its configuration again, by `longshore reload` and by SIGHUP, under load: no client sees an error or a reset.
. "$(dirname "$0")/harness.sh"
needs nginx curl ip wrk

make_tap
make_file large 4194304
chmod -R a+rX "$scratch"

nginx_conf() {
    echo "daemon off; worker_processes 1; pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;"
    [[ $(id -u) -eq 0 ]] && echo 'user root;'
    echo 'events { worker_connections 4096; }'
    echo 'http { access_log off; default_type application/octet-stream; keepalive_requests 1000000;'
    local kind port
    for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/nginx-$kind;"; done
    for port in 8081 8082 8083; do
        echo "server { listen $linux4:$port; root $scratch/root; location = /port { return 200 '$port\n'; } }"
    done
    echo '}'
}
nginx_conf >"$scratch/nginx.conf"
start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
if ! eventually listens "$linux4" 8083; then
    skip lb_reload "nginx did not start: $(last_words nginx.log)"
    exit
fi

configure() { # BACKEND…
    local backends=''
    for backend in "$@"; do backends+="\"$linux4:$backend\", "; done
    printf '%s\n' "${options[@]}" '[frontends.web]' "listen = [\"$ours4:${port:-80}\"]" 'pool = "app"' \
        '[pools.app]' "backends = [${backends%, }]" 'health = { path = "/port", interval = "250ms" }' >"$scratch/lb.toml"
}
options=()
configure 8081 8082

# Without a terminal, in which SIGHUP would be its end.
start lb.log setsid "$LONGSHORE" lb --config "$scratch/lb.toml" "${our_addresses[@]}" --control "$scratch/control" --accel splice
balancer=$started
if ! eventually listens "$ours4" 80; then
    not_ok lb_reload "it did not start: $(last_words lb.log)"
    exit
fi

reload() { "$LONGSHORE" reload "$scratch/control" >"$scratch/reload.log" 2>&1; }
says() { # CASE STATUS WORDS
    local status=0
    reload || status=$?
    if [[ $status -eq $2 ]] && grep -q -- "$3" "$scratch/reload.log"; then ok "$1"; else not_ok "$1" "exit $status: $(last_words reload.log)"; fi
}
serving() { for _ in {1..12}; do curl -s --max-time "$patience" "http://$ours4/port"; done | sort -u | paste -sd' '; }
serve() { # CASE BACKENDS
    local got
    got=$(serving)
    if [[ $got == "$2" ]]; then ok "$1"; else not_ok "$1" "wanted $2, got $got"; fi
}
serve 'the backends of the start serve' '8081 8082'

wrk -t 1 -c 64 -d 8 --timeout 60 "http://$ours4/port" >"$scratch/wrk.log" 2>&1 &
load=$!
# One that is in the middle of a response on a backend that is taken away, which the NIC relays.
curl -s -H 'Connection: close' --limit-rate 500K --max-time "$patience" -o "$scratch/slow" "http://$ours4/large" &
slow=$!
sleep 1
sets=('8083' '8081 8082 8083' '8082 8083' '8081' '8083 8081')
for round in {1..20}; do
    # shellcheck disable=SC2086 # several words
    configure ${sets[round % 5]}
    reload || { not_ok 'longshore reload under load' "$(last_words reload.log)"; break; }
    sleep 0.1
done
configure 8083
says 'longshore reload' 0 '^reloaded$'
serve 'removed backends get nothing new' 8083
configure 8082 8083
kill -HUP "$balancer"
has_both() { [[ $(serving) == '8082 8083' ]]; }
if eventually has_both; then ok 'SIGHUP'; else not_ok 'SIGHUP' "$(last_words lb.log)"; fi

configure 8081
sed -i 's/^pool = .*/pool = "ap"/' "$scratch/lb.toml"
says 'a wrong file is refused with its line' 1 'not reloaded, all stays as it was: .*lb.toml:3: .*"ap"'
rm "$scratch/lb.toml"
says 'a missing file is refused' 1 'not reloaded, all stays as it was: .*lb.toml'
mkfifo "$scratch/lb.toml"
says 'a pipe is not waited for' 1 'no regular file'
rm "$scratch/lb.toml"
options=('[lb]' 'offload = "none"')
port=81 configure 8082 8083
says 'what needs a restart is named' 0 '^reloaded; changes of these options need a restart: --offload, frontends.web.listen$'
serve 'what was there stays' '8082 8083'

status=0
wait "$slow" || status=$?
if [[ $status -eq 0 ]] && cmp -s "$scratch/slow" "$scratch/root/large"; then
    ok 'a response that had begun is whole'
else
    not_ok 'a response that had begun is whole' "curl exit $status, or the bytes differ"
fi
wait "$load"
requests=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$scratch/wrk.log")
wrong=$(grep -E 'Socket errors|Non-2xx' "$scratch/wrk.log" | tr '\n' ' ')
if [[ -z $wrong && ${requests:-0} -gt 100 ]]; then
    ok 'no client notices'
else
    not_ok 'no client notices' "${requests:-no} requests; $wrong"
fi
stop "$balancer"
