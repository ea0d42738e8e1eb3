//! Control blocks and settings in memory.

use std::time::{Duration, Instant};

use tcp::{Algorithm, Config, Connection, KeepAlive, State, Tcb, TcbEcn};
use wire::SeqNum;

use super::super::super::layout::{self, Field};
use super::super::super::toe::{TCB_IMAGE_BYTES, TcbImage};
use super::super::super::{HashType, HashTypes, RSS_BYTES, RssKey, RssSettings};
use super::{clip, compare, ranges};
use testkit::written::sum;

type Bytes = [u8; TCB_IMAGE_BYTES];

/// A control block with all that one can have.
fn full() -> TcbImage {
    let now = Instant::now();
    let config = Config {
        keep_alive: Some(KeepAlive {
            idle: Duration::from_millis(7_200_001),
            interval: Duration::from_millis(75_002),
            probes: 9,
        }),
        user_timeout: Some(Duration::from_millis(30_003)),
        delayed_ack: Some(Duration::from_millis(40)),
        orphan_retries: 3,
        orphan_timeout: Duration::from_secs(7),
        pacing: true,
        congestion: Algorithm::NewReno,
        ..Config::default()
    };
    let mut peer = Connection::connect(now, &config, 40_000, 80, SeqNum(500));
    let syn = peer.poll_transmit(now).expect("a SYN").header;
    let mut ours = Connection::accept(now, &config, &syn, SeqNum(u32::MAX - 10));
    let answer = ours.poll_transmit(now).expect("a SYN-ACK").header;
    peer.handle_segment(now, &answer, 0, 1);
    let ack = peer.poll_transmit(now).expect("an ACK").header;
    ours.handle_segment(now, &ack, 0, 1);
    assert_eq!(ours.queue(now, 5000), 5000);
    while ours.poll_transmit(now).is_some() {}
    let mut tcb = ours.tcb(now).expect("it is established");
    let nxt = tcb.rcv_nxt;
    tcb.held = vec![(nxt + 10, nxt + 20), (nxt + 30, nxt + 31)];
    tcb.fin_at = Some(nxt + 40);
    tcb.owes_ack = true;
    tcb.unread = 77;
    tcb.ecn = Some(TcbEcn {
        echo: true,
        reduced: false,
    });
    tcb.rtt = Some((Duration::from_micros(1501), Duration::from_micros(302)));
    let left = &mut tcb.timer_snapshot;
    left.keep_alive = Some(Duration::from_secs(7));
    left.persist = Some(Duration::from_millis(8));
    (left.backoff, left.tries, left.probes) = (1, 2, 3);
    left.progress_age = Duration::from_millis(4);
    left.heard_age = Duration::from_millis(5);
    TcbImage {
        tcb,
        config: ours.config(),
        cork: true,
    }
}

/// One with nothing that it need not have.
fn bare() -> TcbImage {
    let mut image = full();
    let tcb = &mut image.tcb;
    tcb.held.clear();
    (tcb.fin_at, tcb.shifts, tcb.timestamps) = (None, None, None);
    (tcb.ecn, tcb.rtt, tcb.sack, tcb.owes_ack) = (None, None, false, false);
    tcb.unread = 0;
    let config = &mut image.config;
    (config.keep_alive, config.user_timeout, config.delayed_ack) = (None, None, None);
    (config.nagle, config.pacing) = (false, false);
    config.congestion = Algorithm::Cubic;
    image.cork = false;
    image
}

/// One whose both ends have closed as the state says.
fn closed(state: State) -> TcbImage {
    let mut image = bare();
    let tcb = &mut image.tcb;
    tcb.state = state;
    if !matches!(state, State::Established | State::CloseWait) {
        tcb.fin_queued = true;
        tcb.snd_nxt = tcb.write_seq + 1;
    }
    if matches!(state, State::CloseWait | State::Closing | State::LastAck) {
        tcb.fin_taken = true;
        tcb.rcv_nxt += 1;
    }
    if state == State::FinWait2 {
        tcb.snd_una = tcb.snd_nxt;
        tcb.detached = true;
        tcb.linger = Some(Duration::from_millis(4321));
    }
    image
}

fn samples() -> Vec<(String, TcbImage)> {
    let mut samples = vec![("full".to_owned(), full()), ("bare".to_owned(), bare())];
    let states = [
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
    ];
    samples.extend(states.map(|state| (format!("{state:?}"), closed(state))));
    samples
}

fn encode(image: &TcbImage) -> Bytes {
    let mut bytes = [0xff; TCB_IMAGE_BYTES];
    image.encode(&mut bytes).expect("few ranges");
    bytes
}

