# Finding 11, as far as it shows from outside: what one user takes of what is limited, sockets that are open to all for a moment, keys that others read.
. "$(dirname "$0")/world.sh"
needs cc
# A NIC of few descriptors is soon out of them.
ulimit -Sn 2048
world
peer mute.log mute "$ours4" 7001
peer sink.log sink "$ours4" 7000
others_attach() { # NAME
    if eventually timeout 5 "$python" "$hostile/tries.py" "$control" "$ours4" 7000 2>"$scratch/tries.log"; then ok "$1"; else not_ok "$1" "$(last_words nic.log)"; fi
}
patience=4

# ---- shares ---------------------------------------------------------------------------------------------------
ulimit -Sn 8192
start_attack crowd.log crowd "$control" 3000
crowd=$started
eventually grep -q kept "$scratch/crowd.log"
echo "# one user has $(json crowd.log kept) attachments: $(json crowd.log error)"
others_attach 'others attach while one user has all the attachments that it can get'
if timeout 5 "$LONGSHORE" stat "$control" >/dev/null 2>&1; then ok 'and root is answered'; else not_ok 'and root is answered' 'it is not'; fi
stop "$crowd"
patience=20
if [[ $(deaths) == 0 ]]; then ok 'and the NIC lives on'; else not_ok 'and the NIC lives on' "$(last_words nic.log)"; fi

# ---- sockets that are for one user ----------------------------------------------------------------------------------
name='a socket for the hosts on rings is at no moment open to others'
if compile slow_chmod -shared -fPIC; then
    rings=$scratch/rings.sock
    mkdir "$scratch/other-state"
    start_attack knock.log knock "$rings" 3
    knock=$started
    (umask 0 && LD_PRELOAD="$scratch/slow_chmod" exec "$LONGSHORE" nic --host "rings:$rings" --wire mem --control "$scratch/other.sock" \
        --state "$scratch/other-state") >"$scratch/mode.log" 2>&1 &
    pids+=("$!")
    wait "$knock"
    if [[ $(json knock.log entered) == 0 && $(json knock.log refused) -gt 0 ]]; then ok "$name: $(json knock.log refused) tries"; else
        not_ok "$name" "$(last_words knock.log) $(last_words mode.log)"
    fi
else
    skip "$name" "no compiler: $(last_words cc.log)"
fi

# ---- keys in a file -------------------------------------------------------------------------------------------------
printf 'somebody:%s\n' 00112233445566778899aabbccddeeff >"$scratch/psk"
told_of_psk() { # MODE: whether `get` says something of the file's mode; nothing answers there.
    chmod "$1" "$scratch/psk"
    timeout 3 "$LONGSHORE" get --nic "$scratch/nowhere" --ip 10.77.0.4/24 --psk "$scratch/psk" --quiet https://10.77.0.9/ -o /dev/null >"$scratch/psk.log" 2>&1
    grep -q 'psk.*chmod' "$scratch/psk.log"
}
if told_of_psk 644 && ! told_of_psk 600; then ok 'a file of keys that others may read is told'; else
    not_ok 'a file of keys that others may read is told' "$(last_words psk.log)"
fi
