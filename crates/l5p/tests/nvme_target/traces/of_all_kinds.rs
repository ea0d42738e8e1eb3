//! Conversations that are made up; a line for each.

use std::collections::BTreeMap;

use testkit::Dice;

use super::admin::many_namespaces;
use wire::nvme::command::CompletionEntry;

use super::*;

struct Conversation {
    rig: Rig,
    dice: Dice,
    connections: Vec<ConnectionId>,
    /// The queue that a connection asked to be, and whether it is.
    queues: BTreeMap<ConnectionId, (u16, bool)>,
    /// The newest controller.
    controller: u16,
    r2ts: Vec<(ConnectionId, R2T)>,
    data: Vec<u8>,
}

impl Conversation {
    fn new(seed: u64, machines: usize) -> Conversation {
        let mut dice = Dice::new(seed);
        let mut config = many_namespaces();
        let limits = &mut config.limits;
        limits.r2t_data = dice.of(&[4096, 8192, 65536]);
        limits.c2h_data = dice.of(&[4096, 32768]);
        limits.h2c_data = dice.of(&[4096, 131_072]);
        limits.in_capsule = dice.of(&[0, 512, 4096]);
        limits.connections = 6;
        limits.pending = 4;
        limits.controllers = 2;
        limits.queue_entries = 16;
        let mut rig = Rig::of(config, machines);
        rig.trace = Some(Vec::new());
        rig.at_once = dice.rarely(2);
        rig.has_memory = !dice.rarely(3);
        Conversation {
            rig,
            dice,
            connections: Vec::new(),
            queues: BTreeMap::new(),
            controller: 1,
            r2ts: Vec::new(),
            data: testkit::pattern(1 << 17),
        }
    }

    fn connection(&mut self) -> Option<ConnectionId> {
        (!self.connections.is_empty()).then(|| self.dice.of(&self.connections))
    }

    fn gone(&mut self, id: ConnectionId) {
        self.connections.retain(|connection| *connection != id);
        self.r2ts.retain(|(connection, _)| *connection != id);
        self.queues.remove(&id);
    }

    fn send(&mut self, id: ConnectionId, pdu: Pdu, len: usize) {
        let intact = len == 0 || !self.dice.rarely(30);
        if self
            .rig
            .send_damaged(id, pdu, &self.data[..len], intact)
            .is_err()
        {
            self.gone(id);
        }
    }

    fn command(&mut self, id: ConnectionId, entry: SubmissionEntry) {
        let data_len = match entry.data {
            DataPointer::InCapsule { len, .. } => len.min(8192),
            _ => 0,
        };
        let capsule = wire::nvme::CapsuleCmd {
            sqe: entry.to_bytes(),
            data_len,
        };
        self.send(id, Pdu::CapsuleCmd(capsule), data_len as usize);
    }

    fn open(&mut self) {
        let Some(id) = self.rig.target.accept(self.rig.now, None) else {
            return;
        };
        self.rig.act();
        let digests = self.dice.of(&[Digests::NONE, Digests::BOTH]);
        let request = ICReq {
            pfv: 0,
            hpda: self.dice.of(&[0, 3]),
            digests,
            max_r2t: self.dice.below(4) as u32,
        };
        self.connections.push(id);
        self.send(id, Pdu::ICReq(request), 0);
    }

    /// Asks to be a queue, which mostly it may be.
    fn connect(&mut self, id: ConnectionId) {
        let has_admin = self.queues.values().any(|queue| *queue == (0, true));
        let (nqn, queue) = match self.dice.below(8) {
            0 => (
                self.dice.of(&[other_subsystem(), Nqn::DISCOVERY]),
                self.dice.below(6) as u16,
            ),
            _ if has_admin => (subsystem(), 1 + self.dice.below(4) as u16),
            _ => (subsystem(), 0),
        };
        self.queues.insert(id, (queue, false));
        let controller = match queue {
            0 => 0xffff,
            _ if self.dice.rarely(10) => 1 + self.dice.below(3) as u16,
            _ => self.controller,
        };
        let data = ConnectData {
            controller,
            ..connect_data(nqn)
        };
        let (entries, keep_alive) = (
            self.dice.of(&[2, 16, 16, 16, 16, 17]),
            self.dice.of(&[0, 5000, 20_000]),
        );
        let entry = connect(queue, entries, keep_alive);
        let capsule = wire::nvme::CapsuleCmd {
            sqe: entry.to_bytes(),
            data_len: 1024,
        };
        if self
            .rig
            .send(id, Pdu::CapsuleCmd(capsule), &data.to_bytes())
            .is_err()
        {
            self.gone(id);
        }
    }

