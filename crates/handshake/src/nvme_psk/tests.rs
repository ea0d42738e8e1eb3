use super::*;

const HOST: &str = "nqn.psk-test-host";
const SUBSYSTEM: &str = "nqn.psk-test-subsys";

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).expect("a name")
}

fn host() -> Nqn {
    nqn(HOST)
}

fn subsystem() -> Nqn {
    nqn(SUBSYSTEM)
}

const HASHES: [Hash; 2] = [Hash::Sha256, Hash::Sha384];
const VERSIONS: [IdentityVersion; 2] = [IdentityVersion::V0, IdentityVersion::V1];
const DERIVATIONS: [Derivation; 2] = [Derivation::Specification, Derivation::Libnvme];

/// The configured PSKs of libnvme's tests (its `test/psk.c`), in the interchange format.
const NONE: &str = "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const SHA_256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const SHA_384: &str =
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";

fn key(text: &str) -> ConfiguredPsk {
    text.parse().expect("a good key")
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .map(|digit| digit.to_digit(16).expect("hex") as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

#[test]
fn libnvmes_keys_are_read_and_written() {
    let short = "5512DBB6737D0106F65975B773DFB011FFC344BCF442E2DD6D8BC4870B5D5B03";
    let long = format!("{short}FFC344BCF442E2DD6D8BC4870B5D5B03");
    for (text, hash, hex) in [
        (NONE, None, short),
        (SHA_256, Some(Hash::Sha256), short),
        (SHA_384, Some(Hash::Sha384), &long),
    ] {
        let psk = key(text);
        assert_eq!(psk.hash(), hash);
        assert_eq!(psk.key(), bytes(hex));
        assert_eq!(psk.to_interchange(), text);
    }
    // From the documentation of another user of the format.
    let other = "NVMeTLSkey-1:01:MDAxMTIyMzM0NDU1NjY3Nzg4OTlhYWJiY2NkZGVlZmZwJEiQ:";
    assert_eq!(key(other).key(), b"00112233445566778899aabbccddeeff");
}

#[test]
fn new_keys_differ_and_can_be_read() {
    for hash in HASHES {
        let (one, other) = (ConfiguredPsk::generate(hash), ConfiguredPsk::generate(hash));
        assert!(one != other);
        assert!(key(&one.to_interchange()) == one);
        assert_eq!(one.hash(), Some(hash));
    }
}

#[test]
fn malformed_keys_are_refused_with_the_reason() {
    let flipped = SHA_256.replace("VRL", "VRM");
    for (text, expected) in [
        ("", InterchangeError::Prefix),
        (
            "NVMeTLSkey-2:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
            InterchangeError::Prefix,
        ),
        ("NVMeTLSkey-1:01", InterchangeError::End),
        (SHA_256.strip_suffix(':').unwrap(), InterchangeError::End),
        (
            "NVMeTLSkey-1:03:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
            InterchangeError::Hash("03".into()),
        ),
        ("NVMeTLSkey-1:01:not base64:", InterchangeError::Base64),
        ("NVMeTLSkey-1:01::", InterchangeError::Length(0)),
        ("NVMeTLSkey-1:01:AAAAAAAA:", InterchangeError::Length(2)),
        (&flipped, InterchangeError::Checksum),
        (
            &SHA_256.replace(":01:", ":02:"),
            InterchangeError::Length(32),
        ),
        (
            &SHA_384.replace(":02:", ":01:"),
            InterchangeError::Length(48),
        ),
    ] {
        assert_eq!(
            text.parse::<ConfiguredPsk>().err(),
            Some(expected),
            "{text}"
        );
    }
}

/// `test_data_identity` and `test_data_identity_compat` of libnvme's `test/psk.c`.
#[test]
fn identities_of_version_1_are_those_of_libnvme() {
    for (text, derivation, identity) in [
        (
            SHA_256,
            Derivation::Specification,
            "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
        ),
        (
            SHA_384,
            Derivation::Specification,
            "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
        ),
        (
            SHA_256,
            Derivation::Libnvme,
            "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
        ),
        (
            SHA_384,
            Derivation::Libnvme,
            "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
        ),
    ] {
        let psk = key(text);
        let retained = psk.retained(&host(), derivation).unwrap();
        let made = retained.identity(IdentityVersion::V1, &host(), &subsystem());
        assert_eq!(made.unwrap().to_string(), identity);
        let tls = psk.tls_psk(IdentityVersion::V1, &host(), &subsystem(), derivation);
        assert_eq!(tls.unwrap().identity(), identity.as_bytes());
    }
}

/// `nvme_auth_test_cases` of Linux's `drivers/nvme/common/tests/auth_kunit.c`: digest and TLS PSK of generated PSKs.
#[test]
fn generated_psks_give_what_linux_gives() {
    for (psk, digest, tls_psk) in [
        (
            "1733c59fa7f48fcf37f5f26fc4ff0268ad4f78e030f4f3b0bfd1d47e7bb1447a",
            "OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
            "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8",
        ),
        (
            "f14b2dd3234c459694d3bc63f8968bd6b37c2c6de849e22e
             118749001ce4bbe8640b9e3a748cb11ce4b1d71d359cce39",
            "cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n",
            "2774753233537b3fa50eb7d16a8e43457d85f4906c005b22
             36616c5d80939d0898fff15bb8b77119d2be0aac423e7590",
        ),
    ] {
        let psk = InputPsk::generated(&bytes(psk)).unwrap();
        let made = psk
            .tls_psk(
                IdentityVersion::V1,
                &nqn("hostnqn"),
                &nqn("subsysnqn"),
                Derivation::Specification,
            )
            .unwrap();
        let hash = psk.hash().specifier();
        let identity = format!("NVMe1G{hash} hostnqn subsysnqn {digest}");
        assert_eq!(made.identity(), identity.as_bytes());
        assert_eq!(made.key(), bytes(tls_psk));
        assert_eq!(made.algorithm(), psk.hash().algorithm());
    }
}

#[test]
fn a_key_without_a_hash_is_its_own_retained_psk() {
    let retained = key(NONE)
        .retained(&host(), Derivation::Specification)
        .unwrap();
    assert!(InputPsk::retained(key(NONE).key()) == Some(retained));
    let other = key(SHA_256)
        .retained(&host(), Derivation::Specification)
        .unwrap();
    assert!(InputPsk::retained(key(NONE).key()) != Some(other));
}

#[test]
fn identities_are_read_as_they_are_written() {
    for hash in HASHES {
        for version in VERSIONS {
            let psk = ConfiguredPsk::generate(hash);
            let retained = psk.retained(&host(), Derivation::Specification).unwrap();
            let identity = retained.identity(version, &host(), &subsystem()).unwrap();
            let text = identity.to_string();
            assert_eq!(Identity::parse(text.as_bytes()), Some(identity));
        }
    }
    let version_0 = key(SHA_256)
        .tls_psk(
            IdentityVersion::V0,
            &host(),
            &subsystem(),
            Derivation::Specification,
        )
        .unwrap();
    assert_eq!(
        version_0.identity(),
        b"NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys"
    );
    for wrong in [
        "",
        "NVMe0R01",
        "NVMe0R01 host",
        "NVMe0R01 host subsystem digest",
        "NVMe1R01 host subsystem",
        "NVMe1R01 host subsystem ",
        "NVMe1R01 host subsystem digest more",
        "NVMe2R01 host subsystem digest",
        "NVMe0X01 host subsystem",
        "NVMe0R00 host subsystem",
        "NVMe0R0é host subsystem",
        "NVMé0R01 host subsystem",
        "NVMe0R01  subsystem",
        "Client_identity",
    ] {
        assert_eq!(Identity::parse(wrong.as_bytes()), None, "{wrong}");
    }
    assert_eq!(Identity::parse(b"NVMe0R01 \xff subsystem"), None);
}

#[test]
fn names_with_blanks_are_refused() {
    let psk = key(SHA_256);
    let name = nqn("two words");
    let refused = Some(DerivationError::Blank(name.to_string()));
    assert_eq!(
        psk.retained(&name, Derivation::Specification).err(),
        refused
    );
    let retained = psk.retained(&host(), Derivation::Specification).unwrap();
    let identity = retained.identity(IdentityVersion::V1, &host(), &name);
    assert_eq!(identity.err(), refused);
}

#[test]
fn names_too_long_for_version_0_go_with_version_1() {
    let long = nqn(&"n".repeat(Nqn::MAX_LEN));
    let psk = key(SHA_384);
    for derivation in DERIVATIONS {
        let made = |version| psk.tls_psk(version, &long, &long, derivation);
        assert_eq!(
            made(IdentityVersion::V0).err(),
            Some(DerivationError::IdentityTooLong(9 + 223 + 1 + 223))
        );
        assert!(made(IdentityVersion::V1).is_ok());
    }
}

#[test]
fn a_file_of_keys_finds_what_a_client_derived() {
    let own = ConfiguredPsk::generate(Hash::Sha384);
    let file = format!(
        "# for all\n{SHA_256}\n\n {HOST}  {}\r\nnqn.other {SHA_384}\n",
        own.to_interchange()
    );
    let keys: Keys = file.parse().unwrap();
    assert!(keys.for_host(&host()) == Some(&own));
    assert!(keys.for_host(&nqn("nqn.third")) == Some(&key(SHA_256)));
    for (host, psk) in [
        (HOST, own.clone()),
        ("nqn.third", key(SHA_256)),
        ("nqn.other", key(SHA_384)),
    ] {
        for version in VERSIONS {
            for derivation in DERIVATIONS {
                let offered = psk.tls_psk(version, &nqn(host), &subsystem(), derivation);
                let offered = offered.unwrap();
                let found = keys.find(offered.identity(), derivation, |name| *name == subsystem());
                assert!(found == Ok(offered), "{host} {version:?} {derivation:?}");
            }
        }
    }
}

#[test]
fn a_key_for_all_does_not_prove_a_host_that_has_its_own() {
    let keys: Keys = format!("{SHA_256}\n{HOST} {SHA_384}").parse().unwrap();
    for version in VERSIONS {
        for derivation in DERIVATIONS {
            let offered = key(SHA_256).tls_psk(version, &host(), &subsystem(), derivation);
            let found = keys.find(offered.unwrap().identity(), derivation, |_| true);
            assert!(found == Err(NoKey::Hash(HOST.into())));
        }
    }
}

#[test]
fn the_digest_tells_the_derivation() {
    let keys: Keys = SHA_256.parse().unwrap();
    for used in DERIVATIONS {
        for given in DERIVATIONS {
            let offered = key(SHA_256).tls_psk(IdentityVersion::V1, &host(), &subsystem(), used);
            let offered = offered.unwrap();
            assert!(keys.find(offered.identity(), given, |_| true) == Ok(offered));
        }
    }
}

#[test]
fn a_key_that_is_not_there_is_refused_with_the_reason() {
    let keys: Keys = format!("{HOST} {SHA_256}").parse().unwrap();
    let find = |identity: &str| {
        let found = keys.find(identity.as_bytes(), Derivation::Specification, |name| {
            *name == subsystem()
        });
        found.expect_err("nothing to find")
    };
    let of = |head: &str, host: &str, tail: &str| format!("{head} {host} {SUBSYSTEM}{tail}");
    assert_eq!(find("Client_identity"), NoKey::NotNvme);
    assert_eq!(
        find(&format!("NVMe0R01 {HOST} nqn.else")),
        NoKey::Subsystem("nqn.else".into())
    );
    assert_eq!(
        find(&of("NVMe0R01", "nqn.stranger", "")),
        NoKey::Host("nqn.stranger".into())
    );
    assert_eq!(find(&of("NVMe0R02", HOST, "")), NoKey::Hash(HOST.into()));
    assert_eq!(
        find(&of("NVMe1R01", HOST, " AAAA")),
        NoKey::Digest(HOST.into())
    );
    assert_eq!(find(&of("NVMe1G01", HOST, " AAAA")), NoKey::Generated);
}

#[test]
fn malformed_files_name_the_line() {
    let parse = |text: &str| text.parse::<Keys>().err();
    assert_eq!(parse("# nothing\n"), Some(KeysError::Empty));
    assert_eq!(
        parse(&format!("{SHA_256}\nNVMeTLSkey-1:01:AAAAAAAA:")),
        Some(KeysError::Key {
            line: 2,
            error: InterchangeError::Length(2)
        })
    );
    assert_eq!(parse(&format!("a b {SHA_256}")), Some(KeysError::Line(1)));
}

#[test]
fn keys_do_not_show_in_debug_output() {
    let psk = key(SHA_256);
    let shown = format!(
        "{psk:?} {:?}",
        psk.retained(&host(), Derivation::Specification)
    );
    assert!(!shown.contains("key:"), "{shown}");
}
