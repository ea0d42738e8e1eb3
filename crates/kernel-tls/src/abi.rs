//! The kernel's application binary interface of TLS sockets (`linux/tls.h`).

use l5p::tls::{Algorithm, CryptoInfo, Version};
use rustix::io::Errno;

/// Level of the socket options.
pub const SOL_TLS: i32 = 282;
/// Keys of the sending direction.
pub const TLS_TX: i32 = 1;
/// Keys of the receiving direction.
pub const TLS_RX: i32 = 2;
/// Files sent by `sendfile` do not change meanwhile.
pub const TLS_TX_ZEROCOPY_RO: i32 = 3;
/// The peer does not pad its TLS 1.3 records.
pub const TLS_RX_EXPECT_NO_PAD: i32 = 4;
/// Most bytes of content in a record that is sent.
pub const TLS_TX_MAX_PAYLOAD_LEN: i32 = 5;
/// Control message: the type of the record that is sent.
pub const TLS_SET_RECORD_TYPE: i32 = 1;
/// Control message: the type of the record that was received.
pub const TLS_GET_RECORD_TYPE: i32 = 2;
/// The upper-layer protocol that `TCP_ULP` asks for.
pub const ULP_NAME: &str = "tls";
/// Type of records with application data.
pub const RECORD_TYPE_DATA: u8 = 23;

const TLS_1_2: u16 = 0x0303;
const TLS_1_3: u16 = 0x0304;

/// Where a cipher's structure has its parts, after version and cipher type: IV, key, salt, record number.
#[derive(Clone, Copy, Debug)]
struct Form {
    cipher: u16,
    algorithm: Algorithm,
    iv: usize,
    key: usize,
    salt: usize,
}

const FORMS: [Form; 3] = [
    Form {
        cipher: 51,
        algorithm: Algorithm::Aes128Gcm,
        iv: 8,
        key: 16,
        salt: 4,
    },
    Form {
        cipher: 52,
        algorithm: Algorithm::Aes256Gcm,
        iv: 8,
        key: 32,
        salt: 4,
    },
    Form {
        cipher: 54,
        algorithm: Algorithm::ChaCha20Poly1305,
        iv: 12,
        key: 32,
        salt: 0,
    },
];

/// Ciphers that the kernel knows and the crypto library has not, each with the bytes of its structure: AES-CCM, SM4-GCM, SM4-CCM, ARIA-GCM with
/// 128-bit and with 256-bit keys.
const UNAVAILABLE: [(u16, usize); 5] = [(53, 40), (55, 40), (56, 40), (57, 40), (58, 56)];

/// Bytes of version and cipher type.
const HEAD: usize = 4;
/// Bytes of the record number.
const NUMBER: usize = 8;
/// Most bytes of any structure.
pub(crate) const MAX_CRYPTO_INFO: usize = 56;

impl Form {
    fn len(self) -> usize {
        HEAD + self.iv + self.key + self.salt + NUMBER
    }
}

/// Reads what `setsockopt` was given for [`TLS_TX`] or [`TLS_RX`].
///
/// # Errors
/// `EINVAL` when version, cipher or length are none that there are; `ENOENT` for a cipher that the kernel has in a module, and we have not.
pub(crate) fn parse(bytes: &[u8]) -> Result<CryptoInfo, Errno> {
    let (Some(version), Some(cipher)) = (number(bytes, 0), number(bytes, 2)) else {
        return Err(Errno::INVAL);
    };
    let version = match version {
        TLS_1_2 => Version::Tls12,
        TLS_1_3 => Version::Tls13,
        _ => return Err(Errno::INVAL),
    };
    if UNAVAILABLE.contains(&(cipher, bytes.len())) {
        return Err(Errno::NOENT);
    }
    let form = FORMS.iter().find(|form| form.cipher == cipher);
    let form = form.filter(|form| form.len() == bytes.len());
    let form = form.ok_or(Errno::INVAL)?;
    let (iv, rest) = bytes[HEAD..].split_at(form.iv);
    let (key, rest) = rest.split_at(form.key);
    let (salt, sequence) = rest.split_at(form.salt);
    let mut info = CryptoInfo {
        version,
        algorithm: form.algorithm,
        key: [0; 32],
        iv: [0; 12],
        sequence: u64::from_be_bytes(sequence.try_into().map_err(|_| Errno::INVAL)?),
    };
    info.key[..form.key].copy_from_slice(key);
    info.iv[..form.salt].copy_from_slice(salt);
    info.iv[form.salt..].copy_from_slice(iv);
    Ok(info)
}

/// What `getsockopt` answers for [`TLS_TX`] or [`TLS_RX`]: the structure, and its length.
pub(crate) fn emit(info: &CryptoInfo) -> ([u8; MAX_CRYPTO_INFO], usize) {
    let mut bytes = [0; MAX_CRYPTO_INFO];
    let form = FORMS
        .iter()
        .find(|form| form.algorithm == info.algorithm)
        .expect("every algorithm has a form");
    let version = match info.version {
        Version::Tls12 => TLS_1_2,
        Version::Tls13 => TLS_1_3,
    };
    bytes[..2].copy_from_slice(&version.to_ne_bytes());
    bytes[2..HEAD].copy_from_slice(&form.cipher.to_ne_bytes());
    let mut at = HEAD;
    for part in [
        &info.iv[form.salt..],
        &info.key[..form.key],
        &info.iv[..form.salt],
        &info.sequence.to_be_bytes(),
    ] {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    (bytes, at)
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
