# `longshore serve` reads its certificates, its pre-shared keys and its configuration again, by `longshore reload` and by SIGHUP, while
# connections go on. Each client gets the certificate for the name that it asks for.
. "$(dirname "$0")/harness.sh"
needs openssl ip curl

make_tap
make_file large 4194304
files=$scratch/files
mkdir -p "$files/live" "$files/archive"

# certificate FILE NAME: self-signed, for one name; into the directory that links lead to, as certbot keeps them.
certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$2" \
        -addext "subjectAltName=DNS:$2" -keyout "$files/archive/$1.key" -out "$files/archive/$1.pem" 2>>"$scratch/openssl.log"
    chmod 600 "$files/archive/$1.key"
    local end
    for end in key pem; do ln -sf "../archive/$1.$end" "$files/live/$1.$end"; done
}
certificate first first.test
certificate second '*.second.test'

configure() { # LINE…
    printf '%s\n' '[serve]' "root = \"$scratch/root\"" "cert = [\"$files/live/first.pem\", \"$files/live/second.pem\"]" \
        "key = [\"$files/live/first.key\", \"$files/live/second.key\"]" "$@" >"$files/serve.toml"
}
configure 'port = 443'

# Without a terminal, in which SIGHUP would be its end.
serve() { # OPTION…
    start serve.log setsid "$LONGSHORE" serve --config "$files/serve.toml" "${our_addresses[@]}" --control "$scratch/control" "$@"
    serve=$started
    eventually listens "$ours4" 443 && eventually "$LONGSHORE" stat "$scratch/control"
}
# Under a user of its own the keys must be that user's; here root stays root, without its capabilities.
if ! serve; then
    not_ok 'a server with two certificates from a file' "$(last_words serve.log)"
    exit
fi

# presented NAME: the fingerprint of what a client is shown that asks for this name.
presented() {
    timeout "$patience" openssl s_client -connect "$ours4:443" -servername "$1" </dev/null 2>/dev/null | fingerprint
}
fingerprint() { openssl x509 -noout -fingerprint -sha256 2>/dev/null; }
of() { fingerprint <"$files/live/$1.pem"; }

shows() { # CASE NAME CERTIFICATE
    local got want
    got=$(presented "$2") want=$(of "$3")
    if [[ -n $got && $got == "$want" ]]; then ok "$1"; else not_ok "$1" "$2 is shown $got, not $want"; fi
}
shows 'a name gets its certificate' first.test first
shows 'a wildcard gets its certificate' www.second.test second
shows 'another name gets the first certificate' other.test first

reload() { "$LONGSHORE" reload "$scratch/control" >"$scratch/reload.log" 2>&1; }
says() { # CASE COMMAND STATUS WORDS
    local status=0
    "$2" || status=$?
    if [[ $status -eq $3 ]] && grep -q -- "$4" "$scratch/reload.log"; then ok "$1"; else not_ok "$1" "exit $status: $(last_words reload.log)"; fi
}

# A client that is in the middle of a response keeps its connection; others come all the time.
curl -s --insecure --limit-rate 1M --max-time "$patience" -o "$scratch/slow" --connect-to "first.test:443:$ours4:443" https://first.test/large &
slow=$!
(
    for _ in {1..40}; do
        curl -s --insecure --max-time "$patience" -o /dev/null -w '%{http_code}\n' --connect-to "first.test:443:$ours4:443" https://first.test/large
    done
) >"$scratch/codes" 2>&1 &
clients=$!

for _ in 1 2 3; do certificate second '*.second.test' && reload; done
if kill -0 "$slow" 2>/dev/null; then under_way=yes; else under_way=; fi
says 'longshore reload' reload 0 '^reloaded$'
shows 'a renewed certificate is shown after longshore reload' www.second.test second
certificate first first.test
kill -HUP "$serve"
is_shown() { [[ $(presented first.test) == "$(of first)" ]]; }
if eventually is_shown; then ok 'a renewed certificate is shown after SIGHUP'; else not_ok 'a renewed certificate is shown after SIGHUP' "$(last_words serve.log)"; fi

before=$(presented first.test)
cp "$files/archive/second.key" "$files/archive/first.key"
says 'a key of another certificate is refused' reload 1 'not reloaded, all stays as it was: .*first.pem and .*first.key can.t be used; a certificate and its key must belong together'
rm "$files/archive/first.key"
says 'a missing key is refused' reload 1 'not reloaded, all stays as it was: .*first.key can.t be read'
if [[ -n $before && $(presented first.test) == "$before" ]]; then
    ok 'what was there stays'
else
    not_ok 'what was there stays' "$(last_words serve.log)"
fi
certificate first first.test
configure 'port = 8443' 'min-rate = 1000' 'send-timeout = 50'
says 'an option that needs a restart is named' reload 0 '^reloaded; changes of these options need a restart: --port$'
configure 'ports = 443'
says 'a wrong file is refused with its line' reload 1 'serve.toml:5: .*ports'
configure 'port = 443'

wait "$clients"
wrong=$(grep -cv '^200$' "$scratch/codes")
if [[ $(wc -l <"$scratch/codes") -eq 40 && $wrong -eq 0 ]]; then
    ok 'no client notices'
else
    not_ok 'no client notices' "$wrong of 40 requests failed: $(sort "$scratch/codes" | uniq -c | tr '\n' ' ')"
fi
status=0
wait "$slow" || status=$?
if [[ $status -ne 0 ]]; then
    not_ok 'a response that had begun is whole' "curl exit $status"
elif ! cmp -s "$scratch/slow" "$scratch/root/large"; then
    not_ok 'a response that had begun is whole' 'the bytes differ'
elif [[ -z $under_way ]]; then
    skip 'a response that had begun is whole' 'it came before the reloads were done'
else
    ok 'a response that had begun is whole'
fi
stop "$serve"

# Pre-shared keys.
psk() { printf 'ours:%s\n' "$1" >"$files/psk" && chmod 600 "$files/psk"; }
key=$(openssl rand -hex 32) other=$(openssl rand -hex 32)
psk "$key"
printf '%s\n' '[serve]' "root = \"$scratch/root\"" "psk = \"$files/psk\"" >"$files/serve.toml"
if ! serve; then
    not_ok 'a server with pre-shared keys' "$(last_words serve.log)"
    exit
fi
agrees() { # KEY
    timeout "$patience" openssl s_client -connect "$ours4:443" -tls1_3 -psk_identity ours -psk "$1" \
        -ciphersuites TLS_AES_128_GCM_SHA256 </dev/null >"$scratch/psk.log" 2>&1 && grep -q '^Reused, TLSv1.3' "$scratch/psk.log"
}
if agrees "$key"; then ok 'the pre-shared key is taken'; else not_ok 'the pre-shared key is taken' "$(last_words serve.log)"; fi
psk "$other"
says 'longshore reload of pre-shared keys' reload 0 '^reloaded$'
if agrees "$other" && ! agrees "$key" && grep -q 'alert' "$scratch/psk.log"; then ok 'the new pre-shared key is taken, the old one no more'; else
    not_ok 'the new pre-shared key is taken, the old one no more' "$(last_words serve.log)"
fi
printf '%s\n' '[serve]' "root = \"$scratch/root\"" 'plain = true' >"$files/serve.toml"
says 'another kind of secret is refused' reload 1 'only at a restart'
stop "$serve"
