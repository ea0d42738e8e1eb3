//! `longshore nbd`: exports of NBD servers, on our stack.

mod bench;
mod options;
mod uri;

use std::time::Instant;

use anyhow::{Result, bail};
use handshake::{Options as TlsOptions, client_config};
use host::nbd::{Client, Failure};
use host::{Offload, TlsRole};

use crate::attach::Wire;
use crate::disk::{self, Driver, Named, Pipeline, Remote, transport_remedy};
use crate::get::trust;

pub use options::Command;
use options::{Copy, Export, Peer};
use uri::Uri;

impl Remote for Client {
    const NOUN: &'static str = "export";
    const COUNTERS: &'static str = "Nbd";

    fn remedy(failure: &Failure) -> Option<&'static str> {
        match failure {
            Failure::Transport(reason) if reason.contains("certificate") => {
                Some("give --ca the file of its authority, or --insecure to accept it")
            }
            Failure::Transport(reason) => transport_remedy(reason),
            Failure::Handshake(error) if error.to_string().contains("requires TLS") => {
                Some("give an nbds:// URI")
            }
            Failure::Handshake(error) if error.to_string().contains("does not do TLS") => {
                Some("give an nbd:// URI if it may go in clear")
            }
            Failure::Handshake(_) => None,
        }
    }
}

/// Does what was asked.
///
/// # Errors
/// When it can't be done: the message says why, and what can be done.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Info(export) => info(export),
        Command::Read(options) => options.disk.read(&options.how),
        Command::Write(options) => options.disk.write(&options.how),
        Command::Copy(options) => copy(options),
        Command::Bench(options) => bench::run(options),
    }
}

/// Connects to an export, and waits until it is ready; gives its place in the driver.
fn connect(driver: &mut Driver<Client>, peer: &Peer, uri: &Uri) -> Result<usize> {
    let address = uri.server().address(&driver.attached.addresses)?;
    let offload: Offload = peer.wire.offload.into();
    let mut tls = None;
    if uri.secures() {
        let options = TlsOptions {
            key_log: driver.attached.key_log.clone(),
            ..TlsOptions::default()
        };
        let trust = trust(peer.insecure, peer.ca.as_deref(), true)?;
        tls = Some(TlsRole::Client {
            config: client_config(trust, &options)?,
            name: uri.server_name()?,
        });
    }
    let options = host::nbd::Options {
        tls,
        tls_offload: offload,
        placement: offload.receive(),
        map_threshold: peer.requests.map_threshold,
        depth: peer.requests.depth,
        ..host::nbd::Options::new(address, uri.export())
    };
    let client = Client::new(Instant::now(), options);
    driver.connect(uri.to_string(), client, peer.requests.timeout)
}

impl Named for Export {
    type Client = Client;

    fn wire(&self) -> &Wire {
        &self.peer.wire
    }

    fn connect(&self, driver: &mut Driver<Client>) -> Result<usize> {
        connect(driver, &self.peer, &self.uri)
    }
}

fn info(of: &Export) -> Result<()> {
    let export = of.with(|driver, at| Ok(driver.borrow().client(at).export().copied()))?;
    let Some(export) = export else {
        bail!("the server closed the connection at once");
    };
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
    outln!("{}", of.uri);
    outln!("  size {} bytes", export.size);
    outln!(
        "  blocks of {}, preferred {}, at most {} bytes in a request",
        export.min_block,
        export.preferred_block,
        export.max_request
    );
    outln!(
        "  read-only: {}, flush: {}, structured replies: {}",
        yes(export.is_read_only()),
        yes(export.can_flush()),
        yes(export.structured)
    );
    Ok(())
}

/// Between two exports, or an export and a file.
fn copy(options: &Copy) -> Result<()> {
    let Copy {
        from,
        to,
        peer,
        quiet,
    } = options;
    let export = |uri: Uri| Export {
        uri,
        peer: (**peer).clone(),
    };
    let quiet = *quiet;
    match (Uri::of_word(from)?, Uri::of_word(to)?) {
        (Some(from), Some(to)) => {
            let mut driver = Driver::new(&peer.wire)?;
            let from = connect(&mut driver, peer, &from)?;
            let to = connect(&mut driver, peer, &to)?;
            driver.with(|driver| {
                let mut source = Pipeline::new(driver, from)?;
                disk::between(&mut source, &mut Pipeline::new(driver, to)?, quiet)
            })
        }
        (Some(from), None) => export(from).read(&disk::Read {
            output: to.into(),
            offset: 0,
            length: None,
            quiet,
        }),
        (None, Some(to)) => export(to).write(&disk::Write {
            input: from.into(),
            offset: 0,
            pad: true,
            verify: false,
            quiet,
        }),
        (None, None) => bail!("neither {from} nor {to} is an export; give one by nbd://HOST/NAME"),
    }
}
