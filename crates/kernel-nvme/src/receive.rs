//! Taking PDUs out of a socket: what the NIC has placed is dropped from it, the rest is copied to where it belongs.

use std::os::fd::AsFd;

use attachment::pdus::{Pdus, Span};
use l5p::nvme::initiator::Incoming;
use l5p::pdus::{DataDigest, Event, Next};
use rustix::io::Errno;
use wire::SeqNum;
use wire::nvme::{FatalError, Pdu};

use crate::link::{Link, LinkEnv, Offload};
use crate::nic::Nic;
use crate::socket::{self, Part};
use crate::target::{Place, Target};

/// Bytes after which another connection gets its turn.
const TURN: usize = 2 << 20;

/// Why nothing more is taken.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The peer has broken the protocol.
    Refused(FatalError),
    /// The connection has ended.
    Lost(String),
}

impl From<FatalError> for Stopped {
    fn from(error: FatalError) -> Stopped {
        Stopped::Refused(error)
    }
}

impl Link {
    /// Takes in what has come. Whether that was anything.
    pub(crate) fn receive(&mut self, env: &mut LinkEnv<'_>) -> Result<bool, Stopped> {
        let mut taken = 0;
        while self.is_open && self.readable && taken < TURN {
            if !self.take_staged(env)? {
                break;
            }
            self.ask_again(env);
            match self.read(env) {
                Ok((0, _)) => return Err(Stopped::Lost("the controller has closed it".to_owned())),
                Ok((len, event)) => {
                    taken += len;
                    if let Some(event) = event {
                        self.act(event, env)?;
                    }
                }
                Err(Errno::AGAIN) => self.readable = false,
                Err(error) => return Err(Stopped::Lost(error.to_string())),
            }
        }
        self.answer_questions(env.nic.as_deref(), env.counters);
        Ok(taken > 0)
    }

    /// Takes what was read. False while the reader waits for what was agreed on.
    fn take_staged(&mut self, env: &mut LinkEnv<'_>) -> Result<bool, Stopped> {
        while self.staged_from < self.staged_to {
            let bytes = &self.staged[self.staged_from..self.staged_to];
            let position = self.reader.position().0;
            let (len, event) = match self.reader.next() {
                Next::Waiting => return Ok(false),
                Next::Frame => {
                    let span = self.span(env.nic.as_deref(), position, bytes.len() as u32);
                    let bytes = &bytes[..span.len as usize];
                    self.reader.take(bytes, span.checked)?
                }
                Next::Data(range) => {
                    let most = bytes.len().min((range.end - range.start) as usize);
                    let span = self.span(env.nic.as_deref(), position, most as u32);
                    self.take_data(span, env)
                }
            };
            self.staged_from += len;
            if let Some(event) = event {
                self.act(event, env)?;
            }
        }
        // Nothing may be read before: it may be for another framing.
        Ok(self.reader.next() != Next::Waiting)
    }

    /// Takes data that was read into the staging memory.
    fn take_data(&mut self, span: Span, env: &mut LinkEnv<'_>) -> (usize, Option<Event<Pdu>>) {
        let from = self.staged_from;
        let bytes = &self.staged[from..from + span.len as usize];
        let event = match &mut self.target {
            Target::Discard => self.reader.discard(bytes),
            Target::Inline(inline) => {
                let start = inline.len();
                inline.resize(start + bytes.len(), 0);
                self.reader.copy(bytes, &mut inline[start..], span.checked)
            }
            Target::Memory(place) => {
                let to = env.memory.bytes_mut(place.next(span.len));
                let event = self.reader.copy(bytes, to, span.checked);
                note_copied(place, span, self.offload.as_ref(), env);
                place.filled += span.len;
                event
            }
        };
        (span.len as usize, event)
    }

