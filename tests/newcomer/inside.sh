# The newcomer's session, in the clean Debian; see run.
# shellcheck shell=bash
set -uo pipefail
failures=0

# fresh WORLD COMMAND…: in a network of its own, in which nothing runs. In the world `peer` eth1 leads to the namespace `peer`.
fresh() {
    unshare --net --mount --pid --fork --kill-child --mount-proc bash -c '
        mount -t tmpfs tmpfs /run
        mount -t tmpfs tmpfs /dev/shm
        ip link set lo up
        if [[ $1 == peer ]]; then
            ip netns add peer
            ip link add eth1 type veth peer name eth0 netns peer
            ip link set eth1 up
            ip -n peer link set lo up
            ip -n peer link set eth0 up
            ip -n peer addr add 10.9.0.2/24 dev eth0
        fi
        shift
        "$@"' fresh "$@"
}

# paste USER NAME [WORLD]: runs what comes on the standard input as that user would paste it, in the clone, on a fresh machine.
paste() {
    local user=$1 name=$2 world=${3:-plain} log
    log=$(mktemp)
    if { printf 'set -eo pipefail\ncd ~/longshore 2>/dev/null || true\n'; cat; } | fresh "$world" su - "$user" -c 'bash -s' >"$log" 2>&1; then
        echo "ok - $user: $name"
    else
        failures=$((failures + 1))
        echo "not ok - $user: $name: $(tail -n 3 "$log" | tr '\n' ' ')"
        sed 's/^/# /' "$log" | tail -n 30
    fi
    rm -f "$log"
}

# page USER PAGE: every block of a page, each shell of it as a case.
page() {
    local user=$1 page=$2 number
    for ((number = 0; ; number++)); do
        python3 /opt/blocks.py "/home/$user/longshore" "$page" "$number" >/tmp/block
        case $? in
        0) ;;
        3) break ;;
        *)
            failures=$((failures + 1))
            echo "not ok - $user: $page: its blocks can't be read"
            break
            ;;
        esac
        paste "$user" "$page, $(grep -m1 longshore /tmp/block)" "$(sed -n '1s/# world: //p' /tmp/block)" </tmp/block
    done
}

# A user who may use sudo follows README.md, then each command's page.
page admin README.md
for name in /home/admin/longshore/docs/commands/*.md; do
    page admin "docs/commands/$(basename "$name")"
done

# A user who may not: what needs no root, and a TAP that root has made.
paste guest './install --prefix ~/.local' <<<'./install --prefix ~/.local'
export_path='export PATH=~/.local/bin:$PATH;'
while read -r command; do
    paste guest "$command" <<<"$export_path $command"
done <<'COMMANDS'
longshore demo --rounds 1 --bytes 16M
longshore bench tls --rounds 1 --bytes 16M
longshore sim handoff --nic-connections 64
longshore run -- true
longshore man pages
longshore stat --explain
COMMANDS
paste root 'serve, stat, ss and stop by another user, on a TAP that root has made' <<END2
/usr/local/bin/longshore up --user guest ls7 10.9.7.1/24
su - guest -c '
    set -e
    cd ~/longshore
    $export_path
    longshore serve --tap ls7 --ip 10.9.7.2/24 --root . --control ls.sock --background
    curl --silent --insecure https://10.9.7.2/README.md | cmp - README.md
    longshore stat ls.sock
    longshore ss ls.sock
    longshore stop ls.sock'
END2
exit $((failures > 0))
