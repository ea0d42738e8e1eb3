# Sourced by every script here: reporting, processes that end with the script, the TAP, certificates.
# shellcheck shell=bash
set -uo pipefail

scratch=$(mktemp -d -t longshore-interop.XXXXXX) || exit 1
pids=()
failures=0
# How a script with failures ends; `run` repeats one that ends with $once_more.
exit_code=1 once_more=75

# Where something is mounted on the scratch directory or below, parents before children.
mounted() { awk -v it="$scratch" '$5 == it || index($5, it "/") == 1 { print $5 }' /proc/self/mountinfo | sort; }

leave() {
    local pid
    [[ $failures -eq 0 ]] || ! guest_has_lost_its_network || exit_code=$once_more
    for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null; done
    for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null; done
    # What is mounted there may be somebody else's, and must not be deleted with it.
    mounted | awk 'NR == 1 || index($0, top "/") != 1 { top = $0; print }' | xargs -r umount 2>/dev/null
    if [[ -n $(mounted) || -n ${KEEP:-} ]]; then echo "# logs in $scratch"; else rm -rf --one-file-system "$scratch"; fi
    [[ $failures -eq 0 ]] || exit "$exit_code"
    exit 0
}
trap leave EXIT
trap 'exit 1' INT TERM

ok() { echo "ok - $1"; }
not_ok() {
    failures=$((failures + 1))
    echo "not ok - $1: $2"
}
skip() { echo "ok - $1 # SKIP $2"; }

# Skips the whole script, in the name of its cases, unless these programs are here.
needs() {
    local program
    for program in "$@"; do
        if ! command -v "$program" >/dev/null; then
            skip "$(basename "$0" .sh)" "no $program"
            exit
        fi
    done
}

# try NAME COMMAND…: a case; a command that fails has left the reason in $why.
try() {
    local name=$1
    shift
    why='it failed'
    if "$@"; then ok "$name"; else not_ok "$name" "$why"; fi
}

# start LOG COMMAND…: runs it in the background; $started is its process id.
start() {
    local log=$1
    shift
    # Who reads it at once must not find what another one has said.
    : >"$scratch/$log"
    "$@" >"$scratch/$log" 2>&1 &
    started=$!
    pids+=("$started")
}

