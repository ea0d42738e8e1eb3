use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs::default_provider;

use super::*;

/// A certificate that has signed itself.
fn certificate(is_ca: bool, last_year: i32) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(["server.test".to_owned()]).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(last_year, 12, 31);
    params.is_ca = match is_ca {
        true => IsCa::Ca(BasicConstraints::Unconstrained),
        false => IsCa::ExplicitNoCa,
    };
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().clone()
}

fn judge(
    listed: &[CertificateDer<'static>],
    shown: &CertificateDer<'static>,
    name: &'static str,
) -> Result<(), Error> {
    let mut roots = RootCertStore::empty();
    for certificate in listed {
        roots.add(certificate.clone()).unwrap();
    }
    let provider = Arc::new(default_provider());
    let trust = TrustExactly::new(Arc::new(roots), listed.to_vec(), provider).unwrap();
    // In 2025.
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_750_000_000));
    let name = ServerName::try_from(name).unwrap();
    let verified = trust.verify_server_cert(shown, &[], &name, &[], now);
    verified.map(|_| ())
}

#[test]
fn a_listed_certificate_is_accepted_whether_it_is_an_authoritys_or_not() {
    for is_ca in [true, false] {
        let certificate = certificate(is_ca, 2030);
        let listed = [certificate.clone()];
        assert_eq!(judge(&listed, &certificate, "server.test"), Ok(()));
    }
}

#[test]
fn a_listed_certificate_with_another_name_or_past_its_date_is_refused() {
    for is_ca in [true, false] {
        let (current, expired) = (certificate(is_ca, 2030), certificate(is_ca, 2021));
        let listed = [current.clone(), expired.clone()];
        let refused = judge(&listed, &current, "other.test").unwrap_err();
        let why = format!("{refused:?}");
        assert!(why.contains("NotValidForName"), "{why}");
        let refused = judge(&listed, &expired, "server.test").unwrap_err();
        let why = format!("{refused:?}");
        assert!(why.contains("Expired"), "{why}");
    }
}

#[test]
fn a_certificate_that_is_not_listed_is_refused() {
    for is_ca in [true, false] {
        let listed = [certificate(true, 2030)];
        assert!(judge(&listed, &certificate(is_ca, 2030), "server.test").is_err());
    }
}
