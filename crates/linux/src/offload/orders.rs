//! What libraries ask for.

mod receiving;

use std::collections::VecDeque;

use attachment::{
    Answer, CryptoInfo, Direction, Errno, OffloadState, Resume, SlotRef, SlotRequest, SocketFacts,
};
use l5p::Layers;
use nic::ring::ContextId;
use wire::{FlowKey, SeqNum};

use super::flow::{Epoch, Flow, Health, Kind, Receives, Records, fingerprint};
use super::stream::Stream;
use super::{DriverEnv, FIRST_CHECK, Offload};
use crate::contexts::{Owner, Quota};
use crate::state::{MAX_EPOCHS, New, RecordBoundary};
use crate::tracking::Located;

impl Offload {
    /// Does what a library asks for, and answers it.
    pub(crate) fn handle_slot_request(
        &mut self,
        order: &SlotRequest,
        env: &mut DriverEnv<'_>,
    ) -> Answer {
        let answered = match order {
            SlotRequest::SetKeys {
                slot,
                direction,
                info,
                resume,
                socket,
            } => match direction {
                Direction::Transmit => self.set_keys(slot, info, *resume, socket, env),
                Direction::Receive => self.set_receive_keys(slot, info, *resume, socket, env),
            },
            SlotRequest::Stop {
                slot,
                direction,
                socket,
            } => match direction {
                Direction::Transmit => self.stop(slot, socket),
                Direction::Receive => self.stop_receiving(slot, socket, env),
            },
            SlotRequest::Release {
                slot,
                cookie,
                tenant,
            } => self.release(slot, (*cookie, *tenant), env),
            // Nothing of records.
            SlotRequest::Pdus { .. } | SlotRequest::Settle { .. } => Err(Errno::NODEV),
        };
        answered.map_or_else(Answer::refused, Answer::at)
    }

    /// The connection that keys are given for, made known if it was not, and where its socket is in this direction.
    fn flow_for_keys(
        &mut self,
        slot: &SlotRef,
        direction: Direction,
        resume: Option<Resume>,
        socket: &SocketFacts,
        env: &mut DriverEnv<'_>,
    ) -> Result<(u32, Located), Errno> {
        let mut facts = self.locate(env.now, socket)?;
        if let Some(read) = resume.and_then(|resume| resume.read) {
            facts.read = read;
        }
        if direction == Direction::Receive && facts.peer_has_ended {
            self.end_receiving(&facts);
            return Err(Errno::NOTCONN);
        }
        let index = self.registered(slot, &facts, resume.is_some(), env)?;
        if self.flow(index).health == Health::Reset {
            return Err(Errno::CONNRESET);
        }
        Ok((index, facts))
    }

    fn set_keys(
        &mut self,
        slot: &SlotRef,
        info: &CryptoInfo,
        resume: Option<Resume>,
        socket: &SocketFacts,
        env: &mut DriverEnv<'_>,
    ) -> Result<SeqNum, Errno> {
        let (index, facts) = self.flow_for_keys(slot, Direction::Transmit, resume, socket, env)?;
        let taken = match resume {
            Some(resume) => self.resume(index, info, resume, &facts, env),
            None => {
                self.flow(index).is_acknowledged(facts.unacknowledged);
                self.begin(index, info, facts.write, info.sequence, env)
            }
        };
        match taken {
            Ok(tcpsn) => {
                let is_draining = self.is_draining;
                self.tracker.remove(&facts.flow);
                let flow = self.flow(index);
                flow.adopt();
                if flow.is_transmitting() {
                    flow.report(Direction::Transmit, OffloadState::Offloaded);
                }
                if is_draining {
                    flow.report(Direction::Transmit, OffloadState::Software);
                }
                Ok(tcpsn)
            }
            // Plaintext is on its way that can't be encrypted.
            Err(error) if resume.is_some() => {
                self.reset(index, env);
                Err(error)
            }
            Err(error) => {
                let flow = self.flow(index);
                if flow.epochs.is_empty() && flow.receives == Receives::No {
                    self.take_out(index, env);
                }
                Err(error)
            }
        }
    }

