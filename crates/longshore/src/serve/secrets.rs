//! What a server proves itself to clients with: certificates or pre-shared keys from files, which are read again when it is told to.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context, Result, bail};
use handshake::{
    Certificate, Certificates, KeyLogSink, Misfit, Options as TlsOptions, server_config_by_name,
};
use host::TlsRole;

use super::options::Options;
use crate::psk_file::{self, PskFile};
use crate::secret_file;

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
        if options.cert.is_empty() {
            let made =
                Certificates::new(vec![self_signed(options)?]).map_err(|misfit| misfit.error)?;
            return Ok(Self::SelfSigned(made));
        }
        let certificates = Certificates::new(certificates(options)?);
        Ok(Self::Certificates(
            certificates.map_err(|error| misfit(options, error))?,
        ))
    }

    /// The server's part in handshakes.
    ///
    /// # Errors
    /// The system's OpenSSL library, which pre-shared keys need, is missing.
    pub(super) fn role(&self, key_log: Option<KeyLogSink>) -> Result<Option<TlsRole>> {
        Ok(match self {
            Self::None => None,
            Self::PreShared(keys) => {
                let config = psk_file::server(Arc::clone(keys), key_log)?;
                Some(TlsRole::PskServer { config })
            }
            Self::SelfSigned(certificates) | Self::Certificates(certificates) => {
                let options = TlsOptions {
                    key_log,
                    alpn: vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()],
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
            Self::Certificates(held) if !options.cert.is_empty() => {
                let replaced = held.replace(certificates(options)?);
                replaced.map_err(|error| misfit(options, error))
            }
            Self::PreShared(held) if options.psk.is_some() => {
                let path = options.psk.as_deref().unwrap_or(Path::new(""));
                let keys = PskFile::read(path)?;
                *held.write().unwrap_or_else(PoisonError::into_inner) = keys;
                Ok(())
            }
            Self::None if options.plain => Ok(()),
            Self::SelfSigned(_) if options.cert.is_empty() && options.psk.is_none() => Ok(()),
            _ => bail!(
                "files of certificates, files of pre-shared keys, a certificate of its own and plain HTTP take each other's place only at a restart"
            ),
        }
    }
}

/// That certificates and keys do not fit.
fn misfit(options: &Options, Misfit { place, error }: Misfit) -> anyhow::Error {
    let (cert, key) = (&options.cert[place], &options.key[place]);
    let (cert, key) = (cert.display(), key.display());
    anyhow::Error::new(error).context(format!(
        "{cert} and {key} can't be used; a certificate and its key must belong together"
    ))
}

/// The certificates that were named.
fn certificates(options: &Options) -> Result<Vec<Certificate>> {
    let (certs, keys) = (&options.cert, &options.key);
    if certs.len() != keys.len() {
        bail!(
            "{} of --cert and {} of --key were given; each certificate needs its key",
            certs.len(),
            keys.len()
        );
    }
    let pairs = certs.iter().zip(keys);
    pairs.map(|(cert, key)| certificate(cert, key)).collect()
}

fn certificate(cert: &Path, key: &Path) -> Result<Certificate> {
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

/// A certificate for the addresses that it serves on.
fn self_signed(options: &Options) -> Result<Certificate> {
    let addresses = options.wire.addresses.iter();
    let names = addresses.map(|cidr| cidr.address.to_string());
    Ok(Certificate::self_signed(
        names.chain(["localhost".to_owned()]),
    )?)
}
