//! Where a URL leads.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail};
use host::Cidr;
use rustls_pki_types::ServerName;
use url::{Host, Url};

use crate::disk::reachable;

/// A URL that can be downloaded.
#[derive(Clone, Debug)]
pub(super) struct Place {
    url: Url,
    host: Host<String>,
    port: u16,
}

impl Place {
    pub(super) fn of_url(url: &Url) -> Result<Place> {
        if !matches!(url.scheme(), "https" | "http") {
            bail!("{url} is neither https:// nor http://");
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            bail!("{url} names no host");
        };
        Ok(Place {
            host: host.to_owned(),
            port,
            url: url.clone(),
        })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Where a `Location` leads from here. Not from https to http: what was asked for in private is not
    /// fetched in public.
    pub(super) fn redirect(&self, location: &str) -> Result<Place> {
        let url = self
            .url
            .join(location)
            .with_context(|| format!("{} redirects to {location:?}, which is no URL", self.url))?;
        if self.is_https() && url.scheme() != "https" {
            bail!("{} redirects to {url}, which is not https", self.url);
        }
        Place::of_url(&url)
    }

    pub(super) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The name that the certificate must have.
    pub(super) fn server_name(&self) -> Result<ServerName<'static>> {
        Ok(match &self.host {
            Host::Domain(name) => ServerName::try_from(name.clone())
                .with_context(|| format!("{name} is no host name that a certificate can have"))?,
            Host::Ipv4(ip) => ServerName::from(IpAddr::V4(*ip)),
            Host::Ipv6(ip) => ServerName::from(IpAddr::V6(*ip)),
        })
    }

    /// The addresses to try, of families that we have an address of.
    pub(super) fn addresses(&self, ours: &[Cidr]) -> Result<Vec<SocketAddr>> {
        let all: Vec<SocketAddr> = match &self.host {
            Host::Ipv4(ip) => vec![SocketAddr::new(IpAddr::V4(*ip), self.port)],
            Host::Ipv6(ip) => vec![SocketAddr::new(IpAddr::V6(*ip), self.port)],
            Host::Domain(name) => (name.as_str(), self.port)
                .to_socket_addrs()
                .with_context(|| format!("the name {name} can't be resolved"))?
                .collect(),
        };
        reachable(all, &self.host, ours)
    }

    /// The request for it, which accepts these content codings.
    pub(super) fn request(&self, codings: &str) -> String {
        let mut host = self.host.to_string();
        if let Some(port) = self.url.port() {
            host.push_str(&format!(":{port}"));
        }
        let query = self
            .url
            .query()
            .map(|q| format!("?{q}"))
            .unwrap_or_default();
        format!(
            "GET {}{query} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: longshore/{}\r\nAccept: */*\r\n\
             Accept-Encoding: {codings}\r\nConnection: close\r\n\r\n",
            self.url.path(),
            env!("CARGO_PKG_VERSION"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Place {
        Place::of_url(&url.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_request_names_host_port_and_query() {
        let request = place("https://h.example:8443/a%20b?q=1#f").request("identity");
        assert!(request.starts_with("GET /a%20b?q=1 HTTP/1.1\r\nHost: h.example:8443\r\n"));
        assert!(
            place("http://[fd00::1]/")
                .request("identity")
                .contains("Host: [fd00::1]\r\n")
        );
    }

    #[test]
    fn redirects_resolve_and_never_leave_https() {
        let from = place("https://h/a/b");
        assert_eq!(from.redirect("../c").unwrap().url().as_str(), "https://h/c");
        assert_eq!(
            from.redirect("//g/x").unwrap().url().as_str(),
            "https://g/x"
        );
        assert!(from.redirect("http://h/").is_err());
        assert!(from.redirect("ftp://h/").is_err());
        assert!(place("http://h/").redirect("https://h/").is_ok());
    }

    #[test]
    fn only_families_that_we_have_are_tried() {
        let v4: Cidr = "10.0.0.2/24".parse().unwrap();
        assert!(place("https://[fd00::1]/").addresses(&[v4]).is_err());
        assert_eq!(
            place("https://10.0.0.1/").addresses(&[v4]).unwrap().len(),
            1
        );
    }
}
