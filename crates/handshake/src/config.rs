//! rustls configurations whose handshakes can be taken over.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme, SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::key_log::KeyLogLines;
use crate::trust_exactly::TrustExactly;
use crate::{Algorithm, Certificate, Certificates, KeyLogSink, TicketKeys, Version};

/// What both sides can choose.
#[derive(Clone)]
pub struct Options {
    /// Versions to offer or take.
    pub versions: Vec<Version>,
    /// Algorithms to offer or take, in order of preference.
    pub algorithms: Vec<Algorithm>,
    /// Application protocols to offer or take, in order of preference.
    pub alpn: Vec<Vec<u8>>,
    /// Who gets the key log.
    pub key_log: Option<KeyLogSink>,
    /// The keys of a server's tickets; of its own by default.
    pub tickets: Option<Arc<TicketKeys>>,
}

impl Default for Options {
    /// Both versions, all algorithms, HTTP/1.1, no key log, keys of one's own.
    fn default() -> Options {
        Options {
            versions: vec![Version::Tls13, Version::Tls12],
            algorithms: vec![
                Algorithm::Aes128Gcm,
                Algorithm::Aes256Gcm,
                Algorithm::ChaCha20Poly1305,
            ],
            alpn: vec![b"http/1.1".to_vec()],
            key_log: None,
            tickets: None,
        }
    }
}

/// Whom a client trusts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Servers with a certificate that these have issued.
    Roots(Arc<RootCertStore>),
    /// The same; and a server whose certificate is exactly one of these, although it says of itself that it is an authority's, as
    /// `openssl req -x509` makes them. Its names and dates have to be right.
    RootsAndCertificates(Arc<RootCertStore>, Vec<CertificateDer<'static>>),
    /// Any peer: encryption without authentication, as `curl --insecure` has it.
    Anyone,
}

/// The configuration of a server with one certificate. It resumes sessions by tickets.
///
/// # Errors
/// When certificate and key do not belong together, or no cipher suite is left.
pub fn server_config(
    certificate: Certificate,
    options: &Options,
) -> Result<Arc<ServerConfig>, Error> {
    server_config_by_name(Certificates::new(vec![certificate])?, options)
}

/// The configuration of a server with [`Certificates`] to choose from. It resumes sessions by tickets.
///
/// # Errors
/// When no cipher suite is left.
pub fn server_config_by_name(
    certificates: Arc<Certificates>,
    options: &Options,
) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(options.provider())
        .with_protocol_versions(&options.versions())?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = options.alpn.clone();
    config.ticketer = match &options.tickets {
        Some(tickets) => Arc::clone(tickets) as _,
        None => Arc::new(TicketKeys::new()?),
    };
    config.ignore_client_order = true;
    config.enable_secret_extraction = true;
    if let Some(sink) = &options.key_log {
        config.key_log = Arc::new(KeyLogLines(sink.clone()));
    }
    Ok(Arc::new(config))
}

/// The configuration of a client.
///
/// # Errors
/// When no cipher suite is left.
pub fn client_config(trust: Trust, options: &Options) -> Result<Arc<ClientConfig>, Error> {
    let provider = options.provider();
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&options.versions())?;
    let mut config = match trust {
        Trust::Roots(roots) => builder.with_root_certificates(roots),
        Trust::RootsAndCertificates(roots, certificates) => {
            let verifier = TrustExactly::new(roots, certificates, options.provider())?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
        }
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAnyone(algorithms))),
    }
    .with_no_client_auth();
    config.alpn_protocols = options.alpn.clone();
    config.enable_secret_extraction = true;
    if let Some(sink) = &options.key_log {
        config.key_log = Arc::new(KeyLogLines(sink.clone()));
    }
    Ok(Arc::new(config))
}

impl Options {
    fn provider(&self) -> Arc<CryptoProvider> {
        let mut provider = aws_lc_rs::default_provider();
        let position = |suite: CipherSuite| {
            self.algorithms
                .iter()
                .position(|algorithm| Some(*algorithm) == algorithm_of(suite))
        };
        provider
            .cipher_suites
            .retain(|suite| position(suite.suite()).is_some());
        provider
            .cipher_suites
            .sort_by_key(|suite| position(suite.suite()));
        Arc::new(provider)
    }

    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        self.versions
            .iter()
            .map(|version| match version {
                Version::Tls12 => &rustls::version::TLS12,
                Version::Tls13 => &rustls::version::TLS13,
            })
            .collect()
    }
}

fn algorithm_of(suite: CipherSuite) -> Option<Algorithm> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => Some(Algorithm::Aes128Gcm),
        CipherSuite::TLS13_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Some(Algorithm::Aes256Gcm),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => {
            Some(Algorithm::ChaCha20Poly1305)
        }
        _ => None,
    }
}

/// Accepts any certificate, but still checks that the server has its key.
#[derive(Debug)]
struct TrustAnyone(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
