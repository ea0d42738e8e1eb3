//! Certificates that are trusted themselves, as `curl --cacert` has it, besides those that they have issued.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::server::{ParsedCertificate, VerifierBuilderError};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Believes what its roots have issued, and these certificates themselves.
#[derive(Debug)]
pub(super) struct TrustExactly {
    roots: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl TrustExactly {
    /// # Errors
    /// When there are no roots.
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        certificates: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<TrustExactly, Error> {
        let no_roots = |error: VerifierBuilderError| Error::General(error.to_string());
        let roots = WebPkiServerVerifier::builder_with_provider(roots, provider);
        Ok(TrustExactly {
            roots: roots.build().map_err(no_roots)?,
            certificates,
        })
    }
}

impl ServerCertVerifier for TrustExactly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.roots.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The path check stops here behind that of the dates, and before the names.
            Err(error) if is_ca(&error) && self.certificates.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.roots.supported_verify_schemes()
    }
}

/// Whether the certificate was refused for saying that it is an authority's, and for nothing else.
fn is_ca(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => matches!(
            why.downcast_ref::<webpki::Error>(),
            Some(webpki::Error::CaUsedAsEndEntity)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
