//! Where a server is.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, anyhow};
use host::Cidr;
use url::Url;

/// The host and port of a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(crate) host: String,
    pub(crate) port: u16,
    default_port: u16,
}

impl Authority {
    /// That of the URI `text`, which may go without the port.
    ///
    /// # Errors
    /// When it has no host.
    pub(crate) fn of(text: &str, url: &Url, default_port: u16) -> Result<Self> {
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| anyhow!("{text} names no host"))?;
        let bare = host.strip_prefix('[');
        let bare = bare.and_then(|rest| rest.strip_suffix(']'));
        Ok(Self {
            host: bare.unwrap_or(host).to_owned(),
            port: url.port().unwrap_or(default_port),
            default_port,
        })
    }

    /// The address to connect to, of a family that we have an address of.
    ///
    /// # Errors
    /// When the name can't be resolved, or we have no address of its family.
    pub(crate) fn address(&self, ours: &[Cidr]) -> Result<SocketAddr> {
        let (host, port) = (&self.host[..], self.port);
        let all: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, port)],
            Err(_) => (host, port)
                .to_socket_addrs()
                .with_context(|| format!("the name {host} can't be resolved"))?
                .collect(),
        };
        Ok(reachable(all, host, ours)?[0])
    }
}

/// Of the addresses of a host those of families that we have an address of; one at least.
///
/// # Errors
/// When there are none.
pub(crate) fn reachable(
    mut all: Vec<SocketAddr>,
    host: impl fmt::Display,
    ours: &[Cidr],
) -> Result<Vec<SocketAddr>> {
    let family = match all.iter().any(SocketAddr::is_ipv6) {
        true => "IPv6",
        false => "IPv4",
    };
    all.retain(|address| {
        let is_ipv4 = address.is_ipv4();
        ours.iter().any(|cidr| cidr.address.is_ipv4() == is_ipv4)
    });
    anyhow::ensure!(
        !all.is_empty(),
        "{host} has {family} addresses only; give --ip an address of that family"
    );
    Ok(all)
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        if self.port != self.default_port {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}
