//! `longshore guest`: Debian's Linux in QEMU, with a function of the NIC as a PCI device.
//!
//! ```text
//!   the guest: Debian's root, read-only, by 9P ── eth0 ── longshore nic ── a wire ── eth0 of a network namespace: the peer
//! ```

mod cache;
mod driver;
mod image;
mod machine;
mod network;
mod options;
mod root;
mod run_directory;

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use rustix::process::geteuid;

pub use options::{EXAMPLES, GuestOptions};

use crate::signals::Signals;
use image::Image;
use machine::Machine;
use network::{Nic, Peer};
use root::Root;
use run_directory::RunDirectory;

const START: &str = include_str!("start.sh");
/// Exit code when there is no guest.
const NO_GUEST: u8 = 125;

/// Runs a guest to its end. The exit code of its command.
pub fn run(options: &GuestOptions) -> ExitCode {
    let code = match options.prepare {
        true => prepare(),
        false => boot(options),
    };
    ExitCode::from(code.unwrap_or_else(|error| {
        eprintln!("longshore: {error:#}");
        NO_GUEST
    }))
}

fn prepare() -> Result<u8> {
    check_machine()?;
    outln!("{}", Root::prepare()?.path().display());
    Ok(0)
}

fn boot(options: &GuestOptions) -> Result<u8> {
    check_machine()?;
    if options.command.is_empty() && !std::io::stdin().is_terminal() {
        bail!("a shell needs a terminal; give a command for the guest behind --");
    }
    let root = Root::prepare()?;
    run_directory::sweep(&root);
    let image = Image::prepare(&root, &options.kernel)?;
    let signals = Signals::block().context("can't block signals")?;
    let run = RunDirectory::make()?;
    let told = run.path().join("told");
    let module = told.join("longshore.ko");
    driver::prepare(&root, &options.kernel, image.modules.as_deref(), &module)?;
    tell(&told, options)?;
    // In the reverse of this order they end.
    let mut peer = peer(&root, options)?;
    let to_peer = peer
        .as_ref()
        .map(|peer| format!("packet:{}", peer.interface));
    let wire = options.network.wire.clone().or(to_peer);
    let nic = wire
        .map(|wire| Nic::start(options, &wire, run.path()))
        .transpose()?;
    if let (Some(peer), Some(command)) = (&mut peer, &options.network.peer) {
        peer.run(command, options.share.as_deref())?;
    }
    let given: Vec<PathBuf> = options.network.nic.iter().cloned().collect();
    let functions = nic.as_ref().map_or(&given, |nic| &nic.sockets);
    if options.command.is_empty() {
        introduce(options, peer.as_ref());
    }
    let machine = Machine {
        root: &root,
        image: &image,
        options,
        functions,
        directory: run.path(),
    };
    machine.run(&signals)
}

/// That a root can be made and used here.
fn check_machine() -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("guests run on x86_64 only, which this machine is not");
    }
    if !geteuid().is_root() {
        bail!("a guest's root, network and NIC take root privilege; run it with sudo");
    }
    Ok(())
}

fn peer<'a>(root: &'a Root, options: &GuestOptions) -> Result<Option<Peer<'a>>> {
    let network = &options.network;
    match network.wire.is_none() && network.nic.is_none() {
        true => Peer::make(root, network.peer_ip).map(Some),
        false => Ok(None),
    }
}

/// Tells who sits at the terminal where they are.
fn introduce(options: &GuestOptions, peer: Option<&Peer<'_>>) {
    let network = &options.network;
    eprintln!(
        "longshore: booting; the guest has {} at eth0; leave it by `exit`",
        network.ip
    );
    if let Some(peer) = peer {
        let at = network.peer_ip.address;
        eprintln!(
            "longshore: its peer {at} is another shell's: sudo ip netns exec {} bash",
            peer.namespace
        );
    }
}

/// Writes what the guest is told.
fn tell(directory: &Path, options: &GuestOptions) -> Result<()> {
    let network = &options.network;
    let (columns, rows) = ratatui::crossterm::terminal::size().unwrap_or((80, 25));
    let terminal = std::env::var("TERM").unwrap_or_else(|_| "vt100".to_owned());
    let variables = [
        ("ADDRESS", network.ip.address.to_string()),
        ("ADDRESS_CIDR", network.ip.to_string()),
        ("PEER", network.peer_ip.address.to_string()),
        (
            "NO_DRIVER",
            if options.kernel.no_driver { "1" } else { "" }.to_owned(),
        ),
        ("ROWS", rows.to_string()),
        ("WIDTH", columns.to_string()),
        ("TERM", terminal),
    ];
    let variables = variables.map(|(name, value)| format!("{name}={}\n", quoted(&value)));
    fs::write(directory.join("variables"), variables.concat())?;
    fs::write(directory.join("start"), START)?;
    if !options.command.is_empty() {
        let words: Vec<String> = options.command.iter().map(|word| quoted(word)).collect();
        fs::write(directory.join("command"), words.join(" ") + "\n")?;
    }
    for (is_there, name) in [
        (options.share.is_some(), "has_share"),
        (options.kernel.modules.is_some(), "has_modules"),
    ] {
        if is_there {
            fs::write(directory.join(name), "")?;
        }
    }
    Ok(())
}

/// As a POSIX shell takes it for one word.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_what_they_are_in_the_guest() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("don't $HOME"), r"'don'\''t $HOME'");
    }
}
