//! What a server proves itself to clients with: certificates or pre-shared keys from files, which are read again when it is told to.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Result, bail};
use handshake::{
    Certificate, Certificates, KeyLogSink, Options as TlsOptions, TicketKeys, server_config_by_name,
};
use host::TlsRole;

use super::options::Options;
use crate::psk_file::{self, PskFile};

/// What it has.
pub(super) enum Secrets {
    /// Nothing: plain HTTP.
    None,
    /// A certificate that it has made for itself.
    SelfSigned(Arc<Certificates>),
    Certificates(Arc<Certificates>),
    PreShared(Arc<RwLock<PskFile>>),
}

impl Secrets {
    /// What the options name, or a certificate of our own when they name nothing.
    ///
    /// # Errors
    /// A file can't be read, or has something else in it.
    pub(super) fn read(options: &Options) -> Result<Self> {
        if options.plain {
            return Ok(Self::None);
        }
        if let Some(path) = &options.psk {
            let keys = RwLock::new(PskFile::read(path)?);
            return Ok(Self::PreShared(Arc::new(keys)));
        }
        if options.certificates.is_empty() {
            let made =
                Certificates::new(vec![self_signed(options)?]).map_err(|misfit| misfit.error)?;
            return Ok(Self::SelfSigned(made));
        }
        Ok(Self::Certificates(options.certificates.read()?))
    }

    /// The server's part in handshakes.
    ///
    /// # Errors
    /// The system's OpenSSL library, which pre-shared keys need, is missing.
    pub(super) fn role(
        &self,
        options: &Options,
        key_log: Option<KeyLogSink>,
        tickets: &Arc<TicketKeys>,
    ) -> Result<Option<TlsRole>> {
        // What HTTP/2 compresses, no pattern is found in.
        let has_http2 = !options.no_http2 && options.patterns.is_none();
        let http2 = has_http2.then_some("h2");
        let alpn = http2.into_iter().chain(["http/1.1", "http/1.0"]);
        Ok(match self {
            Self::None => None,
            Self::PreShared(keys) => {
                let config = psk_file::server(Arc::clone(keys), key_log)?;
                Some(TlsRole::PskServer { config })
            }
            Self::SelfSigned(certificates) | Self::Certificates(certificates) => {
                let options = TlsOptions {
                    key_log,
                    tickets: Some(Arc::clone(tickets)),
                    alpn: alpn.map(|it| it.as_bytes().to_vec()).collect(),
                    ..TlsOptions::default()
                };
                let config = server_config_by_name(Arc::clone(certificates), &options)?;
                Some(TlsRole::Server { config })
            }
        })
    }

    /// Reads the files again. Handshakes that have begun keep what they have, and tickets stay good.
    ///
    /// # Errors
    /// As [`read`](Self::read); then all stays as it was.
    pub(super) fn reload(&self, options: &Options) -> Result<()> {
        match self {
            Self::Certificates(held) if !options.certificates.is_empty() => {
                options.certificates.replace(held)
            }
            Self::PreShared(held) if options.psk.is_some() => {
                let path = options.psk.as_deref().unwrap_or(Path::new(""));
                let keys = PskFile::read(path)?;
                *held.write().unwrap_or_else(PoisonError::into_inner) = keys;
                Ok(())
            }
            Self::None if options.plain => Ok(()),
            Self::SelfSigned(_) if options.certificates.is_empty() && options.psk.is_none() => {
                Ok(())
            }
            _ => bail!(
                "files of certificates, files of pre-shared keys, a certificate of its own and plain HTTP take each other's place only at a restart"
            ),
        }
    }
}

/// A certificate for the addresses that it serves on.
fn self_signed(options: &Options) -> Result<Certificate> {
    let addresses = options.wire.addresses.iter();
    let names = addresses.map(|cidr| cidr.address.to_string());
    Ok(Certificate::self_signed(
        names.chain(["localhost".to_owned()]),
    )?)
}
