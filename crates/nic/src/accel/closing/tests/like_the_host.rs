//! What the device answers is what the host's own connection answers that was closed and let go of, and then the host's
//! table of connections in TIME-WAIT.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tcp::{Config, Connection, State, TimeWait, Verdict};
use wire::SeqNum;
use wire::tcp::{Flags, Header, Options, SackBlocks, Timestamps};

use super::rig::{RCV, UNA, teardown_of};
use super::rig::{Rig, bytes, flow, frame_of};
use crate::accel::Handled;
use crate::accel::closing::entry::Entry;

/// The host's end, which sends and answers.
enum Host {
    Open(Box<Connection>),
    Resting(TimeWait),
    Gone,
}

/// What was said in answer to one segment.
#[derive(Debug, Default, PartialEq)]
struct Said {
    reset: Option<SeqNum>,
    /// Sequence number, acknowledgment and timestamps of the last ACK.
    ack: Option<(SeqNum, SeqNum, Option<Timestamps>)>,
    /// Data or FIN was sent (again).
    sent: bool,
    /// The segment is for a listener.
    reopened: bool,
}

impl Said {
    fn note(&mut self, header: &Header, payload: u32) {
        if header.flags.contains(Flags::RST) {
            self.reset = Some(header.seq);
        } else {
            self.ack = Some((header.seq, header.ack, header.options.timestamps));
        }
        self.sent |= payload > 0 || header.flags.contains(Flags::FIN);
    }
}

impl Host {
    fn answer(&mut self, now: Instant, header: &Header, len: u32) -> Said {
        let mut said = Said::default();
        match self {
            Host::Open(connection) => {
                connection.handle_segment(now, header, len, 1);
                while let Some(transmit) = connection.poll_transmit(now) {
                    said.note(&transmit.header, transmit.payload);
                }
                if let Some(entry) = connection.time_wait(now) {
                    let mut table = TimeWait::new(now, 1, Duration::from_secs(60), [0; 16]);
                    table.insert(now, flow(1, false), entry);
                    *self = Host::Resting(table);
                } else if connection.state() == State::Closed {
                    *self = Host::Gone;
                }
            }
            Host::Resting(table) => {
                match table.handle_segment(now, &flow(1, false).reversed(), header, len) {
                    Verdict::Reply(reply) => said.note(&reply, 0),
                    Verdict::Reopen(_) => {
                        said.reopened = true;
                        *self = Host::Gone;
                    }
                    Verdict::Drop | Verdict::Unknown => {}
                }
            }
            Host::Gone => {}
        }
        said
    }
}

/// A connection in ESTABLISHED or CLOSE-WAIT, 100 ms from its peer, with `len` bytes to send; and both that finish it.
fn both(rig: &mut Rig, timestamps: bool, peer_closed: bool, len: u32) -> Host {
    let config = Config {
        timestamps,
        sack: false,
        delayed_ack: None,
        rcv_buf: 1 << 20,
        ..Config::default()
    };
    let start = rig.now;
    let mut connection = Connection::connect(start, &config, 80, 1, UNA - 1);
    connection.poll_transmit(start).expect("a SYN");
    rig.now += Duration::from_millis(100);
    let answer = Header {
        src_port: 1,
        dst_port: 80,
        seq: RCV - 1 - u32::from(peer_closed),
        ack: UNA,
        flags: Flags::SYN | Flags::ACK,
        window: 65_000,
        options: Options {
            mss: Some(1460),
            window_scale: Some(0),
            timestamps: timestamps.then_some(Timestamps { val: 1000, echo: 0 }),
            sack: SackBlocks::EMPTY,
            sack_permitted: false,
        },
        ecn: wire::Ecn::NotEct,
    };
    connection.handle_segment(rig.now, &answer, 0, 1);
    connection.poll_transmit(rig.now).expect("an ACK");
    if peer_closed {
        let fin = Header {
            seq: RCV - 1,
            flags: Flags::FIN | Flags::ACK,
            options: Options {
                timestamps: answer.options.timestamps,
                ..Options::default()
            },
            ..answer
        };
        connection.handle_segment(rig.now, &fin, 0, 1);
        connection.poll_transmit(rig.now).expect("an ACK");
    }
    assert_eq!(connection.queue(rig.now, len), len);
    let closing = connection.closing(rig.now).expect("it may be handed over");
    let handed_over = teardown_of(&closing);
    assert_eq!(handed_over.peer_closed, peer_closed);
    rig.close(&handed_over, &bytes(len as usize)).expect("room");
    connection.close(rig.now);
    connection.detach(rig.now);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    while let Some(transmit) = connection.poll_transmit(rig.now) {
        let packets = transmit.payload.div_ceil(transmit.mss.into()).max(1);
        for packet in 0..packets {
            let at = packet * u32::from(transmit.mss);
            let len = (transmit.payload - at).min(transmit.mss.into());
            ours.push((transmit.header.seq + at, len));
        }
    }
    for sent in rig.sent() {
        theirs.push((sent.header.seq, sent.payload.len() as u32));
    }
    assert_eq!(ours, theirs, "what is left is sent");
    Host::Open(Box::new(connection))
}

