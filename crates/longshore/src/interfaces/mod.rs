//! `longshore up` and `longshore down`: TAP interfaces that outlive the programs on them.

use anyhow::{Context, Result, bail};
use clap::Args;
use host::Cidr;
use port::tap::{Tap, TapConfig};
use rustix::process::getuid;

use crate::attach::add_addresses;
use crate::sandbox::Identity;

pub const UP_EXAMPLES: &str = "\
Examples:
  sudo longshore up ls0 10.9.0.1/24 fd09::1/64
  longshore serve --tap ls0 --ip 10.9.0.2/24 --ip fd09::2/64 --root .";

pub const DOWN_EXAMPLES: &str = "\
Examples:
  sudo longshore down ls0";

/// `longshore up`.
#[derive(Clone, Debug, Args)]
pub struct Up {
    /// TAP interface to make
    pub name: String,
    /// Addresses that Linux gets on it, as in 10.9.0.1/24
    #[arg(value_name = "CIDR", required = true)]
    pub addresses: Vec<Cidr>,
    /// User who may use it without root [default: the user who runs sudo; one that is there keeps its user]
    #[arg(long)]
    pub user: Option<String>,
}

/// `longshore down`.
#[derive(Clone, Debug, Args)]
pub struct Down {
    /// TAP interface to remove
    pub name: String,
}

/// Makes the interface, or changes the one that is there.
///
/// # Errors
/// When it can't be had; a new interface goes away again.
pub fn up(options: &Up) -> Result<()> {
    let owner = owner(options.user.as_deref())?;
    let is_new = !Tap::exists(&options.name);
    let tap = Tap::open(&options.name, TapConfig::default())?;
    let name = tap.name();
    if is_new || options.user.is_some() {
        tap.set_owner(owner)
            .with_context(|| format!("can't give {name} to user {owner}"))?;
    }
    add_addresses(&tap, &options.addresses)?;
    tap.set_up()
        .with_context(|| format!("can't set {name} up; run with sudo"))?;
    tap.set_persistent(true)
        .with_context(|| format!("can't keep {name}; run with sudo"))?;
    let addresses: Vec<String> = options.addresses.iter().map(Cidr::to_string).collect();
    let with = addresses.join(" and ");
    match is_new || options.user.is_some() {
        true => outln!("{name} is up with {with}, for uid {owner}"),
        false => outln!("{name} is up with {with}; it was there, and keeps its user"),
    }
    Ok(())
}

/// Removes the interface.
///
/// # Errors
/// When there is none, a program uses it, or it is no TAP interface.
pub fn down(options: &Down) -> Result<()> {
    let name = &options.name;
    if !Tap::exists(name) {
        bail!("there is no interface {name}");
    }
    let tap = Tap::open(name, TapConfig::default())?;
    tap.set_persistent(false)
        .with_context(|| format!("can't remove {name}; run with sudo"))
}

/// The user whom the interface is for.
fn owner(user: Option<&str>) -> Result<u32> {
    if let Some(user) = user {
        return Ok(Identity::of_account(user)?.uid);
    }
    let sudo = std::env::var("SUDO_UID")
        .ok()
        .and_then(|uid| uid.parse().ok());
    Ok(sudo.unwrap_or_else(|| getuid().as_raw()))
}
