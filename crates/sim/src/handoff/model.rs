//! The machine of the experiments: clients, a wire, a NIC's core and a host's core, as discrete events in virtual time.
//!
//! TCP is the real one at both ends, the load control is the NIC's, the selection is the host's. What work costs is in
//! [`Costs`]; work takes effect when a core begins it, and what comes of it leaves the core when its time is over.
//! Clients cost nothing ("completely functional", Connection handoff policies §4.1).

mod cache;
mod client;
mod host;
mod measure;
mod nic;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use ::host::handoff::policy::Record;
use tcp::Connection;
use wire::SeqNum;
use wire::tcp::Header;

use super::workload::Request;
use super::{Config, Costs, Outcome, Run};
use measure::Measure;

/// Picoseconds since the start: an instruction at 600 MIPS is no whole number of nanoseconds.
type Pico = u64;
const NEVER: Pico = Pico::MAX;

/// Time on the wire besides that of a packet's bits.
const PROPAGATION: Pico = 500_000;
/// A bit at 10 Gbit/s (Connection handoff policies, Table 2).
const BIT: Pico = 100;
/// Ethernet, IP and TCP headers with timestamps, the check sequence, preamble and gap.
const FRAMING: u32 = 14 + 20 + 32 + 4 + 20;
/// The server's send buffer: FreeBSD 4.7's default (`net.inet.tcp.sendspace`).
const SEND_BUFFER: u32 = 32 << 10;
/// The receive buffers.
const RECEIVE_BUFFER: u32 = 64 << 10;
/// The server's port.
const PORT: u16 = 80;

/// Runs an experiment.
pub(super) fn run(
    config: &Config,
    costs: &Costs,
    run: Run,
    progress: &mut dyn FnMut(u64, u64),
) -> Outcome {
    let mut world = World::new(config, costs, run);
    let total = run.warm_up + run.measured;
    let mut told = 0;
    while world.measure.packets < total {
        if !world.step() {
            break;
        }
        if world.measure.packets >= told {
            progress(world.measure.packets.min(total), total);
            told += 1 << 14;
        }
    }
    progress(total, total);
    world.outcome()
}

/// One of the connections that there are, as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PairId {
    index: u32,
    generation: u32,
}

/// Both ends of a connection.
#[derive(Debug)]
struct Pair {
    generation: u32,
    client: u32,
    /// The client's end.
    far: Connection,
    far_timer: Pico,
    opened: Pico,
    /// The client has closed it, and waits for the server to do so.
    closed: bool,
    /// The client has something else to do now.
    left: bool,
    /// The server's end, from the SYN's arrival to the end.
    near: Option<Box<Near>>,
    /// What the client asks for, once it has sent it.
    request: Option<Request>,
}

/// Who runs TCP for the server's end. A handoff that is on its way counts: the host does nothing any more, and packets wait on the
/// NIC behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Host,
    Nic,
}

/// What the application does on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Application {
    /// It has not accepted it yet.
    Unknown,
    /// It waits for a request.
    Idle,
    /// It sends a response of which so many bytes are not enqueued.
    Sending(u32),
    /// It has closed it.
    Done,
}

/// The server's end of a connection.
#[derive(Debug)]
struct Near {
    tcp: Connection,
    timer: Pico,
    owner: Owner,
    record: Record,
    application: Application,
    /// It is in the list of those that the application looks at next.
    ready: bool,
    /// Bytes that the application can read, as the host knows.
    readable: u32,
    /// The peer has closed, as the host knows.
    ended: bool,
    /// Bytes in the send buffer, as the host knows.
    buffered: u32,
    /// Bytes that the application may still enqueue in its present turn.
    turn: u32,
    /// All before it was taken note of as acknowledged, by whoever runs TCP.
    acknowledged: SeqNum,
    /// Acknowledged bytes that the NIC has not told the host of.
    untold: u32,
    /// It was on the NIC at some time.
    was_on_nic: bool,
    /// Where it is in the list of the connections that the NIC has taken.
    place: Option<u32>,
    /// Packets on the NIC of late.
    load: f32,
    load_at: Pico,
}