/// The fields of a control block, whose layout is named.
fn fields() -> &'static [Field] {
    layout::TcbBytes::LAYOUT.fields
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn control_blocks_are_as_written_down() {
    let mut lines = Vec::new();
    for (name, image) in samples() {
        let bytes = encode(&image);
        let read = TcbImage::decode(&bytes);
        let set = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
        let set: Vec<usize> = set.map(|(at, _)| at).collect();
        lines.push(clip(&format!("{name}: {}", ranges(&set))));
        lines.push(format!("  {:016x} {:?}", sum(&bytes), read.is_ok()));
        if let Ok(read) = &read {
            let told = format!("{read:?}");
            let told: Vec<char> = told.chars().collect();
            let parts = told.chunks(180).map(String::from_iter);
            lines.extend(parts.map(|part| format!("  {}", part.trim())));
        }
    }
    compare("control_blocks", &lines);
}

/// Values around each limit that a field of so many bytes may have.
fn values(old: u64, bytes: usize) -> Vec<u64> {
    const LIMITS: [u64; 9] = [
        0,
        14,
        64,
        1 << 16,
        1 << 30,
        120_000_000_000,
        24 * 3_600_000_000_000,
        u32::MAX as u64,
        u64::MAX,
    ];
    let most = u64::MAX >> (64 - 8 * bytes);
    let near = |limit: u64| [limit.wrapping_sub(1), limit, limit.wrapping_add(1)];
    let mut values: Vec<u64> = LIMITS.into_iter().flat_map(near).collect();
    let apart = [5, 9, 10, 11, 20, 29, 30, 31, 39, 40, 41, 77, 5000];
    values.extend(
        apart
            .iter()
            .flat_map(|by| [old.wrapping_add(*by), old.wrapping_sub(*by)]),
    );
    values.extend(near(old));
    values.extend((0..64).map(|bit| old ^ 1 << bit));
    values.retain(|value| *value <= most && *value != old);
    values.sort_unstable();
    values.dedup();
    values
}

/// Each field has another value; pairs of them have the same distance.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn wrong_control_blocks_are_refused_as_written_down() {
    let mut lines = Vec::new();
    for (name, image) in samples() {
        let bytes = encode(&image);
        let mut told = String::new();
        for field in fields() {
            let count = field.count.unwrap_or(1);
            let size = field.size / count;
            let each = if size > 8 { 4 } else { size };
            for at in (field.offset..field.offset + field.size)
                .step_by(each)
                .take(8)
            {
                told += &wrong_field(&bytes, at, each, field.name);
            }
        }
        lines.push(clip(&format!("{name} {:016x}", sum(told.as_bytes()))));
        if ["full", "FinWait2"].contains(&name.as_str()) {
            lines.extend(
                told.lines()
                    .filter(|line| line.contains('=') && !line.contains("_1@"))
                    .map(clip),
            );
        }
    }
    compare("wrong_control_blocks", &lines);
}

