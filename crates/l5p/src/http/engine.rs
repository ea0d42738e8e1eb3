//! The NIC's part: decodes one response as it comes, as long as nothing of it is missing.

use std::fmt;

use super::coding::Decoder;
use super::response::{Download, Progress};
use super::{NIC_WINDOW, code};
use crate::{Direction, Note, ResultRing, Results, StreamEngine, Windows};

#[cfg(test)]
mod tests;

/// Most bytes of a response's head: each packet of it is parsed from its beginning.
const MOST_HEAD: usize = 16 << 10;

/// Bytes that each byte of a response may become, and bytes that it may become beside: two blocks of zstd. So the work for a tenant's packets is
/// bounded by their length.
const MOST_GROWTH: u64 = 32;
const ALLOWANCE: u64 = 256 << 10;

/// Decodes the content of one response, as a stream.
pub type Engine = Windows<Decode>;

/// Decodes the content of one response, in pieces of any size. The stream passes as it is. A transmitting engine decodes nothing.
///
/// What it makes is bounded by the response's length, and of one packet at most [`MAX_RESULTS`](crate::MAX_RESULTS). Where that would be more,
/// where bytes are missing, and where anything is not as it has to be, the engine has lost the response: it does no more, and the rest is
/// software's, as what is wrong.
pub struct Decode {
    ring: ResultRing,
    response: Option<Box<Response>>,
    /// The response was decoded to its end.
    is_done: bool,
    /// Number of the window that is to begin next, if nothing is missing.
    next: u64,
    /// The window at hand has not ended.
    is_in_window: bool,
    /// The bytes given since there was no note to take that belong to the response, and how many bytes of it came before.
    run: Option<Run>,
    /// Notes taken on that.
    taken: u8,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    from: u32,
    to: u32,
    before: u64,
}

/// A response of which nothing was missing.
struct Response {
    download: Download,
    decoder: Option<Decoder>,
    /// Bytes of it.
    bytes: u64,
    /// Bytes of decoded content.
    made: u64,
    results: Results,
}

/// The engine can't go on.
struct Lost;

impl Engine {
    /// An engine at the first byte of a response.
    pub fn new(ring: ResultRing, direction: Direction) -> Engine {
        let receives = direction == Direction::Receive;
        let response = receives.then(|| {
            Box::new(Response {
                download: Download::with_most_head(MOST_HEAD),
                decoder: None,
                bytes: 0,
                made: 0,
                results: Results::default(),
            })
        });
        Windows::around(Decode {
            ring,
            response,
            is_done: false,
            next: 0,
            is_in_window: false,
            run: None,
            taken: 0,
        })
    }
}

impl Decode {
    /// Whether there is more to decode, as far as is known.
    pub(super) fn is_decoding(&self) -> bool {
        self.response.is_some()
    }

    fn lose(&mut self) {
        (self.response, self.is_done) = (None, false);
        self.run = None;
    }
}

impl Response {
    /// Takes the next bytes; gives how many of them belong to the response.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.download.is_done() {
            let (used, progress) = self.download.advance(rest).map_err(|_| Lost)?;
            let (now, later) = rest.split_at(used);
            match progress {
                Progress::Head(head) => {
                    let coding = head.coding().ok_or(Lost)?;
                    self.decoder = Some(Decoder::new(coding, NIC_WINDOW).ok_or(Lost)?);
                }
                Progress::Content => self.decode(now)?,
                Progress::Framing | Progress::Done => {}
            }
            self.bytes += used as u64;
            rest = later;
        }
        Ok(bytes.len() - rest.len())
    }

    fn decode(&mut self, mut content: &[u8]) -> Result<(), Lost> {
        let most = ALLOWANCE + MOST_GROWTH * (self.bytes + content.len() as u64);
        let decoder = self.decoder.as_mut().ok_or(Lost)?;
        loop {
            let room = self.results.room();
            let len = (room.len() as u64).min(most.saturating_sub(self.made)) as usize;
            if len == 0 {
                return Err(Lost);
            }
            let room = &mut room[..len];
            let (used, made) = decoder.decode(content, room).map_err(|_| Lost)?;
            let is_done = used == content.len() && made < room.len();
            content = &content[used..];
            self.results.add(made);
            self.made += made as u64;
            if is_done {
                return Ok(());
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.decoder.as_ref().is_some_and(Decoder::is_whole)
    }
}

impl StreamEngine for Decode {
    const HAS_RESULTS: bool = true;
    /// What it checks, it says in notes.
    const HAS_CHECKS: bool = false;

    fn begin_window(&mut self, index: u64) {
        if index != self.next || self.is_in_window {
            self.lose();
        }
        (self.next, self.is_in_window) = (index.wrapping_add(1), true);
    }

    fn end_window(&mut self) {
        self.is_in_window = false;
    }

    fn miss(&mut self) {
        self.lose();
    }

    fn is_looking(&self) -> bool {
        self.is_decoding()
    }

    fn take(&mut self, at: u32, bytes: &[u8]) {
        let Some(response) = &mut self.response else {
            return;
        };
        let before = response.bytes;
        let Ok(used) = response.take(bytes) else {
            return self.lose();
        };
        let run = self.run.get_or_insert(Run {
            from: at,
            to: at,
            before,
        });
        if used > 0 {
            run.to = at + used as u32;
        }
    }

    #[inline]
    fn take_note(&mut self) -> Option<Note> {
        if let (Some(run), Some(response)) = (&self.run, &self.response)
            && run.from < run.to
        {
            let end = match response.is_whole() {
                true => code::WHOLE,
                false => code::END,
            };
            let (at, code, value) = match self.taken {
                0 => (run.from, code::BEGIN, run.before),
                _ => (run.to, end, response.made),
            };
            self.taken += 1;
            if self.taken <= 2 {
                return Some(Note { at, code, value });
            }
        }
        (self.run, self.taken) = (None, 0);
        self.response.take_if(|response| {
            self.is_done = response.download.is_done();
            self.is_done
        });
        None
    }

    fn exchange_results(&mut self, results: &mut Results) -> bool {
        let Some(response) = &mut self.response else {
            return self.is_done;
        };
        std::mem::swap(&mut response.results, results);
        response.results.begin(response.made, self.ring);
        true
    }

    fn lose_results(&mut self) {
        self.lose();
    }

    /// An engine that has something to say has missed nothing.
    fn may_join(last: &Note, next: &Note) -> bool {
        last.code != code::BEGIN && next.code == code::BEGIN && last.at == next.at
    }
}

impl fmt::Debug for Decode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decode")
            .field("ring", &self.ring)
            .field("is_decoding", &self.is_decoding())
            .field("is_done", &self.is_done)
            .finish_non_exhaustive()
    }
}