/// A packet somewhere.
#[derive(Clone, Debug)]
struct Packet {
    pair: PairId,
    header: Header,
    payload: u32,
    /// When it came to the NIC.
    at: Pico,
}

/// What is to happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A packet has come over the wire to the NIC.
    ToNic(u32),
    /// A packet has come over the wire to its client.
    ToClient(u32),
    /// The NIC's core is free again.
    NicDone,
    /// The host's core is free again.
    HostDone,
    /// Time to look at the timers of an end.
    NearTimer(PairId),
    FarTimer(PairId),
    /// A client opens a connection.
    Connect(u32),
    /// A client does what comes after a response.
    Next(PairId),
    /// A client that takes its time reads on.
    Read(PairId),
}

#[derive(Debug)]
struct Due {
    at: Pico,
    order: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

struct World {
    costs: Costs,
    origin: Instant,
    now: Pico,
    events: BinaryHeap<Reverse<Due>>,
    order: u64,
    pairs: Vec<Pair>,
    free_pairs: Vec<u32>,
    packets: Vec<Packet>,
    free_packets: Vec<u32>,
    clients: Vec<client::Client>,
    host: host::Host,
    nic: nic::Nic,
    /// When the wire is free, in each direction.
    wire_to_client: Pico,
    wire_to_nic: Pico,
    near_settings: tcp::Config,
    far_settings: tcp::Config,
    measure: Measure,
}

impl World {
    fn new(config: &Config, costs: &Costs, run: Run) -> Self {
        // FreeBSD 4.7's: NewReno, four segments at first on a local network, no SACK, a second at least before a
        // segment is sent again. Flash turns Nagle's algorithm off.
        let near_settings = tcp::Config {
            rcv_buf: RECEIVE_BUFFER,
            rcv_buf_max: RECEIVE_BUFFER,
            snd_buf: SEND_BUFFER,
            congestion: tcp::Algorithm::NewReno,
            initial_window: 4,
            nagle: false,
            delayed_ack: Some(Duration::from_millis(100)),
            sack: false,
            tso_max: 0,
            min_rto: Duration::from_secs(1),
            ..tcp::Config::default()
        };
        // The client reads at once, which opens its window with every segment: it acknowledges each.
        let far_settings = tcp::Config {
            delayed_ack: None,
            ..near_settings.clone()
        };
        let mut world = Self {
            costs: *costs,
            origin: Instant::now(),
            now: 0,
            events: BinaryHeap::new(),
            order: 0,
            pairs: Vec::new(),
            free_pairs: Vec::new(),
            packets: Vec::new(),
            free_packets: Vec::new(),
            clients: client::all(config),
            host: host::Host::new(config, costs),
            nic: nic::Nic::new(config, costs),
            wire_to_client: 0,
            wire_to_nic: 0,
            near_settings,
            far_settings,
            measure: Measure::new(run),
        };
        world.clients_arrive();
        world
    }

    /// The next event; `false` when there is none.
    fn step(&mut self) -> bool {
        let Some(Reverse(due)) = self.events.pop() else {
            return false;
        };
        self.now = due.at;
        self.sample();
        match due.event {
            Event::ToNic(packet) => self.nic_receives(packet),
            Event::ToClient(packet) => self.client_receives(packet),
            Event::NicDone => self.nic_done(),
            Event::HostDone => self.host_done(),
            Event::NearTimer(pair) => self.near_timer(pair),
            Event::FarTimer(pair) => self.far_timer(pair),
            Event::Connect(client) => self.client_connects(client),
            Event::Next(pair) => self.client_goes_on(pair),
            Event::Read(pair) => self.client_reads(pair),
        }
        self.nic_works();
        self.host_works();
        true
    }

