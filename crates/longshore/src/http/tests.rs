use std::time::{Duration, Instant, SystemTime};

use proptest::prelude::*;

use super::*;

fn connection() -> (Connection, Instant) {
    let now = Instant::now();
    (Connection::new(now, Limits::default()), now)
}

/// The action for one request head.
fn action(head: &str) -> Action {
    let (mut connection, now) = connection();
    connection.handle_input(now, head.as_bytes());
    connection.poll_action(now).expect("an action")
}

fn request(head: &str) -> Request {
    match action(head) {
        Action::Serve(request) => *request,
        other => panic!("{head:?} gave {other:?}"),
    }
}

fn refused(head: &str) -> u16 {
    match action(head) {
        Action::Refuse { status, .. } => status.0,
        other => panic!("{head:?} gave {other:?}"),
    }
}

const EPOCH: SystemTime = SystemTime::UNIX_EPOCH;

/// When requests come.
fn now() -> SystemTime {
    EPOCH + Duration::from_secs(1_500_000_000)
}

fn content(size: u64) -> Content {
    Content {
        size,
        media_type: "text/plain".into(),
        validators: Validators {
            tag: EntityTag("v1".into()),
            modified: EPOCH + Duration::new(1_000_000_000, 500_000_000),
        },
    }
}

fn respond(fields: &str, size: u64) -> Response {
    let request = request(&format!("GET /f HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    plan(&request, &content(size), now(), "BOUNDARY")
}

#[test]
fn a_request_is_understood() {
    let request = request("GET /a%20b/c.txt?q=1 HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n");
    assert_eq!(request.method, Method::Get);
    assert_eq!(request.target.relative(), b"a b/c.txt");
    assert!(request.keep_alive);
    assert_eq!(request.fields.range.as_deref(), Some("bytes=0-1"));
}

#[test]
fn bad_requests_get_their_status() {
    for (head, status) in [
        ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: h\n\n", 400),
        ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400),
        ("GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n", 400),
        ("GET http:///a HTTP/1.1\r\nHost: b\r\n\r\n", 400),
        ("GET /#a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET http://h?q#a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /%2 HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /a%2fb HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /../x HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /a/%2e%2e/%2E./x HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET relative HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n",
            405,
        ),
        ("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        ("BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n",
            413,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775808\r\n\r\n",
            413,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\n",
            400,
        ),
        ("GET / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n", 417),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400),
    ] {
        assert_eq!(refused(head), status, "{head:?}");
    }
}

#[test]
fn hosts_are_names_or_addresses() {
    for (host, is_one) in [
        ("", true),
        ("a.b-c_d~", true),
        ("10.0.0.1:80", true),
        ("[fd09::2]:80", true),
        ("a%2Db:", true),
        ("a b", false),
        ("a,b", false),
        ("a@b", false),
        ("a/b", false),
        ("a?b", false),
        ("a:b", false),
        ("a:1:2", false),
        ("a:65536", false),
        (":80", false),
        ("a%2", false),
        ("[fd09::2", false),
        ("[fd09::2]80", false),
        ("[a]", false),
        ("a]", false),
        ("\u{e9}", false),
    ] {
        assert_eq!(is_authority(host.as_bytes()), is_one, "{host:?}");
    }
}

