//! The configuration: read from TOML, and checked whole before anything starts.

mod check;
mod file;
mod share;
mod span;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use handshake::KeyLogSink;
use serde::Deserialize;
use toml::de::DeTable;

pub use file::{Balance, Mode, Proxy, Reuse, Splice};

use super::route::Routes;
use super::secured::Secured;
use crate::config::{self, ConfigError, line, malformed};
use crate::matching::Rule;
use crate::min_rate::MinRate;

/// A load balancer's settings, all checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients come in.
    pub frontends: Vec<Frontend>,
    /// Where they go.
    pub pools: Vec<Pool>,
    /// How long connections may go on after SIGTERM.
    pub shutdown_time: Duration,
    source: Source,
}

/// The file that a configuration was read from, for messages.
#[derive(Clone, Debug, Default)]
struct Source {
    name: String,
    text: String,
}

impl Source {
    fn wrong(&self, wrong: check::Wrong) -> ConfigError {
        ConfigError::Wrong {
            file: self.name.clone(),
            line: line::of_key(&self.text, &wrong.key),
            key: wrong.key,
            value: wrong.value,
            remedy: wrong.remedy,
        }
    }
}

/// Where clients come in.
#[derive(Clone, Debug)]
pub struct Frontend {
    /// Its name in the file.
    pub name: String,
    /// What it understands of the bytes.
    pub mode: Mode,
    /// Clients speak TLS.
    pub tls: bool,
    /// Those that offer HTTP/2 get it.
    pub http2: bool,
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// Which pool serves what.
    pub routes: Routes,
    /// Clients begin with a header of the PROXY protocol, of either version.
    pub accept_proxy: bool,
    /// Connections at a time; more wait to be accepted.
    pub max_connections: u32,
    /// What is added to requests.
    pub forwarding: Forwarding,
    /// When connections are handed to the NIC.
    pub splice: Splice,
    /// What clients' bytes are searched for.
    pub matching: Option<Rule>,
    /// Bytes of a head, of requests and of responses.
    pub max_head: usize,
    /// From the first byte of a request to the end of its head; and for a PROXY header.
    pub request_head_time: Duration,
    /// Without a request; and without a byte while a request's content or a response is under way.
    pub idle_time: Duration,
    /// Without a byte in a tunnel or a TCP connection.
    pub tunnel_time: Duration,
    /// What clients that hold a backend have to take.
    pub min_rate: MinRate,
}

/// Header fields that tell the backend about the client (RFC 9110 §7.6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// `X-Forwarded-For`.
    pub address: bool,
    /// `X-Forwarded-Proto`.
    pub proto: bool,
    /// `X-Forwarded-Host`.
    pub host: bool,
    /// The client is a proxy itself: what it says is kept and added to. Else it is removed.
    pub trusted: bool,
    /// Our name in `Via`.
    pub via: Option<String>,
}

/// Backends that serve the same.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name in the file.
    pub name: String,
    /// The servers.
    pub backends: Vec<Backend>,
    /// How the next server is chosen.
    pub balance: Balance,
    /// The header field that consistent hashing goes by, instead of the source address.
    pub hash_header: Option<String>,
    /// Attempts beyond the first.
    pub retries: u32,
    /// From SYN to established.
    pub connect_time: Duration,
    /// From the end of a request to the end of the response's head.
    pub response_time: Duration,
    /// Which requests go over idle connections.
    pub reuse: Reuse,
    /// Idle connections kept to each backend.
    pub idle_connections: usize,
    /// How long they are kept.
    pub idle_time: Duration,
    /// Requests that may wait for a backend that has as many connections as it may have.
    pub queue: usize,
    /// How long they wait.
    pub queue_time: Duration,
    /// The share of backends, in percent, of which fewer are up when requests go to all of them.
    pub panic_threshold: u32,
    /// How backends are checked.
    pub health: Health,
}

/// A server.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its share, relative to others.
    pub weight: u32,
    /// Connections begin with a header of the PROXY protocol.
    pub proxy: Option<Proxy>,
    /// Connections are secured.
    pub tls: Option<Arc<Secured>>,
    /// Connections in use at a time.
    pub max_connections: u32,
}

