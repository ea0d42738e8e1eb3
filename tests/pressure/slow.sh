# Clients that read 500 bytes every 3 s, through lb.
. "$(dirname "$0")/world.sh"
needs_connections "$(size 500 4000)"
name=lb
start_backends
for count in $(size 500 '2000 4000'); do
    start_lb
    press slow 80 'clients read slowly' --count "$count" "${victims[@]}" --quiet "$(size 3 10)" --attack "$(size 5 20)" --gone "$(size 0 60)"
    stop "$daemon"
done
