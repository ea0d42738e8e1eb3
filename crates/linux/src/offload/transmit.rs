//! What Linux sends for a fenced connection: cut where its kind changes, retained, and sent by a context.

use std::time::Duration;

use nic::ring::{MAX_SEND_SLICES, SendFlags};
use wire::SeqNum;
use wire::packet::Parsed;
use wire::tcp::Flags;

use super::blocks::MIN_KEPT;
use super::flow::{Health, Part};
use super::post::Segment;
use super::{DriverEnv, Offload};
use crate::outgoing::Outgoing;
use crate::sockets::SocketPhase;

/// How long Linux is not asked again about SYNs of one connection's addresses. Those that come meanwhile are dropped; TCP sends its own again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What is to be done with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is to be sent as it is.
    Plain,
    /// It has been dealt with.
    Done,
}

/// Why the rest of a segment is not sent. TCP sends it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Withheld {
    /// Something before it has not come.
    Gap,
    /// There is no memory to retain it, or no room in the ring.
    NoRoom,
    /// The keys are not there.
    NoKeys,
    /// It is not what the library had said that it would be.
    Mismatch,
}

impl Offload {
    /// Deals with a TCP segment that Linux has sent, if its connection is fenced. `is_for_nic`: its headers are such as the NIC knows.
    pub(crate) fn handle_sent(
        &mut self,
        frame: &Outgoing,
        parsed: &Parsed,
        is_for_nic: bool,
        env: &mut DriverEnv<'_>,
    ) -> Verdict {
        let (tcp, now) = (&parsed.tcp, env.now);
        let Some(index) = self.index_of(&parsed.flow) else {
            return self.handle_unfenced(parsed, env);
        };
        if tcp.flags.contains(Flags::SYN) {
            return self.handle_syn(index, parsed, env);
        }
        if tcp.flags.intersects(Flags::FIN.union(Flags::RST)) {
            self.check_soon(index, now);
        }
        let flow = self.flow(index);
        let is_ack = tcp.flags.contains(Flags::ACK);
        let is_likely = !is_ack || !flow.has_records() || flow.may_acknowledge(tcp.ack);
        if is_ack {
            flow.has_acked(tcp.ack);
        }
        if flow.health == Health::Reset {
            self.answer_linux(env.staging.bytes(frame.slice), parsed, env);
            return Verdict::Done;
        }
        let end = tcp.seq + parsed.payload_len;
        let occupied = end + u32::from(tcp.flags.contains(Flags::FIN));
        let is_orphan = matches!(flow.health, Health::Orphan { .. });
        if parsed.payload_len == 0 || (flow.epochs.is_empty() && !is_orphan) {
            if is_likely {
                flow.has_sent(occupied);
            }
            return Verdict::Plain;
        }
        if !is_for_nic || !is_likely {
            env.counters.tx_tls_fenced_dropped += 1;
            return Verdict::Done;
        }
        if is_orphan {
            self.drop_without_keys(frame, parsed, env);
            return Verdict::Done;
        }
        // No packet may overtake a command.
        if env.rings.is_blocked() {
            env.counters.tx_dropped += 1;
            return Verdict::Done;
        }
        if let Err(withheld) = self.send(index, &Segment::new(frame, parsed), env) {
            self.withhold(index, withheld, frame, parsed, env);
            return Verdict::Done;
        }
        self.mark_sent(index, occupied);
        Verdict::Done
    }

    /// A segment that does not leave.
    fn withhold(
        &mut self,
        index: u32,
        why: Withheld,
        frame: &Outgoing,
        parsed: &Parsed,
        env: &mut DriverEnv<'_>,
    ) {
        match why {
            Withheld::Gap => {
                env.counters.tx_tls_gap_dropped += 1;
                self.has_lost(index, env);
            }
            Withheld::NoRoom => env.counters.tx_tls_no_room += 1,
            Withheld::NoKeys => self.drop_without_keys(frame, parsed, env),
            Withheld::Mismatch => {
                env.counters.tx_tls_bad_records += 1;
                self.reset(index, env);
                let bytes = env.staging.bytes(frame.slice);
                self.answer_linux(bytes, parsed, env);
            }
        }
    }

