//! Content: its end is found at any segmentation.

use super::*;

/// What became of a message.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    /// Bytes that were its.
    len: usize,
    content: Vec<u8>,
    /// What of it went on.
    passed: Vec<u8>,
}

/// Feeds the bytes in these pieces; nothing if they are no whole message.
fn feed(framing: Framing, input: &[u8], cuts: &[usize]) -> Option<Read> {
    let mut body = Body::new(framing);
    let (mut read, mut end) = (Read::default(), 0);
    let mut cuts = cuts.iter().copied();
    while end < input.len() && !body.is_done() {
        end = (end + cuts.next().unwrap_or(usize::MAX).min(input.len())).min(input.len());
        loop {
            let piece = body.take_piece(&input[read.len..end]).ok()?;
            let bytes = &input[read.len..read.len + piece.len];
            read.len += piece.len;
            if piece.kind != PieceKind::Dropped {
                read.passed.extend_from_slice(bytes);
            }
            if piece.kind == PieceKind::Content {
                read.content.extend_from_slice(bytes);
            }
            if piece.len == 0 {
                break;
            }
        }
    }
    body.is_done().then_some(read)
}

#[test]
fn chunks_are_read_strictly() {
    for (input, content) in [
        ("0\r\n\r\n", Some("")),
        ("3\r\nabc\r\n0\r\n\r\n", Some("abc")),
        ("A\r\n0123456789\r\n00\r\n\r\n", Some("0123456789")),
        ("3;a=b\r\nabc\r\n0;x\r\n\r\n", Some("abc")),
        ("3\r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\n", Some("abc")),
        ("3 ; a = \"b;\\\"\t\" ;c\r\nabc\r\n0\r\n\r\n", Some("abc")),
        ("3;\r\nabc\r\n0\r\n\r\n", None),
        ("3;a=\r\nabc\r\n0\r\n\r\n", None),
        ("3;a=\"\r\nabc\r\n0\r\n\r\n", None),
        ("3;a=\"b\"c\r\nabc\r\n0\r\n\r\n", None),
        ("3;a b\r\nabc\r\n0\r\n\r\n", None),
        ("3;a;;b\r\nabc\r\n0\r\n\r\n", None),
        ("3;a@b\r\nabc\r\n0\r\n\r\n", None),
        ("0\r\nGET /x HTTP/1.1\r\n\r\n", None),
        ("0\r\nA : b\r\n\r\n", None),
        ("0\r\n: b\r\n\r\n", None),
        ("0\r\nA: b\x01\r\n\r\n", None),
        ("3\nabc\r\n0\r\n\r\n", None),
        ("3\r\nabc\n0\r\n\r\n", None),
        ("3\r\nabcd\r\n0\r\n\r\n", None),
        ("3;a\nb\r\nabc\r\n0\r\n\r\n", None),
        ("3;a\rb\r\nabc\r\n0\r\n\r\n", None),
        (" 3\r\nabc\r\n0\r\n\r\n", None),
        ("3 \r\nabc\r\n0\r\n\r\n", None),
        ("0x3\r\nabc\r\n0\r\n\r\n", None),
        ("-3\r\nabc\r\n0\r\n\r\n", None),
        ("\r\n", None),
        (";\r\n", None),
        ("10000000000000003\r\nabc\r\n0\r\n\r\n", None),
        ("0\r\nA: b\n\r\n", None),
        ("0\r\n A: b\r\n\r\n", None),
        ("0\r\n\rx", None),
    ] {
        let read = feed(Framing::Chunked, input.as_bytes(), &[]);
        let read = read.map(|read| (read.len, read.content));
        let wanted = content.map(|content| (input.len(), content.as_bytes().to_vec()));
        assert_eq!(read, wanted, "{input:?}");
    }
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let long = "x".repeat(10_000);
    assert_eq!(
        feed(
            Framing::Chunked,
            format!("3;{long}\r\nabc\r\n0\r\n\r\n").as_bytes(),
            &[]
        ),
        None
    );
    let trailers = "A: b\r\n".repeat(3000);
    assert_eq!(
        feed(
            Framing::Chunked,
            format!("0\r\n{trailers}\r\n").as_bytes(),
            &[]
        ),
        None
    );
}

