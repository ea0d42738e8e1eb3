//! A server's certificates, of which a handshake takes the one for the name that its client asks for.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use webpki::EndEntityCert;

use crate::Certificate;

#[cfg(test)]
mod tests;

/// The certificates of a server: by the name that a client sends (RFC 6066 §3), exactly or by a wildcard of one label
/// (RFC 6125 §6.4.3), else the first. Of several for a name the first goes whose key the client can check.
///
/// They can be replaced while connections are made: handshakes that have begun keep theirs.
#[derive(Debug)]
pub struct Certificates(RwLock<Arc<ByName>>);

#[derive(Debug, Default)]
struct ByName {
    /// In the order in which they were given.
    keys: Vec<Arc<CertifiedKey>>,
    /// Places in `keys` by names in lower case; a wildcard is there with its asterisk.
    names: HashMap<String, Vec<usize>>,
}

/// A certificate that can't be used.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{error}")]
pub struct Misfit {
    /// Its place among those that were given.
    pub place: usize,
    /// It is damaged, or the key is not its own; or none was given.
    pub error: rustls::Error,
}

impl From<Misfit> for rustls::Error {
    fn from(misfit: Misfit) -> Self {
        misfit.error
    }
}

impl Certificates {
    /// Certificates to choose from.
    ///
    /// # Errors
    /// When no certificate is given, one is damaged, or a key is not its certificate's.
    pub fn new(certificates: Vec<Certificate>) -> Result<Arc<Self>, Misfit> {
        let by_name = ByName::new(certificates)?;
        Ok(Arc::new(Self(RwLock::new(Arc::new(by_name)))))
    }

    /// Takes others from the next handshake on.
    ///
    /// # Errors
    /// As [`new`](Self::new); those that were there stay.
    pub fn replace(&self, certificates: Vec<Certificate>) -> Result<(), Misfit> {
        let by_name = Arc::new(ByName::new(certificates)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = by_name;
        Ok(())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let by_name = self.0.read().unwrap_or_else(PoisonError::into_inner);
        by_name.find(hello.server_name(), hello.signature_schemes())
    }
}

impl ByName {
    fn new(certificates: Vec<Certificate>) -> Result<Self, Misfit> {
        if certificates.is_empty() {
            let error = rustls::Error::NoCertificatesPresented;
            return Err(Misfit { place: 0, error });
        }
        let mut by_name = Self::default();
        for (place, certificate) in certificates.into_iter().enumerate() {
            let added = by_name.add(certificate);
            added.map_err(|error| Misfit { place, error })?;
        }
        Ok(by_name)
    }

    fn add(&mut self, Certificate { chain, key }: Certificate) -> Result<(), rustls::Error> {
        let key = CertifiedKey::from_der(chain, key, &default_provider())?;
        let damaged =
            |error| rustls::Error::General(format!("the certificate is damaged: {error}"));
        let certificate = EndEntityCert::try_from(key.end_entity_cert()?).map_err(damaged)?;
        for name in certificate.valid_dns_names() {
            let places = self.names.entry(name.to_ascii_lowercase());
            places.or_default().push(self.keys.len());
        }
        self.keys.push(Arc::new(key));
        Ok(())
    }

    fn find(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let usable = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        let named = name.into_iter().flat_map(|name| self.named(name));
        let found = named.map(|at| &self.keys[*at]).find(usable);
        let found = found.or_else(|| self.keys.iter().find(usable));
        found.or(self.keys.first()).cloned()
    }

    /// Places of the certificates for a name: those that have it, then those with a wildcard for it.
    fn named(&self, name: &str) -> impl Iterator<Item = &usize> {
        let name = name.to_ascii_lowercase();
        let wildcard = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
        let names = [Some(name), wildcard].into_iter().flatten();
        names.filter_map(|name| self.names.get(&name)).flatten()
    }
}
