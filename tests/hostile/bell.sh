# Finding 9: a host on rings passes sockets that linger, also where it is rung, and shows memory whose pages never come.
. "$(dirname "$0")/frozen.sh"

name='a host on rings that passes sockets which linger: the packets of others go on'
freeze bell
sleep 0.5
"$python" "$hostile/availability.py" latency "$ours4" 7007 3 >"$scratch/latency.log" 2>&1
thaw
echo "# $(cat "$scratch/latency.log"); $(last_words bell.log)"
before=$failures
go_on "$name" latency.log
[[ $failures == "$before" ]] || another_nic

if cannot fault; then
    skip 'pages of a file system in user space are not taken' "$why"
    skip 'nor is an overlay over one' "$why"
else
    as $attacker "$python" "$scratch/hostile/overlay.py" "$others_rings" "$scratch/fuse" "$scratch/of-attacker" >"$scratch/overlay.log" 2>&1
    echo "# $(last_words overlay.log)"
    for case in 'fuse:pages of a file system in user space are not taken' 'overlay:nor is an overlay over one'; do
        taken=$(json overlay.log "${case%%:*}")
        if [[ $taken == False ]]; then ok "${case#*:}"; elif [[ $taken == True ]]; then not_ok "${case#*:}" 'the NIC has mapped it'; else
            skip "${case#*:}" "$(last_words overlay.log)"
        fi
    done
fi
