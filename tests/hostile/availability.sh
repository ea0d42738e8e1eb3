# A table: round-trip times through the NIC while each attack on its time runs, beside those without, in windows that take turns. An attack may double
# the 99.9th percentile and no more.
. "$(dirname "$0")/frozen.sh"
windows=${WINDOWS:-5} seconds=${SECONDS_EACH:-0.6}

window() { # FILE
    "$python" "$hostile/availability.py" latency "$ours4" 7007 "$seconds" >>"$scratch/$1" 2>>"$scratch/windows.log"
}
compare() { # KIND WHAT
    local time line
    if cannot "$1"; then
        skip "$2" "$why"
        return
    fi
    for ((time = 0; time < windows; time++)); do
        window "$1.quiet"
        freeze "$1"
        sleep 0.1
        window "$1.attacked"
        thaw
        # One that has been still for seconds is no better the next time.
        [[ $(json "$1.attacked" max_us) != [0-9]???????* ]] || break
    done
    if line=$("$python" "$hostile/availability.py" compare "$2" "$scratch/$1.quiet" "$scratch/$1.attacked" 2>"$scratch/compare.log"); then
        table+=("$line")
        ok "$2: round trips take no longer than twice as long"
    else
        table+=("${line:-| $2 | | | | | |}")
        not_ok "$2: round trips take no longer than twice as long" "${line:-$(last_words compare.log)}"
        another_nic
    fi
}
table=()
# One that is not counted: caches and neighbours.
window warm
compare linger 'sockets that linger'
compare unread 'answers that are not read'
compare idle 'clients that say nothing'
compare churn 'attachments that come and go'
  compare hoard 'memory that the NIC has last'
  compare bell 'sockets of a rings host that linger'
compare fault 'sockets locked in a page fault'
echo '#'
echo '# | attack | quiet, median (µs) | quiet, 99.9 % | attacked, median | attacked, 99.9 % | ratio of the 99.9 % |'
echo '# | --- | --- | --- | --- | --- | --- |'
printf '# %s\n' "${table[@]}"
