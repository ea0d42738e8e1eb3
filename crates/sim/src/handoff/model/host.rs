//! The host's core: interrupts, TCP for the connections that it has, the bypass protocol for the others, and the application.

mod application;

use std::collections::VecDeque;

use ::host::handoff::policy::{Choice, Record, Selection, Selector};
use tcp::{Connection, Event as TcpEvent, reset_for};
use wire::SeqNum;
use wire::tcp::Flags;

use super::cache::Cache;
use super::measure::Cycles;
use super::nic::{self, Command};
use super::{Application, Event, NEVER, Near, Owner, PORT, Packet, PairId, SEND_BUFFER, World};
use crate::handoff::costs::{CacheCosts, HostCosts};
use crate::handoff::{Config, Costs, Workload};

/// Free bytes in the send buffer from which on it is writable (FreeBSD 4.7's `so_snd.sb_lowat`).
const WRITABLE: u32 = 2048;

/// What an interrupt brings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Packet(u32),
    Message(PairId, Message),
    Timer(PairId),
}

/// What the NIC tells.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Accepted,
    Refused,
    /// So many bytes for the application.
    Delivered(u32),
    /// So many bytes are out of the send buffer.
    Acked(u32),
    PeerFin,
    Closed,
    /// The connection is back, with so many acknowledged bytes that were not told.
    Restored(u32),
    /// A command for a connection that is back.
    Again,
    SoftLimit(u32),
}

#[derive(Debug)]
pub(super) struct Host {
    costs: HostCosts,
    /// Cycles of a static request for the workload's files.
    file: u64,
    /// Picoseconds of a cycle.
    cycle: u64,
    interrupts: VecDeque<Work>,
    /// Connections that the application looks at, in this order.
    ready: VecDeque<PairId>,
    cache: Cache,
    selector: Selector<PairId>,
    busy: bool,
    bill: Cycles,
    /// What is given to the NIC when the work is done.
    posts: Vec<nic::Work>,
}

impl Host {
    pub fn new(config: &Config, costs: &Costs) -> Self {
        let selection = match config.nic_connections {
            0 => Selection::Off,
            _ => config.selection,
        };
        Self {
            costs: costs.host,
            file: match config.workload {
                Workload::WorldCup => 0,
                Workload::Ibm => costs.host.files.ibm,
                Workload::SpecWeb99 | Workload::SpecWeb99Static => costs.host.files.specweb99,
            },
            cycle: 1_000_000_000_000 / costs.host.hertz.max(1),
            interrupts: VecDeque::new(),
            ready: VecDeque::new(),
            cache: Cache::new(costs.host.cache.lines),
            selector: Selector::new(selection, &[], config.nic_connections),
            busy: false,
            bill: Cycles::default(),
            posts: Vec::new(),
        }
    }

    pub fn interrupt(&mut self, work: Work) {
        self.interrupts.push_back(work);
    }

    /// A connection has ended.
    pub fn forget(&mut self, id: PairId, record: &mut Record) {
        self.selector.left(record);
        self.cache.forget(id.index * 2);
        self.cache.forget(id.index * 2 + 1);
    }

    /// Waits for a connection's state in the stack.
    fn touch_stack(&mut self, id: PairId) {
        let CacheCosts { stack_lines, .. } = self.costs.cache;
        self.bill.stack += self.touch(id.index * 2, stack_lines);
    }

    /// Waits for a connection's socket and what else stays with the host.
    fn touch_socket(&mut self, id: PairId) -> u64 {
        let CacheCosts { socket_lines, .. } = self.costs.cache;
        self.touch(id.index * 2 + 1, socket_lines)
    }

    fn touch(&mut self, piece: u32, lines: u32) -> u64 {
        let costs = self.costs.cache;
        let each = match self.cache.touch(piece, lines) {
            true => costs.hit,
            false => costs.miss,
        };
        each * u64::from(lines)
    }
}

