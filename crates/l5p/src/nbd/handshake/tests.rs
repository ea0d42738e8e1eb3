use proptest::prelude::*;
use wire::nbd::{
    MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, flag, handshake, info, option, reply_type,
};

use super::{Export, Handshake, HandshakeError, Outcome};

fn greeting(flags: u16) -> Vec<u8> {
    let mut bytes = MAGIC.to_be_bytes().to_vec();
    bytes.extend(OPTION_MAGIC.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    bytes
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

const FLAGS: u16 = flag::HAS_FLAGS | flag::SEND_FLUSH;
const SIZE: u64 = 3 << 30;

fn export_info() -> Vec<u8> {
    let mut data = info::EXPORT.to_be_bytes().to_vec();
    data.extend(SIZE.to_be_bytes());
    data.extend(FLAGS.to_be_bytes());
    data
}

fn block_info(sizes: [u32; 3]) -> Vec<u8> {
    let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
    data.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    data
}

/// What a server says in all.
fn session(structured: bool) -> Vec<u8> {
    let answer = match structured {
        true => reply_type::ACK,
        false => reply_type::ERROR_UNSUPPORTED,
    };
    [
        greeting(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES),
        reply(option::STRUCTURED_REPLY, answer, &[]),
        reply(option::GO, reply_type::INFO, &export_info()),
        reply(
            option::GO,
            reply_type::INFO,
            &block_info([512, 4096, u32::MAX]),
        ),
        reply(option::GO, reply_type::ACK, &[]),
    ]
    .concat()
}

/// All that comes of a session whose bytes come in pieces of `cut` bytes, what is unused once more.
fn run(
    handshake: &mut Handshake,
    session: &[u8],
    cut: usize,
    out: &mut Vec<u8>,
) -> Result<Option<Outcome>, HandshakeError> {
    let mut held = Vec::new();
    for piece in session.chunks(cut) {
        held.extend(piece);
        let (used, outcome) = handshake.advance(&held, out)?;
        held.drain(..used);
        if outcome.is_some() {
            assert!(held.is_empty());
            return Ok(outcome);
        }
    }
    Ok(None)
}

proptest! {
    #[test]
    fn an_export_is_found_however_the_bytes_come(structured in any::<bool>(), cut in 1usize..200) {
        let mut out = Vec::new();
        let outcome = run(&mut Handshake::new("disk", false), &session(structured), cut, &mut out);
        let export = Export {
            size: SIZE,
            flags: FLAGS,
            min_block: 512,
            preferred_block: 4096,
            max_request: 32 << 20,
            structured,
        };
        prop_assert_eq!(outcome, Ok(Some(Outcome::Export(export))));
        let mut whole = Vec::new();
        let _ = run(&mut Handshake::new("disk", false), &session(structured), 1000, &mut whole);
        prop_assert_eq!(out, whole);
    }

    #[test]
    fn any_bytes_are_an_outcome_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), keep in 0usize..120) {
        let session = session(true);
        let keep = keep.min(bytes.len());
        bytes[..keep].copy_from_slice(&session[..keep]);
        let _ = run(&mut Handshake::new("disk", false), &bytes, 7, &mut Vec::new());
    }
}

#[test]
fn an_old_server_is_asked_by_the_oldest_option() {
    let mut session = [
        greeting(handshake::FIXED_NEWSTYLE),
        reply(option::STRUCTURED_REPLY, reply_type::ERROR_UNSUPPORTED, &[]),
        reply(option::GO, reply_type::ERROR_UNSUPPORTED, &[]),
    ]
    .concat();
    session.extend(SIZE.to_be_bytes());
    session.extend(FLAGS.to_be_bytes());
    session.extend([0; 124]);
    let outcome = run(
        &mut Handshake::new("x", false),
        &session,
        9,
        &mut Vec::new(),
    );
    let export = match outcome {
        Ok(Some(Outcome::Export(export))) => export,
        other => panic!("{other:?}"),
    };
    assert_eq!((export.size, export.min_block), (SIZE, 1));
}

#[test]
fn tls_is_begun_between() {
    let mut handshake = Handshake::new("x", true);
    let mut out = Vec::new();
    let begin = [
        greeting(handshake::FIXED_NEWSTYLE),
        reply(option::STARTTLS, reply_type::ACK, &[]),
    ]
    .concat();
    let outcome = run(&mut handshake, &begin, 5, &mut out);
    assert_eq!(outcome, Ok(Some(Outcome::StartTls)));
    handshake.secured(&mut out);
    let rest = &session(true)[18..];
    let outcome = run(&mut handshake, rest, 5, &mut out);
    assert!(
        matches!(outcome, Ok(Some(Outcome::Export(_)))),
        "{outcome:?}"
    );
}

#[test]
fn refusals_are_told_in_words() {
    let refused = |option, kind, text: &[u8], secures| {
        let mut session = greeting(handshake::FIXED_NEWSTYLE);
        if option == option::GO {
            session.extend(reply(option::STRUCTURED_REPLY, reply_type::ACK, &[]));
        }
        session.extend(reply(option, kind, text));
        let outcome = run(
            &mut Handshake::new("vol", secures),
            &session,
            99,
            &mut Vec::new(),
        );
        outcome.unwrap_err().to_string()
    };
    for (option, kind, text, secures, words) in [
        (
            option::GO,
            reply_type::ERROR_UNKNOWN,
            &b"try disk\n"[..],
            false,
            "the server has no export \"vol\": try disk",
        ),
        (
            option::STRUCTURED_REPLY,
            reply_type::ERROR_TLS_REQUIRED,
            b"",
            false,
            "the server requires TLS",
        ),
        (
            option::STARTTLS,
            reply_type::ERROR_UNSUPPORTED,
            b"",
            true,
            "the server does not do TLS",
        ),
        (
            option::GO,
            reply_type::ERROR_POLICY,
            b"not you",
            false,
            "the server refuses (forbidden by its policy): not you",
        ),
    ] {
        assert_eq!(refused(option, kind, text, secures), words);
    }
    let error = run(
        &mut Handshake::new("", false),
        b"SSH-2.0-x",
        3,
        &mut Vec::new(),
    );
    assert_eq!(error, Err(HandshakeError::NotNbd));
    let mut old = greeting(0);
    old[8..16].fill(9);
    let error = run(&mut Handshake::new("", false), &old, 99, &mut Vec::new());
    assert_eq!(error, Err(HandshakeError::Oldstyle));
    for sizes in [[0, 4096, 4096], [512, 100, 4096], [512, 512, 0]] {
        let session = [
            greeting(handshake::FIXED_NEWSTYLE),
            reply(option::STRUCTURED_REPLY, reply_type::ACK, &[]),
            reply(option::GO, reply_type::INFO, &block_info(sizes)),
        ]
        .concat();
        let error = run(
            &mut Handshake::new("", false),
            &session,
            99,
            &mut Vec::new(),
        );
        assert_eq!(
            error,
            Err(HandshakeError::Malformed(option::GO)),
            "{sizes:?}"
        );
    }
}
