//! A TCP connection, a listener and the TIME-WAIT table under arbitrary segments, commands and times: nothing panics,
//! the connection never contradicts itself, and what it sends is its to send.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use tcp::isn::Generator;
use tcp::{
    AckAction, Algorithm, Config, Connection, Cookies, KeepAlive, ListenConfig, Listener, State,
    SynAction, TimeWait, reset_for,
};
use wire::tcp::{Flags, Header, Timestamps};
use wire::{FlowKey, SeqNum};

const KEY: [u8; 16] = [7; 16];

/// Reads the input as a list of steps.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = config(&mut input);
    let mut world = World::new(config, &mut input);
    world.check();
    while !input.0.is_empty() {
        world.step(&mut input);
        world.check();
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        match self.0 {
            [first, rest @ ..] => {
                self.0 = rest;
                *first
            }
            [] => 0,
        }
    }

    fn half(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn word(&mut self) -> u32 {
        u32::from(self.half()) << 16 | u32::from(self.half())
    }

    /// A distance: mostly small, of either sign.
    fn offset(&mut self) -> u32 {
        match self.byte() {
            0..=99 => 0,
            100..=159 => i32::from(self.byte() as i8) as u32,
            160..=219 => i32::from(self.half() as i16) as u32,
            220..=239 => (i32::from(self.half() as i16) << 8) as u32,
            _ => self.word(),
        }
    }
}

fn config(input: &mut Input) -> Config {
    let bits = input.byte();
    let more = input.byte();
    Config {
        timestamps: bits & 1 != 0,
        sack: bits & 2 != 0,
        window_scale: bits & 4 != 0,
        nagle: bits & 8 != 0,
        congestion: if bits & 16 != 0 {
            Algorithm::Cubic
        } else {
            Algorithm::NewReno
        },
        delayed_ack: (bits & 32 != 0).then_some(Duration::from_millis(40)),
        keep_alive: (bits & 64 != 0).then(KeepAlive::default),
        user_timeout: (bits & 128 != 0).then_some(Duration::from_secs(30)),
        mss: [1460, 536, 8960, 64][usize::from(more & 3)],
        rcv_buf: [1 << 18, 1, 5_000, 70_000][usize::from(more >> 2 & 3)],
        tso_max: [65_400, 0, 3_000, 65_400][usize::from(more >> 4 & 3)],
        ..Config::default()
    }
}

struct World {
    start: Instant,
    now: Instant,
    flow: FlowKey,
    connection: Connection,
    listener: Listener,
    time_wait: TimeWait,
}

impl World {
    fn new(config: Config, input: &mut Input) -> Self {
        let now = Instant::now();
        let ip = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
        let flow = FlowKey {
            src: (ip(1), 2),
            dst: (ip(2), 1),
        };
        let listen = ListenConfig {
            connection: config.clone(),
            backlog: 3,
            cookies: Cookies::OnOverflow,
        };
        let mut listener = Listener::new(now, listen, KEY, Generator::new(now, KEY));
        let isn = SeqNum(input.word());
        let connection = if input.byte() & 1 == 0 {
            Connection::connect(now, &config, 1, 2, isn)
        } else {
            let mut syn = segment(input);
            syn.flags = Flags::SYN;
            match listener.handle_syn(now, &flow, &syn) {
                SynAction::Accept(connection) => connection,
                other => panic!("the backlog is empty: {other:?}"),
            }
        };
        Self {
            start: now,
            now,
            flow,
            connection,
            listener,
            time_wait: TimeWait::new(now, 4, Duration::from_secs(60), KEY),
        }
    }

    fn step(&mut self, input: &mut Input) {
        match input.byte() {
            0..=159 => self.arrive(input),
            160..=189 => self.pass(Duration::from_micros(u64::from(input.half()) * 100)),
            190..=194 => self.pass(Duration::from_millis(u64::from(input.word()))),
            195..=214 => {
                let bytes = u32::from(input.half()) << (input.byte() % 8);
                self.connection.queue(self.now, bytes);
            }
            215..=234 => {
                let bytes = u32::from(input.half());
                self.connection.consumed(self.now, bytes);
            }
            235..=240 => self.connection.close(self.now),
            241..=242 => self.connection.detach(self.now),
            243 => self.connection.abort(),
            244..=246 => self.connection.set_cork(self.now, input.byte() & 1 != 0),
            247..=248 => self.connection.set_nagle(input.byte() & 1 != 0),
            249..=250 => self.connection.handle_path_mss(self.now, input.half()),
            _ => self.hand_over(),
        }
    }

