//! TLS of frontends: its end is here, and what backends get is plain.

use std::sync::Arc;

use anyhow::Result;
use handshake::{Certificates, KeyLogSink, Options, TicketKeys, server_config_by_name};
use host::TlsRole;

use super::config::{Frontend, Mode};

/// The load balancer's part in handshakes.
#[derive(Clone, Debug)]
pub struct Tls {
    http2: TlsRole,
    http1: TlsRole,
    bytes: TlsRole,
}

impl Tls {
    /// With these certificates, also when they are replaced, and these keys of tickets.
    ///
    /// # Errors
    /// No cipher suite is left.
    pub fn new(
        certificates: &Arc<Certificates>,
        key_log: Option<KeyLogSink>,
        tickets: &Arc<TicketKeys>,
    ) -> Result<Tls> {
        let role = |alpn: &[&str]| {
            let options = Options {
                key_log: key_log.clone(),
                tickets: Some(Arc::clone(tickets)),
                alpn: alpn.iter().map(|it| it.as_bytes().to_vec()).collect(),
                ..Options::default()
            };
            let config = server_config_by_name(Arc::clone(certificates), &options)?;
            Ok::<_, anyhow::Error>(TlsRole::Server { config })
        };
        Ok(Tls {
            http2: role(&["h2", "http/1.1", "http/1.0"])?,
            http1: role(&["http/1.1", "http/1.0"])?,
            // What a backend speaks is not known.
            bytes: role(&[])?,
        })
    }

    /// That of this frontend.
    pub(super) fn role(&self, frontend: &Frontend) -> TlsRole {
        match frontend.mode {
            Mode::Http if frontend.http2 => self.http2.clone(),
            Mode::Http => self.http1.clone(),
            Mode::Tcp => self.bytes.clone(),
        }
    }
}
