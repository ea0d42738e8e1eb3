# All cases of h2spec (RFC 7540, which RFC 9113 has replaced, and RFC 7541), strict ones too, against `longshore serve` and `longshore lb`.
. "$(dirname "$0")/harness.sh"
needs openssl ip

if [[ -z ${LONGSHORE_H2SPEC:-} ]]; then
    skip h2spec "no h2spec: ${LONGSHORE_H2SPEC_LACKS:-run me by tests/interop/run}"
    exit
fi
make_tap && make_certificates
make_file page 100000
cp "$scratch/root/page" "$scratch/root/index.html"
chmod -R a+rX "$scratch"

# compare PLACE: every case passes. A case has two seconds, which is short on a busy machine: with failures all are asked once more.
compare() {
    local place=$1 result
    for _ in once again; do
        timeout 400 "$LONGSHORE_H2SPEC" -h "$ours4" -p 443 -t -k -S -o 2 -P /page >"$scratch/h2spec-$place.log" 2>&1
        result=$(grep -o '[0-9]* tests, .*failed' "$scratch/h2spec-$place.log")
        [[ $result == *', 0 failed' ]] && break
    done
    if [[ $result == '146 tests, 146 passed, 0 skipped, 0 failed' ]]; then
        ok "h2spec, $place: 146 cases"
    else
        # What it says of each.
        sed -n '/^Failures:/,$s/^/# /p' "$scratch/h2spec-$place.log"
        not_ok "h2spec, $place" "${result:-$(last_words "h2spec-$place.log")}"
    fi
}

# ---- serve ---------------------------------------------------------------------------------------------------
start serve.log "$LONGSHORE" serve "${our_addresses[@]}" --root "$scratch/root" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key"
if eventually listens "$ours4" 443; then compare serve; else not_ok 'h2spec, serve' "$(last_words serve.log)"; fi
stop "$started"

# ---- lb, with nginx behind it --------------------------------------------------------------------------------
if ! command -v nginx >/dev/null; then
    skip 'h2spec, lb' 'no nginx'
    exit
fi
cat >"$scratch/nginx.conf" <<END
daemon off; worker_processes 1; pid $scratch/nginx.pid; error_log $scratch/nginx-error.log;
$([[ $(id -u) -eq 0 ]] && echo 'user root;')
events { worker_connections 1024; }
http { access_log off; default_type application/octet-stream;
$(for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/nginx-$kind;"; done)
server { listen $linux4:8081; root $scratch/root; error_page 405 =200 \$uri; }
}
END
start nginx.log nginx -e "$scratch/nginx-error.log" -c "$scratch/nginx.conf"
if ! eventually listens "$linux4" 8081; then
    skip 'h2spec, lb' "nginx did not start: $(last_words nginx.log)"
    exit
fi
cat >"$scratch/lb.toml" <<END
[frontends.secure]
listen = ["$ours4:443"]
tls = true
pool = "app"

[pools.app]
backends = ["$linux4:8081"]
END
start lb.log "$LONGSHORE" lb --config "$scratch/lb.toml" "${our_addresses[@]}" --cert "$scratch/leaf.pem" --key "$scratch/leaf.key"
if eventually listens "$ours4" 443; then compare lb; else not_ok 'h2spec, lb' "$(last_words lb.log)"; fi