    /// A segment whose positions are relative to the connection's.
    fn arrive(&mut self, input: &mut Input) {
        let mut segment = segment(input);
        let (una, next) = (self.connection.snd_una(), self.connection.rcv_nxt());
        segment.seq += next.0;
        segment.ack += una.0;
        let blocks = segment.options.sack;
        segment.options.sack = blocks
            .iter()
            .map(|(start, end)| (start + una.0, end + una.0))
            .collect();
        let len = u32::from(input.half());
        let packets = u16::from(input.byte());
        let received = self
            .connection
            .handle_segment(self.now, &segment, len, packets);
        if let Some(data) = received.data {
            assert!(data.len > 0 && data.skip + data.len <= len);
            assert_eq!(segment.seq + data.skip, data.seq);
            assert!(data.seq.at_or_after(next));
        }
        self.time_wait
            .handle_segment(self.now, &self.flow, &segment, len);
        if segment.flags.contains(Flags::SYN) {
            if let SynAction::Reply(reply) =
                self.listener.handle_syn(self.now, &self.flow, &segment)
            {
                self.return_cookie(&segment, &reply);
            }
        } else {
            self.listener
                .handle_ack(self.now, &self.flow, &segment, true);
        }
        if let Some(reset) = reset_for(&segment, len) {
            assert!(reset.flags.contains(Flags::RST));
            assert_eq!(reset_for(&reset, 0), None);
        }
    }

    fn return_cookie(&mut self, syn: &Header, reply: &Header) {
        let mut ack = *syn;
        ack.flags = Flags::ACK;
        ack.seq = syn.seq + 1;
        ack.ack = reply.seq + 1;
        ack.options.timestamps = reply.options.timestamps.map(|sent| Timestamps {
            val: 1,
            echo: sent.val,
        });
        if let AckAction::Open(connection) =
            self.listener.handle_ack(self.now, &self.flow, &ack, true)
        {
            connection.assert_invariants();
            self.listener.accepted();
        }
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..1_000 {
            let Some(due) = self.connection.poll_timeout().filter(|due| *due <= end) else {
                break;
            };
            self.now = self.now.max(due);
            self.connection.handle_timeout(self.now);
            self.check();
        }
        self.now = end;
        self.time_wait.handle_timeout(end);
    }

    /// A connection that rests goes to the table.
    fn hand_over(&mut self) {
        let entry = self.connection.time_wait(self.now);
        assert_eq!(entry.is_some(), self.connection.state() == State::TimeWait);
        if let Some(entry) = entry {
            self.time_wait.insert(self.now, self.flow.reversed(), entry);
        }
    }

    fn check(&mut self) {
        self.connection.assert_invariants();
        let mut sent = 0;
        while let Some(transmit) = self.connection.poll_transmit(self.now) {
            self.connection.assert_invariants();
            assert!(transmit.header.len() <= 60);
            if transmit.payload > 0 {
                let seq = transmit.header.seq;
                assert!(transmit.mss > 0);
                assert!(seq.at_or_after(self.connection.snd_una()));
                assert!((seq + transmit.payload).at_or_before(self.connection.write_seq()));
            }
            sent += 1;
            assert!(sent < 1_000_000, "it never stops sending");
        }
        while self.connection.poll_event().is_some() {}
        let info = self.connection.info(self.now);
        assert!(info.cwnd > 0 && info.sacked + info.lost <= info.unacked);
        assert!(self.now >= self.start);
    }
}

/// Positions are offsets still.
fn segment(input: &mut Input) -> Header {
    let mut header = Header {
        src_port: 2,
        dst_port: 1,
        seq: SeqNum(input.offset()),
        ack: SeqNum(input.offset()),
        window: input.half(),
        ..Header::default()
    };
    let kind = input.byte();
    header.flags = match kind & 7 {
        0..=3 => Flags::ACK,
        4 => Flags::ACK | Flags::FIN,
        5 => Flags::ACK | Flags::SYN,
        6 => Flags(input.byte()),
        // A RST nearly always ends it: seldom.
        _ => Flags(input.byte()).without(Flags::RST),
    };
    if kind & 8 == 0 {
        let val = input.offset();
        header.options.timestamps = Some(Timestamps {
            val,
            echo: input.offset(),
        });
    }
    if kind & 16 != 0 {
        let blocks = input.byte() % 5;
        header.options.sack = (0..blocks)
            .map(|_| {
                let start = SeqNum(input.offset());
                (start, start + u32::from(input.half()))
            })
            .collect();
    }
    if header.flags.contains(Flags::SYN) {
        header.options.mss = (kind & 32 != 0).then(|| input.half());
        header.options.window_scale = (kind & 64 != 0).then(|| input.byte() % 15);
        header.options.sack_permitted = kind & 128 != 0;
    }
    header
}
