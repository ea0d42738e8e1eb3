//! The options `--cert` and `--key` of servers: files of certificates and keys, which are read again when a server is told to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use handshake::{Certificate, Certificates, Misfit};

use crate::secret_file;

/// From the connection, or the PROXY header before it, to the end of the TLS handshake.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(15);

/// Where certificates and keys are.
#[derive(Clone, Debug, Default, Args)]
pub struct CertificateFiles {
    /// Certificate chain in PEM [default of `serve`: a new self-signed certificate]. Given several times, each with its --key,
    /// clients get the one for the name that they ask for, else the first
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "TLS")]
    pub cert: Vec<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    pub key: Vec<PathBuf>,
}

impl CertificateFiles {
    /// Whether no certificate is named.
    pub fn is_empty(&self) -> bool {
        self.cert.is_empty()
    }

    /// All of them.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.cert.iter().chain(&self.key)
    }

    /// What is in them.
    ///
    /// # Errors
    /// A file can't be read, or has something else in it; or a key is not its certificate's.
    pub fn read(&self) -> Result<Arc<Certificates>> {
        let certificates = Certificates::new(self.certificates()?);
        certificates.map_err(|error| self.misfit(error))
    }

    /// Puts what is in them in the place of what was there. Handshakes that have begun keep what they have, and tickets stay good.
    ///
    /// # Errors
    /// As [`read`](Self::read); then all stays as it was.
    pub fn replace(&self, held: &Certificates) -> Result<()> {
        let replaced = held.replace(self.certificates()?);
        replaced.map_err(|error| self.misfit(error))
    }

    fn certificates(&self) -> Result<Vec<Certificate>> {
        let (certs, keys) = (&self.cert, &self.key);
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

    /// That certificates and keys do not fit.
    fn misfit(&self, Misfit { place, error }: Misfit) -> anyhow::Error {
        let (cert, key) = (&self.cert[place], &self.key[place]);
        let (cert, key) = (cert.display(), key.display());
        anyhow::Error::new(error).context(format!(
            "{cert} and {key} can't be used; a certificate and its key must belong together"
        ))
    }
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
