//! Content: its end is found at any segmentation.

use super::*;

/// Feeds the bytes in these pieces; how many were the message's, and the content among them.
fn feed(framing: Framing, input: &[u8], cuts: &[usize]) -> Option<(usize, Vec<u8>)> {
    let mut body = Body::new(framing);
    let (mut at, mut content) = (0, Vec::new());
    let mut cuts = cuts.iter().copied();
    while at < input.len() && !body.is_done() {
        let end = (at + cuts.next().unwrap_or(usize::MAX).min(input.len())).min(input.len());
        while at < end && !body.is_done() {
            let piece = body.take_piece(&input[at..end]).ok()?;
            if piece.is_content {
                content.extend_from_slice(&input[at..at + piece.len]);
            }
            at += piece.len;
        }
    }
    body.is_done().then_some((at, content))
}

#[test]
fn chunks_are_read_strictly() {
    for (input, content) in [
        ("0\r\n\r\n", Some("")),
        ("3\r\nabc\r\n0\r\n\r\n", Some("abc")),
        ("A\r\n0123456789\r\n00\r\n\r\n", Some("0123456789")),
        ("3;a=b\r\nabc\r\n0;x\r\n\r\n", Some("abc")),
        ("3\r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\n", Some("abc")),
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
fn nothing_and_everything() {
    assert!(Body::new(Framing::None).is_done());
    assert!(Body::new(Framing::Length(0)).is_done());
    let mut endless = Body::new(Framing::UntilClose);
    assert_eq!(endless.take(b"abc"), Ok(3));
    assert!(!endless.is_done() && endless.ends_with_connection());
}

proptest! {
    #[test]
    fn chunks_end_where_they_end_at_any_segmentation(
        chunks in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), "(;[a-z]{1,5})?"), 0..6),
        trailers in prop::collection::vec("[A-Z]{1,5}: [a-z]{0,5}", 0..3),
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
        prop_assert_eq!(feed(Framing::Chunked, &input, &cuts), Some((len, content)));
        prop_assert_eq!(Body::new(Framing::Chunked).take(&input), Ok(len));
    }

    #[test]
    fn a_length_ends_where_it_ends(
        len in 1usize..100, more in 0usize..50, cuts in prop::collection::vec(1usize..9, 0..50),
    ) {
        let input = vec![7; len + more];
        let read = feed(Framing::Length(len as u64), &input, &cuts);
        prop_assert_eq!(read, Some((len, vec![7; len])));
    }

    #[test]
    fn nonsense_is_refused_the_same_at_any_segmentation(
        input in "[0-9a-f;\r\n x]{0,30}", cuts in prop::collection::vec(1usize..4, 0..40),
    ) {
        let whole = feed(Framing::Chunked, input.as_bytes(), &[]);
        prop_assert_eq!(feed(Framing::Chunked, input.as_bytes(), &cuts), whole);
    }
}
