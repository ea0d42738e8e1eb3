//! Keys for tests, as the kernel's structures have them (`linux/tls.h`).

/// The structure of a version and cipher, with keys that are others for another `key`, at the record of this number.
pub fn keys(version: u16, cipher: u16, key: u8, number: u64) -> Vec<u8> {
    let secret = match cipher {
        51 => 8 + 16 + 4,
        52 => 8 + 32 + 4,
        _ => 12 + 32,
    };
    let mut bytes = Vec::new();
    bytes.extend(version.to_ne_bytes());
    bytes.extend(cipher.to_ne_bytes());
    bytes.extend((0..secret).map(|at| at as u8 ^ key));
    bytes.extend(number.to_be_bytes());
    bytes
}
