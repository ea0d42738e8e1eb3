//! TLS to servers: the load balancer is their client.

use std::fmt;
use std::path::PathBuf;

use handshake::{KeyLogSink, Options, Trust, client_config};
use host::TlsRole;
use rustls_pki_types::{CertificateDer, ServerName};

use super::config::Mode;

/// How the connections to a server are secured.
pub struct Secured {
    /// Where the certificates are that are trusted; without it any is.
    ca: Option<PathBuf>,
    trust: Trust,
    /// Whom the certificate must name.
    name: ServerName<'static>,
    http: TlsRole,
    bytes: TlsRole,
}

impl Secured {
    /// With a server of this name, whose certificate is to be trusted. Who logs keys gets the secrets.
    ///
    /// # Errors
    /// No cipher suite is left.
    pub fn new(
        ca: Option<PathBuf>,
        trust: Trust,
        name: ServerName<'static>,
        key_log: Option<KeyLogSink>,
    ) -> Result<Secured, rustls::Error> {
        let role = |alpn: &[&str]| {
            let options = Options {
                alpn: alpn.iter().map(|it| it.as_bytes().to_vec()).collect(),
                key_log: key_log.clone(),
                ..Options::default()
            };
            let config = client_config(trust.clone(), &options)?;
            let name = name.clone();
            Ok::<_, rustls::Error>(TlsRole::Client { config, name })
        };
        Ok(Secured {
            http: role(&["http/1.1"])?,
            bytes: role(&[])?,
            ca,
            trust,
            name,
        })
    }

    /// The same, whose secrets this one gets.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn logged(&self, key_log: &KeyLogSink) -> Result<Secured, rustls::Error> {
        let (trust, name) = (self.trust.clone(), self.name.clone());
        Secured::new(self.ca.clone(), trust, name, Some(key_log.clone()))
    }

    /// The load balancer's part in handshakes, where it speaks HTTP or just any bytes.
    pub fn role(&self, mode: Mode) -> &TlsRole {
        match mode {
            Mode::Http => &self.http,
            Mode::Tcp => &self.bytes,
        }
    }

    /// The file of the certificates that are trusted.
    pub fn ca(&self) -> Option<&PathBuf> {
        self.ca.as_ref()
    }

    /// The certificates that are trusted, if not any is.
    fn listed(&self) -> Option<&[CertificateDer<'static>]> {
        match &self.trust {
            Trust::RootsAndCertificates(_, listed) => Some(listed),
            Trust::Roots(_) | Trust::Anyone => None,
        }
    }
}

impl PartialEq for Secured {
    fn eq(&self, other: &Secured) -> bool {
        self.name == other.name && self.listed() == other.listed()
    }
}

impl Eq for Secured {}

impl fmt::Debug for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured")
            .field("ca", &self.ca)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
