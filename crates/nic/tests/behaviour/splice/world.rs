//! Two peers, a NIC between them and its host, and links that lose, repeat, reorder and damage frames, in virtual time.
//!
//! The bytes of each peer's stream are a function of their position, so that they need not be kept.

use std::time::{Duration, Instant};

use nic::FrameMeta;
use nic::ring::accel::{Splice, SpliceEnded, SpliceState};
use nic::ring::{RecvDescriptor, SendDescriptor};
use tcp::{Config, Connection, State, Tcb, TcbTimestamps, reset_for};
use testkit::bare::nic_config;
use testkit::fixtures::HOST;
use testkit::frames::frame;
use testkit::link::{Faults, Link};
use wire::ethernet;
use wire::{FlowKey, SeqNum, packet};

use super::end::{End, leg, settle};
use super::rig::{A, B, HOPS, Rig, SPLICE};

/// What happens in a world.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Of the peers, and of the host's ends towards them.
    pub configs: [Config; 4],
    pub isns: [u32; 4],
    /// Bytes between each peer and the host before the splice.
    pub before: [u32; 2],
    pub totals: [u64; 2],
    pub closes_first: [bool; 2],
    /// Reads little at a time.
    pub slow: [bool; 2],
    pub link: Faults,
    /// How probably a bit of a frame is changed.
    pub corrupt: f64,
    pub aborts: Option<(usize, Duration)>,
    pub taken_back: Option<Duration>,
}

pub struct World {
    plan: Plan,
    pub now: Instant,
    start: Instant,
    pub peers: [End; 2],
    host: [End; 2],
    rig: Rig,
    pub ended: Option<SpliceEnded>,
    /// The host relays again.
    relays: bool,
    /// What is new while the NIC drains, for when it does.
    kept: Vec<Vec<u8>>,
    called_back: Option<Instant>,
    /// The NIC gave the connections back with bytes under way that the host has not got: it can only reset them.
    pub given_up: bool,
    pub aborted: bool,
    wire: Link<Vec<u8>>,
}

/// How long the NIC waits for acknowledgements when a splice is taken back.
const DRAINS_FOR: Duration = Duration::from_secs(10);

impl World {
    /// With both connections established, used, drained and spliced.
    pub fn new(plan: &Plan) -> World {
        let now = Instant::now();
        let [a, b] = flows();
        let end = |config: usize, flow: FlowKey, macs| {
            let isn = SeqNum(plan.isns[config]);
            let config = &plan.configs[config];
            let connection = Connection::connect(now, config, flow.src.1, flow.dst.1, isn);
            End::new(now, connection, flow, macs)
        };
        let mut peers = [
            end(A, a.reversed(), [HOPS[A], HOST]),
            end(B, b.reversed(), [HOPS[B], HOST]),
        ];
        let mut host = [end(2, a, [HOST, HOPS[A]]), end(3, b, [HOST, HOPS[B]])];
        // The host connects to B, and is connected to by A.
        let accept = |first: &mut End, second: &mut End, config: usize| {
            let syn = first.connection.poll_transmit(now).expect("a SYN").header;
            let isn = SeqNum(plan.isns[config]);
            second.connection = Connection::accept(now, &plan.configs[config], &syn, isn);
        };
        accept(&mut peers[A], &mut host[A], 2);
        accept(&mut host[B], &mut peers[B], B);
        let mut at = now;
        for side in [A, B] {
            settle(
                &mut at,
                &mut peers[side],
                &mut host[side],
                plan.before[side],
            );
        }
        let leg = |side: usize| {
            let end: &End = &host[side];
            assert!(
                end.connection.is_drained(),
                "{:#?}",
                end.connection.info(at)
            );
            leg(end, &end.connection.tcb(at).expect("established"))
        };
        let splice = Splice {
            splice: SPLICE,
            a: leg(A),
            b: leg(B),
            idle_ms: 0,
        };
        for side in [A, B] {
            let (snd, rcv) = (
                peers[side].connection.write_seq(),
                peers[side].connection.rcv_nxt(),
            );
            (peers[side].streams, peers[side].bases) = ([side, 1 - side], [snd, rcv]);
            (host[side].streams, host[side].bases) = ([1 - side, side], [rcv, snd]);
            for end in [&mut peers[side], &mut host[side]] {
                (end.read, end.written, end.next_read) = (0, 0, at);
            }
        }
        let mut rig = Rig::empty(nic_config(), splice);
        rig.bare.now = at;
        let mut world = World {
            plan: plan.clone(),
            now: at,
            start: at,
            peers,
            host,
            rig,
            ended: None,
            relays: false,
            kept: Vec::new(),
            called_back: None,
            given_up: false,
            aborted: false,
            wire: Link::new(plan.link, plan.seed),
        };
        for frame in world.rig.post(&SendDescriptor::Splice(&splice)) {
            world.send(frame);
        }
        assert_eq!(world.rig.reported(), []);
        world
    }

