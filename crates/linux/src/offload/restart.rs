//! After a restart: connections are found again in the state, and go on when their libraries have come back with the keys.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use attachment::{CryptoInfo, Errno, Resume};
use nic::ring::HostFunction;
use wire::SeqNum;

use super::blocks::Receiving;
use super::flow::{Epoch, Flow, Health, Kind, Receives, Records, fingerprint};
use super::flows::FencedFlows;
use super::gone::Gone;
use super::orders::create;
use super::stream::{Retired, Stream, Tenants};
use super::{DriverEnv, ORPHANED, Offload};
use crate::contexts::Quota;
use crate::sockets::Sockets;
use crate::state::{Arena, Entry, EpochEntry, Found, New, State, Table};
use crate::tracking::{Bases, Located, Tracker};

/// Whether a connection is only remembered.
fn is_plain(entry: &Entry) -> bool {
    entry.epochs.is_empty() && !entry.receives && !entry.is_reset
}

impl Offload {
    /// The connections in `state`, each of them an orphan.
    ///
    /// # Errors
    /// With a new state: what Linux says instead of which sockets are bound to the interface; `ENOSPC` when they are more than there is room for.
    ///
    /// # Panics
    /// When the function has no region id left: a new one has.
    pub(crate) fn new(
        now: Instant,
        function: &HostFunction,
        state: &State,
        sockets: Box<dyn Sockets>,
        secret: (u64, u64),
    ) -> Result<Offload, Errno> {
        let arena = Arena::new(state, &function.regions);
        let (arena, pieces) = arena.expect("a new function has ids for regions");
        let (table, entries) = Table::new(state);
        let mut offload = Offload {
            sockets,
            tracker: Tracker::new(secret),
            arena,
            tenants: Tenants::default(),
            table,
            flows: FencedFlows::default(),
            gone: Gone::default(),
            contexts: Quota::new(function.config.contexts / 2),
            retired: Vec::new(),
            receiving: Receiving::default(),
            answers: VecDeque::new(),
            slices: Vec::new(),
            prefix: Vec::new(),
            is_draining: false,
        };
        offload.adopt(now, entries, pieces);
        if state.is_new() {
            offload.fence_bound(now)?;
            state.commit();
        }
        Ok(offload)
    }

    /// A socket that is bound to the interface may have had its records made here, by a driver whose state this one has not: what it sends may be content in
    /// clear. Its connection is reset.
    fn fence_bound(&mut self, now: Instant) -> Result<(), Errno> {
        for (flow, cookie) in self.sockets.bound()? {
            let new = New {
                flow,
                cookie,
                tenant: 0,
                bases: 0,
                una: SeqNum(0),
                is_reset: true,
            };
            let (index, _) = self.table.add(&new).ok_or(Errno::NOSPC)?;
            let entry = self.table.entry(index).ok_or(Errno::IO)?;
            let flow = self.orphan(now, entry, Vec::new(), &mut Vec::new());
            self.insert(flow);
        }
        Ok(())
    }

