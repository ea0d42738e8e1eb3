//! TLS sessions between the two hosts of a world: by handshake, or with keys installed.

use std::fmt;
use std::sync::Arc;

use handshake::{Certificate, Options, Trust, client_config, server_config};
use host::TlsRole;
use l5p::tls::{Algorithm, CryptoInfo, Version};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, ServerName};

/// A version of TLS with an AEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// The version.
    pub version: Version,
    /// The AEAD.
    pub algorithm: Algorithm,
}

impl Suite {
    /// TLS 1.3 with AES-128-GCM.
    pub const DEFAULT: Self = Self {
        version: Version::Tls13,
        algorithm: Algorithm::Aes128Gcm,
    };

    /// All that the offload supports.
    pub const ALL: [Self; 6] = [
        Self {
            version: Version::Tls12,
            algorithm: Algorithm::Aes128Gcm,
        },
        Self {
            version: Version::Tls12,
            algorithm: Algorithm::Aes256Gcm,
        },
        Self {
            version: Version::Tls12,
            algorithm: Algorithm::ChaCha20Poly1305,
        },
        Self {
            version: Version::Tls13,
            algorithm: Algorithm::Aes128Gcm,
        },
        Self {
            version: Version::Tls13,
            algorithm: Algorithm::Aes256Gcm,
        },
        Self {
            version: Version::Tls13,
            algorithm: Algorithm::ChaCha20Poly1305,
        },
    ];

    /// Keys and position of a direction, drawn from a seed.
    pub fn keys(self, seed: u64) -> CryptoInfo {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut info = CryptoInfo {
            version: self.version,
            algorithm: self.algorithm,
            key: [0; 32],
            iv: [0; 12],
            sequence: 0,
        };
        info.key[..self.algorithm.key_len()].fill_with(|| rng.random());
        info.iv.fill_with(|| rng.random());
        info
    }

    fn options(self) -> Options {
        Options {
            versions: vec![self.version],
            algorithms: vec![self.algorithm],
            ..Options::default()
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self.version {
            Version::Tls12 => "TLS 1.2",
            Version::Tls13 => "TLS 1.3",
        };
        let algorithm = match self.algorithm {
            Algorithm::Aes128Gcm => "AES-128-GCM",
            Algorithm::Aes256Gcm => "AES-256-GCM",
            Algorithm::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        };
        write!(f, "{version} {algorithm}")
    }
}

/// A server that clients know by its self-signed certificate, and the settings for both sides of a handshake.
///
/// Its key is an Ed25519 key: signatures are all of one length, so that a handshake's packets are too.
#[derive(Clone, Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    pem: String,
}

/// The name that is in an [`Identity`]'s certificate.
pub const SERVER_NAME: &str = "longshore.test";

impl Identity {
    /// A new key and its certificate.
    ///
    /// # Panics
    /// When the system gives no random bytes.
    pub fn new() -> Self {
        let key =
            rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("random bytes for a key");
        let certificate = rcgen::CertificateParams::new(vec![SERVER_NAME.to_owned()])
            .and_then(|params| params.self_signed(&key))
            .expect("a certificate for a good name");
        Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem() + &key.serialize_pem(),
        }
    }

    /// The server's part, with one suite and nothing else.
    pub fn server(&self, suite: Suite) -> TlsRole {
        let certificate =
            Certificate::from_pem(self.pem.as_bytes(), self.pem.as_bytes()).expect("just made");
        let config =
            server_config(certificate, &suite.options()).expect("the certificate is the key's");
        TlsRole::Server { config }
    }

    /// The client's part, with one suite and nothing else.
    pub fn client(&self, suite: Suite) -> TlsRole {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate.clone())
            .expect("the certificate is well-formed");
        let config = client_config(Trust::Roots(Arc::new(roots)), &suite.options())
            .expect("the suite exists");
        let name = ServerName::try_from(SERVER_NAME).expect("a good name");
        TlsRole::Client { config, name }
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self::new()
    }
}
