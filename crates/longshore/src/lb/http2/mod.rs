//! A client that speaks HTTP/2: each of its streams is the client of a session of its own.
//!
//! ```text
//!  socket ─▶ Arrivals ─▶ Pipe ─▶ Framing (h2) ─▶ Stream ─▶ HTTP/1.1 in a Conduit ─▶ Session ─▶ backend
//!         ◀── front ◀─── Pipe ◀─ Framing (h2) ◀─ Stream ◀─────────────────────────
//! ```
//!
//! So a stream is routed, queued, tried again, limited and logged as any other client's request is. The session of the connection has this.

mod conduit;
mod head;
mod held;
mod queue;
mod requests;
mod stream;
mod upload;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use h2::Reason;
use host::{CloseReason, SocketError};

use super::config::Frontend;
use super::keys::SessionKey;
use super::leg::{Filled, Leg};
use super::session::Shared;
use crate::http::Noted;
use crate::http2::{Arrivals, ContentProgress, End, Framing, KEPT, Wakes};
use crate::min_rate::Progress;

pub use conduit::Conduit;
use held::{Held, WINDOWS};
use stream::{Step, Stream};

/// Bytes that one connection sends and receives before others have their turn.
const TURN_BYTES: u64 = 1 << 20;
/// How often streams are looked at that may stand still.
const SWEEP: Duration = Duration::from_secs(1);

/// What driving it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing before the next event.
    Waits,
    /// Its turn is over.
    Ready,
    /// All is said.
    Over,
    /// The client can't be read from or written to.
    Broken,
}

/// A connection's streams.
#[derive(Debug)]
pub struct Http2 {
    framing: Framing,
    end: End,
    arrivals: Arrivals,
    wakes: Arc<Wakes>,
    /// By their ids.
    streams: BTreeMap<u32, Stream>,
    /// Those of them that are gone, and the write of `h2` behind which no frame of theirs comes.
    gone: VecDeque<(u32, u64)>,
    /// What goes to the socket next.
    front: Vec<u8>,
    /// When content went to the client last, or a stream began or ended.
    moved: Instant,
    content: ContentProgress,
    /// Streams that wait for a session.
    opened: Vec<Conduit>,
    /// Requests that were refused and are to be logged.
    refused: Vec<(Noted, u16)>,
    /// What waits in memory.
    held: Held,
    /// Streams that were woken, and are yet to go on with their responses.
    woken: Vec<u32>,
    /// When streams were looked at that may stand still.
    swept: Instant,
    /// The client is to be told to send no more requests.
    is_retiring: bool,
    /// How long it may ask for nothing, if less than others.
    most_idle: Option<Duration>,
}

impl Http2 {
    /// A client of this frontend that has agreed to HTTP/2.
    pub fn new(now: Instant, frontend: &Frontend) -> Box<Http2> {
        let end = End::default();
        Box::new(Http2 {
            framing: Framing::new(end.clone(), frontend.max_head, Some(WINDOWS)),
            end,
            arrivals: Arrivals::new(now),
            wakes: Arc::default(),
            streams: BTreeMap::new(),
            gone: VecDeque::new(),
            front: Vec::new(),
            moved: now,
            content: ContentProgress::default(),
            opened: Vec::new(),
            refused: Vec::new(),
            held: Held::default(),
            woken: Vec::new(),
            swept: now,
            is_retiring: false,
            most_idle: None,
        })
    }

