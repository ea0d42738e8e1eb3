use super::*;

#[test]
fn a_self_signed_certificate_is_for_its_names() {
    let certificate = Certificate::self_signed(["longshore.test", "10.0.0.1", "::1"]).unwrap();
    assert_eq!(certificate.chain.len(), 1);
}

#[test]
fn pem_is_read() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["a.test".into()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let chain = certificate.pem().repeat(2);
    let read = Certificate::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    assert_eq!(read.chain.len(), 2);
    assert_eq!(&read.chain[0], certificate.der());
}

#[test]
fn what_is_missing_is_said() {
    let key = KeyPair::generate().unwrap().serialize_pem();
    let error = Certificate::from_pem(key.as_bytes(), key.as_bytes()).unwrap_err();
    assert!(matches!(error, CertificateError::NoCertificate));
    let error = Certificate::from_pem(b"", b"").unwrap_err();
    assert!(matches!(error, CertificateError::NoCertificate));
    let damaged = b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n";
    let error = chain_from_pem(damaged).unwrap_err();
    assert!(matches!(error, CertificateError::BadCertificate(_)));
}
