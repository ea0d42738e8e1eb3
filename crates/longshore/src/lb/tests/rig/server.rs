//! Servers that behave well, and others.

use std::time::Instant;

use host::Stack;

use super::Peer;
use crate::http::{Head, find_head};
use crate::lb::http::{Body, Framing, MAX_FIELDS, PieceKind, Request};
use crate::lb::proxy_protocol::{self, Endpoints, Parsed};

/// How a server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As it is asked to.
    Serves,
    /// It resets the connection when a request comes.
    Dies,
    /// And when a part of the response has gone.
    DiesMidway,
    /// It says nothing.
    Silent,
    /// Nor does it take more than a thousand bytes a second.
    Reluctant,
    /// It says nothing more after so many bytes of a response.
    Stalls(usize),
    /// It answers before it has read what a request has behind its head.
    Hasty,
    /// No HTTP: what comes goes back.
    Echoes,
    /// Connections begin with a PROXY header; the response says whose it is.
    Introduced,
    /// It tells clients to continue, twice, before it answers.
    Continues,
    /// It serves, but answers health checks with 404.
    FailsChecks,
    /// It agrees to another protocol: then what comes goes back.
    Upgrades,
}

/// A server's end of a connection.
pub(super) struct Server {
    pub(super) peer: Peer,
    pub(super) port: u16,
    manner: Manner,
    introduction: Option<Endpoints>,
    has_continued: bool,
}

impl Server {
    /// An end of which nothing has come.
    pub(super) fn new(mut peer: Peer, port: u16, manner: Manner) -> Self {
        peer.pace = (manner == Manner::Reluctant).then_some(1000);
        Server {
            peer,
            port,
            manner,
            introduction: None,
            has_continued: false,
        }
    }

    /// Answers what has come.
    pub(super) fn serve(&mut self, now: Instant, stack: &mut Stack) {
        let peer = &mut self.peer;
        if peer.is_broken {
            return;
        }
        let dies = match self.manner {
            Manner::Dies => !peer.input.is_empty(),
            Manner::DiesMidway => peer.sent > 600_000,
            _ => false,
        };
        if dies {
            let _ = stack.abort(now, peer.id);
            peer.is_broken = true;
            return;
        }
        match self.manner {
            Manner::Silent | Manner::Reluctant | Manner::Dies => {}
            Manner::Stalls(len) => {
                if take_head(&mut peer.input).is_some() {
                    peer.out.extend_from_slice(b"HTTP/1.1 200 OK\r\n\r\n");
                    peer.out.append(&mut content(len));
                }
            }
            Manner::Hasty => {
                if take_head(&mut peer.input).is_some() {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhasty";
                    peer.out.extend_from_slice(answer);
                }
            }
            Manner::Echoes => {
                peer.out.append(&mut peer.input);
                peer.ends |= peer.at_end;
            }
            Manner::Introduced => self.tell_introduction(),
            Manner::Continues => {
                let head = find_head(&peer.input, &mut 0, 1 << 20);
                if !self.has_continued && matches!(head, Head::Complete { .. }) {
                    self.has_continued = true;
                    let continues = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(2);
                    peer.out.extend_from_slice(&continues);
                    peer.out
                        .extend_from_slice(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
                }
                respond(&mut peer.input, &mut peer.out, &mut peer.ends, self.port);
            }
            Manner::Upgrades => self.upgrade(),
            Manner::FailsChecks if is_check(&peer.input) => {
                peer.input.clear();
                let head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
                peer.out.extend_from_slice(head);
            }
            Manner::Serves | Manner::DiesMidway | Manner::FailsChecks => {
                while !peer.ends
                    && respond(&mut peer.input, &mut peer.out, &mut peer.ends, self.port)
                {
                }
                peer.ends |= peer.at_end;
            }
        }
    }

    /// Agrees to another protocol.
    fn upgrade(&mut self) {
        let Some(head) = take_head(&mut self.peer.input) else {
            return;
        };
        let answer: &[u8] = match head.starts_with(b"CONNECT") {
            true => b"HTTP/1.1 200 OK\r\n\r\n",
            false => b"HTTP/1.1 101 Yes\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n",
        };
        self.peer.out.extend_from_slice(answer);
        self.manner = Manner::Echoes;
    }

    /// Answers a request with what the PROXY header before it says.
    fn tell_introduction(&mut self) {
        let peer = &mut self.peer;
        if self.introduction.is_none()
            && let Parsed::Complete { len, endpoints } = proxy_protocol::parse(&peer.input)
        {
            peer.input.drain(..len);
            self.introduction = endpoints;
        }
        if let Some(endpoints) = self.introduction
            && take_head(&mut peer.input).is_some()
        {
            let content = format!("{} {}", endpoints.source, endpoints.destination);
            let len = content.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
            peer.out.extend_from_slice(head.as_bytes());
            peer.out.extend_from_slice(content.as_bytes());
        }
    }
}

/// Takes the head of a request, if all of it is there.
fn take_head(input: &mut Vec<u8>) -> Option<Vec<u8>> {
    match find_head(input, &mut 0, 1 << 20) {
        Head::Complete { end, .. } => Some(input.drain(..end).collect()),
        _ => None,
    }
}

fn is_check(input: &[u8]) -> bool {
    let agent = b"User-Agent: longshore-health\r\n";
    input.windows(agent.len()).any(|part| part == agent)
}

/// The bytes of a content of this length.
pub fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + (at % 23) as u8).collect()
}

