//! Any text is a file of pre-shared keys or is refused, any bytes are an identity or are not; what was read is written again
//! as it was.

use handshake::nvme_psk::{ConfiguredPsk, Identity, Keys};

/// Takes `data` for an identity that a client sends, for one key and for a file of keys.
pub fn run(data: &[u8]) {
    if let Some(identity) = Identity::parse(data) {
        let text = identity.to_string();
        assert_eq!(text.as_bytes(), data);
        assert_eq!(Identity::parse(text.as_bytes()), Some(identity));
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(key) = text.parse::<ConfiguredPsk>() {
        assert_eq!(key.to_interchange(), text);
    }
    if let Ok(keys) = text.parse::<Keys>() {
        // A line that is a key alone is for every host.
        let host = "nqn.2014-08.org.nvmexpress:uuid:any"
            .parse()
            .expect("a name");
        let is_for_all = |line: &str| line.trim().parse::<ConfiguredPsk>().is_ok();
        assert!(!text.lines().any(is_for_all) || keys.for_host(&host).is_some());
    }
}
