# Programs of Debian 13 that ask for kernel TLS, and their OpenSSL 3.5: nginx, Python's ssl with threads and forks, stunnel and socat, each in software
# and behind the NIC, to curl on another host that knows nothing of it. Large files go both ways.
#
# LONGSHORE_TRIXIE is where trixie.sh has them; `run` sets it.
. "$(dirname "$0")/harness.sh"
needs openssl ip curl nsenter unshare

if [[ -z ${LONGSHORE_TRIXIE:-} ]]; then
    skip 'ktls_today' "no programs of Debian 13: ${LONGSHORE_TRIXIE_LACKS:-run me by tests/interop/run}"
    exit
fi
here=$(realpath "$(dirname "$0")")/ktls_today

# today PROGRAM: the words that run it with its own libraries, in $today.
libraries=$LONGSHORE_TRIXIE/usr/lib/x86_64-linux-gnu
today() { today=("$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$LONGSHORE_TRIXIE/usr/$1"); }

ip link set lo up
make_certificates
make_openssl_configuration
cat "$scratch/leaf.pem" "$scratch/leaf.key" >"$scratch/both.pem"
megabytes=100
make_file large $((megabytes << 20))
make_file upload $((megabytes << 20))
chmod 755 "$scratch"
# For the workers of nginx, which are another user's.
chmod 777 "$scratch/root"

other_host "$ours4"
control=$scratch/nic.sock
start nic.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --wire packet:w0 --control "$control" --state "$scratch/state"
if ! eventually "$LONGSHORE" stat "$control"; then
    not_ok 'the NIC starts' "$(last_words nic.log)"
    exit
fi

# nginx, once with TLS and kernel TLS, and without either, as what stunnel and socat pass on to.
nginx_configuration() { # NAME LISTEN TLS-LINES
    cat <<CONF
daemon off;
worker_processes 2;
pid $scratch/$1.pid;
error_log stderr info;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    client_max_body_size 0;
$(temporary_paths "$1")
    server {
        listen $2;
        $3
        root $scratch/root;
        dav_methods PUT;
    }
}
CONF
}
nginx_configuration tls "$linux4:8443 ssl" "ssl_certificate $scratch/leaf.pem; ssl_certificate_key $scratch/leaf.key;
        ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Options KTLS;" >"$scratch/tls.conf"
nginx_configuration plain 127.0.0.1:8081 '' >"$scratch/plain.conf"
cat >"$scratch/stunnel.conf" <<CONF
foreground = yes
pid =
[files]
accept = $linux4:8443
connect = 127.0.0.1:8081
cert = $scratch/both.pem
CONF

today sbin/nginx
start plain.log "${today[@]}" -e stderr -c "$scratch/plain.conf"
if ! eventually listens 127.0.0.1 8081; then
    not_ok 'nginx starts' "$(last_words plain.log)"
    exit
fi

