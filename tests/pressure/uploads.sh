# Uploads through lb over a wire that loses 1 %.
. "$(dirname "$0")/world.sh"
count=$(size 200 200)
needs_connections "$count"
name=lb
start_backends
start_lb --loss 0.01
press uploads 80 'uploads at 1 % loss' --count "$count" --bytes 1048576 "${victims[@]}" --quiet "$(size 3 10)" --attack "$(size 30 60)" \
    --gone "$(size 0 60)"
