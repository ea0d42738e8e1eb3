//! The settings of TLS to backends.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handshake::Trust;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

use super::{Place, Wrong, quoted};
use crate::lb::config::file;
use crate::lb::secured::Secured;

/// What a pool says of TLS to its backends.
pub(super) struct OfPool<'a> {
    place: &'a Place,
    from: &'a file::Pool,
    /// Whom to trust, if a backend has TLS: the file, and what is in it.
    trust: Option<(Option<PathBuf>, Trust)>,
}

/// The settings of a pool.
pub(super) fn check<'a>(
    place: &'a Place,
    from: &'a file::Pool,
    folder: &Path,
) -> Result<OfPool<'a>, Wrong> {
    let of_pool = from.tls.unwrap_or(false);
    let is_used = from.backends.iter().any(|it| it.tls.unwrap_or(of_pool));
    if !is_used {
        let named = [
            ("ca", from.ca.is_some()),
            ("verify", from.verify.is_some()),
            ("sni", from.sni.is_some()),
        ];
        if let Some((key, _)) = named.iter().find(|(_, is_there)| *is_there) {
            let remedy = "remove it, or set tls = true: no backend of this pool has TLS";
            return Err(place.at(key).wrong("…", remedy));
        }
        return Ok(OfPool {
            place,
            from,
            trust: None,
        });
    }
    let trust = match (&from.ca, from.verify.unwrap_or(true)) {
        (None, true) => {
            let remedy = "give `ca`, a file of the certificates to trust, or set verify = false";
            return Err(place.at("tls").wrong("true", remedy));
        }
        (Some(_), false) => {
            let remedy = "remove it, or `ca`: no certificate is verified";
            return Err(place.at("verify").wrong("false", remedy));
        }
        (None, false) => (None, Trust::Anyone),
        (Some(file), true) => {
            let place = place.at("ca");
            let file = folder.join(file);
            let trust = authorities(&file)
                .map_err(|why| place.wrong(quoted(&file.display().to_string()), why))?;
            (Some(file), trust)
        }
    };
    Ok(OfPool {
        place,
        from,
        trust: Some(trust),
    })
}

impl OfPool<'_> {
    /// TLS to a backend, if it has any.
    pub(super) fn backend(
        &self,
        place: &Place,
        address: SocketAddr,
        from: &file::Backend,
    ) -> Result<Option<Arc<Secured>>, Wrong> {
        let is_secured = from.tls.or(self.from.tls).unwrap_or(false);
        let Some((ca, trust)) = self.trust.as_ref().filter(|_| is_secured) else {
            return match &from.sni {
                Some(sni) => {
                    let remedy = "remove it, or set tls = true";
                    Err(place.at("sni").wrong(quoted(sni), remedy))
                }
                None => Ok(None),
            };
        };
        let name = match from.sni.as_ref().or(self.from.sni.as_ref()) {
            None => ServerName::IpAddress(address.ip().into()),
            Some(sni) => match ServerName::try_from(sni.clone()) {
                Ok(name @ ServerName::DnsName(_)) => name,
                _ => {
                    let remedy = "use a name that is in the certificate, like \"app.internal\"";
                    let place = from.sni.as_ref().map_or(self.place, |_| place);
                    return Err(place.at("sni").wrong(quoted(sni), remedy));
                }
            },
        };
        let secured = Secured::new(ca.clone(), trust.clone(), name, None);
        let secured = secured.map_err(|error| place.at("tls").wrong("true", error.to_string()))?;
        Ok(Some(Arc::new(secured)))
    }
}

/// Those whose certificates are in the file, and these certificates themselves.
fn authorities(file: &Path) -> Result<Trust, String> {
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err("it is no regular file; name a file of certificates in PEM".to_owned());
    }
    let text = std::fs::read(file).map_err(|error| format!("it can't be read: {error}"))?;
    let mut roots = RootCertStore::empty();
    let mut listed = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| format!("it is no PEM: {error}"))?;
        let added = roots.add(certificate.clone());
        added.map_err(|error| format!("a certificate in it can't be used: {error}"))?;
        listed.push(certificate);
    }
    match listed.is_empty() {
        true => Err("there is no certificate in it; name a file of them in PEM".to_owned()),
        false => Ok(Trust::RootsAndCertificates(Arc::new(roots), listed)),
    }
}
