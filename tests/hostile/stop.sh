# Finding 0: the NIC is told to stop, or is killed, in the middle of downloads from nginx by kernel TLS and sendfile. No byte of the file is on the wire.
# (tests/interop/nic_stop.sh does this at a thousand random moments, and asks that no connection is lost.)
. "$(dirname "$0")/world.sh"
needs openssl curl nginx
make_certificates
mkdir -p "$scratch/root"
# Nothing but zeros and a few digits, so that any of it shows in a capture.
seq -f '%063.0f' 1 500000 >"$scratch/root/digits"
cat >"$scratch/nginx.conf" <<CONF
daemon off;
user root;
worker_processes 1;
pid $scratch/nginx.pid;
error_log stderr info;
events { worker_connections 64; }
http {
    access_log off;
    sendfile on;
$(temporary_paths nginx)
    server {
        listen 0.0.0.0:8443 ssl;
        ssl_certificate $scratch/leaf.pem;
        ssl_certificate_key $scratch/leaf.key;
        ssl_conf_command Options KTLS;
        root $scratch/root;
    }
}
CONF
make_world

has_made() { [[ $(counter tx_tls_encrypted_bytes) -ge $1 ]]; }
stopped() { # NAME SIGNAL WHOM AFTER OPTION…: once the NIC has made records, and AFTER seconds more.
    local name=$1 signal=$2 whom=$3 after=$4 download encrypted
    shift 4
    start_nic || { not_ok "$name" "the NIC does not start: $(last_words nic.log)"; return; }
    there ip neigh flush dev w1
    start nginx.log "$LONGSHORE" run --nic "$control" "$@" -- nginx -e stderr -c "$scratch/nginx.conf"
    nginx=$started
    eventually listens "$linux4" 8443
    sniff stop 000000000000000000000000000000
    start_there curl.log curl -sS --max-time 6 --limit-rate 12M --cacert "$scratch/ca.pem" -o "$scratch/got" "https://$linux4:8443/digits"
    download=$started
    eventually has_made 100000
    sleep "$after"
    encrypted=$(counter tx_tls_encrypted_bytes)
    [[ $signal != KILL ]] || disown "$nic"
    if [[ $whom == worker ]]; then kill "-$signal" "$(worker)"; else kill "-$signal" "$nic"; fi
    sleep 0.7
    nothing_clear "$name, after ${encrypted:-0} bytes" stop
    if [[ ${encrypted:-0} -lt 100000 ]]; then not_ok "$name: the NIC made records" "${encrypted:-0} bytes"; fi
    kill "$download" 2>/dev/null
    stop "$download"
    # What has come is the file's beginning.
    cmp -s -n "$(stat -c %s "$scratch/got")" "$scratch/got" "$scratch/root/digits" || not_ok "$name: what came" 'the bytes differ'
    stop "$nginx"
    kill "$nic" 2>/dev/null
    eventually has_ended "$nic"
    rm -f "$scratch/got" "$control"
}
has_ended() { ! kill -0 "$1"; }
stopped 'SIGTERM in a download' TERM supervisor 0.08
stopped 'SIGTERM in a download, without a copy' TERM supervisor 0.21 --zerocopy
stopped 'SIGINT in a download' INT supervisor 0.15
stopped 'the supervisor is killed in a download' KILL supervisor 0.13