    /// Reads from the socket: data to where it belongs, the rest into the staging memory; or drops what the NIC has placed. Gives
    /// how many bytes came, and the end of the PDU if that is one.
    fn read(&mut self, env: &mut LinkEnv<'_>) -> Result<(usize, Option<Event<Pdu>>), Errno> {
        let (Next::Data(range), Target::Memory(place)) = (self.reader.next(), &self.target) else {
            let len = self.stage(Part::of(&[]), self.staging())?;
            return Ok((len, None));
        };
        let place = *place;
        let left = range.end - range.start;
        let position = self.reader.position().0;
        let span = self.span(env.nic.as_deref(), position, left);
        if is_placed(&place, span, self.offload.as_ref(), env) {
            let len = socket::drop_received(self.socket.as_fd(), span.len as usize)?;
            let event = self.pass(position, len as u32, env, note_dropped);
            return Ok((len, event));
        }
        let behind = match span.len == left {
            true => self.staging_behind(),
            false => 0,
        };
        let room = env.memory.raw(place.next(span.len));
        let len = self.stage(room, behind)?;
        let data = len.min(span.len as usize) as u32;
        let event = self.pass(position, data, env, note_copied);
        Ok((len, event))
    }

    /// Reads into `room`, and what comes behind it into the staging memory.
    fn stage(&mut self, room: Part, behind: usize) -> Result<usize, Errno> {
        let staging = Part::of_mut(&mut self.staged[..behind]);
        #[allow(unsafe_code)]
        // SAFETY: `room` is empty, or of a command's memory, to which there is no reference now; the staging memory is ours.
        let len = unsafe { socket::receive(self.socket.as_fd(), [room, staging]) }?;
        (self.staged_from, self.staged_to) = (0, len.saturating_sub(room.len));
        Ok(len)
    }

