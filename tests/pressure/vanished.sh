# Clients that ask for 256 KiB, read nothing, and vanish without a word. What they are sent is made in software, so that it takes memory.
. "$(dirname "$0")/world.sh"
count=$(size 500 1000)
needs_connections "$count"
name=serve tls=tls:
start_daemon 443 serve --offload none --root "$scratch/root"
press vanish 443 'clients vanish' --count "$count" "${victims[@]}" --quiet "$(size 3 10)" --attack "$(size 5 20)" --gone "$(size 0 60)"
