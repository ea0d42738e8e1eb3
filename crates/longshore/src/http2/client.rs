//! A client of HTTP/2 by `h2`, for tests, which move its bytes.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Error, Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes between `h2` and a peer.
#[derive(Debug, Default)]
struct Between {
    came: VecDeque<u8>,
    is_over: bool,
    goes: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Wire(Arc<Mutex<Between>>);

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut between = self.0.lock().unwrap();
        if between.came.is_empty() && !between.is_over {
            return Poll::Pending;
        }
        let len = between.came.len().min(buffer.remaining());
        let bytes: Vec<u8> = between.came.drain(..len).collect();
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().goes.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A request, and what has come of its response.
#[derive(Default)]
pub struct Fetch {
    upload: Option<SendStream<Bytes>>,
    /// What of the request's content is yet to be sent.
    unsent: Bytes,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    pub status: u16,
    pub fields: HeaderMap,
    pub content: Vec<u8>,
    pub trailers: Option<HeaderMap>,
    pub is_whole: bool,
    pub error: Option<Error>,
}

/// A client with one connection.
pub struct Client {
    wire: Wire,
    send: SendRequest<Bytes>,
    connection: Connection<Wire, Bytes>,
    pub fetches: Vec<Fetch>,
    /// The connection is over.
    pub over: Option<Result<(), Error>>,
}

impl Client {
    /// One whose windows are so large.
    pub fn new(window: u32) -> Client {
        let wire = Wire::default();
        let mut builder = Builder::new();
        builder
            .initial_window_size(window)
            .initial_connection_window_size(window.max(65_535))
            .enable_push(false);
        let mut handshake = Box::pin(builder.handshake(wire.clone()));
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok((send, connection))) = handshake.as_mut().poll(&mut context) else {
            panic!("it waits for nothing");
        };
        Client {
            wire,
            send,
            connection,
            fetches: Vec::new(),
            over: None,
        }
    }

    /// Asks for something without content; the number of the fetch.
    pub fn get(&mut self, path: &str) -> usize {
        self.ask("GET", path, &[], Bytes::new())
    }

    /// Asks for something; the number of the fetch.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        content: Bytes,
    ) -> usize {
        let uri = format!("https://h{path}");
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let mut fetch = Fetch::default();
        match self.send.send_request(request, content.is_empty()) {
            Ok((response, upload)) => {
                fetch.response = Some(response);
                fetch.upload = (!content.is_empty()).then_some(upload);
                fetch.unsent = content;
            }
            Err(error) => fetch.error = Some(error),
        }
        self.fetches.push(fetch);
        self.fetches.len() - 1
    }

    /// Resets a stream.
    pub fn give_up(&mut self, fetch: usize) {
        let fetch = &mut self.fetches[fetch];
        if let Some(upload) = &mut fetch.upload {
            upload.send_reset(Reason::CANCEL);
        }
        (fetch.upload, fetch.response, fetch.body) = (None, None, None);
        fetch.unsent = Bytes::new();
    }

    /// Bytes of a request's content that are yet to be sent.
    pub fn unsent(&self, fetch: usize) -> usize {
        self.fetches[fetch].unsent.len()
    }

    /// Whether all that was asked for has come or failed.
    pub fn is_done(&self) -> bool {
        let mut fetches = self.fetches.iter();
        fetches.all(|it| it.is_whole || it.error.is_some()) || self.over.is_some()
    }

    /// Takes what has come, and whether nothing more comes; does all that can be done, and puts behind what is in `out` what is to be sent.
    pub fn poll(&mut self, came: &[u8], is_over: bool, out: &mut Vec<u8>) {
        let mut between = self.wire.0.lock().unwrap();
        between.came.extend(came);
        between.is_over |= is_over;
        drop(between);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            if self.over.is_none()
                && let Poll::Ready(over) = Pin::new(&mut self.connection).poll(&mut context)
            {
                self.over = Some(over);
            }
            let fetches = self.fetches.iter_mut();
            fetches.for_each(|fetch| fetch.poll(&mut context));
        }
        out.append(&mut self.wire.0.lock().unwrap().goes);
    }
}

impl Fetch {
    fn poll(&mut self, context: &mut Context<'_>) {
        self.send(context);
        if let Some(response) = &mut self.response
            && let Poll::Ready(response) = Pin::new(response).poll(context)
        {
            self.response = None;
            match response {
                Ok(response) => {
                    self.status = response.status().as_u16();
                    self.fields = response.headers().clone();
                    self.body = Some(response.into_body());
                }
                Err(error) => self.error = Some(error),
            }
        }
        while let Some(body) = &mut self.body {
            match body.poll_data(context) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(bytes))) => {
                    self.content.extend_from_slice(&bytes);
                    let _ = body.flow_control().release_capacity(bytes.len());
                }
                Poll::Ready(Some(Err(error))) => {
                    self.error = Some(error);
                    self.body = None;
                }
                Poll::Ready(None) => match body.poll_trailers(context) {
                    Poll::Pending => return,
                    Poll::Ready(trailers) => {
                        self.trailers = trailers.ok().flatten();
                        self.is_whole = true;
                        self.body = None;
                    }
                },
            }
        }
    }

    fn send(&mut self, context: &mut Context<'_>) {
        while let Some(upload) = &mut self.upload
            && !self.unsent.is_empty()
        {
            if upload.capacity() == 0 {
                upload.reserve_capacity(self.unsent.len());
                match upload.poll_capacity(context) {
                    Poll::Ready(Some(Ok(_))) => continue,
                    _ => return,
                }
            }
            let len = upload.capacity().min(self.unsent.len());
            let bytes = self.unsent.split_to(len);
            let _ = upload.send_data(bytes, self.unsent.is_empty());
        }
    }
}