# stop PID: ends a process that `start` began, and waits for it.
stop() {
    local pid=$1 kept=() other tries
    kill "$pid" 2>/dev/null
    for ((tries = 0; tries < 600; tries++)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    for other in ${pids[@]+"${pids[@]}"}; do [[ $other == "$pid" ]] || kept+=("$other"); done
    pids=(${kept[@]+"${kept[@]}"})
}

# eventually COMMAND…: tries until it succeeds. What does not come in so many seconds does not come, however busy the machine is.
patience=120
eventually() {
    local end=$((SECONDS + patience))
    until "$@" >/dev/null 2>&1; do
        [[ $SECONDS -lt $end ]] || return 1
        sleep 0.1
    done
}
# shellcheck disable=SC2016 # expanded by the inner shell
listens() { timeout 2 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2"; }

# Waits until an s_client that writes to $scratch/answer has completed its handshake, which takes a second more where a SYN is lost:
# it takes a `K` for a command only if nothing has come with it. The file must be empty when it starts.
handshake_is_complete() { eventually grep -aqs '^Reused\|^New' "$scratch/answer" && sleep 0.1; }

# The last lines of a log on one line, for a reason.
last_words() { tail -n 3 "$scratch/$1" 2>/dev/null | tr '\n' ' ' | cut -c 1-300; }

# ---- the wire: Linux is .1, longshore is .2 ------------------------------------------------------------------
tap=ls0
linux4=10.77.0.1 linux6=fd77::1 ours4=10.77.0.2 ours6=fd77::2

make_tap() {
    ip link set lo up
    ip tuntap add dev "$tap" mode tap vnet_hdr || return 1
    sysctl -q -w "net.ipv6.conf.$tap.accept_dad=0" 2>/dev/null
    ip addr add "$linux4/24" dev "$tap"
    ip -6 addr add "$linux6/64" dev "$tap" nodad
    ip link set "$tap" up
}

our_addresses=(--tap "$tap" --ip "$ours4/24" --ip "$ours6/64")

# ---- another host: a namespace of the network, as long as its process lives ---------------------------------
start_other() {
    start other.log unshare --net sleep infinity
    other=$started
    eventually has_own_namespace && there ip link set lo up
}
has_own_namespace() { in_own_namespace "$other"; }
in_own_namespace() {
    local its
    its=$(readlink "/proc/$1/ns/net") && [[ -n $its && $its != "$(readlink /proc/self/ns/net)" ]]
}
there() { nsenter --net="/proc/$other/ns/net" "$@"; }

# other_host ADDRESS: one at the end of a wire: w1 there, w0 here. Skips the whole script where there can be none.
other_host() {
    if ! start_other || ! ip link add w0 type veth peer name w1 netns "$other"; then
        skip "$(basename "$0" .sh)" 'no second network namespace, or no veth'
        exit
    fi
    # Linux must not answer here for the interface of the NIC that has w0 as its wire.
    sysctl -q -w net.ipv4.conf.w0.arp_ignore=1
    ip link set w0 up
    there ip addr add "$1/24" dev w1
    there ip link set w1 up
}

# ---- `longshore nic`: $nic is its process, $control its socket ------------------------------------------------
# counter NAME: the sum over all groups that have it.
counter() {
    "$LONGSHORE" stat --all "$control" 2>/dev/null | awk -v name="$1:" '$1 == name { gsub(/,/, "", $2); sum += $2 } END { print sum + 0 }'
}
worker() { child --worker; }
# child OPTION: the process of the NIC's that was started with it.
child() {
    local pid
    for pid in $(cat "/proc/$nic/task/$nic/children" 2>/dev/null); do
        if tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qx -- "$1"; then echo "$pid"; fi
    done
}
# kill_worker: not the one that it has killed before, which may take its time to end.
killed=none
kill_worker() {
    local pid
    pid=$(worker) && [[ -n $pid && $pid != "$killed" ]] && kill -9 "$pid" && killed=$pid
}

# ---- a guest with a Linux kernel of its own is .3, on a bridge with the TAP ----------------------------------
guest_tap=gt0 guest4=10.77.0.3

# needs_guest [IMAGE]: skips the whole script unless such a guest can be had. `run` has prepared its image.
needs_guest() {
    local lacks=LONGSHORE_GUEST_LACKS_${1:-stock}
    if [[ -n ${!lacks:-} ]]; then
        skip "$(basename "$0" .sh)" "no guest kernel: ${!lacks}"
        exit
    fi
}

make_guest_network() {
    make_tap || return 1
    ip addr flush dev "$tap"
    ip tuntap add dev "$guest_tap" mode tap vnet_hdr || return 1
    ip link add br0 type bridge || return 1
    ip link set "$tap" master br0
    ip link set "$guest_tap" master br0
    ip addr add "$linux4/24" dev br0
    ip link set "$guest_tap" up
    ip link set br0 up
}

# repeat_cases LOG: the cases that a guest has reported.
repeat_cases() {
    local line
    while read -r line; do
        case $line in
        'ok - '*) ok "${line#ok - }" ;;
        'not ok - '*) not_ok "${line#not ok - }" 'as the guest says' ;;
        esac
    done < <(tr -d '\r' <"$scratch/$1")
}

# start_guest LOG SCRIPT OPTION…: boots it in the background; $started is its process id.
start_guest() {
    local log=$1 script=$2
    shift 2
    start "$log" "$(dirname "$0")/guest.sh" run "$script" --tap "$guest_tap" --ip "$guest4/24" "$@"
    guest=$started
}

# The guest runs, and no longer answers Linux on its bridge: the emulator's fault, which has nothing to do with what is tested.
guest_has_lost_its_network() {
    [[ -n ${guest:-} ]] && kill -0 "$guest" 2>/dev/null || return 1
    ip neigh flush dev br0 2>/dev/null
    echo >"/dev/udp/$guest4/9"
    sleep 3
    [[ $(ip neigh show "$guest4" dev br0) != *lladdr* ]]
}

# address FAMILY SIDE, and the same as it stands in a URL.
address() {
    case $1$2 in 4linux) echo "$linux4" ;; 6linux) echo "$linux6" ;; 4ours) echo "$ours4" ;; 6ours) echo "$ours6" ;; esac
}
url_address() { if [[ $1 == 6 ]]; then echo "[$(address "$1" "$2")]"; else address "$1" "$2"; fi; }

