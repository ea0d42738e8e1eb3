//! Heads: where they end, and what is refused.

use super::*;

#[test]
fn what_two_readers_could_understand_differently_is_refused() {
    let bad = Status::BAD_REQUEST;
    for (head, status) in [
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            bad,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            bad,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
            bad,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            bad,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n",
            bad,
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", bad),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
            bad,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\n",
            bad,
        ),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", bad),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            bad,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            Status::NOT_IMPLEMENTED,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
            Status::NOT_IMPLEMENTED,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
            bad,
        ),
        (
            "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 1\r\n\r\n",
            bad,
        ),
        (
            "TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
            bad,
        ),
        (
            "TRACE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            bad,
        ),
        ("GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", bad),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\nHost: a\r\n A: b\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\tc\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\nHost: a\r\nA\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: \0\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", bad),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", bad),
        ("GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", bad),
        ("GET http://a#b HTTP/1.1\r\nHost: a\r\n\r\n", bad),
        ("GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n", bad),
        ("GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n", bad),
        ("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", bad),
        ("GET x HTTP/1.1\r\nHost: a\r\n\r\n", bad),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", bad),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", bad),
        ("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", bad),
        (
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            Status::VERSION_NOT_SUPPORTED,
        ),
    ] {
        assert_eq!(refused(head), Some(status), "{head:?}");
    }
}

#[test]
fn lengths_are_read_up_to_64_bits() {
    for (length, framing) in [
        ("9223372036854775808", Some(Framing::Length(1 << 63))),
        ("18446744073709551615", Some(Framing::Length(u64::MAX))),
        ("18446744073709551616", None),
        ("000000000000000000000001", Some(Framing::Length(1))),
    ] {
        let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        let mut storage = storage();
        let request = Request::parse(head.as_bytes(), &mut storage);
        assert_eq!(request.ok().map(|request| request.framing), framing);
    }
}

#[test]
fn too_much_is_refused_as_soon_as_it_shows() {
    let find = |input: &[u8]| find_head(input, &mut 0, 4096);
    let long_line = [b"GET /".as_slice(), &[b'x'; 9000]].concat();
    assert_eq!(
        find_head(&long_line, &mut 0, 16_384),
        Head::Refused(Status::URI_TOO_LONG)
    );
    let head = [b"GET / HTTP/1.1\r\nA: ".as_slice(), &[b'x'; 4096]].concat();
    assert_eq!(find(&head), Head::Refused(Status::FIELDS_TOO_LARGE));
    let many = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "A: b\r\n".repeat(MAX_FIELDS)
    );
    assert_eq!(refused(&many), Some(Status::FIELDS_TOO_LARGE));
    let empty = "\r\n".repeat(100);
    assert_eq!(find(empty.as_bytes()), Head::Refused(Status::BAD_REQUEST));
}

#[test]
fn a_request_says_whom_it_is_for() {
    for (head, host, target) in [
        ("GET /a?b HTTP/1.1\r\nHost: x:80\r\n\r\n", "x:80", "/a?b"),
        ("GET http://y/a HTTP/1.1\r\nHost: x\r\n\r\n", "y", "/a"),
        ("GET HTTP://y HTTP/1.1\r\nHost: x\r\n\r\n", "y", "/"),
        ("GET http://y?q HTTP/1.1\r\nHost: x\r\n\r\n", "y", "/?q"),
        ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "x", "*"),
        ("OPTIONS http://y HTTP/1.1\r\nHost: x\r\n\r\n", "y", "*"),
        ("OPTIONS http://y/ HTTP/1.1\r\nHost: x\r\n\r\n", "y", "/"),
        ("OPTIONS http://y?q HTTP/1.1\r\nHost: x\r\n\r\n", "y", "/?q"),
        (
            "CONNECT y:443 HTTP/1.1\r\nHost: x\r\n\r\n",
            "y:443",
            "y:443",
        ),
        ("GET / HTTP/1.0\r\n\r\n", "", "/"),
    ] {
        let mut storage = storage();
        let request = Request::parse(head.as_bytes(), &mut storage).unwrap();
        assert_eq!(
            (request.host, &*request.target),
            (host.as_bytes(), target),
            "{head:?}"
        );
    }
}

#[test]
fn a_client_goes_on_unless_one_side_says_otherwise() {
    for (head, keeps) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n",
            false,
        ),
        ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", false),
        (
            "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
            true,
        ),
    ] {
        let mut storage = storage();
        let request = Request::parse(head.as_bytes(), &mut storage).unwrap();
        assert_eq!(request.keep_alive, keeps, "{head:?}");
    }
}

