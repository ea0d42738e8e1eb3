//! A client by `h2`, on the stack of node 1.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Error, RecvStream};
use host::{SocketError, SocketId};
use http::{HeaderMap, Request};

use crate::http2::End;
use crate::serve::tests::Rig;

type Opened = (SendRequest<Bytes>, Connection<End, Bytes>);
type Opening = Pin<Box<dyn Future<Output = Result<Opened, Error>>>>;

/// A request, and what has come of its response.
pub(super) struct Fetch {
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    pub(super) status: u16,
    pub(super) fields: HeaderMap,
    pub(super) content: Vec<u8>,
    pub(super) is_whole: bool,
    pub(super) error: Option<Error>,
}

/// A client with one connection.
pub(super) struct Browser {
    pub(super) id: SocketId,
    end: End,
    handshake: Option<Opening>,
    opened: Option<Opened>,
    /// What the socket has not taken.
    unsent: Vec<u8>,
    pub(super) fetches: Vec<Fetch>,
    /// The connection is over.
    pub(super) over: Option<Result<(), Error>>,
}

impl Browser {
    /// One whose handshake with the server is done, and whose windows are so large.
    pub(super) fn open(rig: &mut Rig, window: u32) -> Browser {
        let id = super::secured(rig);
        let end = End::of_client();
        let mut builder = Builder::new();
        builder
            .initial_window_size(window)
            .initial_connection_window_size(window.max(65_535))
            .enable_push(false);
        let handshake = Box::pin(builder.handshake(end.clone()));
        let mut browser = Browser {
            id,
            end,
            handshake: Some(handshake),
            opened: None,
            unsent: Vec::new(),
            fetches: Vec::new(),
            over: None,
        };
        browser.run(rig, 1);
        browser
    }

    /// Asks for something; gives the number of the fetch.
    pub(super) fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> usize {
        let uri = format!("https://h{path}");
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (send, _) = self.opened.as_mut().expect("the handshake is done");
        let sent = send.send_request(request.body(()).unwrap(), true);
        let (response, error) = match sent {
            Ok((response, _)) => (Some(response), None),
            Err(error) => (None, Some(error)),
        };
        self.fetches.push(Fetch {
            response,
            body: None,
            status: 0,
            fields: HeaderMap::new(),
            content: Vec::new(),
            is_whole: false,
            error,
        });
        self.fetches.len() - 1
    }

    /// Runs the world for so many milliseconds, with this client in it.
    pub(super) fn run(&mut self, rig: &mut Rig, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.poll(rig);
            rig.run_for(Duration::from_millis(1));
        }
        self.poll(rig);
    }

    /// Until all that was asked has come, or failed.
    pub(super) fn finish(&mut self, rig: &mut Rig) {
        let is_done = |it: &Fetch| it.is_whole || it.error.is_some();
        for _ in 0..120_000 {
            if self.fetches.iter().all(is_done) || self.over.is_some() {
                return;
            }
            self.run(rig, 1);
        }
        panic!("two minutes have not been enough");
    }

    /// Gives a fetch up.
    pub(super) fn give_up(&mut self, fetch: usize) {
        let fetch = &mut self.fetches[fetch];
        fetch.response = None;
        fetch.body = None;
    }

    fn poll(&mut self, rig: &mut Rig) {
        self.receive(rig);
        let mut context = Context::from_waker(Waker::noop());
        if let Some(handshake) = &mut self.handshake
            && let Poll::Ready(opened) = handshake.as_mut().poll(&mut context)
        {
            self.opened = Some(opened.unwrap());
            self.handshake = None;
        }
        for _ in 0..2 {
            if let Some((_, connection)) = &mut self.opened
                && self.over.is_none()
                && let Poll::Ready(over) = Pin::new(connection).poll(&mut context)
            {
                self.over = Some(over);
            }
            let fetches = self.fetches.iter_mut();
            fetches.for_each(|fetch| fetch.poll(&mut context));
        }
        self.send(rig);
    }

    fn receive(&mut self, rig: &mut Rig) {
        loop {
            match rig.read(self.id, 1 << 20) {
                Ok(bytes) if bytes.is_empty() => return self.end.pipe().handle_end(),
                Ok(bytes) => self.end.pipe().handle_input(&bytes),
                Err(SocketError::WouldBlock) => return,
                Err(_) => return self.end.pipe().handle_end(),
            }
        }
    }

    fn send(&mut self, rig: &mut Rig) {
        while self.end.pipe().has_output() {
            let data = self.end.pipe().next_data(&mut self.unsent);
            assert!(data.is_none(), "requests have no content");
        }
        let now = rig.world.now();
        let written = rig.world.stack(1).write(now, self.id, &self.unsent);
        self.unsent.drain(..written.unwrap_or(0));
    }
}

impl Fetch {
    fn poll(&mut self, context: &mut Context<'_>) {
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
        while let Some(body) = &mut self.body
            && let Poll::Ready(chunk) = body.poll_data(context)
        {
            match chunk {
                Some(Ok(chunk)) => {
                    body.flow_control().release_capacity(chunk.len()).unwrap();
                    self.content.extend_from_slice(&chunk);
                }
                Some(Err(error)) => {
                    self.error = Some(error);
                    self.body = None;
                }
                None => {
                    self.is_whole = true;
                    self.body = None;
                }
            }
        }
    }
}