# ---- certificates and files ----------------------------------------------------------------------------------
make_certificates() {
    (
        cd "$scratch" || exit 1
        openssl ecparam -name prime256v1 -genkey -noout -out ca.key
        openssl req -x509 -new -key ca.key -subj '/CN=longshore interop CA' -days 2 -out ca.pem \
            -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=keyCertSign'
        openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out leaf.key
        openssl req -new -key leaf.key -subj '/CN=longshore.test' -out leaf.csr
        printf 'subjectAltName=DNS:longshore.test,IP:%s,IP:%s,IP:%s,IP:%s\nbasicConstraints=CA:FALSE\n' \
            "$linux4" "$linux6" "$ours4" "$ours6" >leaf.ext
        openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile leaf.ext -out leaf.pem
    ) >"$scratch/certificates.log" 2>&1
}

# The configuration that has OpenSSL ask for kernel TLS: $OPENSSL_CONF of a program that shall.
make_openssl_configuration() {
    cat >"$scratch/openssl.cnf" <<CONF
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = defaults
[defaults]
Options = KTLS
CONF
}

# asking FILE COMMAND…: runs s_client, which asks s_server for a file. Its standard input comes to no end, for it ends with that.
asking() {
    local file=$1 request code
    shift
    rm -f "$scratch/request"
    mkfifo "$scratch/request"
    exec {request}<>"$scratch/request"
    printf 'GET /%s HTTP/1.0\r\n\r\n' "$file" >&"$request"
    "$@" <&"$request"
    code=$?
    exec {request}>&-
    return "$code"
}

# temporary_paths NAME: nginx's, so that it needs no folder of the system.
temporary_paths() {
    local kind
    for kind in client_body proxy fastcgi uwsgi scgi; do echo "    ${kind}_temp_path $scratch/$1.$kind;"; done
}

# make_file NAME BYTES: random bytes, so that a misplaced block shows.
make_file() {
    mkdir -p "$scratch/root"
    head -c "$2" /dev/urandom >"$scratch/root/$1"
}

# The cases: version, OpenSSL's name of the cipher, our name for the report.
suites=(
    '1.2 ECDHE-ECDSA-AES128-GCM-SHA256 AES-128-GCM'
    '1.2 ECDHE-ECDSA-AES256-GCM-SHA384 AES-256-GCM'
    '1.2 ECDHE-ECDSA-CHACHA20-POLY1305 ChaCha20-Poly1305'
    '1.3 TLS_AES_128_GCM_SHA256 AES-128-GCM'
    '1.3 TLS_AES_256_GCM_SHA384 AES-256-GCM'
    '1.3 TLS_CHACHA20_POLY1305_SHA256 ChaCha20-Poly1305'
)

# The option of `serve` and `get` that impairs the wire, both ways.
impaired=(--loss 0.01 --reorder 0.01 --seed 7)

# moves_a_disk PROTOCOL URI FILE NAME OPTION…: `longshore PROTOCOL` reads all of a disk, which is a file of the server's, and writes 5 MiB
# to it. Two cases.
moves_a_disk() {
    local protocol=$1 uri=$2 disk=$3 name=$4
    shift 4
    if ! timeout 120 "$LONGSHORE" "$protocol" read "$uri" "${our_addresses[@]}" --quiet --output "$scratch/copy" "$@" \
        >"$scratch/moves.log" 2>&1; then
        not_ok "read, $name" "$(last_words moves.log)"
    elif cmp -s "$disk" "$scratch/copy"; then
        ok "read, $name"
    else
        not_ok "read, $name" 'the bytes differ'
    fi
    dd if=/dev/urandom of="$scratch/fresh" bs=1M count=5 status=none
    if ! timeout 120 "$LONGSHORE" "$protocol" write "$uri" "${our_addresses[@]}" --quiet --input "$scratch/fresh" --offset 20M \
        --verify "$@" >"$scratch/moves.log" 2>&1; then
        not_ok "write, $name" "$(last_words moves.log)"
    elif cmp -s -n 5242880 "$disk" "$scratch/fresh" 20971520 0; then
        ok "write, $name"
    else
        not_ok "write, $name" 'the bytes differ'
    fi
}
