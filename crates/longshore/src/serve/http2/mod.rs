//! A client that speaks HTTP/2: many responses at a time.
//!
//! ```text
//!   socket ──▶ Arrivals ──▶ Pipe ──▶ Framing (h2) ──▶ respond ──▶ Stream
//!          ◀── front ◀───── Pipe ◀── Framing (h2) ◀── how long ◀────┤
//!                └──────────────────────────────────── content ◀────┘
//! ```
//!
//! `h2` keeps windows, and decides whose turn it is. The content goes past it, as HTTP/1.1's does, and is cut into frames where it is sent: a
//! frame's head and what it frames are one record of TLS.

mod queue;
mod requests;
mod stream;
#[cfg(test)]
mod tests;
mod timeouts;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use h2::Reason;
use host::Stack;

use self::stream::{Feed, Stream};
use super::client::Client;
use super::session::{Fate, Shared, TURN_BYTES};
use crate::access_log::AccessLog;
use crate::http::Limits;
use crate::http2::{Arrivals, ContentProgress, Data, End, Framing, KEPT, Wakes};

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
    /// Bytes of memory that their contents hold.
    held: usize,
    /// Those of them that are gone, and the write of `h2` behind which no frame of theirs comes.
    gone: VecDeque<(u32, u64)>,
    /// What goes to the socket next.
    front: Vec<u8>,
    /// And the content behind it.
    data: Option<Data>,
    /// Heads of frames of which it goes as several at a time; scratch.
    heads: Vec<u8>,
    /// Bytes of the content that the frame has whose head is last in front.
    frame: u64,
    /// Times that this was driven.
    drives: u64,
    /// When content was under way to the client last, or nothing was asked for.
    moved: Instant,
    content: ContentProgress,
    /// Scratch for streams that were woken.
    woken: Vec<u32>,
}

impl Http2 {
    pub(super) fn new(now: Instant) -> Http2 {
        let (limits, end) = (Limits::default(), End::default());
        Http2 {
            framing: Framing::new(end.clone(), limits.head, None),
            limits,
            drains: false,
            end,
            arrivals: Arrivals::new(now),
            wakes: Arc::default(),
            streams: BTreeMap::new(),
            held: 0,
            gone: VecDeque::new(),
            front: Vec::new(),
            data: None,
            heads: Vec::new(),
            frame: 0,
            drives: 0,
            moved: now,
            content: ContentProgress::default(),
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
        if self.content.is_unnoted(self.front.len())
            && let Some(progress) = client.progress(shared)
        {
            self.content.note(progress);
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
            let is_blocked = match self.send(now, client, shared, &mut turn) {
                Ok(is_sent) => !is_sent,
                Err(_) => return Some(Fate::Over),
            };
            if turn == 0 {
                return Some(Fate::Ready);
            }
            match (self.framing.is_closed(), is_blocked) {
                (true, true) => return Some(Fate::Waits),
                (true, false) => {
                    shared.counters.http2_resets += self.streams.len() as u64;
                    return None;
                }
                (false, true) => {}
                (false, false) => self.forget(now, client, shared),
            }
            // What the client sends is heard, whether it takes anything or not.
            let received = match self.receive(now, client, shared) {
                Ok(received) => received,
                Err(fate) => return Some(fate),
            };
            turn = turn.saturating_sub(received.unwrap_or(0) as u64);
            self.drains = self.drains && !self.framing.drain();
            self.poll(now, client, shared, &mut turn);
            self.feed();
            let pipe = &mut *self.end.pipe();
            let from = (&*self.wakes, &self.arrivals);
            let goes_on = (turn == 0)
                | received.is_some()
                | (!is_blocked && !self.gone.is_empty())
                | self.framing.goes_on(pipe, from, is_blocked);
            if !goes_on {
                if !is_blocked {
                    let kept = if self.streams.is_empty() { 0 } else { KEPT };
                    self.front.shrink_to(kept);
                    pipe.trim(kept);
                }
                return Some(Fate::Waits);
            }
        }
    }

    /// Has requests under way come to their end, and no others be sent; waits for the end of a client that has none no longer than `idle_time`.
    pub(super) fn drain(&mut self, now: Instant, idle_time: Duration) {
        self.drains = true;
        if !self.has_more() {
            self.moved = now;
        }
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
        let waiting = self.end.pipe().input_len();
        let room = self.arrivals.room(now, waiting);
        let received = client.read(now, shared, room)?;
        match received {
            None => {}
            Some(0) => self.end.pipe().handle_end(),
            Some(len) if self.arrivals.look(now, &shared.scratch[..len]) => {
                shared.counters.http2_floods += 1;
                if self.has_unsent() {
                    // There is no room for a word.
                    return Err(Fate::Abort);
                }
                self.framing.end(Reason::ENHANCE_YOUR_CALM);
            }
            Some(len) => self.end.pipe().handle_input(&shared.scratch[..len]),
        }
        Ok(received)
    }

    /// A stream is over.
    fn remove(&mut self, id: u32) -> Option<Stream> {
        let stream = self.streams.remove(&id)?;
        self.held -= stream.held;
        Some(stream)
    }

    /// Has streams go on that were woken.
    fn feed(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        self.wakes.take_streams(&mut woken);
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
            if let Some(stream) = self.remove(id) {
                shared.counters.http2_resets += 1;
                if !self.has_more() {
                    self.moved = now;
                }
                let log = (&*shared.stack, shared.access_log.as_deref_mut());
                stream.log(now, client, log, true);
            }
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