    /// A segment whose library has not come back after a restart.
    fn drop_without_keys(&mut self, frame: &Outgoing, parsed: &Parsed, env: &mut DriverEnv<'_>) {
        env.counters.tx_tls_fenced_dropped += 1;
        self.report_unreachable(env.staging.bytes(frame.slice), parsed);
    }

    /// A segment of a connection that is not fenced, or not any more.
    fn handle_unfenced(&mut self, parsed: &Parsed, env: &mut DriverEnv<'_>) -> Verdict {
        if parsed.payload_len > 0 && self.gone.has(env.now, &parsed.flow) {
            // Its own handshake has come through here, and this is a part of it.
            let has_begun = self.tracker.has(parsed);
            if !has_begun || !self.gone.is_another(&parsed.flow, &mut *self.sockets) {
                env.counters.tx_tls_fenced_dropped += 1;
                return Verdict::Done;
            }
        }
        self.track_sent(parsed, env);
        Verdict::Plain
    }

    /// A SYN of a fenced connection's addresses. Anybody whose packets Linux forwards may have sent it, so Linux is asked, and not for each of many.
    fn handle_syn(&mut self, index: u32, parsed: &Parsed, env: &mut DriverEnv<'_>) -> Verdict {
        let flow = self.flow(index);
        let cookie = flow.cookie;
        if parsed.payload_len > 0 || env.now < flow.ask_at {
            env.counters.tx_tls_fenced_dropped += 1;
            return Verdict::Done;
        }
        flow.ask_at = env.now + ASK_AGAIN;
        let sockets = &mut *self.sockets;
        let found = self.tracker.ask(env.now, &parsed.flow, sockets);
        let has_gone = match found {
            Ok(None) => true,
            Ok(Some(socket)) => {
                socket.cookie != cookie || socket.phase != SocketPhase::Synchronized
            }
            // Too much was asked, perhaps by others: TCP sends its own SYN again.
            Err(_) => false,
        };
        let is_syn_ack = parsed.tcp.flags.contains(Flags::ACK);
        if !has_gone {
            // Of a SYN-ACK a copy may be on its way still.
            env.counters.tx_tls_forged_syn += u64::from(!is_syn_ack);
            return match is_syn_ack {
                true => Verdict::Plain,
                false => Verdict::Done,
            };
        }
        self.remove(index, env);
        // The same socket may begin another connection.
        let begins_again = matches!(found, Ok(Some(socket)) if socket.cookie == cookie);
        if begins_again {
            self.gone.insert(env.now, parsed.flow, None);
        }
        self.handle_unfenced(parsed, env)
    }

    /// Bytes that follow on nothing may be another connection's of the same addresses and ports.
    fn has_lost(&mut self, index: u32, env: &mut DriverEnv<'_>) {
        if self.flow(index).checks > 0 {
            self.check_soon(index, env.now);
        }
    }

    /// Sends a segment with payload, as much of it as may be sent.
    fn send(
        &mut self,
        index: u32,
        segment: &Segment<'_>,
        env: &mut DriverEnv<'_>,
    ) -> Result<(), Withheld> {
        let (start, end) = (segment.start(), segment.end());
        let mut at = start;
        let una = self.flow(index).una;
        if start.before(una) {
            env.counters.tx_tls_stale += 1;
            if end.at_or_before(una) {
                // The peer has all of it. Asked like this it says so again, which Linux must not have heard.
                let seq = if segment.has_fin() { end } else { start };
                return segment.post(seq..seq, &[], None, env);
            }
            at = una;
        }
        while at.before(end) {
            at = match self.flow(index).part(at, end) {
                Part::Acknowledged => return Err(Withheld::Gap),
                Part::Plain(to) => {
                    segment.post_plain(at..to, env)?;
                    self.mark_sent(index, to);
                    to
                }
                Part::Records(epoch, to) => {
                    let retained = self.retain(index, epoch, (at, to), segment, env)?;
                    if retained == at {
                        return Err(Withheld::NoRoom);
                    }
                    self.send_retained(index, epoch, (at, retained), segment, env)?;
                    if retained != to {
                        return Err(Withheld::NoRoom);
                    }
                    to
                }
            };
        }
        Ok(())
    }