#[test]
fn http_2_is_not_let_through_by_an_upgrade() {
    for (protocols, upgrading) in [
        ("websocket", Upgrading::Upgrade),
        ("h2c", Upgrading::No),
        ("websocket, H2C", Upgrading::No),
        ("", Upgrading::No),
    ] {
        let head = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: {protocols}\r\n\r\n"
        );
        let mut storage = storage();
        let request = Request::parse(head.as_bytes(), &mut storage).unwrap();
        assert_eq!(request.upgrading, upgrading, "{protocols}");
    }
}

#[test]
fn responses_are_framed_as_rfc_9112_has_it() {
    let connect = RequestTraits {
        upgrading: Upgrading::Connect,
        ..GET
    };
    let head = RequestTraits { head: true, ..GET };
    for (response, asked, framing) in [
        ("200 OK\r\nContent-Length: 5", GET, Some(Framing::Length(5))),
        ("200 OK\r\nContent-Length: 5", head, Some(Framing::None)),
        (
            "200 OK\r\nTransfer-Encoding: chunked",
            GET,
            Some(Framing::Chunked),
        ),
        ("200 OK", GET, Some(Framing::UntilClose)),
        (
            "204 No Content\r\nContent-Length: 5",
            GET,
            Some(Framing::None),
        ),
        (
            "304 Not Modified\r\nContent-Length: 5",
            GET,
            Some(Framing::None),
        ),
        ("100 Continue", GET, Some(Framing::None)),
        (
            "101 Yes\r\nUpgrade: WebSocket",
            UPGRADE,
            Some(Framing::None),
        ),
        ("101 Yes\r\nUpgrade: echo/1", UPGRADE, Some(Framing::None)),
        ("101 Yes", UPGRADE, None),
        ("101 Yes\r\nUpgrade: ,", UPGRADE, None),
        ("101 Yes\r\nUpgrade: h2c", UPGRADE, None),
        ("101 Yes\r\nUpgrade: websocket, h2c", UPGRADE, None),
        ("200 OK\r\nContent-Length: 5", connect, Some(Framing::None)),
        ("101 Yes\r\nUpgrade: websocket", GET, None),
        (
            "200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
            GET,
            None,
        ),
        (
            "200 OK\r\nContent-Length: 5\r\nContent-Length: 6",
            GET,
            None,
        ),
        ("200 OK\r\nTransfer-Encoding: gzip", GET, None),
        ("99 No", GET, None),
        ("200 OK\r\nA: b\r\n c", GET, None),
    ] {
        let text = format!("HTTP/1.1 {response}\r\n\r\n");
        let mut storage = storage();
        let parsed = Response::parse(text.as_bytes(), &mut storage, asked);
        assert_eq!(
            parsed.ok().map(|parsed| parsed.framing),
            framing,
            "{response}"
        );
    }
}

proptest! {
    /// However the bytes come, a head ends where it ends, or is refused, as if it had come at once.
    #[test]
    fn a_head_ends_where_it_ends_at_any_segmentation(
        lines in prop::collection::vec("[ -~\t]{0,12}(\r\n|\r\n|\r\n|\n|\r)", 0..8),
        cuts in prop::collection::vec(1usize..20, 0..40),
    ) {
        let mut text = lines.concat().into_bytes();
        text.extend_from_slice(b"\r\n\r\nrest");
        let whole = find_head(&text, &mut 0, 100);
        let (mut scanned, mut len) = (0, 0);
        let mut pieces = cuts.into_iter();
        let found = loop {
            match find_head(&text[..len], &mut scanned, 100) {
                Head::Partial if len < text.len() => {
                    len = (len + pieces.next().unwrap_or(1)).min(text.len());
                }
                found => break found,
            }
        };
        match (whole, found) {
            // Which rule it broke first may differ; that it is refused may not.
            (Head::Refused(_), Head::Refused(_)) => {}
            (whole, found) => prop_assert_eq!(whole, found),
        }
    }

    /// Any bytes are refused or understood.
    #[test]
    fn no_head_makes_us_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = [b"GET / HTTP/1.1\r\nHost: a\r\n".as_slice(), &text, b"\r\n\r\n"].concat();
        if let Head::Complete { start, end } = find_head(&text, &mut 0, 4096) {
            let _ = Request::parse(&text[start..end], &mut storage());
            let _ = Response::parse(&text[start..end], &mut storage(), GET);
        }
    }
}