fetch() { # LOG VERSION OPTION…
    local log=$1 version=$2
    shift 2
    there timeout "$((patience * 3))" curl -sS --fail --cacert "$scratch/ca.pem" --tlsv"$version" --tls-max "$version" "$@" 2>"$scratch/$log"
}
download() { fetch download.log "$@" -o "$scratch/got" "https://$linux4:8443/large"; }
upload() { fetch upload.log "$@" -T "$scratch/root/upload" "https://$linux4:8443/put" >"$scratch/answer"; }
same() { # NAME CODE LOG FILE FILE
    if [[ $2 -ne 0 ]]; then
        not_ok "$1" "$(last_words "$3") $(last_words server.log)"
    elif cmp -s "$4" "$5"; then
        ok "$1"
    else
        not_ok "$1" 'the bytes differ'
    fi
}
both_ways() { # NAME VERSION
    rm -f "$scratch/got" "$scratch/root/put"
    download "$2"
    same "$1, TLS $2, from it" $? download.log "$scratch/root/large" "$scratch/got"
    upload "$2"
    same "$1, TLS $2, to it" $? upload.log "$scratch/root/upload" "$scratch/root/put"
}
# at_once NAME VERSION COMMAND…: both ways at the same time and slowly; the command runs when both have begun.
at_once() {
    local name=$1 version=$2 downloads uploads
    shift 2
    rm -f "$scratch/got" "$scratch/root/put"
    download "$version" --limit-rate 25M &
    downloads=$!
    upload "$version" --limit-rate 25M &
    uploads=$!
    if ! eventually test -s "$scratch/got" || ! "$@"; then not_ok "$name, TLS $version" "$(last_words server.log)"; fi
    wait "$downloads"
    same "$name, TLS $version, from it" $? download.log "$scratch/root/large" "$scratch/got"
    wait "$uploads"
    same "$name, TLS $version, to it" $? upload.log "$scratch/root/upload" "$scratch/root/put"
}
# reload: two more workers are about to end. They have the transfers, or had nothing to do.
reload() {
    kill -HUP "$(cat "$scratch/tls.pid")" && reloads=$((reloads + 1)) && eventually has_reloaded
}
has_reloaded() { [[ $(grep -c 'gracefully shutting down' "$scratch/server.log") -ge $((2 * reloads)) ]]; }
# told sent|received: records of this direction that the library has told of at the end of the program.
told() { sed -n "s/^ *$1 .* in \([0-9,]*\) records.*/\1/p" "$scratch/server.log" | tail -n 1 | tr -d ,; }

least=$((2 * megabytes << 20))
serves() { # NAME MODE PROGRAM OPTION…
    local name=$1 mode=$2 version options=() encrypted decrypted
    today "$3"
    shift 3
    [[ $mode == software ]] || options=(--nic "$control")
    start server.log env OPENSSL_CONF="$scratch/openssl.cnf" PYTHONHOME="$LONGSHORE_TRIXIE/usr" "$LONGSHORE" run ${options[@]+"${options[@]}"} -- \
        "${today[@]}" "$@"
    local server=$started reloads=0
    if ! eventually listens "$linux4" 8443; then
        not_ok "$name, $mode" "$(last_words server.log)"
        return
    fi
    encrypted=$(counter tx_tls_encrypted_bytes) decrypted=$(counter rx_tls_decrypted_bytes)
    for version in 1.2 1.3; do
        both_ways "$name, $mode" "$version"
        if [[ $name == nginx ]]; then at_once "nginx that is told to reload, $mode" "$version" reload; fi
    done
    encrypted=$(($(counter tx_tls_encrypted_bytes) - encrypted)) decrypted=$(($(counter rx_tls_decrypted_bytes) - decrypted))
    stop "$server"
    # A record has at most 16 KiB.
    if [[ $(told sent) -lt $((least >> 14)) || $(told received) -lt $((least >> 14)) ]]; then
        not_ok "$name has its records made by kernel TLS, $mode" "$(last_words server.log)"
    elif [[ $mode == nic && ($encrypted -lt $least || $decrypted -lt $((least * 8 / 10))) ]]; then
        not_ok "$name has its records made by kernel TLS, $mode" "the NIC has encrypted $encrypted bytes and decrypted $decrypted"
    else
        ok "$name has its records made by kernel TLS, $mode: $(told sent) sent, $(told received) received"
    fi
}
for mode in software nic; do
    serves nginx $mode sbin/nginx -e stderr -c "$scratch/tls.conf"
    for kind in threads fork prefork; do
        serves "Python with $kind" $mode bin/python3 "$here/server.py" $kind "$linux4" 8443 "$scratch/leaf.pem" "$scratch/leaf.key" "$scratch/root"
    done
    serves stunnel $mode bin/stunnel4 "$scratch/stunnel.conf"
    serves socat $mode bin/socat "OPENSSL-LISTEN:8443,bind=$linux4,fork,reuseaddr,cert=$scratch/both.pem,verify=0" TCP:127.0.0.1:8081
done