    /// The connection of a socket, with this slot; a new one if it is unknown.
    pub(super) fn registered(
        &mut self,
        slot: &SlotRef,
        facts: &Located,
        resumes: bool,
        env: &mut DriverEnv<'_>,
    ) -> Result<u32, Errno> {
        if let Some(index) = self.index_of(&facts.flow)
            && self.flow(index).cookie != facts.cookie
        {
            let (key, cookie) = (facts.flow, self.flow(index).cookie);
            if !self.sockets.is_gone(&key, cookie) {
                return Err(Errno::NODEV);
            }
            self.remove(index, env);
        }
        match (self.index_of(&facts.flow), self.flows.index_of_slot(slot)) {
            (Some(index), Some(other)) if index == other => {
                let flow = self.flow(index);
                flow.released = false;
                flow.slot = Some(slot.clone());
                Ok(index)
            }
            (_, Some(_)) => Err(Errno::BUSY),
            (Some(index), None) => {
                let flow = self.flow(index);
                if flow.slot.is_some() && !resumes {
                    return Err(Errno::BUSY);
                }
                let was_released = std::mem::take(&mut flow.released);
                if let Some(former) = self.flows.set_slot(index, slot)
                    && was_released
                {
                    former.slot().free(former.generation());
                }
                Ok(index)
            }
            (None, None) => self.add(slot, facts, env),
        }
    }

    fn add(
        &mut self,
        slot: &SlotRef,
        facts: &Located,
        env: &mut DriverEnv<'_>,
    ) -> Result<u32, Errno> {
        let new = New {
            flow: facts.flow,
            cookie: facts.cookie,
            tenant: facts.tenant,
            bases: facts.bases.to_bits(),
            una: facts.unacknowledged,
            is_reset: false,
        };
        let entry = self.table.add(&new).ok_or(Errno::NOSPC)?;
        env.counters.tls_flows += 1;
        Ok(self.insert(Flow {
            key: facts.flow,
            cookie: facts.cookie,
            tenant: facts.tenant,
            bases: facts.bases,
            entry,
            slot: Some(slot.clone()),
            health: Health::Good,
            released: false,
            receives: Receives::No,
            una: facts.unacknowledged,
            sent: facts.write,
            plain_until: None,
            acked: Some(facts.receive_next),
            given: Some(facts.given),
            is_inherited: false,
            ask_at: env.now,
            epochs: VecDeque::new(),
            check_at: env.now + FIRST_CHECK,
            checks: 0,
        }))
    }

    /// Keys for the bytes from `start` on.
    pub(super) fn begin(
        &mut self,
        index: u32,
        info: &CryptoInfo,
        start: SeqNum,
        first_index: u64,
        env: &mut DriverEnv<'_>,
    ) -> Result<SeqNum, Errno> {
        let flow = self.flows.get(index);
        match flow.epochs.back() {
            None => {
                let boundary = RecordBoundary {
                    tcpsn: start,
                    index: first_index,
                };
                self.table.set_boundary(flow.entry.0, boundary);
                flow.plain_until = Some(start).filter(|start| *start != flow.una);
                let is_behind = flow.plain_until.is_some();
                self.table.set_plain_before(flow.entry.0, is_behind);
                flow.sent = flow.sent.max(start);
            }
            Some(last) if start.before(last.start) => return Err(Errno::INVAL),
            Some(_) => {}
        }
        let is_replaced = |last: &Epoch| last.start == start;
        let kept = flow.epochs.len() - usize::from(flow.epochs.back().is_some_and(is_replaced));
        if kept == MAX_EPOCHS {
            return Err(Errno::BUSY);
        }
        let (owner, key) = (flow.entry, flow.key);
        let (free, mut known) = (self.arena.free_bytes(), flow.epochs.iter());
        let known = known.find_map(|epoch| Some(epoch.records()?.stream.share()));
        let Some(share) = known.or_else(|| self.tenants.admit(flow.tenant, free)) else {
            env.counters.tls_refused_memory += 1;
            return Err(Errno::NOSPC);
        };
        let mut info = info.clone();
        info.sequence = first_index;
        let context = create(&mut self.contexts, index, key, start, &info, env)?;
        let cipher = (info.version, info.algorithm);
        let records = Records {
            cipher,
            first_index,
            fingerprint: fingerprint(&info),
            context: Some(context),
            expected: Some(start),
            stream: Stream::new(owner, cipher, start, first_index, share),
        };
        self.append_epoch(index, start, Kind::Records(Box::new(records)), env);
        Ok(start)
    }

