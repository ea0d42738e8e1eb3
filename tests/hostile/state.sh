# Finding 6: another user makes the directory of the NIC's state first, and fills it with links to root's files, and with files of their own.
. "$(dirname "$0")/own_mounts.sh"
. "$(dirname "$0")/world.sh"
make_world
# A machine whose /run is on a disk, so that the state wants to be in /dev/shm, where every user may make directories.
mkdir "$scratch/run"
if ! mount --bind "$scratch/run" /run || ! mount -t tmpfs -o mode=1777 tmpfs /dev/shm; then
    skip state 'no mounts here'
    exit
fi
peer mute.log mute "$ours4" 7001
mkdir "$scratch/of-root"

# prepared LINKED…: the directory as the attacker makes it; these files in it are links to root's, and `connections-ls0` is a file of the attacker's.
prepared() {
    local name
    rm -rf /dev/shm/longshore
    as $attacker mkdir -p -m 777 /dev/shm/longshore/ls0
    for name in "$@"; do
        echo 'what root wrote' >"$scratch/of-root/$name"
        as $attacker ln -s "$scratch/of-root/$name" "/dev/shm/longshore/ls0/$name"
    done
    [[ " $* " == *connections* ]] || as $attacker bash -c 'umask 0; : >/dev/shm/longshore/ls0/connections-ls0'
}
# tried NAME STATE: the NIC starts, or says why not; if it runs, a program's content waits in its state for a peer that acknowledges nothing.
tried() {
    local name=$1 file changed=''
    state=$2
    patience=4
    if start_nic; then
        echo '# it runs'
        start_victim victim.log "$ours4" 7001 0.3
        victim_ends
    else
        echo "# it does not run: $(last_words nic.log)"
        kill -0 "$nic" 2>/dev/null && not_ok "$name: it ends" 'it neither runs nor ends'
    fi
    patience=20
    for file in "$scratch"/of-root/*; do
        [[ ! -e $file ]] || cmp -s "$file" <(echo 'what root wrote') || changed+=" ${file##*/}"
    done
    if [[ -z $changed ]]; then ok "$name: files of root are as they were"; else not_ok "$name: files of root are as they were" "changed:$changed"; fi
    if as $attacker grep -rqs 'not to be read' /dev/shm /run; then
        not_ok "$name: others read nothing of what is retained" 'it is in a file that the attacker reads'
    else
        ok "$name: others read nothing of what is retained"
    fi
    if [[ $(deaths) == 0 ]]; then ok "$name: it does not die"; else not_ok "$name: it does not die" "$(deaths) times"; fi
    kill "$nic" 2>/dev/null
    sleep 0.2
    kill "$nic" 2>/dev/null
    stop "$nic"
    rm -rf "${scratch:?}/of-root/"*
}
prepared lock address-ls0 made-ls0
tried 'links in the directory that it takes by itself' ''
prepared
tried 'a file of connections in the directory that it takes by itself' ''
prepared lock connections-ls0
tried 'links in a directory that it is told to take' /dev/shm/longshore/ls0
rm -rf /dev/shm/longshore
as $attacker ln -s "$scratch/of-root" /dev/shm/longshore
echo 'what root wrote' >"$scratch/of-root/lock"
tried 'a link in the place of the directory' /dev/shm/longshore