/// What is said of a field's other values; only of those that are refused what they are.
fn wrong_field(bytes: &Bytes, at: usize, size: usize, name: &str) -> String {
    let mut old = [0; 8];
    old[..size].copy_from_slice(&bytes[at..at + size]);
    let old = u64::from_le_bytes(old);
    let (mut refused, mut taken) = (Vec::<(String, Vec<u64>)>::new(), String::new());
    for value in values(old, size) {
        let mut wrong = *bytes;
        wrong[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        match TcbImage::decode(&wrong) {
            Ok(image) => taken += &format!("{value} {image:?}"),
            Err(field) => {
                let field = format!("{field:?}");
                match refused.iter_mut().find(|(known, _)| *known == field) {
                    Some((_, values)) => values.push(value),
                    None => refused.push((field, vec![value])),
                }
            }
        }
    }
    let mut told = format!("  {name}@{at}");
    for (field, values) in refused {
        told += &format!(" {field}={values:x?}");
    }
    told + &format!(" taken {:016x}\n", sum(taken.as_bytes()))
}

/// Fields that only together are wrong, or right.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn fields_that_contradict_each_other_are_named_as_written_down() {
    let mut lines = Vec::new();
    let mut judge = |name: &str, image: TcbImage, change: &dyn Fn(&mut Tcb)| {
        let mut image = image;
        change(&mut image.tcb);
        let read = TcbImage::decode(&encode(&image));
        let told = read.map_or_else(|field| format!("{field:?}"), |_| "taken".to_owned());
        lines.push(format!("{name}: {told}"));
    };
    const MOST: u32 = 1 << 30;
    for by in [MOST - 1, MOST, MOST + 1] {
        judge(&format!("queued {by}"), bare(), &|tcb| {
            tcb.write_seq = tcb.snd_una + by
        });
        judge(
            &format!("queued, FIN {by}"),
            closed(State::FinWait1),
            &|tcb| {
                tcb.write_seq = tcb.snd_una + by;
            },
        );
        judge(&format!("window {by}"), bare(), &|tcb| {
            (tcb.snd_wnd, tcb.snd_wnd_max) = (by, by);
        });
        judge(&format!("window of before {by}"), bare(), &|tcb| {
            tcb.snd_wnd_max = by
        });
        judge(&format!("edge {by}"), bare(), &|tcb| {
            tcb.rcv_edge = tcb.rcv_nxt + by
        });
        judge(&format!("edge, FIN {by}"), closed(State::Closing), &|tcb| {
            tcb.rcv_edge = tcb.rcv_nxt - 1 + by;
        });
    }
    for by in 0..3 {
        judge(&format!("before {by}"), bare(), &|tcb| {
            tcb.snd_una += 4999 + by
        });
        judge(&format!("sent {by}"), bare(), &|tcb| {
            tcb.snd_nxt = tcb.write_seq + by
        });
        judge(&format!("sent, FIN {by}"), closed(State::LastAck), &|tcb| {
            tcb.snd_nxt = tcb.write_seq + by;
        });
        judge(
            &format!("acknowledged {by}"),
            closed(State::FinWait2),
            &|tcb| {
                tcb.snd_una -= 1;
                tcb.snd_una += by;
            },
        );
        judge(
            &format!("acknowledged, FIN {by}"),
            closed(State::Closing),
            &|tcb| {
                tcb.snd_una = tcb.write_seq + by;
            },
        );
        judge(&format!("unread {by}"), bare(), &|tcb| {
            tcb.unread = tcb.rcv_buffer - 1 + by;
        });
        judge(&format!("held to the edge {by}"), bare(), &|tcb| {
            tcb.held = vec![(tcb.rcv_edge - 5, tcb.rcv_edge - 1 + by)];
        });
        judge(&format!("held before {by}"), bare(), &|tcb| {
            tcb.held = vec![(tcb.rcv_nxt - 1 + by, tcb.rcv_nxt + 10)];
        });
        judge(&format!("held in a row {by}"), bare(), &|tcb| {
            let nxt = tcb.rcv_nxt;
            tcb.held = vec![(nxt + 5, nxt + 10), (nxt + 9 + by, nxt + 12)];
        });
        judge(&format!("held behind the FIN {by}"), bare(), &|tcb| {
            tcb.fin_at = Some(tcb.rcv_nxt + 10);
            tcb.held = vec![(tcb.rcv_nxt + 5, tcb.rcv_nxt + 9 + by)];
        });
        judge(&format!("FIN at {by}"), bare(), &|tcb| {
            tcb.fin_at = Some(tcb.rcv_nxt + by)
        });
        judge(&format!("FIN at the edge {by}"), bare(), &|tcb| {
            tcb.fin_at = Some(tcb.rcv_edge - 1 + by);
        });
    }
    for state in [State::Established, State::FinWait2] {
        for detached in [false, true] {
            judge(
                &format!("linger {state:?} {detached}"),
                closed(state),
                &|tcb| {
                    (tcb.detached, tcb.linger) = (detached, Some(Duration::from_secs(1)));
                },
            );
        }
    }
    judge("held of a closed one", closed(State::CloseWait), &|tcb| {
        tcb.held = vec![(tcb.rcv_nxt + 5, tcb.rcv_nxt + 9)];
    });
    judge("FIN of a closed one", closed(State::CloseWait), &|tcb| {
        tcb.fin_at = Some(tcb.rcv_nxt + 5);
    });
    for seconds in [119, 120, 121] {
        judge(&format!("timer {seconds}"), bare(), &|tcb| {
            tcb.timer_snapshot.persist = Some(Duration::from_secs(seconds));
        });
    }
    let shifts = [(14, 0), (0, 14), (15, 0), (0, 15)];
    for shifts in shifts {
        judge(&format!("shifts {shifts:?}"), bare(), &|tcb| {
            tcb.shifts = Some(shifts)
        });
    }
    compare("contradictions", &lines);
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn settings_of_spreading_are_as_written_down() {
    let mut lines = Vec::new();
    let settings = RssSettings {
        types: HashTypes::NONE
            .with(HashType::TcpIpv4)
            .with(HashType::UdpIpv6),
        key: RssKey(std::array::from_fn(|at| at as u8)),
        table: std::array::from_fn(|at| at as u16 % 4),
    };
    let bytes = settings.encode();
    lines.push(clip(&format!("{:016x} {:02x?}", sum(&bytes), &bytes[..60])));
    for queues in [1, 3, 4, 5] {
        let read = RssSettings::decode(&bytes, queues);
        lines.push(format!("{queues} {:?}", read.map(|read| read == settings)));
    }
    let mut wrong = bytes.to_vec();
    let read = super::alter(&mut wrong, 0..RSS_BYTES, |bytes| {
        let bytes = bytes.try_into().expect("as many");
        match RssSettings::decode(bytes, 4) {
            Ok(read) => ("taken".to_owned(), format!("{read:?} {:?}", read.key.0)),
            Err(error) => (format!("{error:?}"), String::new()),
        }
    });
    lines.push(clip(&read));
    for byte in 0..=u8::MAX {
        if let Some(of) = HashType::from_byte(byte) {
            let with = HashTypes::NONE.with(of);
            let all: Vec<bool> = (0..=u8::MAX)
                .filter_map(HashType::from_byte)
                .map(|other| with.contains(other))
                .collect();
            lines.push(format!("{byte} {of:?} {all:?}"));
        }
    }
    compare("rss_settings", &lines);
}