    fn admin(&mut self, id: ConnectionId) {
        let dice = &mut self.dice;
        let cid = dice.below(20) as u16;
        let mut entry = match dice.below(9) {
            0 => identify(dice.below(9) as u8, dice.of(&[0, 1, 7, 300, u32::MAX]), 0),
            1 => log(
                dice.of(&[0, 1, 2, 3, 4, 5, 0x70]),
                dice.of(&[0, 4, 512]),
                dice.of(&[64, 512, 4096]),
                dice.rarely(2),
            ),
            2 => set(
                Feature(dice.of(&[1, 2, 4, 5, 6, 7, 0xb, 0xf])),
                dice.of(&[0, 1, 0x1_0001, 0x100, 4000]),
            ),
            3 => get(Feature(dice.of(&[1, 2, 4, 5, 6, 7, 0xb, 0xf, 0x81])), 1, 0),
            4 => Admin::AsyncEventRequest.entry(0),
            5 => Admin::Abort {
                queue: dice.below(4) as u16,
                cid: dice.below(20) as u16,
            }
            .entry(0),
            6 => Admin::KeepAlive.entry(0),
            7 => Fabrics::PropertyGet(dice.of(&[Property::CC, Property::CSTS])).entry(0),
            _ => {
                let cc = match dice.below(40) {
                    0 => 0,
                    1 => 0x46_4001,
                    2 => 0x46_8001,
                    _ => 0x46_0001,
                };
                Fabrics::PropertySet(Property::CC, cc).entry(0)
            }
        };
        entry.cid = cid;
        self.command(id, entry);
    }

    fn enable(&mut self, id: ConnectionId) {
        let set = Fabrics::PropertySet(Property::CC, 0x46_0001);
        self.command(id, set.entry(19));
    }

    fn io(&mut self, id: ConnectionId) {
        let dice = &mut self.dice;
        let nsid = dice.of(&[1, 1, 1, 7, 7, 300, 2]);
        let block = if nsid == 7 { 4096 } else { 512 };
        let (count, fua) = (dice.of(&[1, 2, 8, 9, 24]), dice.rarely(4));
        let blocks = blocks(dice.of(&[0, 1, 5, 490, 4090]), count);
        let (command, len) = match dice.below(6) {
            0 => (Io::Read { blocks, fua }, count * block),
            1 => (Io::Write { blocks, fua }, count * block),
            2 => (Io::Compare { blocks, fua }, count * block),
            3 => (
                Io::WriteZeroes {
                    blocks,
                    fua,
                    deallocate: !fua,
                },
                0,
            ),
            4 => (
                Io::DatasetManagement {
                    ranges: 1,
                    deallocate: true,
                },
                16,
            ),
            _ => (Io::Flush, 0),
        };
        let in_capsule_too = !matches!(command, Io::Read { .. }) && len <= 4096 && dice.rarely(2);
        let data = match len {
            0 => DataPointer::NONE,
            _ if in_capsule_too => in_capsule(len),
            _ => transport(len),
        };
        let entry = command.entry(dice.below(16) as u16, nsid).with_data(data);
        self.command(id, entry);
    }