    /// Does all that can be done now, within one turn. `key` is the session of the connection.
    pub fn drive(&mut self, key: SessionKey, client: &mut Leg, sh: &mut Shared<'_>) -> Turn {
        let mut turn = TURN_BYTES;
        self.sweep(sh);
        loop {
            let is_blocked = match self.send(client, sh, &mut turn) {
                Ok(is_sent) => !is_sent,
                Err(_) => return Turn::Broken,
            };
            self.held.block(is_blocked);
            if turn == 0 {
                return Turn::Ready;
            }
            match (self.framing.is_closed(), is_blocked) {
                (true, true) => return Turn::Waits,
                (true, false) => return Turn::Over,
                (false, true) => {}
                (false, false) => self.forget(sh),
            }
            // What the client sends is heard, whether it takes anything or not: it resets streams, and goes on with what it has begun.
            let Ok(received) = self.receive(client, sh) else {
                return Turn::Broken;
            };
            turn = turn.saturating_sub(received.unwrap_or(0) as u64);
            // The handshake may not be done.
            self.is_retiring = self.is_retiring && !self.framing.drain();
            self.poll(key, sh, &mut turn);
            self.drive_streams(sh, is_blocked);
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
                return Turn::Waits;
            }
        }
    }

    /// Streams that have begun since, and have no session.
    pub fn take_opened(&mut self) -> Vec<Conduit> {
        std::mem::take(&mut self.opened)
    }

    /// Requests that were refused here since, for the access log, and with which status: 0 for none.
    pub fn take_refused(&mut self) -> Vec<(Noted, u16)> {
        std::mem::take(&mut self.refused)
    }

    /// Takes no more requests, and ends when those under way are answered.
    pub fn stop(&mut self) {
        if !self.framing.drain() {
            self.end();
        }
    }

    /// Takes requests until the client has heard that it shall send no more here, and ends then; waits for one that asks for nothing no longer than
    /// `idle_time`.
    pub fn retire(&mut self, now: Instant, idle_time: Duration) {
        self.is_retiring = true;
        self.moved = now;
        self.most_idle = Some(idle_time);
    }

    /// Ends, with a word.
    pub fn end(&mut self) {
        self.framing.end(Reason::NO_ERROR);
    }

    /// The connection is over: so are the clients of the streams' sessions.
    pub fn leave(&mut self, sh: &mut Shared<'_>) {
        for stream in self.streams.values() {
            if !stream.is_done() && !stream.conduit.is_gone() {
                sh.counters.http2_resets += 1;
            }
            stream.conduit.leave();
            sh.touched.extend(stream.conduit.session());
        }
        self.streams.clear();
    }

    /// Streams whose responses are under way: none when all is said.
    fn has_streams(&self) -> bool {
        let mut streams = self.streams.values();
        !self.framing.is_closed() && streams.any(|stream| !stream.conduit.is_gone())
    }

    /// When to look whether the client [takes too long](Self::is_late), or is [idle](Self::is_idle).
    pub fn due(&self, now: Instant, frontend: &Frontend) -> Instant {
        let since = if self.has_streams() { now } else { self.moved };
        let begun = self.arrivals.due(frontend.request_head_time);
        let idle = since + self.idle_time(frontend);
        begun.map_or(idle, |begun| begun.min(idle))
    }

    /// Whether something that the client has begun has taken too long.
    pub fn is_late(&self, now: Instant, frontend: &Frontend) -> bool {
        self.arrivals.takes(now, frontend.request_head_time)
    }

    /// Whether it has asked for nothing for so long, or does not take the end of it.
    pub fn is_idle(&self, now: Instant, frontend: &Frontend) -> bool {
        !self.has_streams() && now.duration_since(self.moved) >= self.idle_time(frontend)
    }

    fn idle_time(&self, frontend: &Frontend) -> Duration {
        let most = self.most_idle.unwrap_or(Duration::MAX);
        frontend.idle_time.min(most)
    }

    /// Whether a backend's response went to the client whole.
    pub fn was_served(&self) -> bool {
        self.held.was_served()
    }

    /// Whether frames wait for the socket.
    pub fn is_stuck(&self) -> bool {
        !self.front.is_empty()
    }

    /// What the client has taken of content, by what it has taken of the connection.
    pub fn progress(&self, connection: Progress) -> Progress {
        let is_framed = !self.front.is_empty() || self.end.pipe().has_output();
        let mut streams = self.streams.values();
        let is_held = !is_framed && streams.any(Stream::is_held);
        self.content.of(connection, is_held)
    }

    /// Bytes of memory that content and frames have, of whatever length they are.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        let streams: usize = self.streams.values().map(Stream::memory).sum();
        self.front.capacity() + self.end.pipe().memory() + streams
    }

    /// Reads once; how many bytes came, if any did.
    fn receive(
        &mut self,
        client: &mut Leg,
        sh: &mut Shared<'_>,
    ) -> Result<Option<usize>, SocketError> {
        let waiting = self.end.pipe().input_len();
        if self.arrivals.room(sh.now, waiting) == 0 || client.at_end {
            return Ok(None);
        }
        match client.fill(sh.now, sh.stack)? {
            Filled::Nothing => return Ok(None),
            Filled::End => {
                self.end.pipe().handle_end();
                return Ok(Some(0));
            }
            Filled::Bytes => {}
        }
        let bytes = client.inbox.bytes();
        let len = bytes.len();
        if self.arrivals.look(sh.now, bytes) {
            sh.counters.http2_floods += 1;
            if self.is_stuck() {
                // There is no room for a word.
                return Err(SocketError::Closed(CloseReason::Aborted));
            }
            self.framing.end(Reason::ENHANCE_YOUR_CALM);
        } else {
            self.end.pipe().handle_input(bytes);
        }
        client.inbox.consume(len);
        Ok(Some(len))
    }

    /// Has streams go on that were woken; their responses only if no frames wait for the socket.
    fn drive_streams(&mut self, sh: &mut Shared<'_>, is_blocked: bool) {
        let mut woken = std::mem::take(&mut self.woken);
        self.wakes.take_streams(&mut woken);
        woken.sort_unstable();
        woken.dedup();
        for &id in &woken {
            let streams = self.streams.get_mut(&id);
            let Some(stream) = streams.filter(|stream| !stream.conduit.is_gone()) else {
                continue;
            };
            let step = stream.drive(sh.frontend.max_head, !is_blocked);
            if step != Step::Waits {
                sh.touched.extend(stream.conduit.session());
            }
            if step == Step::Gone {
                self.moved = sh.now;
                self.gone.push_back((id, self.end.pipe().last_write()));
            } else if stream.is_done() {
                self.finished(id, sh.now);
            }
        }
        if !is_blocked {
            woken.clear();
        }
        self.woken = woken;
        self.held.look_at_window(sh.now);
    }

    /// Resets streams whose windows their clients have not opened for `idle-time`.
    fn sweep(&mut self, sh: &mut Shared<'_>) {
        if sh.now.duration_since(self.swept) < SWEEP {
            return;
        }
        self.swept = sh.now;
        let is_blocked = self.is_stuck();
        for (&id, stream) in &mut self.streams {
            let is_there = !stream.conduit.is_gone();
            if is_there && stream.stands_still(sh.now, sh.frontend.idle_time, is_blocked) {
                sh.counters.client_timeouts += 1;
                sh.touched.extend(stream.conduit.session());
                stream.gone(Some(Reason::CANCEL));
                self.gone.push_back((id, self.end.pipe().last_write()));
            }
        }
    }

    fn finished(&mut self, id: u32, now: Instant) {
        self.moved = now;
        if let Some(stream) = self.streams.remove(&id) {
            stream.conduit.taken();
        }
    }

    /// Forgets streams that are gone, when all that is framed is queued: a frame that `h2` keeps has its content from them.
    fn forget(&mut self, sh: &mut Shared<'_>) {
        let writes = self.end.pipe().writes();
        while let Some(&(id, last)) = self.gone.front()
            && last <= writes
        {
            self.gone.pop_front();
            sh.counters.http2_resets += u64::from(self.streams.remove(&id).is_some());
        }
    }
}