#[test]
fn trailers_that_belong_into_a_head_are_dropped() {
    let dropped = [
        "Content-Length: 5",
        "transfer-encoding: chunked",
        "HOST: other",
        "X-Forwarded-For: 1.2.3.4",
        "Forwarded: for=x",
        "Connection: close",
        "If-Match: *",
        "Authorization: x",
        "Set-Cookie: x",
        "Cache-Control: x",
        "Content-Type: x",
        "Trailer: x",
    ];
    for line in dropped {
        let input = format!("1\r\nx\r\n0\r\nA: b\r\n{line}\r\nDigest: c\r\n\r\n");
        let read = feed(Framing::Chunked, input.as_bytes(), &[1; 100]).unwrap();
        let wanted = "1\r\nx\r\n0\r\nA: b\r\nDigest: c\r\n\r\n";
        assert_eq!(String::from_utf8(read.passed).unwrap(), wanted);

        let mut body = Body::new(Framing::Chunked);
        let (mut at, mut passed) = (0, Vec::new());
        while !body.is_done() {
            let piece = body.take(&input.as_bytes()[at..]).unwrap();
            if piece.kind != PieceKind::Dropped {
                passed.extend_from_slice(&input.as_bytes()[at..at + piece.len]);
            }
            at += piece.len;
        }
        assert_eq!(String::from_utf8(passed).unwrap(), wanted);
    }
}

#[test]
fn nothing_and_everything() {
    assert!(Body::new(Framing::None).is_done());
    assert!(Body::new(Framing::Length(0)).is_done());
    let mut endless = Body::new(Framing::UntilClose);
    assert_eq!(endless.take(b"abc").map(|piece| piece.len), Ok(3));
    assert!(!endless.is_done() && endless.ends_with_connection());
}

proptest! {
    #[test]
    fn chunks_end_where_they_end_at_any_segmentation(
        chunks in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), "(;[a-z]{1,5})?"), 0..6),
        trailers in prop::collection::vec("[XYZ]{1,5}: [a-z]{0,5}", 0..3),
        cuts in prop::collection::vec(1usize..9, 0..200),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let (mut input, mut content) = (Vec::new(), Vec::new());
        for (data, extension) in &chunks {
            input.extend_from_slice(format!("{:x}{extension}\r\n", data.len()).as_bytes());
            input.extend_from_slice(data);
            input.extend_from_slice(b"\r\n");
            content.extend_from_slice(data);
        }
        input.extend_from_slice(b"0\r\n");
        for trailer in &trailers {
            input.extend_from_slice(format!("{trailer}\r\n").as_bytes());
        }
        input.extend_from_slice(b"\r\n");
        let len = input.len();
        input.extend_from_slice(&rest);
        let passed = input[..len].to_vec();
        prop_assert_eq!(feed(Framing::Chunked, &input, &cuts), Some(Read { len, content, passed }));
        prop_assert_eq!(Body::new(Framing::Chunked).take(&input).map(|piece| piece.len), Ok(len));
    }

    #[test]
    fn a_length_ends_where_it_ends(
        len in 1usize..100, more in 0usize..50, cuts in prop::collection::vec(1usize..9, 0..50),
    ) {
        let input = vec![7; len + more];
        let read = feed(Framing::Length(len as u64), &input, &cuts);
        let all = vec![7; len];
        prop_assert_eq!(read, Some(Read { len, content: all.clone(), passed: all }));
    }

    #[test]
    fn nonsense_is_refused_the_same_at_any_segmentation(
        input in "[0-9a-f;\r\n x]{0,30}", cuts in prop::collection::vec(1usize..4, 0..40),
    ) {
        let whole = feed(Framing::Chunked, input.as_bytes(), &[]);
        prop_assert_eq!(feed(Framing::Chunked, input.as_bytes(), &cuts), whole);
    }
}
