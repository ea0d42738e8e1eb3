use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::Aes128Gcm,
    Algorithm::Aes256Gcm,
    Algorithm::ChaCha20Poly1305,
];

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|c| !c.is_ascii_whitespace())
        .map(|c| (c as char).to_digit(16).expect("a hex digit") as u8)
        .collect();
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

fn check_known_answer(algorithm: Algorithm, fields: [&str; 6]) {
    let [key, nonce, additional, plaintext, ciphertext, tag] = fields.map(hex);
    let nonce: [u8; 12] = nonce.try_into().expect("12 bytes");
    let mut cipher = Cipher::new(algorithm, &key);
    let mut output = vec![0; plaintext.len()];
    cipher.start(&nonce, &additional);
    cipher.encrypt(&plaintext, &mut output);
    assert_eq!(output, ciphertext);
    assert_eq!(cipher.finish()[..], tag);
    cipher.start(&nonce, &additional);
    cipher.decrypt_in_place(&mut output);
    assert_eq!(output, plaintext);
    assert_eq!(cipher.finish()[..], tag);
}

/// RFC 8439 §2.8.2.
#[test]
fn chacha20_poly1305_known_answer() {
    check_known_answer(
        Algorithm::ChaCha20Poly1305,
        [
            "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            "070000004041424344454647",
            "50515253c0c1c2c3c4c5c6c7",
            "4c616469657320616e642047656e746c656d656e206f662074686520636c6173
             73206f66202739393a204966204920636f756c64206f6666657220796f75206f
             6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73
             637265656e20776f756c642062652069742e",
            "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6
             3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
             92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
             3ff4def08e4b7a9de576d26586cec64b6116",
            "1ae10b594f09e26a7e902ecbd0600691",
        ],
    );
}

/// The GCM specification's test cases 4 and 16.
#[test]
fn aes_gcm_known_answers() {
    let plaintext = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                     1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    check_known_answer(
        Algorithm::Aes128Gcm,
        [
            "feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            plaintext,
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
            "5bc94fbc3221a5db94fae95ae7121a47",
        ],
    );
    check_known_answer(
        Algorithm::Aes256Gcm,
        [
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            plaintext,
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ],
    );
}

/// Encrypts with aws-lc-rs in one call.
fn oracle(algorithm: Algorithm, key: &[u8], nonce: [u8; 12], data: &[u8]) -> (Vec<u8>, [u8; 16]) {
    use aws_lc_rs::aead;
    let algorithm_there = match algorithm {
        Algorithm::Aes128Gcm => &aead::AES_128_GCM,
        Algorithm::Aes256Gcm => &aead::AES_256_GCM,
        Algorithm::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
    };
    let key = aead::UnboundKey::new(algorithm_there, &key[..algorithm.key_len()]).expect("a key");
    let mut data = data.to_vec();
    let tag = aead::LessSafeKey::new(key)
        .seal_in_place_separate_tag(
            aead::Nonce::assume_unique_for_key(nonce),
            aead::Aad::from(b"additional"),
            &mut data,
        )
        .expect("sealed");
    (data, tag.as_ref().try_into().expect("16 bytes"))
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(&ALGORITHMS[..])
}