    fn at(&mut self, at: Pico, event: Event) {
        self.order += 1;
        self.events.push(Reverse(Due {
            at,
            order: self.order,
            event,
        }));
    }

    fn instant(&self) -> Instant {
        self.origin + Duration::from_nanos(self.now / 1000)
    }

    fn pico(&self, instant: Instant) -> Pico {
        let since = instant.saturating_duration_since(self.origin);
        (since.as_nanos() as u64).saturating_mul(1000)
    }

    /// A pair that is still there.
    fn pair(&mut self, id: PairId) -> Option<&mut Pair> {
        let pair = &mut self.pairs[id.index as usize];
        (pair.generation == id.generation).then_some(pair)
    }

    /// The server's end of a pair that is still there.
    fn near(&mut self, id: PairId) -> Option<&mut Near> {
        self.pair(id)?.near.as_deref_mut()
    }

    fn new_packet(&mut self, packet: Packet) -> u32 {
        match self.free_packets.pop() {
            Some(at) => {
                self.packets[at as usize] = packet;
                at
            }
            None => {
                self.packets.push(packet);
                (self.packets.len() - 1) as u32
            }
        }
    }

    fn drop_packet(&mut self, packet: u32) {
        self.free_packets.push(packet);
    }

    /// A packet begins its way over the wire.
    fn send_to_client(&mut self, packet: u32) {
        let bits = Pico::from(self.packets[packet as usize].payload + FRAMING) * 8;
        self.wire_to_client = self.wire_to_client.max(self.now) + bits * BIT;
        self.at(self.wire_to_client + PROPAGATION, Event::ToClient(packet));
    }

    fn send_to_nic(&mut self, packet: u32) {
        let bits = Pico::from(self.packets[packet as usize].payload + FRAMING) * 8;
        self.wire_to_nic = self.wire_to_nic.max(self.now) + bits * BIT;
        self.at(self.wire_to_nic + PROPAGATION, Event::ToNic(packet));
    }

    /// Sees to it that the timers of the server's end are looked at in time.
    fn arm_near(&mut self, id: PairId) {
        let now = self.now;
        let Some(due) = self.near(id).and_then(|near| near.tcp.poll_timeout()) else {
            return;
        };
        let at = self.pico(due).max(now);
        if let Some(near) = self.near(id)
            && at < near.timer
        {
            near.timer = at;
            self.at(at, Event::NearTimer(id));
        }
    }

    fn near_timer(&mut self, id: PairId) {
        let now = self.instant();
        let Some(near) = self.near(id) else { return };
        near.timer = NEVER;
        match near.tcp.poll_timeout() {
            Some(due) if due <= now => match near.owner {
                Owner::Host => self.host.interrupt(host::Work::Timer(id)),
                Owner::Nic => self.nic.queue(nic::Work::Timer(id)),
            },
            _ => self.arm_near(id),
        }
    }

    /// The server's end is at its end.
    fn near_ends(&mut self, id: PairId) {
        let Some(mut near) = self.pair(id).and_then(|pair| pair.near.take()) else {
            return;
        };
        self.measure.ended(near.was_on_nic);
        self.host.forget(id, &mut near.record);
        self.nic_loses(near.place);
        self.release_pair(id);
    }

    /// Nobody needs the pair any more.
    fn release_pair(&mut self, id: PairId) {
        if let Some(pair) = self.pair(id)
            && pair.left
            && pair.near.is_none()
        {
            pair.generation += 1;
            self.free_pairs.push(id.index);
        }
    }

    fn sample(&mut self) {
        if self.measure.wants_sample(self.now) {
            let (soft_limit, cnum, qlen) = self.nic.parameters();
            self.measure.sample(self.now, soft_limit, cnum, qlen);
        }
    }

    fn outcome(mut self) -> Outcome {
        self.measure.finish(self.now, &self.costs.host)
    }
}
