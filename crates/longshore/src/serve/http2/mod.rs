//! A client that speaks HTTP/2: many responses at a time.
//!
//! ```text
//!   socket ──▶ Arrivals ──▶ Pipe ──▶ Framing (h2) ──▶ respond ──▶ Stream
//!          ◀── front ◀───── Pipe ◀── Framing (h2) ◀── how long ◀────┤
//!                └──────────────────────────────────── content ◀────┘
//! ```
//!
//! `h2` keeps windows and frames, and decides whose turn it is. The content goes past it, as HTTP/1.1's does: a frame's head and what it frames are
//! one record of TLS.

mod arrivals;
mod connection;
mod flood;
mod frames;
mod patience;
mod pipe;
mod requests;
mod stream;
#[cfg(test)]
mod tests;
mod wakes;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use h2::Reason;
use host::{SocketError, Stack};

use self::arrivals::Arrivals;
use self::connection::Framing;
use self::pipe::{Data, End};
use self::stream::{Feed, Stream};
use self::wakes::Wakes;
use super::client::Client;
use super::session::{Fate, READ_BYTES, Shared, TURN_BYTES};
use crate::access_log::AccessLog;
use crate::http::Limits;
use crate::log::LIMITED;

/// Bytes of frames that are written without more behind them.
const RECORD: usize = 16 * 1024;
/// Its requests, and the responses that are under way.
#[derive(Debug)]
pub(super) struct Http2 {
    limits: Limits,
    framing: Framing,
    /// The client is to be told to send no more requests.
    drains: bool,
    end: End,
    arrivals: Arrivals,
    wakes: Arc<Wakes>,
    /// By their ids.
    streams: BTreeMap<u32, Stream>,
    /// Those of them that are gone, and the write of `h2` behind which no frame of theirs comes.
    gone: VecDeque<(u32, u64)>,
    /// What goes to the socket next.
    front: Vec<u8>,
    /// And the content behind it.
    data: Option<Data>,
    /// Times that this was driven.
    drives: u64,
    /// When content was under way to the client last, or nothing was asked for.
    moved: Instant,
    /// Content was queued that is not noted.
    has_queued: bool,
    /// Bytes of the connection up to the end of the content that was queued last.
    content_end: u64,
    /// Scratch for streams that were woken.
    woken: Vec<u32>,
}

impl Http2 {
    pub(super) fn new(now: Instant) -> Http2 {
        let (limits, end) = (Limits::default(), End::default());
        Http2 {
            framing: Framing::new(end.clone(), &limits),
            limits,
            drains: false,
            end,
            arrivals: Arrivals::new(now),
            wakes: Arc::default(),
            streams: BTreeMap::new(),
            gone: VecDeque::new(),
            front: Vec::new(),
            data: None,
            drives: 0,
            moved: now,
            has_queued: false,
            content_end: 0,
            woken: Vec::new(),
        }
    }

    /// Does what can be done now, within one turn; `None` when all is said.
    pub(super) fn drive(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
    ) -> Option<Fate> {
        self.drives += 1;
        let fate = self.take_turn(now, client, shared);
        if self.has_queued {
            self.note_content(client, shared);
            self.has_queued = !self.front.is_empty();
        }
        fate
    }

    fn take_turn(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
    ) -> Option<Fate> {
        let mut turn = TURN_BYTES;
        loop {
            match self.send(now, client, shared, &mut turn) {
                Ok(true) => {}
                Ok(false) if turn == 0 => return Some(Fate::Ready),
                Ok(false) => return Some(Fate::Waits),
                Err(_) => return Some(Fate::Over),
            }
            if self.framing.is_closed() {
                shared.counters.http2_resets += self.streams.len() as u64;
                return None;
            }
            self.forget(now, client, shared);
            let received = match self.receive(now, client, shared) {
                Ok(received) => received,
                Err(fate) => return Some(fate),
            };
            turn = turn.saturating_sub(received.unwrap_or(0) as u64);
            self.drains = self.drains && !self.framing.drain();
            self.poll(now, client, shared, &mut turn);
            self.feed();
            let pipe = &mut *self.end.pipe();
            let goes_on = (turn == 0)
                | received.is_some()
                | self.wakes.take_connection()
                | pipe.has_made_room()
                | pipe.has_output()
                | !self.gone.is_empty()
                | self.framing.is_closed();
            if !goes_on {
                if self.streams.is_empty() {
                    self.front = Vec::new();
                    pipe.trim();
                }
                return Some(Fate::Waits);
            }
        }
    }

    /// Has requests under way come to their end, and no others be sent; waits for the end of a client that has none no longer than `idle_time`.
    pub(super) fn drain(&mut self, idle_time: Duration) {
        self.drains = true;
        self.limits.idle_time = idle_time;
    }

    /// Ends the connection, with a word.
    pub(super) fn leave(&mut self) {
        self.framing.end(Reason::NO_ERROR);
    }

