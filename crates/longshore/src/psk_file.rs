//! The file of `--psk` for HTTPS: pre-shared keys as GnuTLS's psktool writes them.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context, Result, bail};
use handshake::{KeyLogSink, Psk, PskClientConfig, PskServerConfig};
use l5p::tls::Algorithm;
use zeroize::Zeroizing;

use crate::secret_file;

#[cfg(test)]
mod tests;

/// Bytes of a key that is for TLS_AES_256_GCM_SHA384; all others are for TLS_AES_128_GCM_SHA256.
const SHA384_LEN: usize = 48;

/// Pre-shared keys: on each line an identity, a colon and a key in hexadecimal digits.
#[derive(Debug)]
pub struct PskFile(Vec<Psk>);

impl PskFile {
    /// Reads the file.
    ///
    /// # Errors
    /// When it can't be read, or a line is malformed, or there is none.
    pub fn read(path: &Path) -> Result<Self> {
        let text = secret_file::read(path, "--psk")?;
        Self::parse(&text).with_context(|| format!("{} is no file of keys", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut keys = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = psk(line).with_context(|| {
                let at = at + 1;
                format!("line {at} is not an identity, a colon and a key in hexadecimal digits")
            })?;
            keys.push(key);
        }
        if keys.is_empty() {
            bail!("there is no key in it");
        }
        Ok(Self(keys))
    }

    /// A client that offers the first of them.
    ///
    /// # Errors
    /// When OpenSSL's library is not on this machine.
    pub fn into_client(mut self, key_log: Option<KeyLogSink>) -> Result<Arc<PskClientConfig>> {
        Ok(PskClientConfig::new(self.0.swap_remove(0), key_log)?)
    }

    fn find(&self, identity: &[u8]) -> Option<&Psk> {
        self.0.iter().find(|psk| psk.identity() == identity)
    }
}

/// A server that takes any of the keys, as they are at each handshake.
///
/// # Errors
/// When OpenSSL's library is not on this machine.
pub fn server(
    keys: Arc<RwLock<PskFile>>,
    key_log: Option<KeyLogSink>,
) -> Result<Arc<PskServerConfig>> {
    let lookup = move |identity: &[u8]| {
        let keys = keys.read().unwrap_or_else(PoisonError::into_inner);
        let found = keys.find(identity).cloned();
        found.ok_or_else(|| "there is no such key here".to_owned())
    };
    Ok(PskServerConfig::new(Arc::new(lookup), key_log)?)
}

fn psk(line: &str) -> Option<Psk> {
    let (identity, digits) = line.rsplit_once(':')?;
    if digits.is_empty() || identity.is_empty() {
        return None;
    }
    // A vector that grew would leave copies behind.
    let mut key = Zeroizing::new(Vec::with_capacity(digits.len().div_ceil(2)));
    for pair in digits.as_bytes().chunks(2) {
        let [high, low] = pair else { return None };
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        key.push((digit(high)? << 4 | digit(low)?) as u8);
    }
    let algorithm = if key.len() == SHA384_LEN {
        Algorithm::Aes256Gcm
    } else {
        Algorithm::Aes128Gcm
    };
    Some(Psk::new(identity.into(), &key, algorithm))
}
