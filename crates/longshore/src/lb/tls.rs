//! TLS of frontends: its end is here, and what backends get is plain.

use std::sync::Arc;

use anyhow::Result;
use handshake::{Certificates, KeyLogSink, Options, server_config_by_name};
use host::TlsRole;

use super::config::Mode;

/// The load balancer's part in handshakes.
#[derive(Clone, Debug)]
pub struct Tls {
    http: TlsRole,
    bytes: TlsRole,
}

impl Tls {
    /// With these certificates, also when they are replaced.
    ///
    /// # Errors
    /// No cipher suite is left.
    pub fn new(certificates: &Arc<Certificates>, key_log: Option<KeyLogSink>) -> Result<Tls> {
        let role = |alpn: &[&str]| {
            let options = Options {
                key_log: key_log.clone(),
                alpn: alpn.iter().map(|it| it.as_bytes().to_vec()).collect(),
                ..Options::default()
            };
            let config = server_config_by_name(Arc::clone(certificates), &options)?;
            Ok::<_, anyhow::Error>(TlsRole::Server { config })
        };
        Ok(Tls {
            http: role(&["http/1.1", "http/1.0"])?,
            // What a backend speaks is not known.
            bytes: role(&[])?,
        })
    }

    /// That of a frontend of this mode.
    pub(super) fn role(&self, mode: Mode) -> TlsRole {
        match mode {
            Mode::Http => self.http.clone(),
            Mode::Tcp => self.bytes.clone(),
        }
    }
}