    fn mark_sent(&mut self, index: u32, to: SeqNum) {
        let flow = self.flow(index);
        flow.sent = flow.sent.max(to);
    }

    /// Retains what is new of a part of a segment; gives up to where all of it is retained.
    fn retain(
        &mut self,
        index: u32,
        epoch: usize,
        (at, to): (SeqNum, SeqNum),
        segment: &Segment<'_>,
        env: &mut DriverEnv<'_>,
    ) -> Result<SeqNum, Withheld> {
        let flow = self.flows.get(index);
        let epoch = &mut flow.epochs[epoch];
        let ends = epoch.end;
        let records = epoch.records_mut().ok_or(Withheld::Mismatch)?;
        if records.context.is_none() {
            return Err(Withheld::NoKeys);
        }
        let stream = &mut records.stream;
        let known = stream.end();
        if at.after(known) {
            return Err(Withheld::Gap);
        }
        if at.before(known) {
            let again = segment.payload(at..to.min(known), env.staging);
            if !stream.is_equal(&self.arena, at, again) {
                env.counters.tx_tls_source_changed += 1;
            }
        }
        if to.after(known) {
            let new = segment.payload(known..to, env.staging);
            let whole = known == segment.start() && to == segment.end();
            let mut kept = false;
            if whole
                && new.len() as u32 >= MIN_KEPT
                && let Some(block) = self.receiving.block.take()
            {
                let taken = stream.take_block(&mut self.arena, block, segment.skip(), new);
                self.receiving.block = taken.map_err(|_| Withheld::Mismatch)?;
                kept = self.receiving.block.is_none();
            }
            if !kept {
                let appended = stream.append(&mut self.arena, new);
                appended.map_err(|_| Withheld::Mismatch)?;
            }
            // New keys begin with a record.
            if ends == Some(stream.end()) && !stream.is_at_boundary() {
                return Err(Withheld::Mismatch);
            }
        }
        self.receiving.is_short = stream.end().before(to);
        Ok(to.min(stream.end()))
    }

    /// Sends retained bytes through their context, and before them what brings it to where they begin.
    fn send_retained(
        &mut self,
        index: u32,
        epoch: usize,
        (at, to): (SeqNum, SeqNum),
        segment: &Segment<'_>,
        env: &mut DriverEnv<'_>,
    ) -> Result<(), Withheld> {
        let flow = self.flows.get(index);
        let records = flow.epochs[epoch].records_mut().ok_or(Withheld::Mismatch)?;
        let context = records.context.ok_or(Withheld::NoKeys)?;
        let mut from = at;
        while from.before(to) {
            let slices = &mut self.slices;
            let (stream, len) = (&records.stream, from.distance_to(to));
            let len = stream.gather(&self.arena, from, len, MAX_SEND_SLICES, slices);
            if len == 0 {
                return Err(Withheld::Gap);
            }
            if records.expected != Some(from) {
                env.counters.tx_tls_ooo += 1;
                let message = stream.message(from);
                let before = message.start.distance_to(from);
                let prefix = &mut self.prefix;
                if stream.gather(&self.arena, message.start, before, usize::MAX, prefix) != before {
                    return Err(Withheld::Gap);
                }
                super::post::recover(context, from, message, prefix, slices.len(), env)?;
                records.expected = Some(from);
            }
            segment.post(from..from + len, slices, Some(context), env)?;
            from += len;
            records.expected = Some(from);
            flow.sent = flow.sent.max(from);
        }
        Ok(())
    }
}

/// Checksums are the NIC's: parts have others than the segment.
pub(super) const FLAGS: SendFlags = SendFlags::CHECKSUM;