/// Answers the first request of the input, if it is whole: `/n/LEN`, `/chunked/LEN`, `/close/LEN`, and `/echo`.
fn respond(input: &mut Vec<u8>, out: &mut Vec<u8>, ends: &mut bool, port: u16) -> bool {
    let Head::Complete { start, end } = find_head(input, &mut 0, 1 << 20) else {
        return false;
    };
    let (path, framing, closes, is_head) = {
        let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let request = Request::parse(&input[start..end], &mut storage).unwrap();
        assert!(
            request
                .field("connection")
                .is_none_or(|value| value == b"close")
        );
        let is_head = request.method == "HEAD";
        (
            request.target.clone().into_owned(),
            request.framing,
            !request.keep_alive,
            is_head,
        )
    };
    let Some((len, brought)) = read_content(framing, &input[end..]) else {
        return false;
    };
    input.drain(..end + len);
    let mut words = path.split('/').skip(1);
    let kind = words.next().unwrap_or_default();
    let content = match words.next() {
        Some(len) => content(len.parse().unwrap()),
        None => brought,
    };
    let head = format!("HTTP/1.1 200 OK\r\nX-Port: {port}\r\n");
    out.extend_from_slice(head.as_bytes());
    match kind {
        "chunked" => {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for part in content.chunks(333) {
                out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                out.extend_from_slice(part);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"0\r\n\r\n");
        }
        "close" => {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(&content);
            *ends = true;
        }
        _ => {
            out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", content.len()).as_bytes());
            if !is_head {
                out.extend_from_slice(&content);
            }
        }
    }
    *ends |= closes;
    true
}

/// The content at the front of the input, and how many bytes it takes there, if it is whole.
pub(super) fn read_content(framing: Framing, input: &[u8]) -> Option<(usize, Vec<u8>)> {
    let mut body = Body::new(framing);
    let (mut at, mut content) = (0, Vec::new());
    while at < input.len() && !body.is_done() {
        let piece = body.take_piece(&input[at..]).unwrap();
        if piece.len == 0 {
            break;
        }
        if piece.kind == PieceKind::Content {
            content.extend_from_slice(&input[at..at + piece.len]);
        }
        at += piece.len;
    }
    (body.is_done() || body.ends_with_connection()).then_some((at, content))
}
