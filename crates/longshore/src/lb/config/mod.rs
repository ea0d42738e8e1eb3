//! The configuration: read from TOML, and checked whole before anything starts.

mod check;
mod file;
mod line;
mod span;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

pub use file::{Balance, Mode, Proxy, Reuse, Splice};

use super::route::Routes;
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
    /// Connections in use at a time.
    pub max_connections: u32,
}

/// How a pool's backends are checked.
#[derive(Clone, Debug)]
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

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("can't read {file}: {error}; give --config a file that you may read")]
    Unreadable {
        /// Its name.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is not TOML, or has a key that does not exist, or a value of another type.
    #[error("{file}:{line}: {what}")]
    Malformed {
        /// Its name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// A value that can't be.
    #[error("{file}:{line}: {key} = {value}: {remedy}")]
    Wrong {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key with its tables, as in `pools.app.retries`.
        key: String,
        /// Its value.
        value: String,
        /// What to write instead.
        remedy: String,
    },
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// The first thing that is wrong, with what to do about it.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Config::parse(&name, &text),
            Err(error) => Err(ConfigError::Unreadable { file: name, error }),
        }
    }

    /// Understands the text of a file of this name.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
        let parsed: file::File =
            toml::from_str(text).map_err(|error| malformed(file, text, &error))?;
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

/// What TOML's parser says, in one sentence.
fn malformed(file: &str, text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error
        .span()
        .map_or(1, |span| line::of_byte(text, span.start));
    let message = error.message().trim_end().replace('\n', "; ");
    let (what, expected) = message
        .split_once(", expected ")
        .unwrap_or((message.as_str(), ""));
    let what = what
        .replacen("unknown field", "unknown key", 1)
        .replacen("unknown variant", "unknown value", 1)
        .replacen("missing field", "missing key", 1)
        .replacen("invalid value: string", "wrong value", 1)
        .replacen("invalid value:", "wrong value:", 1)
        .replacen("invalid type:", "wrong type:", 1);
    let source = match text.lines().nth(line - 1).map_or("", str::trim) {
        "" => "the file",
        source => source,
    };
    let expected = match expected {
        "a sequence" => "an array, as in [\"10.9.0.2:80\"]",
        "a map" => "a table",
        "a boolean" => "true or false",
        "u32" => "a number from 0 to 4294967295",
        "u16" => "a number from 0 to 65535",
        expected => expected,
    };
    let names_it = what.starts_with("unknown") || what.starts_with("wrong");
    let what = match (expected, names_it) {
        (expected, true) => format!("{what}; use {expected}"),
        ("", false) => format!("`{source}`: {what}"),
        (expected, false) => format!("`{source}`: {what}; expected {expected}"),
    };
    ConfigError::Malformed {
        file: file.to_owned(),
        line,
        what,
    }
}
