//! `longshore serve`: a directory over HTTPS.

mod counters;
mod files;
mod options;
mod outgoing;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use counters::ServeCounters;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use handshake::{Certificate, KeyLogSink, Options as TlsOptions, server_config};
use host::TlsRole;

use crate::access_log::AccessLog;
use crate::attach::{Attached, Wire, attach};
use crate::background::announce as announce_line;
use crate::control::{self, Answer, Request};
use crate::matching::{Matcher, Rule};
use crate::min_rate::MinRate;
use crate::psk_file::PskFile;
use crate::sandbox::Files;
use crate::secret_file;
use crate::service::{Application, Service};
use crate::signals::Signals;
use crate::store::Store;

pub use options::{EXAMPLES, Options};

use files::FileSource;
use server::{Rules, Server};

/// How often sessions are looked at for those that take too long.
const SWEEP: Duration = Duration::from_secs(1);

/// Serves until it is told to end.
///
/// # Errors
/// When something is missing to begin with, or the interface goes away.
pub fn run(options: &Options) -> Result<()> {
    let mut readiness = options.background.begin()?;
    let signals = Signals::block()?;
    let store = Store::open(&options.root).with_context(|| {
        format!(
            "the directory {} can't be served; give --root a directory that you may read",
            options.root.display()
        )
    })?;
    let secrets = Secrets::of(options)?;
    let file = options.patterns.as_deref();
    let rule = file
        .map(|file| Rule::read(file, options.match_action))
        .transpose()?;
    let mut control = options
        .control
        .as_deref()
        .map(control::Server::bind)
        .transpose()?;
    let access_log = AccessLog::open(&options.access_log)?;
    let mut attached = attach(&options.wire, &options.connections)?;
    let tls = secrets.into_role(attached.key_log.clone())?;

    // A NIC of our own dies with us.
    let way = match options.wire.nic.is_none() || options.plain || options.zerocopy {
        true => FileSource::InPlace,
        false => FileSource::Copied,
    };
    let offload = options.wire.offload.into();
    let matcher = rule.map(|rule| Matcher::new(rule, attached.runtime.stack(), offload));
    let min_rate = MinRate {
        rate: options.min_rate,
        window: MinRate::WINDOW,
    };
    let mut server = Server::new(store, tls, offload, way, Rules { matcher, min_rate });
    if let Some(log) = access_log {
        server.set_access_log(log);
    }
    let port = options.port.unwrap_or(if options.plain { 80 } else { 443 });
    let limit = Duration::from_secs(options.send_timeout.into());
    let stack = attached.runtime.stack();
    stack.set_user_timeout((!limit.is_zero()).then_some(limit));
    listen(&mut server, &mut attached, &options.wire, port)?;
    announce(options, &attached, port);
    options.account.enter(Files {
        read: Some(server.directory()),
        remove: control.as_ref().map(control::Server::directory),
    })?;
    readiness.tell()?;
    let mut service = Service {
        signals: &signals,
        control: control.as_mut(),
        readiness: &mut readiness,
    };
    let swept = Instant::now();
    service.run(&mut Serving { server, swept }, &mut attached)?;

    drop(control);
    attached.runtime.shutdown(Instant::now())?;
    Ok(())
}

/// The server, and when its sessions were looked at last.
struct Serving {
    server: Server,
    swept: Instant,
}

impl Application for Serving {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> bool {
        let stack = attached.runtime.stack();
        let progress = self.server.poll(now, stack);
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.server.sweep(now, stack);
        }
        progress
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let sweep = self.server.is_busy().then(|| self.swept + SWEEP);
        let deadlines = [sweep, self.server.poll_timeout()];
        deadlines.into_iter().flatten().min()
    }

    fn answer(&mut self, _now: Instant, request: Request, attached: &mut Attached) -> Answer {
        self.server.answer(request, attached)
    }
}

/// What it proves itself to clients with.
enum Secrets {
    /// Nothing: plain HTTP.
    None,
    Certificate(Certificate),
    PreShared(PskFile),
}

impl Secrets {
    fn of(options: &Options) -> Result<Self> {
        if options.plain {
            return Ok(Self::None);
        }
        match &options.psk {
            Some(path) => Ok(Self::PreShared(PskFile::read(path)?)),
            None => Ok(Self::Certificate(certificate(options)?)),
        }
    }

    fn into_role(self, key_log: Option<KeyLogSink>) -> Result<Option<TlsRole>> {
        match self {
            Self::None => Ok(None),
            Self::PreShared(keys) => {
                let config = keys.into_server(key_log)?;
                Ok(Some(TlsRole::PskServer { config }))
            }
            Self::Certificate(certificate) => {
                let options = TlsOptions {
                    key_log,
                    alpn: vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()],
                    ..TlsOptions::default()
                };
                let config = server_config(certificate, &options).context(
                    "the certificate can't be used; --cert and --key must belong together",
                )?;
                Ok(Some(TlsRole::Server { config }))
            }
        }
    }
}

/// The files that were named, or a certificate of our own when none were.
fn certificate(options: &Options) -> Result<Certificate> {
    let (Some(cert), Some(key)) = (&options.cert, &options.key) else {
        let names = options
            .wire
            .addresses
            .iter()
            .map(|cidr| cidr.address.to_string())
            .chain(["localhost".to_owned()]);
        return Ok(Certificate::self_signed(names)?);
    };
    let chain = std::fs::read(cert)
        .with_context(|| format!("{} can't be read; see --cert", cert.display()))?;
    let secret = secret_file::read(key, "--key")?;
    Certificate::from_pem(&chain, secret.as_bytes()).with_context(|| {
        format!(
            "{} and {} are no certificate and key in PEM",
            cert.display(),
            key.display()
        )
    })
}

/// Listens on every address that was given.
fn listen(server: &mut Server, attached: &mut Attached, wire: &Wire, port: u16) -> Result<()> {
    for cidr in &wire.addresses {
        let address = SocketAddr::new(cidr.address, port);
        server
            .listen(attached.runtime.stack(), address)
            .with_context(|| format!("can't listen on {address}"))?;
    }
    Ok(())
}

/// Says where it serves, and what is missing on the Linux side to reach it.
fn announce(options: &Options, attached: &Attached, port: u16) {
    let (scheme, usual) = if options.plain {
        ("http", 80)
    } else {
        ("https", 443)
    };
    for cidr in &options.wire.addresses {
        let host = match cidr.address {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let suffix = if port == usual {
            String::new()
        } else {
            format!(":{port}")
        };
        announce_line(format_args!(
            "serving {} at {scheme}://{host}{suffix}/",
            options.root.display()
        ));
    }
    attached.announce_neighbours();
    if options.cert.is_none() && options.psk.is_none() && !options.plain {
        announce_line(format_args!(
            "the certificate is self-signed: curl needs --insecure"
        ));
    }
}
