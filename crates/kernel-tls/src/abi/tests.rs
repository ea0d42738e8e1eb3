use l5p::tls::{Algorithm, Version};
use rustix::io::Errno;

use super::{emit, parse};

/// A structure as the kernel has it, with every part of another value.
fn structure(version: u16, cipher: u16, parts: [(u8, usize); 3], number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(version.to_ne_bytes());
    bytes.extend(cipher.to_ne_bytes());
    for (value, len) in parts {
        bytes.extend(std::iter::repeat_n(value, len));
    }
    bytes.extend(number.to_be_bytes());
    bytes
}

#[test]
fn every_cipher_of_both_versions_reads_and_writes_back() {
    for (cipher, parts, algorithm) in [
        (51, [(1, 8), (2, 16), (3, 4)], Algorithm::Aes128Gcm),
        (52, [(1, 8), (2, 32), (3, 4)], Algorithm::Aes256Gcm),
        (54, [(1, 12), (2, 32), (3, 0)], Algorithm::ChaCha20Poly1305),
    ] {
        for (number, version) in [(0x0303, Version::Tls12), (0x0304, Version::Tls13)] {
            let bytes = structure(number, cipher, parts, 77);
            let info = parse(&bytes).expect("a structure of the kernel's");
            assert_eq!(
                (info.version, info.algorithm, info.sequence),
                (version, algorithm, 77)
            );
            let salt = parts[2].1;
            assert!(info.iv[..salt].iter().all(|byte| *byte == 3));
            assert!(info.iv[salt..].iter().all(|byte| *byte == 1));
            let (again, len) = emit(&info);
            assert_eq!(&again[..len], &bytes[..]);
        }
    }
}

#[test]
fn what_the_kernel_has_not_is_invalid() {
    let good = structure(0x0304, 51, [(1, 8), (2, 16), (3, 4)], 0);
    for bytes in [
        &good[..good.len() - 1],
        &[&good[..], &[0]].concat(),
        &[],
        &good[..3],
        &structure(0x0302, 51, [(1, 8), (2, 16), (3, 4)], 0),
        // One that there is not.
        &structure(0x0304, 50, [(1, 8), (2, 16), (3, 4)], 0),
    ] {
        assert_eq!(parse(bytes), Err(Errno::INVAL));
    }
}

#[test]
fn a_cipher_without_its_module_is_not_there() {
    // AES-CCM.
    let keys = structure(0x0304, 53, [(1, 8), (2, 16), (3, 4)], 0);
    assert_eq!(parse(&keys), Err(Errno::NOENT));
    assert_eq!(parse(&keys[..keys.len() - 1]), Err(Errno::INVAL));
}
