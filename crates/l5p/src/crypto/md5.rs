//! MD5 (RFC 1321): for CHAP, which has no other digest that all targets know.

/// The digest of these bytes.
pub(crate) fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut digest = [0; 16];
    // SAFETY: the call reads `bytes` and writes as many bytes as a digest has, which is what `digest` has room for.
    unsafe { aws_lc_sys::MD5(bytes.as_ptr(), bytes.len(), digest.as_mut_ptr()) };
    digest
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_is_as_in_the_rfc() {
        let expected = 0x9001_5098_3cd2_4fb0_d696_3f7d_28e1_7f72_u128;
        assert_eq!(u128::from_be_bytes(super::md5(b"abc")), expected);
    }
}
