//! Heads as they go on.

use super::*;

#[test]
fn what_was_for_us_is_taken_out_and_what_the_server_should_know_put_in() {
    let forwarding = Forwarding {
        via: Some("lb1".to_owned()),
        ..ALL
    };
    let request = "POST http://h.test/x HTTP/1.1\r\nHost: other\r\nConnection: close, X-Hop\r\nKeep-Alive: 5\r\n\
         X-Hop: 1\r\nTE: trailers\r\nProxy-Connection: x\r\nUpgrade: h2c\r\nX-Forwarded-For: 1.2.3.4\r\n\
         Forwarded: for=1.2.3.4\r\nX-Forwarded-Proto: https\r\nVia: 1.1 before\r\nContent-Length: 3\r\nA: b\r\n\r\n";
    assert_eq!(
        on(request, &forwarding),
        "POST /x HTTP/1.1\r\nHost: h.test\r\nVia: 1.1 before\r\nA: b\r\nContent-Length: 3\r\nVia: 1.1 lb1\r\n\
         X-Forwarded-For: 10.9.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h.test\r\n\r\n"
    );
}

#[test]
fn a_client_with_tls_is_told_of() {
    for (is_secure, scheme) in [(false, "http"), (true, "https")] {
        let request = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: x\r\n\r\n";
        let told = format!("X-Forwarded-Proto: {scheme}\r\n");
        let request = rewritten(request, &ALL, is_secure);
        assert_eq!(request.matches("X-Forwarded-Proto").count(), 1);
        assert!(request.contains(&told), "{request}");
    }
}

#[test]
fn a_trusted_proxy_is_believed_and_added_to() {
    let forwarding = Forwarding {
        trusted: true,
        ..ALL
    };
    let request = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\n\
         X-Forwarded-Proto: https\r\n\r\n";
    assert_eq!(
        on(request, &forwarding),
        "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: https\r\n\
         X-Forwarded-For: 1.2.3.4, 5.6.7.8, 10.9.0.1\r\nX-Forwarded-Host: h\r\n\r\n"
    );
}

#[test]
fn claims_of_all_names_go_on_from_proxies_that_are_trusted_alone() {
    let claims = "X_Forwarded_For: 1\r\nx-forwarded-Port: 2\r\nX-Forwarded-Prefix: /3\r\nX_Real-IP: 4\r\n\
         Forwarded: for=5\r\n";
    let request = format!("GET / HTTP/1.1\r\nHost: h\r\nX-Forward: 0\r\n{claims}\r\n");
    for (trusted, kept) in [(false, ""), (true, claims)] {
        let forwarding = Forwarding {
            address: false,
            proto: false,
            host: false,
            trusted,
            via: None,
        };
        let wanted = format!("GET / HTTP/1.1\r\nHost: h\r\nX-Forward: 0\r\n{kept}\r\n");
        assert_eq!(on(&request, &forwarding), wanted);
    }
}

#[test]
fn what_a_trusted_proxy_tells_us_alone_is_told_anew() {
    let forwarding = Forwarding {
        trusted: true,
        host: false,
        address: false,
        ..ALL
    };
    let request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Forwarded-Proto\r\nX-Forwarded-Proto: https\r\n\r\n";
    assert_eq!(
        on(request, &forwarding),
        "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: http\r\n\r\n"
    );
}

#[test]
fn nothing_is_told_that_is_not_asked_for() {
    let forwarding = Forwarding {
        address: false,
        proto: false,
        host: false,
        trusted: false,
        via: None,
    };
    assert_eq!(
        on("GET / HTTP/1.0\r\n\r\n", &forwarding),
        "GET / HTTP/1.1\r\nHost: 10.9.0.2\r\n\r\n"
    );
}