    fn receive(&mut self, id: ConnectionId) {
        for _ in 0..=self.dice.below(12) {
            let Some(received) = self.rig.receive(id) else {
                return;
            };
            match received.pdu {
                Pdu::R2T(r2t) => self.r2ts.push((id, r2t)),
                Pdu::CapsuleResp(response) => {
                    let end = CompletionEntry::parse(&response.cqe);
                    if let (0x77, true) = (end.cid, end.status.is_success())
                        && let Some(queue) = self.queues.get_mut(&id)
                    {
                        queue.1 = true;
                        self.controller = end.result as u16;
                    }
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self) {
        if self.r2ts.is_empty() {
            return;
        }
        let at = self.dice.below(self.r2ts.len() as u64) as usize;
        let (id, mut r2t) = self.r2ts.swap_remove(at);
        let part = r2t.len.min(self.dice.of(&[512, 4096, 131_072]));
        let data = H2CData {
            cccid: r2t.cccid,
            ttag: r2t.ttag,
            data_offset: r2t.offset,
            data_len: part,
            last: (part == r2t.len) != self.dice.rarely(60),
        };
        r2t.offset += part;
        r2t.len -= part;
        if r2t.len > 0 {
            self.r2ts.push((id, r2t));
        }
        self.send(id, Pdu::H2CData(data), part as usize);
    }

    fn change(&mut self) {
        let namespace = namespace(self.dice.of(&[1, 7, 9, 300]), self.dice.below(3) as u32);
        match self.dice.below(3) {
            0 => self.rig.target.remove_namespace(0, namespace.nsid),
            1 => {
                let read_only = self.dice.rarely(2);
                let changed = self.rig.target.set_namespace(
                    0,
                    Namespace {
                        read_only,
                        ..namespace
                    },
                );
                self.rig.note(|| format!("{changed:?}"));
            }
            _ => self.rig.target.set_hosts(
                1,
                self.dice.of(&[&Hosts::Any, &Hosts::Only(vec![])]).clone(),
            ),
        }
        self.rig.act();
    }

    fn step(&mut self) {
        let Some(id) = self
            .connection()
            .filter(|_| self.connections.len() > 3 || !self.dice.rarely(12))
        else {
            return self.open();
        };
        if !self.dice.rarely(3) {
            self.receive(id);
            self.answer();
        }
        match (self.dice.below(24), self.queues.get(&id)) {
            (0..=11, None | Some((_, false))) if !self.dice.rarely(8) => self.connect(id),
            (0..=11, Some((0, true))) if self.dice.rarely(4) => self.enable(id),
            (0..=11, Some((0, _))) => self.admin(id),
            (0..=11, _) => self.io(id),
            (12..=16, _) => self.receive(id),
            (17..=19, _) => self.answer(),
            (20, _) if !self.rig.asked.is_empty() => {
                let at = self.dice.below(self.rig.asked.len() as u64) as usize;
                let request = self.rig.asked.remove(at);
                self.rig.store_error = self.dice.rarely(6).then_some(Status::WRITE_FAULT);
                self.rig.store(request);
                self.rig.act();
            }
            (21, _) if !self.rig.waiting.is_empty() => {
                let (command, len) = self.rig.waiting.remove(0);
                self.rig.give(command, len);
                self.rig.act();
            }
            (22, _) => self.rig.wait(Duration::from_millis(self.dice.below(3000))),
            (23, _) if self.dice.rarely(3) => {
                self.rig.target.handle_closed(id);
                self.rig.act();
                self.gone(id);
            }
            _ if self.dice.rarely(5) => self.change(),
            _ => {}
        }
        for (closed, _) in std::mem::take(&mut self.rig.closed) {
            self.gone(closed);
        }
    }
}

#[test]
fn of_all_kinds() {
    let lines: Vec<_> = (0..40)
        .map(|seed| {
            let machines = 1 + seed as usize % 2;
            let mut conversation = Conversation::new(seed, machines);
            (0..500).for_each(|_| conversation.step());
            sum_up(&mut conversation.rig);
            let lines = conversation.rig.trace.take().unwrap();
            let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
            let (said, answers, good) = (count(" < "), count(" > "), count(" success,"));
            let (r2ts, stores, closed) = (count("R2T"), count("  store"), count("  close"));
            let sum = written::sum_lines(&lines);
            format!("{said} PDUs, {answers} back, {good} good, {r2ts} R2Ts, {stores} for stores, {closed} closed, {sum:016x}")
        })
        .collect();
    written::compare(
        env!("CARGO_MANIFEST_DIR"),
        "nvme_target_of_all_kinds",
        &lines,
    );
}
