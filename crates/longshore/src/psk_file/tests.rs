use super::*;

#[test]
fn keys_are_read_with_their_suite() {
    let long = "ab".repeat(48);
    let text = format!("# mine\njohn:0aFF\n\nnqn.x:y z:{long}\n");
    let PskFile(keys) = PskFile::parse(&text).expect("two keys");
    let [john, other] = &keys[..] else {
        panic!("{keys:?}")
    };
    assert_eq!(
        (john.identity(), john.key()),
        (&b"john"[..], &[10, 255][..])
    );
    assert_eq!(john.algorithm(), Algorithm::Aes128Gcm);
    assert_eq!(other.identity(), b"nqn.x:y z");
    assert_eq!(other.algorithm(), Algorithm::Aes256Gcm);
}

#[test]
fn malformed_lines_are_named() {
    for (text, expected) in [
        ("", "there is no key"),
        ("a:00\nb", "line 2"),
        ("a:0", "line 1"),
        ("a:", "line 1"),
        (":00", "line 1"),
        ("a:0x", "line 1"),
        ("a:é0", "line 1"),
    ] {
        let error = PskFile::parse(text).expect_err("malformed");
        assert!(format!("{error:#}").contains(expected), "{text}: {error:#}");
    }
}