impl World {
    /// The core does what is next, if it is free.
    pub(super) fn host_works(&mut self) {
        while !self.host.busy {
            if let Some(work) = self.host.interrupts.pop_front() {
                self.host_interrupted(work);
            } else if let Some(id) = self.host.ready.pop_front() {
                self.application(id);
            } else {
                return;
            }
            let bill = std::mem::take(&mut self.host.bill);
            self.measure.host_worked(bill);
            self.host.busy = true;
            let time = bill.all() * self.host.cycle;
            self.at(self.now + time, Event::HostDone);
        }
    }

    /// What the work gave goes to the NIC.
    pub(super) fn host_done(&mut self) {
        self.host.busy = false;
        let mut posts = std::mem::take(&mut self.host.posts);
        for post in posts.drain(..) {
            match post {
                nic::Work::HostSent(packet) => self.nic_takes(packet),
                other => self.nic.queue(other),
            }
        }
        self.host.posts = posts;
    }

    fn host_interrupted(&mut self, work: Work) {
        match work {
            Work::Packet(packet) => self.host_processes(packet),
            Work::Message(id, message) => self.host_is_told(id, message),
            Work::Timer(id) => {
                self.host.bill.stack += self.host.costs.timer;
                self.host.touch_stack(id);
                let now = self.instant();
                if let Some(near) = self.near(id) {
                    near.tcp.handle_timeout(now);
                    self.host_follows(id);
                }
            }
        }
    }

    /// TCP's input.
    fn host_processes(&mut self, packet: u32) {
        let Packet {
            pair: id,
            header,
            payload,
            ..
        } = self.packets[packet as usize];
        self.drop_packet(packet);
        self.host.bill.stack += self.host.costs.receive;
        let now = self.instant();
        if self.pair(id).is_none() {
            return;
        }
        if self.near(id).is_none() {
            if !header.flags.contains(Flags::SYN) {
                self.host_refuses(id, &header, payload);
                return;
            }
            self.host.bill.stack += self.host.costs.connection;
            self.order += 1;
            let isn = SeqNum((self.order as u32).wrapping_mul(0x85eb_ca6b));
            let tcp = Connection::accept(now, &self.near_settings, &header, isn);
            self.pairs[id.index as usize].near = Some(Box::new(Near::new(tcp)));
        } else {
            self.host.touch_stack(id);
            if let Some(near) = self.near(id) {
                near.tcp.handle_segment(now, &header, payload, 1);
                let bytes = near.tcp.unread();
                near.tcp.consumed(now, bytes);
                near.readable += bytes;
                if bytes > 0 {
                    self.host.bill.stack += self.host.costs.deliver;
                    self.host_wakes(id);
                }
            }
        }
        self.host_follows(id);
    }

    /// A packet of a connection that is no more.
    fn host_refuses(&mut self, id: PairId, header: &wire::tcp::Header, payload: u32) {
        if let Some(header) = reset_for(header, payload) {
            self.host_posts_packet(id, header, 0);
        }
    }

    /// What TCP has to tell and to send.
    fn host_follows(&mut self, id: PairId) {
        while let Some(near) = self.near(id) {
            match near.tcp.poll_event() {
                Some(TcpEvent::Connected) => self.host_establishes(id),
                Some(TcpEvent::Acked(una)) => {
                    let bytes = near.acknowledged.distance_to(una);
                    near.acknowledged = una;
                    self.host_frees(id, bytes);
                }
                Some(TcpEvent::PeerFin) => {
                    near.ended = true;
                    self.host.bill.stack += self.host.costs.teardown;
                    self.host_wakes(id);
                }
                Some(TcpEvent::Closed(_)) => {
                    self.host_sends(id);
                    self.near_ends(id);
                    return;
                }
                Some(TcpEvent::TimeWait | TcpEvent::Counted(_)) => {}
                None => break,
            }
        }
        self.host_sends(id);
        self.arm_near(id);
    }

    fn host_establishes(&mut self, id: PairId) {
        self.measure.established();
        let now = self.instant();
        if let Some(near) = self.pairs[id.index as usize].near.as_deref_mut() {
            near.acknowledged = near.tcp.snd_una();
            let selector = &mut self.host.selector;
            let choice = selector.established(now, PORT, id, &mut near.record);
            self.host_chooses(id, choice);
            self.host_wakes(id);
        }
    }