fn entry(rig: &Rig) -> Option<&Entry> {
    let entry = rig.accel.closing.store.as_ref()?.table.get(0)?;
    (!entry.is_gone()).then_some(entry)
}

#[derive(Clone, Debug)]
struct Arrives {
    /// From what the connection expects, and from what it has sent.
    seq: i32,
    ack: i32,
    flags: Flags,
    window: u16,
    len: u32,
    /// Offset from the peer's clock, which goes on with each.
    timestamp: Option<i32>,
    after: u64,
}

fn arrives() -> impl Strategy<Value = Arrives> {
    let seq = prop_oneof![8 => Just(0), 3 => -2i32..3, 2 => -200i32..200, 1 => any::<i32>()];
    let ack = prop_oneof![8 => Just(0), 3 => -3i32..3, 2 => -3000i32..200, 1 => any::<i32>()];
    let flags = prop_oneof![
        6 => Just(Flags::ACK),
        6 => Just(Flags::FIN | Flags::ACK),
        1 => Just(Flags::SYN),
        1 => Just(Flags::RST),
        1 => Just(Flags::SYN | Flags::ACK),
        1 => any::<u8>().prop_map(Flags),
    ];
    let len = prop_oneof![6 => Just(0u32), 1 => 1u32..200];
    let timestamp = prop_oneof![12 => Just(Some(0)), 2 => (-3i32..3).prop_map(Some), 1 => any::<i32>().prop_map(Some), 1 => Just(None)];
    (seq, ack, flags, 2000u16.., len, timestamp, 0u64..3).prop_map(
        |(seq, ack, flags, window, len, timestamp, after)| Arrives {
            seq,
            ack,
            flags,
            window,
            len,
            timestamp,
            after,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_device_answers_as_the_host_would(
        timestamps: bool,
        peer_closed: bool,
        len in prop_oneof![Just(0u32), 1u32..3000],
        segments in prop::collection::vec(arrives(), 1..30),
    ) {
        let mut rig = Rig::new();
        let mut host = both(&mut rig, timestamps, peer_closed, len);
        let end = UNA + len + 1;
        for (clock, segment) in (1001u32..).zip(segments) {
            rig.now += Duration::from_millis(segment.after);
            let Some(before) = entry(&rig) else { break };
            let was_resting = before.state == State::TimeWait;
            if segment.flags.contains(Flags::FIN) && segment.seq > 0 {
                // The host remembers where the end is said to be; what would fill the gap before it resets in any case.
                continue;
            }
            let header = Header {
                src_port: 1,
                dst_port: 80,
                seq: SeqNum(before.rcv.nxt.0.wrapping_add(segment.seq as u32)),
                ack: SeqNum(end.0.wrapping_add(segment.ack as u32)),
                flags: segment.flags,
                window: segment.window,
                options: Options {
                    timestamps: segment.timestamp.map(|offset| Timestamps {
                        val: clock.wrapping_add(offset as u32),
                        echo: 0,
                    }),
                    ..Options::default()
                }, ecn: wire::Ecn::NotEct, };
            let wanted = host.answer(rig.now, &header, segment.len);
            let frame = frame_of(&flow(1, false).reversed(), &header, &bytes(segment.len as usize));
            let mut said = Said {
                reopened: rig.deliver(&frame) == Handled::Pass(None),
                ..Said::default()
            };
            for sent in rig.sent() {
                said.note(&sent.header, sent.payload.len() as u32);
            }
            prop_assert_eq!(said.reset, wanted.reset, "{:?}", header);
            prop_assert_eq!(said.reopened, wanted.reopened);
            match &host {
                Host::Open(connection) => {
                    let entry = entry(&rig).expect("both are open");
                    prop_assert_eq!(entry.state, connection.state(), "{:?}", header);
                    prop_assert_eq!(entry.snd.una, connection.snd_una());
                    prop_assert_eq!(entry.rcv.nxt, connection.rcv_nxt());
                }
                Host::Resting(_) => {
                    let state = entry(&rig).map(|entry| entry.state);
                    prop_assert_eq!(state, Some(State::TimeWait));
                }
                Host::Gone => prop_assert!(entry(&rig).is_none(), "{:?}", header),
            }
            // The host's table answers each that can't be right; the device not more often than its limit.
            let limited = was_resting && segment.len == 0 && !segment.flags.contains(Flags::FIN);
            if !(said.sent || wanted.sent || (limited && said.ack.is_none())) {
                prop_assert_eq!(said.ack, wanted.ack, "{:?}", header);
            }
        }
    }
}
