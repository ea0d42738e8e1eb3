use super::*;

fn download(bytes: &[u8], step: usize) -> Result<(Vec<u16>, Vec<u8>), ResponseError> {
    let mut download = Download::new();
    let (mut statuses, mut content) = (Vec::new(), Vec::new());
    'all: for chunk in bytes.chunks(step) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let (used, progress) = download.advance(rest)?;
            match progress {
                Progress::Head(head) => statuses.push(head.status),
                Progress::Content => content.extend_from_slice(&rest[..used]),
                Progress::Framing => {}
                Progress::Done => break 'all,
            }
            rest = &rest[used..];
        }
    }
    if !download.is_done() {
        download.handle_end()?;
    }
    Ok((statuses, content))
}

#[test]
fn responses_are_read_in_any_pieces() {
    let sized = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloXX";
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nT: v\r\n\r\n";
    let to_end = b"HTTP/1.0 200\r\n\r\nhello";
    for bytes in [&sized[..], &chunked[..], &to_end[..]] {
        for step in 1..bytes.len() {
            let (statuses, content) = download(bytes, step).unwrap();
            assert_eq!(
                (statuses.as_slice(), content.as_slice()),
                (&[200][..], &b"hello"[..])
            );
        }
    }
}

#[test]
fn lengths_that_agree_are_one() {
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(download(response, 9).unwrap().1, b"hi");
}

#[test]
fn broken_responses_are_told() {
    for (bytes, error) in [
        (
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"[..],
            ResponseError::Lengths {
                first: 5,
                second: 6,
            },
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
            ResponseError::Length("+5".into()),
        ),
        (
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"[..],
            ResponseError::CutShort,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            ResponseError::Chunk,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            ResponseError::Chunk,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            ResponseError::Coding("gzip".into()),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            ResponseError::Length("many".into()),
        ),
    ] {
        assert_eq!(download(bytes, 7).unwrap_err(), error);
    }
    assert!(matches!(
        download(b"\x16\x03\x01garbage\r\n", 100),
        Err(ResponseError::Head(_))
    ));
}

#[test]
fn many_interim_responses_and_blank_lines_are_passed_over_in_linear_time() {
    let mut bytes = b"\r\n".repeat(1 << 20);
    bytes.extend(b"HTTP/1.1 100 Continue\r\n\r\n".repeat(200_000));
    bytes.extend(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let (statuses, content) = download(&bytes, bytes.len()).unwrap();
    assert_eq!((&statuses[..], &content[..]), (&[200][..], &b"hello"[..]));
}

#[test]
fn a_head_is_refused_when_it_is_too_large_however_it_comes() {
    let mut head = b"HTTP/1.1 200 OK\r\nA: ".to_vec();
    head.resize(MOST_HEAD - 4, b'a');
    head.extend(b"\r\n\r\n");
    for step in [1, 1000, head.len()] {
        let (statuses, _) = download(&head, step).unwrap();
        assert_eq!(statuses, [200]);
    }
    head.insert(MOST_HEAD - 10, b'a');
    for step in [1, 1000, head.len()] {
        let error = download(&head, step).unwrap_err();
        assert_eq!(error, ResponseError::HeadTooLarge);
    }
}
