//! A file of keys, and which of them an identity asks for.

use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;
use wire::nvme::Nqn;

use super::{ConfiguredPsk, Derivation, Identity, InputPsk, InterchangeError, Kind};
use crate::{KeyLogSink, OpenSslError, Psk, PskServerConfig};

/// Configured PSKs, each for any host or for one.
///
/// As a text, a key on each line: `NVMeTLSkey-1:01:…:` alone is for every host, `<host NQN> NVMeTLSkey-1:01:…:` for that
/// one, which then has no other. Empty lines and those that begin with `#` do not count.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    keys: Vec<(Option<Nqn>, ConfiguredPsk)>,
}

/// Why a text is no file of keys.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeysError {
    /// A line's key is malformed.
    #[error("line {line}: {error}")]
    Key {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        error: InterchangeError,
    },
    /// A line is neither a key nor an NQN and a key.
    #[error("line {0}: there must be a key, or a host's NQN, a blank and a key")]
    Line(usize),
    /// There is no key.
    #[error("there is no key in it")]
    Empty,
}

/// Why there is no key for an identity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoKey {
    /// It is not NVMe's.
    #[error("it is not an NVMe PSK identity")]
    NotNvme,
    /// It names a subsystem that is not here.
    #[error("there is no subsystem {0} here")]
    Subsystem(String),
    /// It names a host that no key is for.
    #[error("there is no PSK for host {0}")]
    Host(String),
    /// The host's keys are for another cipher suite.
    #[error("the PSK for host {0} is of another length, which is for the other cipher suite")]
    Hash(String),
    /// The digest is not that of any of the host's keys: the client has another one.
    #[error("host {0} has another PSK than the one here: its digest differs")]
    Digest(String),
    /// It asks for a generated PSK, and there are none.
    #[error("it asks for a generated PSK, and only configured ones are here")]
    Generated,
}

impl FromStr for Keys {
    type Err = KeysError;

    fn from_str(text: &str) -> Result<Self, KeysError> {
        let mut keys = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let at = at + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (host, key) = match (words.next(), words.next(), words.next()) {
                (Some(key), None, None) => (None, key),
                (Some(host), Some(key), None) => {
                    (Some(Nqn::new(host).map_err(|_| KeysError::Line(at))?), key)
                }
                _ => return Err(KeysError::Line(at)),
            };
            let key = key
                .parse()
                .map_err(|error| KeysError::Key { line: at, error })?;
            keys.push((host, key));
        }
        if keys.is_empty() {
            return Err(KeysError::Empty);
        }
        Ok(Self { keys })
    }
}

impl Keys {
    /// The key for a host: its own, or if it has none, one for all.
    pub fn for_host(&self, host: &Nqn) -> Option<&ConfiguredPsk> {
        self.of_host(host).next()
    }

    /// A target's side of handshakes with these keys; see [`find`](Self::find) for the others.
    ///
    /// # Errors
    /// When OpenSSL's library is not on this machine, with what to install.
    pub fn into_server_config(
        self,
        derivation: Derivation,
        is_here: impl Fn(&Nqn) -> bool + Send + Sync + 'static,
        key_log: Option<KeyLogSink>,
    ) -> Result<Arc<PskServerConfig>, OpenSslError> {
        let lookup = move |identity: &[u8]| {
            let found = self.find(identity, derivation, &is_here);
            found.map_err(|none| none.to_string())
        };
        PskServerConfig::new(Arc::new(lookup), key_log)
    }

    /// The keys of a host: those for all only if it has none of its own, or else any host that knows one could be it.
    fn of_host(&self, host: &Nqn) -> impl Iterator<Item = &ConfiguredPsk> {
        let has_own = self.keys.iter().any(|(name, _)| *name == Some(*host));
        let name = has_own.then_some(*host);
        let its = self.keys.iter().filter(move |(of, _)| *of == name);
        its.map(|(_, key)| key)
    }

    /// The TLS PSK that a client's identity asks for, where `is_here` knows the subsystems. An identity of version 1 shows
    /// by its digest which derivation its client uses; for one of version 0 `derivation` says it.
    ///
    /// # Errors
    /// When no key is configured for it, with the reason.
    pub fn find(
        &self,
        identity: &[u8],
        derivation: Derivation,
        is_here: impl FnOnce(&Nqn) -> bool,
    ) -> Result<Psk, NoKey> {
        let identity = Identity::parse(identity).ok_or(NoKey::NotNvme)?;
        if !is_here(&identity.subsystem) {
            return Err(NoKey::Subsystem(identity.subsystem.to_string()));
        }
        if identity.kind == Kind::Generated {
            return Err(NoKey::Generated);
        }
        let mut none = NoKey::Host(identity.host.to_string());
        for configured in self.of_host(&identity.host) {
            if configured.key_hash() != identity.hash {
                none = NoKey::Hash(identity.host.to_string());
                continue;
            }
            for derivation in candidates(&identity, derivation) {
                let Ok(retained) = configured.retained(&identity.host, derivation) else {
                    return Err(NoKey::NotNvme);
                };
                if let Some(psk) = named(&retained, &identity, derivation) {
                    return Ok(psk);
                }
            }
            none = NoKey::Digest(identity.host.to_string());
        }
        Err(none)
    }
}

fn candidates(identity: &Identity, given: Derivation) -> Vec<Derivation> {
    match identity.digest {
        None => vec![given],
        Some(_) if given == Derivation::Specification => vec![given, Derivation::Libnvme],
        Some(_) => vec![given, Derivation::Specification],
    }
}

/// The TLS PSK if `identity` is that of `retained`.
fn named(retained: &InputPsk, identity: &Identity, derivation: Derivation) -> Option<Psk> {
    let (version, host, subsystem) = (identity.version(), &identity.host, &identity.subsystem);
    let ours = retained.identity(version, host, subsystem).ok()?;
    if ours != *identity {
        return None;
    }
    retained.tls_psk(version, host, subsystem, derivation).ok()
}