#[test]
fn an_upgrade_goes_on_and_comes_back() {
    let request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let forwarded = on(request, &ALL);
    assert!(
        forwarded.ends_with("Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
        "{forwarded}"
    );
    let empty = request.replace("Host: h", "Host: h\r\nContent-Length: 0");
    assert!(on(&empty, &ALL).contains("Upgrade: websocket\r\n"));
    assert_eq!(
        back(
            "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nA: b\r\n\r\n",
            UPGRADE,
            KEEP
        ),
        "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nA: b\r\nConnection: upgrade\r\n\r\n"
    );
}

#[test]
fn a_response_says_how_it_ends_to_this_client() {
    let older = ResponseRewrite {
        to_newer: false,
        ..KEEP
    };
    let last = ResponseRewrite {
        keep_alive: false,
        ..KEEP
    };
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\nKeep-Alive: x\r\n\r\n";
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
    let older_last = ResponseRewrite {
        keep_alive: false,
        ..older
    };
    for (response, how, wanted) in [
        (
            chunked,
            KEEP,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        (
            chunked,
            older_last,
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        ),
        (
            length,
            older,
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n",
        ),
        (
            length,
            last,
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
        ),
        (
            "HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n",
            KEEP,
            "HTTP/1.1 204 No\r\n\r\n",
        ),
        (
            "HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n",
            KEEP,
            "HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n",
        ),
        (
            "HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n",
            KEEP,
            "HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        (
            "HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n",
            older,
            "HTTP/1.1 304 No\r\nConnection: keep-alive\r\n\r\n",
        ),
        (
            "HTTP/1.1 100 Go\r\nConnection: x\r\n\r\n",
            KEEP,
            "HTTP/1.1 100 Go\r\n\r\n",
        ),
    ] {
        assert_eq!(back(response, GET, how), wanted);
    }
}

#[test]
fn a_response_without_a_date_gets_that_of_its_coming() {
    let dated = "Date: Fri, 27 Nov 2026 10:00:00 GMT\r\n";
    for (status, before, after) in [
        ("200", "", DATE),
        ("200", dated, dated),
        ("404", "", DATE),
        ("100", "", ""),
    ] {
        let text = format!("HTTP/1.1 {status} A\r\n{before}\r\n");
        let mut storage = storage();
        let head = RequestTraits { head: true, ..GET };
        let response = Response::parse(text.as_bytes(), &mut storage, head).unwrap();
        let mut out = Vec::new();
        rewrite_response(&mut out, &response, KEEP);
        let wanted = format!("HTTP/1.1 {status} A\r\n{after}\r\n");
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}

#[test]
fn a_request_of_http_1_0_goes_on_without_its_expectation() {
    let forwarding = Forwarding {
        address: false,
        proto: false,
        host: false,
        ..ALL
    };
    for (version, wanted) in [("1.0", ""), ("1.1", "Expect: 100-continue\r\n")] {
        let request = format!(
            "PUT / HTTP/{version}\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
        );
        let wanted = format!("PUT / HTTP/1.1\r\nHost: h\r\n{wanted}Content-Length: 1\r\n\r\n");
        assert_eq!(on(&request, &forwarding), wanted);
    }
}

#[test]
fn max_forwards_counts_proxies_for_options_and_trace_only() {
    for (method, sent) in [("OPTIONS", "2"), ("TRACE", "2"), ("GET", "3")] {
        let request = format!("{method} / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 3\r\n\r\n");
        let forwarded = on(&request, &ALL);
        assert!(
            forwarded.contains(&format!("Max-Forwards: {sent}\r\n")),
            "{forwarded}"
        );
    }
}

#[test]
fn the_last_proxy_answers_options_and_trace_without_secrets() {
    for (method, content) in [
        ("OPTIONS", ""),
        (
            "TRACE",
            "TRACE / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\nA: b\r\n\r\n",
        ),
    ] {
        let text = format!(
            "{method} / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\nA: b\r\nCookie: c\r\nAuthorization: d\r\n\r\n"
        );
        let mut storage = storage();
        let request = Request::parse(text.as_bytes(), &mut storage).unwrap();
        let mut out = Vec::new();
        answer(&mut out, &request, UNIX_EPOCH, true);
        let out = String::from_utf8(out).unwrap();
        let (head, rest) = out.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", content.len())));
        assert_eq!(rest, content);
    }
}

#[test]
fn refusals_are_whole_responses() {
    for (keep_alive, is_head) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut out = Vec::new();
        refusal(
            &mut out,
            Status::UNAVAILABLE,
            UNIX_EPOCH,
            keep_alive,
            is_head,
        );
        let mut storage = storage();
        let end = out.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let response = Response::parse(&out[..end], &mut storage, GET).unwrap();
        assert_eq!((response.status, response.keep_alive), (503, keep_alive));
        let content = out.len() - end;
        assert_eq!(response.framing, Framing::Length(24));
        assert_eq!(content, if is_head { 0 } else { 24 });
    }
}

proptest! {
    /// What is rewritten is understood by us again, with the same meaning, and rewriting it twice changes nothing more.
    #[test]
    fn a_rewritten_request_means_the_same(
        fields in prop::collection::vec(
            (
                "(connection|te|x-a|x-b|cookie|x-forwarded-for|forwarded|via|keep-alive)",
                "(close|keep-alive|x-a|x-a, x-b|[!-~]{0,8})",
            ),
            0..8,
        ),
        length in prop::option::of(0u64..1000),
        target in "/[!-\"$-~]{0,10}",
    ) {
        let mut head = format!("POST {target} HTTP/1.1\r\nHost: h.test\r\n");
        for (name, value) in &fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(length) = length {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        head.push_str("\r\n");
        let once = on(&head, &ALL);
        let (mut a, mut b) = (storage(), storage());
        let before = Request::parse(head.as_bytes(), &mut a).unwrap();
        let after = Request::parse(once.as_bytes(), &mut b).unwrap();
        prop_assert_eq!(before.framing, after.framing);
        prop_assert_eq!((before.method, &before.target, before.host), (after.method, &after.target, after.host));
        for hop in ["connection", "te", "keep-alive", "forwarded"] {
            prop_assert_eq!(after.field(hop), None, "{}", hop);
        }
        prop_assert_eq!(after.field("x-forwarded-for"), Some(b"10.9.0.1".as_slice()));
        prop_assert_eq!(on(&once, &ALL), once);
    }
}