#[test]
fn long_lines_and_heads_are_refused_while_they_come() {
    let (mut connection, now) = connection();
    connection.handle_input(now, format!("GET /{}", "a".repeat(9000)).as_bytes());
    let Some(Action::Refuse { status, close, .. }) = connection.poll_action(now) else {
        panic!("no refusal")
    };
    assert_eq!((status, close), (Status::URI_TOO_LONG, true));

    let many: String = (0..150).map(|n| format!("F{n}: v\r\n")).collect();
    assert_eq!(
        refused(&format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n")),
        431
    );

    let (mut connection, now) = super::tests::connection();
    connection.handle_input(now, b"GET / HTTP/1.1\r\nHost: h\r\nX: ");
    while connection.room() > 0 {
        let room = connection.room().min(1000);
        connection.handle_input(now, &vec![b'x'; room]);
    }
    assert!(matches!(
        connection.poll_action(now),
        Some(Action::Refuse {
            status: Status::FIELDS_TOO_LARGE,
            close: true,
            ..
        })
    ));
}

#[test]
fn pipelined_requests_wait_for_the_response_before() {
    let (mut connection, now) = connection();
    connection.handle_input(
        now,
        b"GET /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyzGET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /3",
    );
    let Some(Action::Serve(first)) = connection.poll_action(now) else {
        panic!()
    };
    assert_eq!(first.target.display(), "/1");
    assert_eq!(connection.poll_action(now), None);
    connection.responded(now, first.keep_alive);
    let Some(Action::Serve(second)) = connection.poll_action(now) else {
        panic!()
    };
    assert_eq!(second.target.display(), "/2");
    assert!(!second.keep_alive);
    connection.responded(now, false);
    assert_eq!(connection.poll_action(now), None);
    assert!(connection.is_closed());
}

#[test]
fn old_clients_have_no_expectations() {
    assert!(!request("GET / HTTP/1.0\r\nExpect: tea\r\n\r\n").keep_alive);
}

#[test]
fn a_request_line_may_have_8000_octets() {
    let path = "a".repeat(8000 - "GET / HTTP/1.1".len());
    let request = request(&format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_eq!(request.target.relative().len(), path.len());
}

#[test]
fn old_clients_ask_for_persistence() {
    assert!(!request("GET / HTTP/1.0\r\n\r\n").keep_alive);
    assert!(request("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
}

#[test]
fn silence_ends_a_connection_and_a_slow_head_is_told() {
    let (mut connection, now) = connection();
    let idle = connection.poll_timeout().unwrap();
    assert_eq!(connection.poll_action(idle), Some(Action::Close));

    let (mut connection, _) = super::tests::connection();
    connection.handle_input(now, b"GET / HT");
    let late = connection.poll_timeout().unwrap();
    assert!(late <= now + Limits::default().head_time);
    assert!(matches!(
        connection.poll_action(late),
        Some(Action::Refuse {
            status: Status::REQUEST_TIMEOUT,
            ..
        })
    ));
}

#[test]
fn empty_lines_renew_no_deadline_and_end_a_connection_when_there_are_many() {
    let (mut connection, mut now) = connection();
    let begun = now;
    let end = begun + Limits::default().head_time;
    for _ in 0..10 {
        connection.handle_input(now, b"\r\n");
        assert_eq!(connection.poll_action(now), None);
        assert_eq!(connection.poll_timeout(), Some(end));
        now += Duration::from_secs(1);
    }
    connection.handle_input(now, b"GET / HT");
    assert_eq!(connection.poll_action(now), None);
    assert_eq!(connection.poll_timeout(), Some(end));

    let (mut connection, now) = super::tests::connection();
    for _ in 0..32 {
        connection.handle_input(now, b"\r\n");
        assert_eq!(connection.poll_action(now), None);
    }
    connection.handle_input(now, b"\r\n");
    assert!(matches!(
        connection.poll_action(now),
        Some(Action::Refuse {
            status: Status::BAD_REQUEST,
            close: true,
            ..
        })
    ));
}

#[test]
fn a_half_closed_peer_still_gets_its_answer() {
    let (mut connection, now) = connection();
    connection.handle_input(now, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    connection.handle_end();
    assert!(matches!(
        connection.poll_action(now),
        Some(Action::Serve(_))
    ));
    connection.responded(now, true);
    assert_eq!(connection.poll_action(now), Some(Action::Close));
}

#[test]
fn absolute_targets_and_dot_segments_resolve() {
    for (text, path) in [
        ("https://host:443/a/b", "/a/b"),
        ("HTTP://host", "/"),
        ("http://host?a/b", "/"),
        ("/a/./b/../c", "/a/c"),
        ("/a/b/..", "/a/"),
        ("//a///b", "/a/b"),
        ("/%E2%82%AC", "/€"),
    ] {
        assert_eq!(Target::parse(text).unwrap().display(), path);
    }
}

#[test]
fn ranges_are_resolved() {
    for (field, expected) in [
        ("bytes=0-9", Some((0, 10))),
        ("bytes=90-", Some((90, 10))),
        ("bytes=-5", Some((95, 5))),
        ("bytes=-500", Some((0, 100))),
        ("bytes=50-99999999999999999999999", Some((50, 50))),
    ] {
        let response = respond(&format!("Range: {field}\r\n"), 100);
        assert_eq!(response.status, Status::PARTIAL_CONTENT);
        let (start, len) = expected.unwrap();
        assert_eq!(response.content[0], Piece::File(ByteRange { start, len }));
        assert!(response.head.contains(&format!(
            "Content-Range: bytes {start}-{}/100\r\n",
            start + len - 1
        )));
    }
    for field in ["bytes=100-", "bytes=-0", "bytes=100-200,300-"] {
        let response = respond(&format!("Range: {field}\r\n"), 100);
        assert_eq!(response.status, Status::RANGE_NOT_SATISFIABLE, "{field}");
        assert!(response.head.contains("Content-Range: bytes */100\r\n"));
    }
    for field in [
        "lines=1-2",
        "bytes=9-1",
        "bytes=a-b",
        "bytes=",
        "bytes=0-60,20-99",
        "bytes=--1",
    ] {
        assert_eq!(
            respond(&format!("Range: {field}\r\n"), 100).status,
            Status::OK,
            "{field}"
        );
    }
}

#[test]
fn several_ranges_make_a_multipart_whose_length_is_right() {
    let response = respond("Range: bytes=0-9, 20-29\r\n", 100);
    let head = &response.head;
    assert!(head.contains("Content-Type: multipart/byteranges; boundary=BOUNDARY\r\n"));
    let length: u64 = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .unwrap()
        .parse()
        .unwrap();
    let sent: u64 = response
        .content
        .iter()
        .map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File(range) => range.len,
        })
        .sum();
    assert_eq!(length, sent);
}

#[test]
fn preconditions_are_evaluated_in_order() {
    let date = "Sun, 09 Sep 2001 01:46:40 GMT";
    let before = "Sun, 09 Sep 2001 01:46:39 GMT";
    for (fields, status) in [
        ("If-None-Match: \"v1\"\r\n".to_owned(), 304),
        ("If-None-Match: W/\"v1\"\r\n".to_owned(), 304),
        ("If-None-Match: \"a,b\", \"v1\"\r\n".to_owned(), 304),
        ("If-None-Match: \"v0\"\r\n".to_owned(), 200),
        ("If-None-Match: *\r\n".to_owned(), 304),
        (
            format!("If-None-Match: \"v0\"\r\nIf-Modified-Since: {date}\r\n"),
            200,
        ),
        (format!("If-Modified-Since: {date}\r\n"), 304),
        (format!("If-Modified-Since: {before}\r\n"), 200),
        ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
        ("If-Match: \"v0\"\r\n".to_owned(), 412),
        ("If-Match: W/\"v1\"\r\n".to_owned(), 412),
        ("If-Match: \"v1\"\r\n".to_owned(), 200),
        (format!("If-Unmodified-Since: {before}\r\n"), 412),
        ("Range: bytes=0-0\r\nIf-Range: \"v1\"\r\n".to_owned(), 206),
        ("Range: bytes=0-0\r\nIf-Range: \"v0\"\r\n".to_owned(), 200),
        (format!("Range: bytes=0-0\r\nIf-Range: {date}\r\n"), 206),
        (format!("Range: bytes=0-0\r\nIf-Range: {before}\r\n"), 200),
    ] {
        assert_eq!(respond(&fields, 100).status.0, status, "{fields}");
    }
}

#[test]
fn a_file_of_a_later_date_has_changed_when_it_is_asked_for() {
    let date = httpdate::fmt_http_date(now());
    // The last is behind the year 9999, which no date of HTTP has.
    for later in [1, 300_000_000_000] {
        let mut content = content(100);
        content.validators.modified = now() + Duration::from_secs(later);
        for (fields, status) in [
            (String::new(), 200),
            ("Range: bytes=0-0\r\n".to_owned(), 206),
            ("Range: bytes=0-0,9-9\r\n".to_owned(), 206),
            ("If-None-Match: \"v1\"\r\n".to_owned(), 304),
            (format!("If-Unmodified-Since: {date}\r\n"), 200),
        ] {
            let request = request(&format!("GET /f HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
            let response = plan(&request, &content, now(), "BOUNDARY");
            assert_eq!(response.status.0, status, "{fields}");
            let told = format!("Last-Modified: {date}\r\n");
            assert!(response.head.contains(&told), "{}", response.head);
        }
    }
}

#[test]
fn head_has_the_length_and_no_content() {
    let request = request("HEAD /f HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n");
    let response = plan(&request, &content(100), now(), "B");
    assert_eq!(response.status, Status::OK);
    assert_eq!(response.content.len(), 0);
    assert!(response.head.contains("Content-Length: 100\r\n"));
}

#[test]
fn a_line_break_in_a_value_starts_no_field() {
    let mut head = super::response::Head::new(Status::OK, EPOCH, true);
    head.field("Location", "/a\r\nSet-Cookie: x");
    let text = head.finish();
    assert!(!text.contains("\r\nSet-Cookie"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Nothing that arrives makes the server's side panic, take more than its limit, or stall with
    /// a whole head in hand.
    #[test]
    fn any_input_is_survived(chunks in prop::collection::vec(
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            Just(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"Range: bytes=0-\r\n".to_vec()),
        ], 0..20)) {
        let (mut connection, now) = connection();
        for chunk in chunks {
            let len = chunk.len().min(connection.room());
            connection.handle_input(now, &chunk[..len]);
            while let Some(action) = connection.poll_action(now) {
                let keep_alive = match action {
                    Action::Serve(request) => {
                        let path = request.target.relative();
                        prop_assert!(path.split(|&b| b == b'/').all(|s| s != b".."));
                        request.keep_alive
                    }
                    Action::Refuse { close, .. } => !close,
                    Action::Close => break,
                };
                connection.responded(now, keep_alive);
            }
        }
        prop_assert!(connection.poll_timeout().is_some() || connection.is_closed());
    }

    /// A target never climbs out, whatever it is made of.
    #[test]
    fn no_target_climbs_out(text in "(/(\\.|\\.\\.|%2e|%2E%2e|a|%2f|%5c|\\\\|)){1,8}") {
        if let Ok(target) = Target::parse(&text) {
            let path = target.relative();
            prop_assert!(path.split(|&b| b == b'/').all(|s| s != b".." && s != b"."));
            prop_assert!(!path.starts_with(b"/"));
        }
    }

    /// Every satisfiable part lies in the file.
    #[test]
    fn parts_lie_in_the_file(size in 0u64..1000, spec in "bytes=([0-9]{0,4}-[0-9]{0,4},? ?){1,5}") {
        if let super::range::Ranges::Parts(parts) = super::range::resolve(Some(&spec), size) {
            for part in parts {
                prop_assert!(part.len > 0 && part.start + part.len <= size);
            }
        }
    }
}
