//! The host's core: interrupts, TCP for the connections that it has, the bypass protocol for the others, and the application, a
//! server of Flash's kind: one event loop (Connection handoff policies §4.2).

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
use crate::handoff::workload::{Content, PAGE, Request};
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

    /// One thing that the application does for a connection. Between two of them interrupts are served.
    fn application(&mut self, id: PairId) {
        let costs = self.host.costs;
        let socket = self.host.touch_socket(id);
        self.host.bill.system += socket;
        let pair = self.pair(id);
        let Some((request, near)) =
            pair.and_then(|pair| Some((pair.request, pair.near.as_deref_mut()?)))
        else {
            return;
        };
        near.ready = false;
        match near.application {
            Application::Unknown => {
                near.application = Application::Idle;
                self.host.bill.system += costs.accept_system;
                self.host.bill.user += costs.accept_user;
                self.host_wakes(id);
            }
            Application::Idle => match request {
                Some(request) if near.readable >= request.request => {
                    self.application_answers(id, &request)
                }
                _ if near.ended => {
                    near.application = Application::Done;
                    self.host.bill.system += costs.accept_system / 2;
                    self.application_closes(id);
                }
                _ => {}
            },
            Application::Sending(left) => self.application_goes_on(id, left, request),
            Application::Done => {}
        }
    }

    /// Reads a request and writes the header of the response.
    fn application_answers(&mut self, id: PairId, request: &Request) {
        let costs = self.host.costs;
        let copied = f64::from(request.request + request.header) * costs.copied_byte;
        self.host.bill.system += costs.request_system + copied as u64;
        self.host.bill.user += costs.request_user;
        match request.kind {
            Content::Static => self.host.bill.system += self.host.file,
            Content::Dynamic => self.host.bill.user += costs.dynamic_user,
        }
        if let Some(near) = self.near(id) {
            near.readable = 0;
            near.turn = SEND_BUFFER;
            near.application = Application::Sending(request.content);
        }
        self.application_enqueues(id, request.header, request.content);
        self.application_next(id);
    }

    /// Enqueues a page, if there is room.
    fn application_goes_on(&mut self, id: PairId, left: u32, request: Option<Request>) {
        let costs = self.host.costs;
        let bytes = left.min(PAGE);
        let Some(near) = self.near(id) else { return };
        if left == 0 {
            near.application = Application::Idle;
            return;
        }
        if near.buffered + WRITABLE > SEND_BUFFER {
            near.turn = SEND_BUFFER;
            return;
        }
        near.turn = near.turn.saturating_sub(bytes);
        near.application = match left - bytes {
            0 => Application::Idle,
            left => Application::Sending(left),
        };
        self.host.bill.system += costs.page;
        if request.is_some_and(|request| request.kind == Content::Dynamic) {
            self.host.bill.system += (f64::from(bytes) * costs.copied_byte) as u64;
        }
        self.application_enqueues(id, bytes, left - bytes);
        self.application_next(id);
    }

    /// The application goes on with what it has begun, before it looks at other connections; but for a buffer's worth
    /// at most, then the others have their turn.
    fn application_next(&mut self, id: PairId) {
        let Some(near) = self.near(id) else { return };
        if !matches!(near.application, Application::Sending(_)) || near.ready {
            return;
        }
        near.ready = true;
        if near.turn > 0 {
            self.host.ready.push_front(id);
        } else {
            near.turn = SEND_BUFFER;
            self.host.ready.push_back(id);
        }
    }

    /// An enqueue to the send buffer.
    fn application_enqueues(&mut self, id: PairId, bytes: u32, waiting: u32) {
        let now = self.instant();
        let Some(near) = self.pairs[id.index as usize].near.as_deref_mut() else {
            return;
        };
        near.buffered += bytes;
        let selector = &mut self.host.selector;
        let choice = selector.sent(now, PORT, id, &mut near.record, bytes, u64::from(waiting));
        match near.owner {
            Owner::Host => {
                near.tcp.queue(now, bytes);
                self.host.touch_stack(id);
                self.host_sends(id);
                self.arm_near(id);
            }
            Owner::Nic => self.host_commands(id, Command::Send(bytes)),
        }
        self.host_chooses(id, choice);
    }

    fn application_closes(&mut self, id: PairId) {
        let now = self.instant();
        let Some(near) = self.near(id) else { return };
        match near.owner {
            Owner::Host => {
                near.tcp.close(now);
                self.host.touch_stack(id);
                self.host_follows(id);
            }
            Owner::Nic => self.host_commands(id, Command::Close),
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