    fn append_epoch(&mut self, index: u32, start: SeqNum, kind: Kind, env: &mut DriverEnv<'_>) {
        let flow = self.flows.get(index);
        // Nothing was sent under keys that others have taken the place of at once.
        if let Some(last) = flow.epochs.back()
            && last.start == start
            && let Some(mut last) = flow.epochs.pop_back()
            && let Some(records) = last.records_mut()
        {
            records.stream.retire(&mut self.retired);
            if let Some(context) = records.context {
                env.rings.destroy(context);
                self.contexts.give();
            }
        }
        if let Some(last) = flow.epochs.back_mut() {
            last.end = Some(start);
        }
        flow.epochs.push_back(Epoch {
            start,
            end: None,
            kind,
        });
        flow.store_epochs(&self.table);
        self.retire(env.rings);
    }

    /// A connection that there is, and where its socket is.
    ///
    /// # Errors
    /// `ENOENT` when nothing is done for it; `ESTALE` for another slot than its own.
    fn known(&mut self, slot: &SlotRef, socket: &SocketFacts) -> Result<(u32, Located), Errno> {
        let index = self.index_of(&socket.flow).ok_or(Errno::NOENT)?;
        let flow = self.flow(index);
        if flow.cookie != socket.cookie {
            return Err(Errno::NOENT);
        }
        if flow.slot.as_ref() != Some(slot) {
            return Err(Errno::STALE);
        }
        Ok((index, flow.bases.locate(socket)))
    }

    fn stop(&mut self, slot: &SlotRef, socket: &SocketFacts) -> Result<SeqNum, Errno> {
        let (index, facts) = self.known(slot, socket)?;
        let flow = self.flow(index);
        if !flow.is_transmitting() {
            return Err(Errno::NOENT);
        }
        if flow.epochs.len() == MAX_EPOCHS {
            return Err(Errno::BUSY);
        }
        let start = facts.write;
        if let Some(last) = flow.epochs.back_mut() {
            last.end = Some(start);
        }
        flow.epochs.push_back(Epoch {
            start,
            end: None,
            kind: Kind::Plain,
        });
        flow.report(Direction::Transmit, OffloadState::None);
        let flow = self.flows.get(index);
        flow.store_epochs(&self.table);
        Ok(start)
    }

    /// A process has closed the socket of this cookie. A connection from before a restart, whose keys no process has told yet, has the slot from now on:
    /// another process may have the socket still.
    fn release(
        &mut self,
        slot: &SlotRef,
        (cookie, tenant): (u64, u32),
        env: &mut DriverEnv<'_>,
    ) -> Result<SeqNum, Errno> {
        let index = match self.flows.index_of_slot(slot) {
            Some(index) if self.flow(index).slot.as_ref() == Some(slot) => index,
            // That of another use of the slot does not concern this one.
            Some(_) => return Ok(SeqNum(0)),
            None => {
                let index = self.flows.index_of_unnamed(cookie).ok_or(Errno::NODEV)?;
                if self.flow(index).tenant != tenant {
                    return Err(Errno::NODEV);
                }
                self.flows.set_slot(index, slot);
                index
            }
        };
        self.flow(index).released = true;
        self.check_soon(index, env.now);
        Ok(SeqNum(0))
    }
}

/// A context that makes the records of the connection with this index and flow, from `tcpsn` on.
pub(super) fn create(
    contexts: &mut Quota,
    index: u32,
    flow: FlowKey,
    tcpsn: SeqNum,
    info: &CryptoInfo,
    env: &mut DriverEnv<'_>,
) -> Result<ContextId, Errno> {
    let (owner, layers) = (Owner::Sender(index), Layers::of(info));
    let rings = &mut *env.rings;
    let context = contexts.take(|| rings.create(owner, Direction::Transmit, flow, tcpsn, layers));
    context.ok_or(Errno::NOSPC)
}
