# Sourced by what fetches packages of Debian, which has a `lack WORD` that ends it.
# shellcheck shell=bash

# apt_index DIRECTORY SUITE: an index of that suite's packages, apart from this machine's, for apt's commands from here on.
apt_index() {
    local directory=$1 suite=$2 keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [[ -r $keys ]] || lack keyring
    mkdir -p "$directory"/{etc/apt.conf.d,etc/preferences.d,etc/sources.list.d,state/lists/partial,cache/archives/partial}
    touch "$directory/state/status"
    echo "deb [signed-by=$keys] http://deb.debian.org/debian $suite main" >"$directory/etc/sources.list"
    cat >"$directory/config" <<CONFIG
Dir "$directory";
Dir::Etc "etc";
Dir::State "state";
Dir::State::status "state/status";
Dir::Cache "cache";
Acquire::Languages "none";
APT::Sandbox::User "$(id -un)";
CONFIG
    export APT_CONFIG=$directory/config
    timeout --foreground 120 apt-get -qq update >&2 || lack network
}
