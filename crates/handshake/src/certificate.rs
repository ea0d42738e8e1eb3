//! Certificates: made here, or read from PEM.

use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// A server's certificate chain and the private key of its first certificate.
#[derive(Debug)]
pub struct Certificate {
    /// The chain, the server's own first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key.
    pub key: PrivateKeyDer<'static>,
}

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// Not what a certificate can be made for.
    #[error("cannot make a certificate for these names: {0}")]
    Names(#[from] rcgen::Error),
    /// The text holds no certificate.
    #[error("no certificate found; a PEM file with a `BEGIN CERTIFICATE` section is needed")]
    NoCertificate,
    /// A section of the text is damaged.
    #[error("the certificate cannot be read: {0}")]
    BadCertificate(rustls_pki_types::pem::Error),
    /// The text holds no usable key.
    #[error("no private key found ({0}); a PEM file with a `BEGIN PRIVATE KEY` section is needed")]
    NoKey(rustls_pki_types::pem::Error),
}

impl Certificate {
    /// A new certificate for DNS names and IP addresses, signed by its own key.
    ///
    /// # Errors
    /// When a name is neither.
    pub fn self_signed(
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Certificate, CertificateError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.self_signed(&key)?;
        Ok(Certificate {
            chain: vec![certificate.der().clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    }

    /// Chain and key from the text of two PEM files, which may be the same.
    ///
    /// # Errors
    /// When either is not in there.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Certificate, CertificateError> {
        let chain = chain_from_pem(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(CertificateError::NoKey)?;
        Ok(Certificate { chain, key })
    }
}

/// The certificates in the text of a PEM file.
///
/// # Errors
/// When the file has no certificate, or one is damaged.
pub fn chain_from_pem(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(CertificateError::BadCertificate)?;
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate);
    }
    Ok(chain)
}
