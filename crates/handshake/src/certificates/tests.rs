use super::*;

/// Schemes that clients offer for keys on the curve P-256, and for RSA only.
const ECDSA: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP256_SHA256];
const RSA: &[SignatureScheme] = &[SignatureScheme::RSA_PSS_SHA256];

fn certificates(names: &[&[&str]]) -> Vec<Certificate> {
    let made = names.iter().map(|names| names.iter().copied());
    made.map(|names| Certificate::self_signed(names).unwrap())
        .collect()
}

/// The place of the certificate that a name gets.
fn chosen(by_name: &ByName, name: Option<&str>) -> usize {
    let key = by_name.find(name, ECDSA).unwrap();
    let is_it = |other: &Arc<CertifiedKey>| Arc::ptr_eq(other, &key);
    by_name.keys.iter().position(is_it).unwrap()
}

#[test]
fn a_name_gets_its_own_certificate_then_that_with_a_wildcard_then_the_first() {
    let names: [&[&str]; 4] = [
        &["first.example"],
        &["*.b.example", "10.0.0.1"],
        &["x.b.example", "c.example"],
        &["*.b.example"],
    ];
    let by_name = ByName::new(certificates(&names)).unwrap();
    for (name, place) in [
        ("first.example", 0),
        ("X.B.example", 2),
        ("c.example", 2),
        ("y.b.example", 1),
        ("y.x.b.example", 0),
        ("b.example", 0),
        ("example", 0),
        ("", 0),
    ] {
        assert_eq!(chosen(&by_name, Some(name)), place, "{name}");
    }
    assert_eq!(chosen(&by_name, None), 0);
}

#[test]
fn a_client_that_can_check_no_key_gets_the_first_certificate_and_decides() {
    let by_name = ByName::new(certificates(&[&["a.example"], &["b.example"]])).unwrap();
    let key = by_name.find(Some("b.example"), RSA).unwrap();
    assert!(Arc::ptr_eq(&key, &by_name.keys[0]));
}

#[test]
fn certificates_that_do_not_fit_leave_those_that_were_there() {
    let held = Certificates::new(certificates(&[&["a.example"]])).unwrap();
    let before = Arc::clone(&held.0.read().unwrap());
    let mut wrong = certificates(&[&["b.example"], &["c.example"]]);
    let other = wrong.pop().unwrap();
    wrong[0].key = other.key;
    wrong.insert(0, certificates(&[&["a.example"]]).remove(0));
    assert_eq!(held.replace(wrong).unwrap_err().place, 1);
    assert!(held.replace(Vec::new()).is_err());
    assert!(Arc::ptr_eq(&before, &held.0.read().unwrap()));
    held.replace(certificates(&[&["b.example"]])).unwrap();
    assert_eq!(chosen(&held.0.read().unwrap(), Some("b.example")), 0);
    assert!(!Arc::ptr_eq(&before, &held.0.read().unwrap()));
}