/// How a pool's backends are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What is tried; `None`: nothing, they count as healthy.
    pub probe: Option<Probe>,
    /// From one check to the next.
    pub interval: Duration,
    /// For a check's answer.
    pub time_out: Duration,
    /// Successes in a row that make a backend healthy.
    pub rise: u32,
    /// Failures in a row that make it unhealthy.
    pub fall: u32,
}

/// What a check tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// To connect.
    Tcp,
    /// A GET.
    Http {
        /// Its path.
        path: String,
        /// Its host; the backend's address by default.
        host: Option<String>,
        /// Statuses of a healthy server.
        status: Vec<u16>,
    },
}

impl Pool {
    /// Whether connections to a backend are secured.
    pub fn has_tls(&self) -> bool {
        self.backends.iter().any(|backend| backend.tls.is_some())
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// The first thing that is wrong, with what to do about it.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        Config::parse(&path.display().to_string(), &config::read(path)?)
    }

    /// Understands the text of a file of this name.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
        let parsed = parse(text).map_err(|error| malformed(file, text, &error))?;
        let source = Source {
            name: file.to_owned(),
            text: text.to_owned(),
        };
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        match check::check(parsed, folder) {
            Ok(config) => Ok(Config { source, ..config }),
            Err(wrong) => Err(source.wrong(wrong)),
        }
    }

    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let rules = self
            .frontends
            .iter()
            .filter_map(|frontend| frontend.matching.as_ref());
        let secured = self.pools.iter().flat_map(|pool| &pool.backends);
        let secured = secured.filter_map(|backend| backend.tls.as_ref()?.ca());
        rules.map(Rule::file).chain(secured)
    }

    /// Has the secrets of TLS to backends logged.
    ///
    /// # Errors
    /// No cipher suite is left.
    pub fn log_keys(&mut self, sink: &KeyLogSink) -> Result<(), rustls::Error> {
        for backend in self.pools.iter_mut().flat_map(|pool| &mut pool.backends) {
            if let Some(secured) = &mut backend.tls {
                *secured = Arc::new(secured.logged(sink)?);
            }
        }
        Ok(())
    }

    /// Checks that there are certificates if a frontend has TLS, and only then.
    ///
    /// # Errors
    /// The first frontend with TLS, or the certificates.
    pub fn check_tls(&self, has_certificates: bool) -> Result<(), ConfigError> {
        let secured = self.frontends.iter().find(|frontend| frontend.tls);
        let (key, value, remedy) = match (secured, has_certificates) {
            (Some(frontend), false) => (
                format!("frontends.{}.tls", frontend.name),
                "true",
                "give a certificate and its key: --cert FILE --key FILE, or `cert` and `key` in [lb]",
            ),
            (None, true) => (
                "lb.cert".to_owned(),
                "…",
                "remove it, or set tls = true in [frontends.NAME]: none has TLS",
            ),
            _ => return Ok(()),
        };
        Err(self.source.wrong(check::Wrong {
            key,
            value: value.to_owned(),
            remedy: remedy.to_owned(),
        }))
    }

    /// Checks that frontends listen on addresses that the stack has.
    ///
    /// # Errors
    /// The first address that it does not have.
    pub fn check_addresses(&self, has: impl Fn(IpAddr) -> bool) -> Result<(), ConfigError> {
        for frontend in &self.frontends {
            for (index, listen) in frontend.listen.iter().enumerate() {
                let ip = listen.ip();
                if !ip.is_unspecified() && !has(ip) {
                    let prefix = if ip.is_ipv6() { 64 } else { 24 };
                    return Err(self.source.wrong(check::Wrong {
                        key: format!("frontends.{}.listen[{index}]", frontend.name),
                        value: format!("\"{listen}\""),
                        remedy: format!("not an address of this stack; add --ip {ip}/{prefix}"),
                    }));
                }
            }
        }
        Ok(())
    }
}

/// The load balancer's own tables; those with the options of services are for [`crate::config`].
fn parse(text: &str) -> Result<file::File, toml::de::Error> {
    let mut tables = DeTable::parse(text)?;
    for service in &config::SERVICES {
        tables.get_mut().remove(service.table);
    }
    file::File::deserialize(toml::de::Deserializer::from(tables))
}
