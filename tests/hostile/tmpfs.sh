# Finding 7: the file system of the NIC's state is full, by what another user has written there.
. "$(dirname "$0")/own_mounts.sh"
. "$(dirname "$0")/world.sh"
make_world
shared=$scratch/shared state=$scratch/shared/state
mkdir "$shared"
on_tmpfs() { # SIZE
    umount "$shared" 2>/dev/null
    mount -t tmpfs -o "size=$1,mode=755" tmpfs "$shared" && mkdir -m 1777 "$shared/users"
}
if ! on_tmpfs 384m; then
    skip tmpfs 'no mounts here'
    exit
fi
peer sink.log sink "$ours4" 7000
goes_through() { # NAME
    start_victim victim.log "$ours4" 7000 1 --size 65536
    victim_ends
    if [[ $(json victim.log error) == None && $(json victim.log sent) -gt 1000000 ]]; then ok "$1"; else not_ok "$1" "$(last_words victim.log)"; fi
}
died_once_more() { [[ $(deaths) -gt $before ]]; }
if start_nic --retain 67108864; then
    as $attacker bash -c "head -c 1G /dev/zero >'$shared/users/fill'" 2>/dev/null
    echo "# $(df --output=avail "$shared" | tail -n 1) KiB are left"
    sniff tmpfs
    goes_through 'connections go on when the file system of the state is full'
    nothing_clear 'and nothing of them leaves in clear' tmpfs
    if [[ $(deaths) == 0 ]]; then ok 'the NIC lives on'; else not_ok 'the NIC lives on' "it has died $(deaths) times: $(last_words nic.log)"; fi
    before=$(deaths)
    eventually kill_worker
    if eventually died_once_more && eventually "$LONGSHORE" stat "$control"; then ok 'and comes back when it is killed then'; else
        not_ok 'and comes back when it is killed then' "$(last_words nic.log)"
    fi
    goes_through 'for new connections too'
    if [[ $(deaths) -le $((before + 1)) ]]; then ok 'and lives on again'; else not_ok 'and lives on again' "it has died $(deaths) times"; fi
else
    not_ok 'the NIC starts' "$(last_words nic.log)"
fi
kill "$nic"
sleep 0.3
stop "$nic"

# ---- too small from the beginning -------------------------------------------------------------------------------
on_tmpfs 1m
patience=4
name='a file system that is too small from the beginning'
if start_nic --retain 67108864; then
    patience=20
    goes_through "$name: connections go on"
elif kill -0 "$nic" 2>/dev/null; then
    not_ok "$name: it runs, or says why not" "$(last_words nic.log)"
else
    ok "$name: it says so: $(last_words nic.log)"
fi
if [[ $(deaths) == 0 ]]; then ok "$name: the NIC does not die of it"; else not_ok "$name: the NIC does not die of it" "$(deaths) times"; fi