    /// Until all is over, or that time.
    pub fn run(&mut self, limit: Duration) {
        let end = self.start + limit;
        loop {
            self.settle();
            let over = self
                .peers
                .iter()
                .all(|peer| peer.is_over() && peer.connection.unread() == 0);
            if self.given_up || (over && self.ended.is_some() && self.wire.next().is_none()) {
                return;
            }
            let next = self.next();
            let Some(next) = next.filter(|next| *next <= end) else {
                return;
            };
            self.now = self.now.max(next);
            self.rig.bare.now = self.now;
            while let Some(frame) = self.wire.arrived(self.now) {
                self.arrive(&frame);
            }
        }
    }

    fn next(&self) -> Option<Instant> {
        let ends = self
            .peers
            .iter()
            .chain(self.host.iter().filter(|_| self.relays));
        let timers = ends.filter_map(|end| end.connection.poll_timeout());
        let readers = (0..2)
            .filter(|side| self.plan.slow[*side] && self.peers[*side].connection.unread() > 0);
        let readers = readers.map(|side| self.peers[side].next_read);
        let plans = [self.plan.aborts.map(|(_, at)| at), self.plan.taken_back];
        let plans = plans.into_iter().flatten().map(|at| self.start + at);
        timers
            .chain(readers)
            .chain(plans)
            .chain(self.wire.next())
            .chain(self.rig.bare.nic.poll_timeout())
            .min()
    }

    /// Peers, NIC and host do what is due now.
    fn settle(&mut self) {
        if let Some((side, at)) = self.plan.aborts
            && self.now >= self.start + at
        {
            self.plan.aborts = None;
            self.aborted = !self.peers[side].is_over();
            self.peers[side].connection.abort();
        }
        if self
            .plan
            .taken_back
            .is_some_and(|at| self.now >= self.start + at)
        {
            self.plan.taken_back = None;
            if self.ended.is_none() {
                self.called_back = Some(self.now);
                let frames = self.rig.post(&SendDescriptor::Unsplice { splice: SPLICE });
                frames.into_iter().for_each(|frame| self.send(frame));
            }
        }
        for side in [A, B] {
            let (now, plan) = (self.now, &self.plan);
            let slow = plan.slow[side];
            let work = (plan.totals[side], plan.closes_first[side]);
            self.peers[side].work(now, work, slow);
            let frames = self.peers[side].frames(now);
            frames.into_iter().for_each(|frame| self.send(frame));
        }
        let frames = self.rig.transmitted();
        frames.into_iter().for_each(|(frame, _)| self.send(frame));
        self.listen();
        if self.relays {
            self.relay();
        }
    }

    /// What the NIC tells its host.
    fn listen(&mut self) {
        let mut states = Vec::new();
        for reported in self.rig.reported() {
            match reported {
                RecvDescriptor::SpliceEnded(ended) => {
                    assert!(self.ended.is_none(), "ends once");
                    self.ended = Some(ended);
                }
                RecvDescriptor::SpliceState(state) => states.push(state),
                RecvDescriptor::Packet(_) => {
                    let taken = self.rig.bare.host.read(reported).expect("a packet");
                    self.rig.bare.host.fill(1, 0);
                    self.host_takes(&taken.bytes);
                }
                other => panic!("{other:?}"),
            }
            if states.len() == 2 {
                self.take_back(&states);
                states.clear();
            }
        }
    }