    /// `len` bytes of data are where they belong. What was done of them is looked at now that they were read: the NIC has told it before.
    fn pass(
        &mut self,
        position: SeqNum,
        len: u32,
        env: &mut LinkEnv<'_>,
        note: impl Fn(&Place, Span, Option<&Offload>, &mut LinkEnv<'_>),
    ) -> Option<Event<Pdu>> {
        let (mut at, mut event) = (0, None);
        while at < len {
            let span = self.span(env.nic.as_deref(), position + at, len - at);
            at += span.len;
            if let Target::Memory(place) = &mut self.target {
                note(place, span, self.offload.as_ref(), env);
                place.filled += span.len;
            }
            event = self.reader.pass(span.len, span.checked);
        }
        event
    }

    /// What the NIC did of the next bytes.
    fn span(&self, nic: Option<&Nic>, position: SeqNum, len: u32) -> Span {
        match self.pdus(nic) {
            Some(pdus) => pdus.span(position, len),
            None => Span {
                len,
                placed: None,
                checked: false,
                doubtful: false,
            },
        }
    }

    fn pdus<'n>(&self, nic: Option<&'n Nic>) -> Option<Pdus<'n>> {
        Some(nic?.pdus(self.offload.as_ref()?.slot))
    }

    fn act(&mut self, event: Event<Pdu>, env: &mut LinkEnv<'_>) -> Result<(), Stopped> {
        let (now, queue) = (env.now, self.queue);
        match event {
            Event::Header(pdu) => {
                self.note_header(env.nic.as_deref());
                let incoming = env.controller.handle_header(now, queue, &pdu)?;
                self.target = match incoming {
                    Incoming::Nothing | Incoming::Discard => Target::Discard,
                    Incoming::Inline => Target::Inline(Vec::new()),
                    Incoming::Data {
                        token, offset, len, ..
                    } => Target::Memory(Place {
                        command: token,
                        slice: env.commands.get(token).slice.part(offset, len),
                        filled: 0,
                    }),
                };
                if pdu.data_len() == 0 {
                    env.controller.handle_end(now, queue, true, &[]);
                }
            }
            Event::End(found) => {
                let is_good = self.judge(found, env);
                env.counters.digest_errors += u64::from(!is_good);
                match self.reader.digest_was_vouched() {
                    Some(true) => env.counters.rx_digests_device += 1,
                    Some(false) => env.counters.rx_digests_sw += 1,
                    None => {}
                }
                let inline: &[u8] = match &self.target {
                    Target::Inline(inline) => inline,
                    _ => &[],
                };
                env.controller.handle_end(now, queue, is_good, inline);
                self.target = Target::Discard;
            }
        }
        Ok(())
    }

    /// The header of a PDU has come.
    fn note_header(&mut self, nic: Option<&Nic>) {
        let header = self.reader.latest();
        let end = self.reader.position().0;
        let doubtful = self.pdus(nic).is_some_and(|pdus| {
            pdus.clear_before(header.start);
            let mut at = header.start;
            while at.before(end) {
                let span = pdus.span(at, at.distance_to(end));
                if span.doubtful {
                    return true;
                }
                at += span.len;
            }
            false
        });
        if let Some(offload) = &mut self.offload {
            offload.is_header_doubtful = doubtful;
            offload
                .resync
                .note_pdu(header.start, header.len, header.index);
        }
    }

    /// Whether the data of the PDU that has ended is what was sent. Digests what is to be digested where it lies now.
    fn judge(&mut self, mut found: DataDigest, env: &LinkEnv<'_>) -> bool {
        if let DataDigest::Unverified(from) = found {
            let data_len = self.reader.data_len();
            match &self.target {
                Target::Memory(place) => {
                    let rest = place.slice.part(from, data_len - from);
                    found = self.reader.verify(env.memory.bytes(rest));
                }
                Target::Inline(inline) => found = self.reader.verify(&inline[from as usize..]),
                Target::Discard => {}
            }
        }
        matches!(found, DataDigest::None | DataDigest::Good)
    }

    /// Tells the NIC whether a PDU begins where it thinks, once that is known.
    fn answer_questions(&mut self, nic: Option<&Nic>, counters: &mut crate::Counters) {
        let (Some(pdus), Some(offload)) = (self.pdus(nic), &mut self.offload) else {
            return;
        };
        let Some(question) = pdus.questions().pending() else {
            return;
        };
        if question.serial != offload.question {
            (offload.question, offload.asks) = (question.serial, true);
            offload.resync.request(question.tcpsn, None);
        }
        while offload.asks
            && let Some(answer) = offload.resync.poll_answer()
        {
            // What was asked before needs no answer any more.
            if answer.tcpsn == question.tcpsn {
                pdus.questions().answer(question.serial, answer.index);
                offload.asks = false;
                counters.resyncs += 1;
            }
        }
    }
}

/// Whether the NIC has put the next bytes where they belong.
fn is_placed(place: &Place, span: Span, offload: Option<&Offload>, env: &LinkEnv<'_>) -> bool {
    let (Some(offload), Some(generation)) = (offload, span.placed) else {
        return false;
    };
    let command = env.commands.get(place.command);
    !offload.is_header_doubtful && command.is_mapped_by(offload.slot, generation)
}

/// The next bytes were copied from the socket, and are right whatever the NIC has done.
fn note_copied(place: &Place, span: Span, offload: Option<&Offload>, env: &mut LinkEnv<'_>) {
    if is_placed(place, span, offload, env) {
        env.commands.get_mut(place.command).take(span.len);
    }
    env.counters.rx_bytes_copied += u64::from(span.len);
}

/// The next bytes were dropped from the socket, because the NIC had placed them.
fn note_dropped(place: &Place, span: Span, offload: Option<&Offload>, env: &mut LinkEnv<'_>) {
    let is_placed = is_placed(place, span, offload, env);
    let command = env.commands.get_mut(place.command);
    match is_placed {
        true => command.take(span.len),
        // Another copy has come meanwhile, and may be the one that was dropped.
        false => command.taint(),
    }
    env.counters.rx_bytes_placed += u64::from(span.len);
}
