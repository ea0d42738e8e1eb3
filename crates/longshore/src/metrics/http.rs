//! A small HTTP/1.1 server for one resource.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Requests that are answered at a time; what comes beyond is closed.
const MOST_CLIENTS: usize = 8;
/// How long a request, and the reading of its answer, may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a request's head, at most.
const MOST_HEAD: usize = 8192;

type Metrics = dyn Fn() -> Result<String, fmt::Error> + Send + Sync;

/// Answers `GET /metrics`.
pub struct Server {
    metrics: Arc<Metrics>,
    clients: Arc<()>,
}

impl Server {
    /// One that gives what `metrics` makes at each request.
    pub fn new(metrics: impl Fn() -> Result<String, fmt::Error> + Send + Sync + 'static) -> Server {
        Server {
            metrics: Arc::new(metrics),
            clients: Arc::new(()),
        }
    }

    /// Takes the connections that wait; each is answered on a thread of its own.
    pub fn accept(&self, listener: &TcpListener) {
        while let Ok((stream, _)) = listener.accept() {
            let client = Arc::clone(&self.clients);
            if Arc::strong_count(&client) > MOST_CLIENTS + 1 {
                continue;
            }
            let metrics = Arc::clone(&self.metrics);
            let answering = move || {
                if let Err(error) = answer(stream, &*metrics) {
                    tracing::debug!("a scraper: {error}");
                }
                drop(client);
            };
            if let Err(error) = thread::Builder::new().spawn(answering) {
                tracing::warn!("no thread to answer a scraper: {error}");
            }
        }
    }
}

/// Answers one request, and closes.
fn answer(mut stream: TcpStream, metrics: &Metrics) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let head = read_head(&mut stream)?;
    let response = match Target::of(&head) {
        Target::Metrics => match metrics() {
            Ok(text) => response("200 OK", OPENMETRICS, &text),
            Err(fmt::Error) => response(
                "500 Internal Server Error",
                PLAIN,
                "the metrics can't be written\n",
            ),
        },
        Target::Front => response("200 OK", PLAIN, "longshore's metrics are at /metrics\n"),
        Target::Unknown => response("404 Not Found", PLAIN, "there is only /metrics\n"),
        Target::Refused => {
            let allow = "only GET and HEAD are answered\n";
            response("405 Method Not Allowed\r\nAllow: GET, HEAD", PLAIN, allow)
        }
        Target::Malformed => response("400 Bad Request", PLAIN, "this is not an HTTP request\n"),
    };
    let shown = match head.starts_with(b"HEAD ") {
        true => response
            .find("\r\n\r\n")
            .map_or(response.len(), |end| end + 4),
        false => response.len(),
    };
    write_all(&mut stream, &response.as_bytes()[..shown])
}

/// Writes all, to one that reads it in time.
fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left_until(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

fn response(status: &str, content_type: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Reads up to the empty line behind the head.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        let len = stream.read(&mut chunk)?;
        head.extend_from_slice(&chunk[..len]);
        let is_whole = head.windows(4).any(|end| end == b"\r\n\r\n");
        if is_whole || len == 0 || head.len() > MOST_HEAD {
            return Ok(head);
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Metrics,
    Front,
    Unknown,
    Refused,
    Malformed,
}

impl Target {
    /// Of a request's head (RFC 9112 §3).
    pub(super) fn of(head: &[u8]) -> Target {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        if !matches!(request.parse(head), Ok(httparse::Status::Complete(_))) {
            return Target::Malformed;
        }
        let path = request.path.unwrap_or_default();
        match (request.method, path.split('?').next()) {
            (Some("GET" | "HEAD"), Some("/metrics")) => Target::Metrics,
            (Some("GET" | "HEAD"), Some("/")) => Target::Front,
            (Some("GET" | "HEAD"), _) => Target::Unknown,
            _ => Target::Refused,
        }
    }
}
