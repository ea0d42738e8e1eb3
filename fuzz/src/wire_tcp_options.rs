//! Any TCP options are read or refused; what was read survives being written again.

use wire::tcp::{MAX_OPTIONS_LEN, Options};

/// Takes `bytes` for the options of a TCP header.
pub fn run(bytes: &[u8]) {
    let Ok(options) = Options::parse(bytes) else {
        return;
    };
    let mut emitted = [0; MAX_OPTIONS_LEN];
    let len = options.emit(&mut emitted);
    assert_eq!(len, options.len());
    assert!(len.is_multiple_of(4));
    let again = Options::parse(&emitted[..len]).expect("our own options");
    assert!(options.sack.as_slice().starts_with(again.sack.as_slice()));
    assert_eq!(
        Options {
            sack: options.sack,
            ..again
        },
        options
    );
}