    /// Whether responses are under way.
    pub(super) fn has_more(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Reads once; how many bytes came, if any did.
    fn receive(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
    ) -> Result<Option<usize>, Fate> {
        let room = READ_BYTES.saturating_sub(self.end.pipe().input_len());
        let received = client.read(now, shared, room)?;
        match received {
            None => {}
            Some(0) => self.end.pipe().handle_end(),
            Some(len) if self.arrivals.look(now, &shared.scratch[..len]) => {
                shared.counters.http2_floods += 1;
                self.framing.end(Reason::ENHANCE_YOUR_CALM);
            }
            Some(len) => self.end.pipe().handle_input(&shared.scratch[..len]),
        }
        Ok(received)
    }

    /// Has streams go on that were woken.
    fn feed(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        self.wakes.swap_streams(&mut woken);
        for id in woken.drain(..) {
            let stream = self.streams.get_mut(&id);
            if stream.map(Stream::feed) == Some(Feed::Gone) {
                self.gone.push_back((id, self.end.pipe().last_write()));
            }
        }
        self.woken = woken;
    }

    /// Forgets streams that are gone, when all that is framed is queued: a frame that `h2` keeps has its content from them, whether the client
    /// has reset the stream, and ignores that, or the connection ends, and it doesn't.
    fn forget(&mut self, now: Instant, client: &Client, shared: &mut Shared<'_>) {
        let writes = self.end.pipe().writes();
        while let Some(&(id, last)) = self.gone.front()
            && last <= writes
        {
            self.gone.pop_front();
            if let Some(stream) = self.streams.remove(&id) {
                shared.counters.http2_resets += 1;
                if !self.has_more() {
                    self.moved = now;
                }
                let log = (&*shared.stack, shared.access_log.as_deref_mut());
                stream.log(now, client, log, true);
            }
        }
    }

    /// Queues what the socket takes; whether all that is framed is queued.
    fn send(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
        turn: &mut u64,
    ) -> Result<bool, SocketError> {
        while *turn > 0 {
            let is_queued = match self.data.take() {
                Some(data) => self.queue(now, client, shared, turn, data)?,
                None if self.front.len() >= RECORD => self.write(now, client, shared, turn)?,
                None => {
                    self.data = self.end.pipe().next_data(&mut self.front);
                    if self.data.is_none() && self.front.is_empty() {
                        return Ok(true);
                    }
                    self.data.is_some() || self.write(now, client, shared, turn)?
                }
            };
            if !is_queued {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Writes what is in front; whether the socket has taken all of it. If not, it tells when it takes more.
    fn write(
        &mut self,
        now: Instant,
        client: &Client,
        shared: &mut Shared<'_>,
        turn: &mut u64,
    ) -> Result<bool, SocketError> {
        while !self.front.is_empty() {
            match shared.stack.write(now, client.id, &self.front) {
                Ok(written) => {
                    *turn = turn.saturating_sub(written as u64);
                    self.front.drain(..written);
                }
                Err(SocketError::WouldBlock) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Queues content behind what is in front, or adds it to that; whether that is done.
    fn queue(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
        turn: &mut u64,
        mut data: Data,
    ) -> Result<bool, SocketError> {
        let Some(stream) = self.streams.get_mut(&data.stream) else {
            // Better no connection than content that is made up.
            tracing::warn!(target: LIMITED, stream = data.stream, "content of an unknown stream was framed");
            let _ = shared.stack.abort(now, client.id);
            return Err(SocketError::NotFound);
        };
        if stream.checked != self.drives {
            stream.outgoing.check_source(now, client.id, shared)?;
            stream.checked = self.drives;
        }
        let wanted = data.len;
        let (front, left) = (&mut self.front, &mut data.len);
        let outgoing = &mut stream.outgoing;
        let is_queued = outgoing.queue_behind(now, client.id, shared, front, left)?;
        let queued = wanted - data.len;
        if queued > 0 {
            self.moved = now;
            self.has_queued = true;
        }
        *turn = turn.saturating_sub(queued);
        if !is_queued {
            self.data = Some(data);
            return Ok(false);
        }
        if wanted >= flood::WORTH || data.ends_stream {
            self.arrivals.worked();
        }
        if data.ends_stream {
            self.responded(now, client, shared, data.stream);
        }
        Ok(true)
    }

    /// A response is queued whole.
    fn responded(
        &mut self,
        now: Instant,
        client: &mut Client,
        shared: &mut Shared<'_>,
        stream: u32,
    ) {
        client.was_served = true;
        if let Some(stream) = self.streams.remove(&stream) {
            let log = (&*shared.stack, shared.access_log.as_deref_mut());
            stream.log(now, client, log, false);
        }
    }

    /// The session is over: logs the responses that were under way.
    pub(super) fn log_unfinished(
        &self,
        now: Instant,
        client: &Client,
        (stack, mut log): (&Stack, Option<&mut AccessLog>),
    ) {
        for stream in self.streams.values() {
            stream.log(now, client, (stack, log.as_deref_mut()), true);
        }
    }
}