    fn adopt(&mut self, now: Instant, entries: Vec<Entry>, pieces: Vec<Found>) {
        let mut by_owner: HashMap<(u32, u32), Vec<Found>> = HashMap::new();
        for piece in pieces {
            by_owner.entry(piece.owner).or_default().push(piece);
        }
        let mut retired = Vec::new();
        // Those of which something is fenced first: of two of one connection theirs counts.
        let (plain, fenced): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_plain);
        for entry in fenced.into_iter().chain(plain) {
            if is_plain(&entry) && self.index_of(&entry.flow).is_some() {
                self.table.remove(entry.index);
                continue;
            }
            let owner = (entry.index, entry.generation);
            let pieces = by_owner.remove(&owner).unwrap_or_default();
            let flow = self.orphan(now, entry, pieces, &mut retired);
            self.insert(flow);
        }
        let strays = by_owner.into_values().flatten();
        retired.extend(strays.map(|piece| Retired {
            unit: piece.unit,
            order: piece.order,
        }));
        for piece in retired {
            self.arena.release(piece.unit, piece.order);
        }
    }

    fn orphan(
        &mut self,
        now: Instant,
        entry: Entry,
        mut pieces: Vec<Found>,
        retired: &mut Vec<Retired>,
    ) -> Flow {
        let owner = (entry.index, entry.generation);
        let boundary = entry.boundary;
        pieces.sort_by(|a, b| a.start.diff(b.start).cmp(&0));
        // Everything before the boundary is acknowledged, whatever the table still has of it.
        let first = entry
            .epochs
            .partition_point(|epoch| epoch.start.at_or_before(boundary.tcpsn));
        let live = &entry.epochs[first.saturating_sub(1)..];
        let first_start = live.first().map(|epoch| epoch.start);
        let (epochs, sent) = self.adopt_epochs(&entry, live, pieces, retired);
        // One that its library had taken over before needs no keys.
        let has_records = |epoch: &Epoch| matches!(epoch.kind, Kind::Records(_));
        let needs_library = entry.receives || epochs.iter().any(has_records);
        Flow {
            key: entry.flow,
            cookie: entry.cookie,
            tenant: entry.tenant,
            bases: Bases::from_bits(entry.bases),
            entry: owner,
            slot: None,
            health: match needs_library {
                _ if entry.is_reset => Health::Reset,
                true => Health::Orphan {
                    until: now + ORPHANED,
                },
                false => Health::Good,
            },
            released: false,
            receives: match entry.receives {
                true => Receives::Lost,
                false => Receives::No,
            },
            una: boundary.tcpsn,
            sent,
            plain_until: first_start.filter(|_| entry.plain_before),
            acked: None,
            given: None,
            is_inherited: true,
            ask_at: now,
            epochs,
            check_at: now,
            checks: 0,
        }
    }

    /// Takes over the epochs that are not acknowledged, each with its part of what was retained; gives them, and up to where was sent.
    fn adopt_epochs(
        &mut self,
        entry: &Entry,
        live: &[EpochEntry],
        mut pieces: Vec<Found>,
        retired: &mut Vec<Retired>,
    ) -> (VecDeque<Epoch>, SeqNum) {
        let (owner, boundary) = ((entry.index, entry.generation), entry.boundary);
        let (mut epochs, mut share) = (VecDeque::new(), None);
        let mut sent = boundary.tcpsn;
        for (at, epoch) in live.iter().enumerate() {
            let end = live.get(at + 1).map(|next| next.start);
            let kind = match epoch.records {
                None => Kind::Plain,
                Some(cipher) => {
                    let (start, index) = match at {
                        // At its very start the boundary may be from before it, with a number under the keys before.
                        0 if epoch.start.before(boundary.tcpsn) => (boundary.tcpsn, boundary.index),
                        _ => (epoch.start, epoch.first_index),
                    };
                    let share =
                        Arc::clone(share.get_or_insert_with(|| self.tenants.readmit(entry.tenant)));
                    let mut stream = Stream::new(owner, cipher, start, index, share);
                    let its = |piece: &Found| {
                        piece.start.at_or_after(epoch.start)
                            && end.is_none_or(|end| piece.start.before(end))
                    };
                    let (its, others) = pieces.into_iter().partition::<Vec<_>, _>(its);
                    pieces = others;
                    stream.adopt(&mut self.arena, &its, retired);
                    sent = sent.max(stream.end());
                    Kind::Records(Box::new(Records {
                        cipher,
                        first_index: epoch.first_index,
                        fingerprint: epoch.fingerprint,
                        context: None,
                        expected: None,
                        stream,
                    }))
                }
            };
            let start = epoch.start;
            epochs.push_back(Epoch { start, end, kind });
        }
        retired.extend(pieces.iter().map(|piece| Retired {
            unit: piece.unit,
            order: piece.order,
        }));
        (epochs, sent)
    }

    /// Keys that a connection had before the restart: those of an epoch that is known, or of one that is over.
    pub(super) fn resume(
        &mut self,
        index: u32,
        info: &CryptoInfo,
        resume: Resume,
        facts: &Located,
        env: &mut DriverEnv<'_>,
    ) -> Result<SeqNum, Errno> {
        self.catch_up(index, facts, env);
        let flow = self.flows.get(index);
        let (key, una) = (flow.key, flow.una);
        let fingerprint = fingerprint(info);
        let its = |epoch: &&mut Epoch| {
            let records = epoch.records();
            records.is_some_and(|records| records.fingerprint == fingerprint)
        };
        let Some(epoch) = flow.epochs.iter_mut().find(its) else {
            // What follows on them long ago may be so far away that positions can't be compared; of that nothing is the NIC's then.
            let is_over =
                !flow.epochs.is_empty() && (resume.tcpsn.at_or_before(una) || !flow.has_records());
            return match is_over {
                true => Ok(resume.tcpsn),
                false => self.resume_unknown(index, info, resume, facts, env),
            };
        };
        let records = epoch.records_mut().ok_or(Errno::INVAL)?;
        let begins = records.stream.may_begin_at(resume.tcpsn, resume.index);
        if records.cipher != (info.version, info.algorithm) || !begins {
            return Err(Errno::INVAL);
        }
        if records.context.is_some() {
            return Ok(resume.tcpsn);
        }
        let boundary = records.stream.boundary();
        let mut info = info.clone();
        info.sequence = boundary.index;
        let context = create(&mut self.contexts, index, key, boundary.tcpsn, &info, env)?;
        records.context = Some(context);
        records.expected = Some(boundary.tcpsn);
        flow.sent = flow.sent.max(facts.write.min(records.stream.end()));
        Ok(resume.tcpsn)
    }

    /// What the peer has acknowledged to Linux while the NIC was away.
    fn catch_up(&mut self, index: u32, facts: &Located, env: &mut DriverEnv<'_>) {
        let contexts = &mut self.contexts;
        let flow = self.flows.get(index);
        flow.expects(facts);
        // Also bytes that the NIC had no part in.
        let is_plain = flow
            .epochs
            .back()
            .is_none_or(|last| matches!(last.kind, Kind::Plain));
        if is_plain {
            flow.sent = flow.sent.max(facts.write);
        }
        if let Some(fence) = flow.plain_until {
            // Before the first keys nothing is marked.
            flow.una = facts.unacknowledged.min(fence);
            if flow.una == fence {
                flow.plain_until = None;
                self.table.set_plain_before(flow.entry.0, false);
            }
        }
        let retired = &mut self.retired;
        flow.acknowledge(
            facts.unacknowledged.min(flow.sent),
            &self.table,
            retired,
            |context| {
                env.rings.destroy(context);
                contexts.give();
            },
        );
        self.retire(env.rings);
    }

    /// Keys for a connection of which nothing is known any more: right if there is nothing that may have to be sent again.
    fn resume_unknown(
        &mut self,
        index: u32,
        info: &CryptoInfo,
        resume: Resume,
        facts: &Located,
        env: &mut DriverEnv<'_>,
    ) -> Result<SeqNum, Errno> {
        let is_first = self.flow(index).epochs.is_empty();
        let is_idle = facts.unacknowledged == facts.write && resume.tcpsn == facts.write;
        if !is_first || !is_idle {
            return Err(Errno::INVAL);
        }
        let tcpsn: SeqNum = self.begin(index, info, resume.tcpsn, resume.index, env)?;
        Ok(tcpsn)
    }
}