    fn take_back(&mut self, states: &[SpliceState]) {
        if states
            .iter()
            .any(|leg| leg.state.snd_una != leg.state.snd_nxt)
        {
            let since = self.called_back.expect("called back");
            let waited = self.now.duration_since(since);
            assert!(waited >= DRAINS_FOR, "given up after {waited:?}");
            self.given_up = true;
            return;
        }
        for (end, state) in self.host.iter_mut().zip(states) {
            let state = &state.state;
            let before = end.connection.tcb(self.now).expect("established");
            let tcb = Tcb {
                state: match (state.fin_sent, state.fin_received) {
                    (false, false) => State::Established,
                    (true, false) => State::FinWait2,
                    (false, true) => State::CloseWait,
                    (true, true) => State::TimeWait,
                },
                snd_una: state.snd_una,
                snd_nxt: state.snd_nxt,
                write_seq: state.snd_nxt - u32::from(state.fin_sent),
                fin_queued: state.fin_sent,
                snd_wnd: state.peer_window,
                rcv_nxt: state.rcv_nxt,
                rcv_edge: state.rcv_nxt + state.our_window,
                fin_taken: state.fin_received,
                timestamps: state.timestamps.map(|timestamps| TcbTimestamps {
                    recent: timestamps.recent,
                    recent_age: Duration::ZERO,
                    val: timestamps.value,
                }),
                ..before
            };
            end.connection.put_back(self.now, &tcb);
            end.connection.consumed(self.now, 0);
            end.closed = state.fin_sent;
            end.saw_end = state.fin_received;
        }
        self.relays = true;
        for frame in std::mem::take(&mut self.kept) {
            self.host_takes(&frame);
        }
    }

    /// A host that has the connections takes a frame of theirs, one that has not resets.
    fn host_takes(&mut self, bytes: &[u8]) {
        let Ok(parsed) = packet::parse(bytes) else {
            // Damaged into something else.
            return;
        };
        let side = [A, B]
            .into_iter()
            .find(|side| self.host[*side].flow == parsed.flow.reversed());
        let side = side.expect("one of the flows");
        if self.called_back.is_some() && self.ended.is_none() {
            self.kept.push(bytes.to_vec());
        } else if self.relays && self.host[side].connection.state() != State::Closed {
            self.host[side].receive(self.now, bytes);
        } else if let Some(header) = reset_for(&parsed.tcp, parsed.payload_len) {
            assert!(self.ended.is_some(), "a spliced flow is the NIC's");
            let end = &self.host[side];
            let frame = frame(end.macs[0], end.macs[1], &end.flow, &header, &[]);
            self.send(frame);
        }
    }

    /// The host carries bytes, and ends, from one connection to the other.
    fn relay(&mut self) {
        loop {
            let mut progress = false;
            for side in [A, B] {
                let [a, b] = &mut self.host;
                let (from, to) = if side == A { (a, b) } else { (b, a) };
                from.events();
                let bytes = from.connection.unread().min(to.connection.send_space());
                if bytes > 0 {
                    assert_eq!(to.connection.queue(self.now, bytes), bytes);
                    from.connection.consumed(self.now, bytes);
                    progress = true;
                }
                if from.saw_end && from.connection.unread() == 0 && !to.closed {
                    to.connection.close(self.now);
                    to.closed = true;
                    progress = true;
                }
            }
            if !progress {
                break;
            }
        }
        for side in [A, B] {
            if self.host[side]
                .connection
                .poll_timeout()
                .is_some_and(|at| at <= self.now)
            {
                self.host[side].connection.handle_timeout(self.now);
            }
            let frames = self.host[side].frames(self.now);
            frames.into_iter().for_each(|frame| self.send(frame));
        }
    }

    fn arrive(&mut self, frame: &[u8]) {
        match ethernet::destination(frame) {
            Some(HOST) => self
                .rig
                .bare
                .nic
                .handle_frame(self.now, frame, FrameMeta::default()),
            Some(mac) => {
                let Some(side) = HOPS.iter().position(|hop| *hop == mac) else {
                    return;
                };
                if let Some(reset) = self.peers[side].receive(self.now, frame) {
                    self.send(reset);
                }
            }
            None => {}
        }
        let frames = self.rig.transmitted();
        frames.into_iter().for_each(|(frame, _)| self.send(frame));
        // The host sees each before the next: what is passed up is not merged.
        self.listen();
    }

    fn send(&mut self, mut frame: Vec<u8>) {
        if self.wire.loses() {
            return;
        }
        if self.wire.happens(self.plan.corrupt) {
            let at = 14 + self.wire.below(frame.len() - 14);
            frame[at] ^= 1 << self.wire.below(8);
        }
        self.wire.carry(self.now, frame);
    }
}

fn flows() -> [FlowKey; 2] {
    let splice = super::rig::splice();
    [splice.a.flow, splice.b.flow]
}
