//! What becomes of the interfaces that the NIC has made when it ends in order.

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::super::hosts::remove;
use super::super::options::{Options, WireOption};
use super::super::state::State;
use super::tell;

/// Removes the interfaces that the NIC has made, in this run or in one before it, unless connections go through them: those may go on when
/// the NIC is started again. Among them are those of a NIC with other hosts, which did not take over.
pub fn remove_unused(state: &State) {
    for name in state.made() {
        match index(&name).and_then(linux::connections_through) {
            Err(Errno::NODEV) => state.forget(&name),
            Ok(0) => remove(&name, state),
            Ok(1) => stays(&name, "a connection"),
            Ok(count) => stays(&name, &format!("{count} connections")),
            Err(error) => stays(&name, &format!("connections, perhaps ({error})")),
        }
    }
}

/// Another process has the state, and perhaps the interfaces.
pub fn tell_that_all_stay(state: &State) {
    for name in state.made() {
        tell(&format!(
            "{name} stays: another process has the state directory; when that has ended, run: ip link del {name}"
        ));
    }
}

/// Whether the interface that the wire needs is there.
///
/// # Errors
/// When it is not; the message names it.
pub fn check_wire(options: &Options) -> Result<()> {
    match &options.wire {
        WireOption::Packet(name) | WireOption::Xdp(name) => {
            index(name)
                .with_context(|| format!("no interface {name}; `ip link` lists the interfaces"))?;
        }
        WireOption::Tap(_) | WireOption::Mem => {}
    }
    Ok(())
}

fn index(name: &str) -> Result<u32, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    name_to_index(&any, name)
}

fn stays(name: &str, what: &str) {
    tell(&format!(
        "{name} stays: it has {what}; start the NIC again to go on, or run: ip link del {name}"
    ));
}
