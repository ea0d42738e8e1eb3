use proptest::prelude::*;

use super::*;

fn requests() -> impl Strategy<Value = Request> {
    let kinds = prop_oneof![
        Just(Kind::Read),
        Just(Kind::Write),
        Just(Kind::Disconnect),
        Just(Kind::Flush),
        Just(Kind::Trim),
        Just(Kind::WriteZeroes),
        Just(Kind::Unknown(5)),
        (7..=u16::MAX).prop_map(Kind::Unknown),
    ];
    let flags = any::<[bool; 4]>();
    (kinds, flags, any::<(u64, u64, u32)>()).prop_map(|(kind, flags, (cookie, offset, len))| {
        let [fua, no_hole, do_not_fragment, fast_zero] = flags;
        Request {
            kind,
            fua,
            no_hole,
            do_not_fragment,
            fast_zero,
            cookie,
            offset,
            len,
        }
    })
}

fn replies() -> impl Strategy<Value = Reply> {
    let lens = 1..=u32::MAX - 8;
    let contents = prop_oneof![
        Just(ChunkType::None),
        (any::<u64>(), lens).prop_map(|(offset, len)| ChunkType::Data { offset, len }),
        any::<(u64, u32)>().prop_map(|(offset, len)| ChunkType::Hole { offset, len }),
        (any::<(u32, u16)>(), 0..100u32).prop_map(|((error, message_len), more)| {
            ChunkType::Error {
                error,
                message_len,
                len: u32::from(message_len) + more,
            }
        }),
    ];
    prop_oneof![
        any::<(u32, u64)>().prop_map(|(error, cookie)| Reply::Simple { error, cookie }),
        (any::<(bool, u64)>(), contents).prop_map(|((done, cookie), content)| {
            Reply::Chunk(Chunk {
                done,
                cookie,
                content,
            })
        }),
    ]
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_written(request in requests()) {
        prop_assert_eq!(Request::parse(&request.to_bytes()), Some(request));
    }

    #[test]
    fn a_reply_is_read_as_it_was_written(reply in replies()) {
        let head = reply.head();
        prop_assert_eq!(Reply::header_len(head.bytes()), Ok(head.bytes().len()));
        prop_assert_eq!(Reply::parse(head.bytes()), Ok(reply));
        for len in 0..=head.bytes().len() {
            prop_assert!(beginning_matches(&head.bytes()[..len]));
        }
    }

    #[test]
    fn any_bytes_are_a_reply_or_an_error(mut bytes in any::<[u8; 32]>(), chunk in any::<bool>(), kind in 0..9u16) {
        let magic: u32 = if chunk { 0x668e_33ef } else { 0x6744_6698 };
        bytes[..4].copy_from_slice(&magic.to_be_bytes());
        bytes[4..6].copy_from_slice(&[0, 1]);
        bytes[6..8].copy_from_slice(&kind.to_be_bytes());
        if let Ok(reply) = Reply::parse(&bytes) {
            let head = reply.head();
            prop_assert_eq!(head.bytes(), &bytes[..head.bytes().len()]);
        }
    }
}

#[test]
fn what_is_no_reply_is_told() {
    assert_eq!(Reply::header_len(&[0; 16]), Err(Malformed::Magic(0)));
    let mut chunk = Reply::Chunk(Chunk {
        done: true,
        cookie: 1,
        content: ChunkType::None,
    })
    .head()
    .bytes()
    .to_vec();
    chunk[19] = 1;
    let wrong = Malformed::ChunkLength { kind: 0, len: 1 };
    assert_eq!(Reply::parse(&chunk), Err(wrong));
    chunk[7] = 5;
    assert_eq!(Reply::parse(&chunk), Err(Malformed::ChunkType(5)));
    chunk[5] = 2;
    assert_eq!(Reply::parse(&chunk), Err(Malformed::ChunkFlags(2)));
    assert!(!beginning_matches(&[0x67, 0x8e]));
}
