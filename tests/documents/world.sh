# What a block finds: a host of its own, where longshore is installed. Runs as the first process of new namespaces.
#   world.sh WORLD SCRIPT PREFIX REPOSITORY
# shellcheck shell=bash
set -euo pipefail
world=$1 script=$2 prefix=$3 repository=$4
export PATH=/usr/local/sbin:/usr/local/bin:$PATH:/usr/sbin:/sbin
# With another name sudo would ask a name server that is not there.
hostname localhost

mount --make-rprivate /
for place in /run /srv /tmp; do mount -t tmpfs tmpfs "$place"; done
# Over /usr/local, which may hold the compiler and python: what was installed, and room for what a block installs; there and in /etc.
mkdir -p /run/{local,etc}/{upper,work}
mount -t overlay overlay -o "lowerdir=$prefix:/usr/local,upperdir=/run/local/upper,workdir=/run/local/work" /usr/local
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work /etc
cp -a "$repository" /tmp/longshore
cd /tmp/longshore

ip link set lo up
case $world in
plain) ;;
peer)
    ip netns add peer
    ip link add eth1 type veth peer name eth0 netns peer
    ip link set eth1 up
    ip -n peer link set lo up
    ip -n peer link set eth0 up
    ip -n peer addr add 10.9.0.2/24 dev eth0
    ip netns exec peer ethtool -K eth0 tx off >/dev/null 2>&1 || true
    ;;
*)
    echo "no world $world" >&2
    exit 2
    ;;
esac
exec bash "$script"