    fn host_sends(&mut self, id: PairId) {
        let now = self.instant();
        while let Some(near) = self.near(id) {
            let Some(transmit) = near.tcp.poll_transmit(now) else {
                return;
            };
            self.host.bill.stack += self.host.costs.transmit;
            self.host_posts_packet(id, transmit.header, transmit.payload);
        }
    }

    fn host_posts_packet(&mut self, id: PairId, header: wire::tcp::Header, payload: u32) {
        let packet = self.new_packet(Packet {
            pair: id,
            header,
            payload,
            at: self.now,
        });
        self.host.posts.push(nic::Work::HostSent(packet));
    }

    /// The send buffer has room again.
    fn host_frees(&mut self, id: PairId, bytes: u32) {
        if let Some(near) = self.near(id) {
            near.buffered = near.buffered.saturating_sub(bytes);
            let sends = matches!(near.application, Application::Sending(_));
            if sends && near.buffered + WRITABLE <= SEND_BUFFER {
                self.host_wakes(id);
            }
        }
    }

    /// The application will look at it.
    fn host_wakes(&mut self, id: PairId) {
        if let Some(near) = self.near(id)
            && !std::mem::replace(&mut near.ready, true)
        {
            self.host.ready.push_back(id);
        }
    }

    fn host_is_told(&mut self, id: PairId, message: Message) {
        self.host.bill.stack += self.host.costs.bypass_event;
        if let Message::SoftLimit(limit) = message {
            self.host.selector.set_soft_limit(limit);
            return;
        }
        self.host.bill.stack += self.host.touch_socket(id);
        let now = self.instant();
        let Some(near) = self.near(id) else { return };
        match message {
            Message::Accepted | Message::Closed | Message::SoftLimit(_) => {}
            Message::Refused => {
                let near = self.pairs[id.index as usize].near.as_deref_mut();
                if let Some(near) = near {
                    self.host.selector.refused(now, PORT, &mut near.record);
                }
                self.host_follows(id);
            }
            Message::Delivered(bytes) => {
                near.readable += bytes;
                self.host_wakes(id);
            }
            Message::Acked(bytes) => self.host_frees(id, bytes),
            Message::PeerFin => {
                near.ended = true;
                self.host_wakes(id);
            }
            Message::Restored(bytes) => {
                self.host.bill.stack += self.host.costs.restore;
                let near = self.pairs[id.index as usize].near.as_deref_mut();
                if let Some(near) = near {
                    self.host.selector.left(&mut near.record);
                }
                self.host_frees(id, bytes);
                self.host_follows(id);
            }
            Message::Again => self.host_follows(id),
        }
    }

    fn host_commands(&mut self, id: PairId, command: Command) {
        self.host.bill.stack += self.host.costs.bypass_command;
        self.host.posts.push(nic::Work::Command(id, command));
    }

    fn host_chooses(&mut self, id: PairId, choice: Choice<PairId>) {
        let costs = self.host.costs;
        if let Choice::Instead(other) = choice {
            self.host
                .posts
                .push(nic::Work::Command(other, Command::Restore));
        }
        if choice != Choice::Stay {
            self.host.bill.stack += costs.hand_off;
            if let Some(near) = self.near(id) {
                near.owner = Owner::Nic;
            }
            self.host
                .posts
                .push(nic::Work::Command(id, Command::HandOff));
        }
    }
}

impl Near {
    fn new(tcp: Connection) -> Self {
        Self {
            tcp,
            timer: NEVER,
            owner: Owner::Host,
            record: Record::default(),
            application: Application::Unknown,
            ready: false,
            readable: 0,
            ended: false,
            buffered: 0,
            turn: 0,
            acknowledged: SeqNum(0),
            untold: 0,
            was_on_nic: false,
            place: None,
            load: 0.0,
            load_at: 0,
        }
    }
}
