use super::*;

/// RFC 8448 §3, "derive write traffic keys for application data".
#[test]
fn keys_are_those_of_the_rfcs_trace() {
    for (secret, key, iv) in [
        (
            "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5",
            "17422dda596ed5d9acd890e3c63f5051",
            "5b78923dee08579033e523d9",
        ),
        (
            "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643",
            "9f02283b6c9c07efc26bb9f2ac92e356",
            "cf782b88dd83549aadf1e984",
        ),
    ] {
        let secret = TrafficSecret::new(Algorithm::Aes128Gcm, &bytes(secret));
        let info = secret.expect("of the hash's length").crypto_info();
        assert_eq!(info.key(), bytes(key));
        assert_eq!(info.iv[..], bytes(iv));
        assert_eq!((info.version, info.sequence), (Version::Tls13, 0));
    }
}

#[test]
fn a_secret_has_as_many_bytes_as_the_hash() {
    for (algorithm, len) in [
        (Algorithm::Aes128Gcm, 32),
        (Algorithm::Aes256Gcm, 48),
        (Algorithm::ChaCha20Poly1305, 32),
    ] {
        for wrong in [0, 31, 32, 33, 48, 64] {
            let made = TrafficSecret::new(algorithm, &vec![1; wrong]);
            assert_eq!(made.is_some(), wrong == len, "{algorithm:?} {wrong}");
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex
        .chars()
        .map(|digit| digit.to_digit(16).expect("hex"))
        .collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}
