//! `longshore iscsi`: units of iSCSI targets, on our stack.

mod bench;
mod identity;
mod options;
mod uri;

use std::time::Instant;

use anyhow::{Result, bail};
use host::Offload;
use host::iscsi::{Client, Config, Failure};
use host::pdus::PduOffload;
use l5p::iscsi::initiator;
use wire::iscsi::{LoginStatus, Lun};

use crate::attach::Wire;
use crate::disk::{Driver, Named, Remote, transport_remedy};

pub use options::Command;
use options::{Discover, Peer, Unit};
use uri::Uri;

/// The most bytes of data in a PDU that a target may send: one of a common read is whole.
const MAX_DATA: u32 = 256 << 10;

impl Remote for Client {
    const NOUN: &'static str = "unit";
    const COUNTERS: &'static str = "Iscsi";

    fn remedy(failure: &Failure) -> Option<&'static str> {
        match failure {
            Failure::Transport(reason) => transport_remedy(reason),
            Failure::Session(initiator::Failure::Refused(status)) => match *status {
                LoginStatus::AUTHENTICATION_FAILURE => {
                    Some("give --user and --secret as the target knows them")
                }
                LoginStatus::NOT_FOUND => Some("`longshore iscsi discover` shows its targets"),
                _ => None,
            },
            Failure::Session(initiator::Failure::Authentication(_)) => {
                Some("give --user and --secret")
            }
            Failure::Session(initiator::Failure::NotADisk { .. }) => {
                Some("give the number of another unit; tgt's disks begin with 1")
            }
            Failure::Session(_) => None,
        }
    }
}

/// Does what was asked.
///
/// # Errors
/// When it can't be done: the message says why, and what can be done.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Discover(options) => discover(options),
        Command::Info(unit) => info(unit),
        Command::Read(options) => options.disk.read(&options.how),
        Command::Write(options) => options.disk.write(&options.how),
        Command::Bench(options) => bench::run(options),
    }
}

/// Logs in, and waits until the session is ready; gives its place in the driver.
fn connect(driver: &mut Driver<Client>, peer: &Peer, uri: &Uri) -> Result<usize> {
    let offload: Offload = peer.wire.offload.into();
    let (target, lun) = match uri.unit() {
        Some((target, lun)) => (Some(target.to_owned()), lun),
        None => (None, Lun::default()),
    };
    let options = host::iscsi::Options {
        address: uri.server().address(&driver.attached.addresses)?,
        session: Config {
            name: identity::name_of(peer)?,
            target,
            lun,
            isid: identity::isid()?,
            chap: identity::chap_of(peer)?,
            header_digest: peer.digest.has_header(),
            data_digest: peer.digest.has_data(),
            depth: peer.requests.depth,
            max_data: MAX_DATA,
        },
        offload: PduOffload {
            placement: offload.receive(),
            receive_digest: offload.receive(),
            transmit_digest: offload.transmit(),
        },
        map_threshold: peer.requests.map_threshold,
    };
    let client = Client::new(Instant::now(), options);
    driver.connect(uri.to_string(), client, peer.requests.timeout)
}

impl Named for Unit {
    type Client = Client;

    fn wire(&self) -> &Wire {
        &self.peer.wire
    }

    fn connect(&self, driver: &mut Driver<Client>) -> Result<usize> {
        connect(driver, &self.peer, &self.uri)
    }
}

fn discover(options: &Discover) -> Result<()> {
    let mut driver = Driver::new(&options.peer.wire)?;
    let at = connect(&mut driver, &options.peer, &options.uri)?;
    let targets = driver.with(|driver| Ok(driver.borrow().client(at).targets().to_vec()))?;
    if targets.is_empty() {
        outln!("{} has no targets for this host", options.uri);
    }
    for target in targets {
        outln!("{}", target.name);
        for portal in target.portals {
            outln!("  {portal}");
        }
    }
    Ok(())
}

fn info(of: &Unit) -> Result<()> {
    let known = of.with(|driver, at| {
        let driver = driver.borrow();
        let client = driver.client(at);
        Ok(client.unit().copied().zip(client.agreed().copied()))
    })?;
    let Some((unit, agreed)) = known else {
        bail!("the target closed the connection at once");
    };
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
    let inquiry = &unit.inquiry;
    outln!("{}", of.uri);
    outln!(
        "  {} {} {}",
        inquiry.vendor,
        inquiry.product,
        inquiry.revision
    );
    outln!("  size {} bytes", unit.blocks * u64::from(unit.block_len));
    outln!(
        "  blocks of {}, at most {} bytes in a command",
        unit.block_len,
        unit.max_transfer
    );
    outln!(
        "  read-only: {}, write cache: {}",
        yes(unit.is_read_only),
        unit.has_cache.map_or("not told", yes)
    );
    outln!(
        "  header digest: {}, data digest: {}, immediate data: {}",
        yes(agreed.incoming.header_digest),
        yes(agreed.incoming.data_digest),
        yes(agreed.immediate_data)
    );
    Ok(())
}
