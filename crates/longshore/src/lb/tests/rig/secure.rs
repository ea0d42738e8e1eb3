//! TLS in the world: certificates of the load balancer's, clients that trust them, and a look at their wire.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use handshake::{
    Certificate, Certificates, Handshake, Options, TicketKeys, Trust, Version, client_config,
    server_config,
};
use host::TlsRole;

use crate::lb::config::Config;
use crate::lb::tls::Tls;

/// The name that clients ask for.
pub const NAME: &str = "h";

/// Certificates for the names.
pub fn certificates(names: &[&str]) -> Vec<Certificate> {
    let made = names
        .iter()
        .map(|name| Certificate::self_signed([*name]).unwrap());
    made.collect()
}

/// What the load balancer proves itself with, if a frontend of the configuration has TLS.
pub fn tls(config: &Config) -> Option<(Arc<Certificates>, Tls)> {
    config.frontends.iter().find(|frontend| frontend.tls)?;
    let made = Certificates::new(certificates(&[NAME])).unwrap();
    let tickets = Arc::new(TicketKeys::of(Vec::new()).unwrap());
    let tls = Tls::new(&made, None, &tickets).unwrap();
    Some((made, tls))
}

/// A server's part in handshakes of this version.
pub fn server_of(certificate: Certificate, version: Version) -> TlsRole {
    let options = Options {
        versions: vec![version],
        ..Options::default()
    };
    let config = server_config(certificate, &options).unwrap();
    TlsRole::Server { config }
}

/// A client that speaks this protocol alone.
pub fn client_of(protocol: &[u8]) -> TlsRole {
    let options = Options {
        alpn: vec![protocol.to_vec()],
        ..Options::default()
    };
    TlsRole::Client {
        config: client_config(Trust::Anyone, &options).unwrap(),
        name: NAME.try_into().unwrap(),
    }
}

/// Settings of a client that takes any certificate.
fn settings() -> Arc<rustls::ClientConfig> {
    static CONFIG: OnceLock<Arc<rustls::ClientConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| client_config(Trust::Anyone, &Options::default()).unwrap());
    Arc::clone(config)
}

/// A client that takes this certificate alone.
pub fn client_that_trusts(certificate: &Certificate) -> TlsRole {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.chain[0].clone()).unwrap();
    let trust = Trust::RootsAndCertificates(Arc::new(roots), certificate.chain.clone());
    TlsRole::Client {
        config: client_config(trust, &Options::default()).unwrap(),
        name: NAME.try_into().unwrap(),
    }
}

/// A client's part in handshakes.
pub fn client() -> TlsRole {
    TlsRole::Client {
        config: settings(),
        name: NAME.try_into().unwrap(),
    }
}

/// The handshake of a client that is no stack.
pub fn by_hand() -> Handshake {
    Handshake::client(settings(), NAME.try_into().unwrap()).unwrap()
}

/// Whether content in clear was on the wire between the load balancer and those with TLS.
#[derive(Clone, Debug, Default)]
pub struct Leak(Rc<Cell<bool>>);

impl Leak {
    /// Looks at a frame of such a connection.
    pub fn look(&self, frame: &[u8]) {
        let secrets: [&[u8]; 3] = [b"abcdefghijklmnopqrstuvw", b"HTTP/1.1", b"Host: h"];
        let is_there = |secret: &&[u8]| frame.windows(secret.len()).any(|part| part == *secret);
        if secrets.iter().any(is_there) {
            self.0.set(true);
        }
    }

    /// Whether there was.
    pub fn was_there(&self) -> bool {
        self.0.get()
    }
}
