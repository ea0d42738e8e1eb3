//! The TAP interface that a stack of ours uses, and Linux's end of it.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use host::Cidr;
use port::tap::{self, Tap, TapConfig};

/// Longest time until an interface that was set up has a carrier.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);

/// Opens the TAP interface, with so many queues, gives Linux's end its addresses and sets it up, and waits until it can be used.
///
/// # Errors
/// When one of these fails; the message has the remedy.
///
/// # Panics
/// Without a queue.
pub fn open(
    name: &str,
    config: TapConfig,
    queues: u16,
    ours: &[Cidr],
    linux: &[Cidr],
) -> Result<Vec<Tap>> {
    if let Some(cidr) = linux.iter().find(|cidr| has(ours, cidr.address)) {
        bail!("{cidr} is both --ip and --peer-ip; give Linux another address of that network");
    }
    let taps = match queues {
        1 => vec![Tap::open(name, config)?],
        queues => Tap::open_queues(name, config, queues)?,
    };
    let tap = &taps[0];
    let name = tap.name();
    if let Some(cidr) = tap::addresses(name)
        .unwrap_or_default()
        .iter()
        .find_map(|ip| ours.iter().find(|cidr| cidr.address == *ip))
    {
        bail!(
            "{} is Linux's address on {name}; give --ip another one of that network",
            cidr.address
        );
    }
    add(tap, linux)?;
    if let Err(error) = tap.set_up() {
        if !linux.is_empty() {
            return Err(error).context(format!("can't set {name} up; run with sudo"));
        }
        tracing::warn!(%error, "{name} is down; run: sudo ip link set {name} up");
    } else if !linux.is_empty() {
        await_carrier(tap)?;
    }
    Ok(taps)
}

/// The TAP interface whose queues another process has opened.
///
/// # Errors
/// When a queue is of another interface.
pub fn adopt(name: &str, config: TapConfig, queues: Vec<OwnedFd>) -> Result<Vec<Tap>> {
    let taps = queues.into_iter().map(|queue| Tap::adopt(queue, config));
    let taps: Vec<Tap> = taps.collect::<Result<_, _>>()?;
    match taps.iter().find(|tap| !is_named(name, tap.name())) {
        Some(other) => bail!("a queue of {} came for --tap {name}", other.name()),
        None => Ok(taps),
    }
}

/// Whether this is the name of an interface that was asked for by `wanted`, in which `%d` stands for a number.
fn is_named(wanted: &str, name: &str) -> bool {
    let Some((front, back)) = wanted.split_once("%d") else {
        return wanted == name;
    };
    let number = name.strip_prefix(front);
    let number = number.and_then(|rest| rest.strip_suffix(back));
    number.is_some_and(|it| !it.is_empty() && it.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Gives Linux's end the addresses that it lacks.
///
/// # Errors
/// When that takes privileges, or the interface can't have such an address.
pub fn add(tap: &Tap, addresses: &[Cidr]) -> Result<()> {
    let name = tap.name();
    let there = tap::addresses(name).unwrap_or_default();
    for cidr in addresses
        .iter()
        .filter(|cidr| !there.contains(&cidr.address))
    {
        tap.add_ip(cidr.address, cidr.prefix).with_context(|| {
            format!("can't give {name} the address {cidr}; run with sudo, or before: sudo longshore up {name} {cidr}")
        })?;
    }
    Ok(())
}

/// An address for Linux's end of the interface, for each network of ours in which it has none.
pub fn lacking(name: &str, ours: &[Cidr]) -> Vec<Cidr> {
    let there = tap::addresses(name).unwrap_or_default();
    let lacks = |cidr: &&Cidr| !there.iter().any(|ip| cidr.contains(*ip));
    let room = |cidr: &&Cidr| cidr.prefix < if cidr.address.is_ipv4() { 32 } else { 128 };
    ours.iter()
        .filter(lacks)
        .filter(room)
        .map(neighbour_of)
        .collect()
}

fn has(addresses: &[Cidr], ip: IpAddr) -> bool {
    addresses.iter().any(|cidr| cidr.address == ip)
}

fn await_carrier(tap: &Tap) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while !tap.is_running().context("the interface's state")? {
        if Instant::now() >= until {
            bail!(
                "{} has no carrier after {} s; see: ip link show {}",
                tap.name(),
                PATIENCE.as_secs(),
                tap.name()
            );
        }
        sleep(LOOK);
    }
    Ok(())
}

/// An address for the other end: the first one of the network that is not ours.
fn neighbour_of(cidr: &Cidr) -> Cidr {
    let first = |base: u128, ours: u128| if base + 1 == ours { base + 2 } else { base + 1 };
    let address = match cidr.address {
        IpAddr::V4(ip) => {
            let host = 32 - u32::from(cidr.prefix);
            let base = u64::from(u32::from(ip)) >> host << host;
            IpAddr::V4((first(u128::from(base), u128::from(u32::from(ip))) as u32).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(cidr.prefix))
                .unwrap_or(0);
            IpAddr::V6(first(u128::from(ip) & mask, u128::from(ip)).into())
        }
    };
    Cidr::new(address, cidr.prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_gets_the_first_address_that_is_free() {
        for (ours, theirs) in [
            ("10.9.0.2/24", "10.9.0.1/24"),
            ("10.9.0.1/24", "10.9.0.2/24"),
            ("192.168.7.77/30", "192.168.7.78/30"),
            ("fd09::2/64", "fd09::1/64"),
            ("fd09::1/64", "fd09::2/64"),
        ] {
            let ours: Cidr = ours.parse().unwrap();
            assert_eq!(neighbour_of(&ours).to_string(), theirs);
        }
    }

    #[test]
    fn a_name_with_a_number_is_known_again() {
        for (wanted, name, is_it) in [
            ("ls0", "ls0", true),
            ("ls0", "ls1", false),
            ("ls%d", "ls0", true),
            ("ls%d", "ls12", true),
            ("ls%d", "ls", false),
            ("ls%d", "lsx", false),
            ("ls%d", "eth0", false),
            ("a%db", "a3b", true),
            ("a%db", "a3", false),
        ] {
            assert_eq!(is_named(wanted, name), is_it, "{wanted} {name}");
        }
    }

    #[test]
    fn the_same_address_at_both_ends_is_refused_before_anything_is_opened() {
        let ours: Cidr = "10.9.0.2/24".parse().unwrap();
        let refused = open("ls0", TapConfig::default(), 1, &[ours], &[ours]).unwrap_err();
        assert!(refused.to_string().contains("both --ip and --peer-ip"));
    }
}