/// Cuts `len` bytes into ranges at the given places.
fn ranges(len: usize, cuts: &[u16]) -> Vec<std::ops::Range<usize>> {
    let mut places: Vec<usize> = cuts.iter().map(|c| usize::from(*c) % (len + 1)).collect();
    places.extend([0, len]);
    places.sort_unstable();
    places.windows(2).map(|w| w[0]..w[1]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Any pieces, any mix of directions, in place or not, give the whole-message result.
    #[test]
    fn pieces_and_directions_do_not_matter(
        algorithm in algorithm(),
        key in any::<[u8; 32]>(),
        nonce in any::<[u8; 12]>(),
        data in vec(any::<u8>(), 0..5000),
        cuts in vec(any::<u16>(), 0..12),
        ways in vec(0..4u8, 13),
    ) {
        let (ciphertext, tag) = oracle(algorithm, &key, nonce, &data);
        let mut cipher = Cipher::new(algorithm, &key);
        cipher.start(&nonce, b"additional");
        for (range, way) in ranges(data.len(), &cuts).into_iter().zip(ways) {
            let (plain, cipher_bytes) = (&data[range.clone()], &ciphertext[range]);
            let mut output = vec![0; plain.len()];
            match way {
                0 => {
                    cipher.encrypt(plain, &mut output);
                    prop_assert_eq!(&output[..], cipher_bytes);
                }
                1 => {
                    cipher.decrypt(cipher_bytes, &mut output);
                    prop_assert_eq!(&output[..], plain);
                }
                2 => {
                    output.copy_from_slice(plain);
                    cipher.encrypt_in_place(&mut output);
                    prop_assert_eq!(&output[..], cipher_bytes);
                }
                _ => {
                    output.copy_from_slice(cipher_bytes);
                    cipher.decrypt_in_place(&mut output);
                    prop_assert_eq!(&output[..], plain);
                }
            }
        }
        prop_assert_eq!(cipher.finish(), tag);
    }

    /// The tag so far is the tag of the message that ends there, and disturbs nothing.
    #[test]
    fn a_tag_so_far_leaves_the_message_as_it_was(
        algorithm in algorithm(),
        key in any::<[u8; 32]>(),
        nonce in any::<[u8; 12]>(),
        data in vec(any::<u8>(), 0..3000),
        cut in any::<u16>(),
        encrypt in any::<bool>(),
    ) {
        let cut = usize::from(cut) % (data.len() + 1);
        let (ciphertext, tag) = oracle(algorithm, &key, nonce, &data);
        let (_, tag_of_prefix) = oracle(algorithm, &key, nonce, &data[..cut]);
        let mut cipher = Cipher::new(algorithm, &key);
        cipher.start(&nonce, b"additional");
        let mut work = if encrypt { data.clone() } else { ciphertext };
        for part in [..cut, ..data.len() - cut] {
            let (part, rest) = work.split_at_mut(part.end);
            if encrypt {
                cipher.encrypt_in_place(part);
            } else {
                cipher.decrypt_in_place(part);
            }
            if rest.len() == data.len() - cut {
                prop_assert_eq!(cipher.tag_so_far(), tag_of_prefix);
            }
            work = rest.to_vec();
        }
        prop_assert_eq!(cipher.finish(), tag);
    }

    /// The keystream turns ciphertext into plaintext at any offset.
    #[test]
    fn a_keystream_starts_anywhere(
        algorithm in algorithm(),
        key in any::<[u8; 32]>(),
        nonce in any::<[u8; 12]>(),
        data in vec(any::<u8>(), 0..3000),
        cuts in vec(any::<u16>(), 2),
    ) {
        let (mut ciphertext, _) = oracle(algorithm, &key, nonce, &data);
        let keystream = Keystream::new(algorithm, &key);
        for range in ranges(data.len(), &cuts) {
            let start = range.start as u32;
            keystream.xor_in_place(&nonce, start, &mut ciphertext[range]);
        }
        prop_assert_eq!(ciphertext, data);
    }
}

#[test]
fn a_message_can_be_abandoned() {
    for algorithm in ALGORITHMS {
        let key = [7; 32];
        let (ciphertext, tag) = oracle(algorithm, &key, [1; 12], b"the second message");
        let mut cipher = Cipher::new(algorithm, &key);
        cipher.start(&[9; 12], b"something else");
        cipher.encrypt(b"the first message", &mut [0; 17]);
        cipher.start(&[1; 12], b"additional");
        let mut output = [0; 18];
        cipher.encrypt(b"the second message", &mut output);
        assert_eq!((&output[..], cipher.finish()), (&ciphertext[..], tag));
    }
}
