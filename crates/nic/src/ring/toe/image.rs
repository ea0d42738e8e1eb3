//! A control block in memory: what host and device hand each other with a connection.
//!
//! Little endian, in a fixed order. The device copies it once and checks each field against the others; so does the host with
//! what comes back.

use std::time::Duration;

use tcp::{Algorithm, Config, KeepAlive, State, Tcb, TcbTimestamps, TimerSnapshot};
use wire::SeqNum;
use wire::tcp::MAX_WINDOW_SCALE;

use super::MAX_HELD;
use super::reason::TcbField;

/// Bytes of an image.
pub const TCB_IMAGE_BYTES: usize = 512;

/// "TCB" and a version.
const VERSION: u32 = u32::from_le_bytes(*b"TCB\x02");
/// Most bytes that a connection may have queued, and the largest window (RFC 7323 §2.3).
const MOST: u32 = 1 << 30;
const MIN_MSS: u16 = 64;
/// No timeout is longer (RFC 6298 §2.5 allows for one of 60 seconds or more).
const LONGEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A control block and the settings that the connection goes on with.
#[derive(Debug, Clone, PartialEq)]
pub struct TcbImage {
    /// The control block.
    pub tcb: Tcb,
    /// The settings ([`tcp::Connection::config`]).
    pub config: Config,
    /// `TCP_CORK` is set.
    pub cork: bool,
}

/// More ranges came out of order than an image has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{held} ranges came out of order, an image has room for {MAX_HELD}: wait until some have joined"
)]
pub struct TooManyHeld {
    /// Ranges.
    pub held: usize,
}

const FIN_QUEUED: u32 = 1;
const FIN_TAKEN: u32 = 1 << 1;
const FIN_AT: u32 = 1 << 2;
const OWES_ACK: u32 = 1 << 3;
const SHIFTS: u32 = 1 << 4;
const SACK: u32 = 1 << 5;
const TIMESTAMPS: u32 = 1 << 6;
const RTT: u32 = 1 << 7;
const DETACHED: u32 = 1 << 8;
const LINGER: u32 = 1 << 9;
const CORK: u32 = 1 << 10;
const NAGLE: u32 = 1 << 11;
const DELAYED_ACK: u32 = 1 << 12;
const KEEP_ALIVE: u32 = 1 << 13;
const USER_TIMEOUT: u32 = 1 << 14;
const ALL_FLAGS: u32 = (1 << 15) - 1;

impl TcbImage {
    /// Writes it.
    ///
    /// # Errors
    /// When more came out of order than there is room for; then nothing was written.
    pub fn encode(&self, bytes: &mut [u8; TCB_IMAGE_BYTES]) -> Result<(), TooManyHeld> {
        let held = self.tcb.held.len();
        if held > MAX_HELD {
            return Err(TooManyHeld { held });
        }
        bytes.fill(0);
        let mut to = Writer { bytes, at: 0 };
        self.write_tcb(&mut to);
        self.write_config(&mut to);
        Ok(())
    }

    fn write_tcb(&self, to: &mut Writer<'_>) {
        let tcb = &self.tcb;
        to.u32(VERSION);
        to.u32(self.flags());
        to.u8(state_to_byte(tcb.state));
        to.u8(tcb.held.len() as u8);
        let (peers, ours) = tcb.shifts.unwrap_or_default();
        to.u8(peers);
        to.u8(ours);
        for number in [tcb.src_port, tcb.dst_port, tcb.window, tcb.mss, tcb.adv_mss] {
            to.u16(number);
        }
        for number in [
            tcb.snd_una.0,
            tcb.snd_nxt.0,
            tcb.write_seq.0,
            tcb.snd_wnd,
            tcb.snd_wnd_max,
            tcb.rcv_nxt.0,
            tcb.unread,
            tcb.rcv_edge.0,
            tcb.rcv_buffer,
            tcb.fin_at.unwrap_or(SeqNum(0)).0,
            tcb.ssthresh,
            tcb.cwnd,
        ] {
            to.u32(number);
        }
        let none = TcbTimestamps {
            recent: 0,
            recent_age: Duration::ZERO,
            val: 0,
        };
        let timestamps = tcb.timestamps.unwrap_or(none);
        to.u32(timestamps.recent);
        to.u32(timestamps.val);
        to.span(timestamps.recent_age);
        let (smoothed, variation) = tcb.rtt.unwrap_or_default();
        to.span(smoothed);
        to.span(variation);
        to.span(tcb.rto);
        to.span(tcb.linger.unwrap_or_default());
        write_patience(&tcb.timer_snapshot, to);
        for n in 0..MAX_HELD {
            let (start, end) = tcb.held.get(n).copied().unwrap_or((SeqNum(0), SeqNum(0)));
            to.u32(start.0);
            to.u32(end.0);
        }
    }

    fn write_config(&self, to: &mut Writer<'_>) {
        let config = &self.config;
        to.u16(config.mss);
        to.u8(match config.congestion {
            Algorithm::NewReno => 1,
            Algorithm::Cubic => 2,
        });
        to.u8(config.initial_window);
        to.u8(config.syn_retries);
        to.u8(config.retries);
        let keep_alive = config.keep_alive.unwrap_or_default();
        to.u8(keep_alive.probes);
        to.u8(0);
        for number in [
            config.rcv_buf,
            config.rcv_buf_max,
            config.snd_buf,
            config.tso_max,
            to_millis(keep_alive.idle),
            to_millis(keep_alive.interval),
            to_millis(config.delayed_ack.unwrap_or_default()),
            to_millis(config.user_timeout.unwrap_or_default()),
            to_millis(config.time_wait),
            to_millis(config.fin_wait_2),
        ] {
            to.u32(number);
        }
        to.span(config.min_rto);
    }

    fn flags(&self) -> u32 {
        let (tcb, config) = (&self.tcb, &self.config);
        [
            (tcb.fin_queued, FIN_QUEUED),
            (tcb.fin_taken, FIN_TAKEN),
            (tcb.fin_at.is_some(), FIN_AT),
            (tcb.owes_ack, OWES_ACK),
            (tcb.shifts.is_some(), SHIFTS),
            (tcb.sack, SACK),
            (tcb.timestamps.is_some(), TIMESTAMPS),
            (tcb.rtt.is_some(), RTT),
            (tcb.detached, DETACHED),
            (tcb.linger.is_some(), LINGER),
            (self.cork, CORK),
            (config.nagle, NAGLE),
            (config.delayed_ack.is_some(), DELAYED_ACK),
            (config.keep_alive.is_some(), KEEP_ALIVE),
            (config.user_timeout.is_some(), USER_TIMEOUT),
        ]
        .iter()
        .map(|(set, flag)| if *set { *flag } else { 0 })
        .sum()
    }

    /// Reads it and checks every field against the others.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn decode(bytes: &[u8; TCB_IMAGE_BYTES]) -> Result<TcbImage, TcbField> {
        let mut from = Reader { bytes, at: 0 };
        if from.u32() != VERSION {
            return Err(TcbField::Version);
        }
        let flags = from.u32();
        if flags & !ALL_FLAGS != 0 {
            return Err(TcbField::Flags);
        }
        let set = |flag: u32| flags & flag != 0;
        let tcb = read_tcb(&mut from, set)?;
        let config = read_config(&mut from, set, &tcb)?;
        check(&tcb)?;
        if config.rcv_buf_max < tcb.rcv_buffer || config.rcv_buf_max > MOST {
            return Err(TcbField::RcvBufMax);
        }
        Ok(TcbImage {
            tcb,
            config,
            cork: set(CORK),
        })
    }
}

fn read_tcb(from: &mut Reader<'_>, set: impl Fn(u32) -> bool) -> Result<Tcb, TcbField> {
    let state = state_from_byte(from.u8()).ok_or(TcbField::State)?;
    let held = usize::from(from.u8());
    if held > MAX_HELD {
        return Err(TcbField::Held);
    }
    let shifts = (from.u8(), from.u8());
    let [src_port, dst_port, window, mss, adv_mss] = std::array::from_fn(|_| from.u16());
    let mut tcb = Tcb {
        state,
        src_port,
        dst_port,
        snd_una: from.seq(),
        snd_nxt: from.seq(),
        write_seq: from.seq(),
        fin_queued: set(FIN_QUEUED),
        snd_wnd: from.u32(),
        snd_wnd_max: from.u32(),
        rcv_nxt: from.seq(),
        unread: from.u32(),
        rcv_edge: from.seq(),
        rcv_buffer: from.u32(),
        window,
        fin_taken: set(FIN_TAKEN),
        fin_at: Some(from.seq()).filter(|_| set(FIN_AT)),
        held: Vec::new(),
        owes_ack: set(OWES_ACK),
        mss,
        adv_mss,
        shifts: set(SHIFTS).then_some(shifts),
        sack: set(SACK),
        timestamps: None,
        rtt: None,
        rto: Duration::ZERO,
        ssthresh: from.u32(),
        cwnd: from.u32(),
        detached: set(DETACHED),
        linger: None,
        timer_snapshot: TimerSnapshot::default(),
    };
    let (recent, val, recent_age) = (from.u32(), from.u32(), from.span());
    tcb.timestamps = set(TIMESTAMPS).then_some(TcbTimestamps {
        recent,
        recent_age,
        val,
    });
    let (smoothed, variation) = (from.span(), from.span());
    tcb.rtt = set(RTT).then_some((smoothed, variation));
    tcb.rto = from.span();
    tcb.linger = Some(from.span()).filter(|_| set(LINGER));
    tcb.timer_snapshot = read_patience(from);
    let ranges: [(SeqNum, SeqNum); MAX_HELD] = std::array::from_fn(|_| (from.seq(), from.seq()));
    tcb.held.extend_from_slice(&ranges[..held]);
    Ok(tcb)
}

/// What is left of a timer that is not set.
const NOT_SET: Duration = Duration::from_nanos(u64::MAX);

fn write_patience(timer_snapshot: &TimerSnapshot, to: &mut Writer<'_>) {
    let TimerSnapshot {
        retransmit,
        tail_probe,
        persist,
        keep_alive,
        ..
    } = *timer_snapshot;
    for left in [retransmit, tail_probe, persist, keep_alive] {
        to.span(left.unwrap_or(NOT_SET));
    }
    for number in [
        timer_snapshot.backoff,
        timer_snapshot.tries,
        timer_snapshot.probes,
        0,
    ] {
        to.u8(number);
    }
    to.span(timer_snapshot.progress_age);
    to.span(timer_snapshot.heard_age);
}

fn read_patience(from: &mut Reader<'_>) -> TimerSnapshot {
    let left: [_; 4] = std::array::from_fn(|_| Some(from.span()).filter(|left| *left != NOT_SET));
    let [retransmit, tail_probe, persist, keep_alive] = left;
    let [backoff, tries, probes, _] = std::array::from_fn(|_| from.u8());
    TimerSnapshot {
        retransmit,
        tail_probe,
        persist,
        keep_alive,
        backoff,
        tries,
        probes,
        progress_age: from.span(),
        heard_age: from.span(),
    }
}

fn read_config(
    from: &mut Reader<'_>,
    set: impl Fn(u32) -> bool,
    tcb: &Tcb,
) -> Result<Config, TcbField> {
    let mss = from.u16();
    let congestion = match from.u8() {
        1 => Algorithm::NewReno,
        2 => Algorithm::Cubic,
        _ => return Err(TcbField::Congestion),
    };
    let [initial_window, syn_retries, retries, probes, _] = std::array::from_fn(|_| from.u8());
    let [rcv_buf, rcv_buf_max, snd_buf, tso_max] = std::array::from_fn(|_| from.u32());
    let [
        idle,
        interval,
        delayed_ack,
        user_timeout,
        time_wait,
        fin_wait_2,
    ] = std::array::from_fn(|_| from_millis(from.u32()));
    Ok(Config {
        mss,
        rcv_buf,
        rcv_buf_max,
        snd_buf,
        congestion,
        initial_window,
        nagle: set(NAGLE),
        delayed_ack: set(DELAYED_ACK).then_some(delayed_ack),
        keep_alive: set(KEEP_ALIVE).then_some(KeepAlive {
            idle,
            interval,
            probes,
        }),
        user_timeout: set(USER_TIMEOUT).then_some(user_timeout),
        timestamps: tcb.timestamps.is_some(),
        sack: tcb.sack,
        window_scale: tcb.shifts.is_some(),
        tso_max,
        min_rto: from.span(),
        syn_retries,
        retries,
        time_wait,
        fin_wait_2,
    })
}

/// Whether the fields agree with each other (RFC 9293 §3.3.1, §3.10.7.4).
fn check(tcb: &Tcb) -> Result<(), TcbField> {
    check_sending(tcb)?;
    check_receiving(tcb)?;
    let right = [
        (tcb.src_port != 0, TcbField::SrcPort),
        (tcb.dst_port != 0, TcbField::DstPort),
        (tcb.mss >= MIN_MSS, TcbField::Mss),
        (tcb.adv_mss >= MIN_MSS, TcbField::AdvMss),
        (tcb.cwnd > 0, TcbField::Cwnd),
        (
            tcb.linger.is_none() || tcb.detached && tcb.state == State::FinWait2,
            TcbField::Linger,
        ),
        (
            tcb.timer_snapshot.longest() <= LONGEST_TIMEOUT
                && tcb.timer_snapshot.age() <= TimerSnapshot::OLDEST,
            TcbField::TimerSnapshot,
        ),
    ];
    let shifts = tcb.shifts.unwrap_or_default();
    if shifts.0.max(shifts.1) > MAX_WINDOW_SCALE {
        return Err(TcbField::Shifts);
    }
    match right.iter().find(|(right, _)| !right) {
        Some((_, field)) => Err(*field),
        None => Ok(()),
    }
}

fn check_sending(tcb: &Tcb) -> Result<(), TcbField> {
    let fin = u32::from(tcb.fin_queued);
    let end = tcb.write_seq + fin;
    let unacknowledged = tcb.snd_una.distance_to(end);
    if unacknowledged > MOST + fin {
        return Err(if tcb.snd_una.after(end) {
            TcbField::SndUna
        } else {
            TcbField::WriteSeq
        });
    }
    if tcb.snd_una.distance_to(tcb.snd_nxt) > unacknowledged {
        return Err(TcbField::SndNxt);
    }
    let (closed, acknowledged) = match tcb.state {
        State::Established | State::CloseWait => (false, false),
        State::FinWait1 | State::Closing | State::LastAck => (true, false),
        _ => (true, true),
    };
    if tcb.fin_queued != closed {
        return Err(TcbField::FinQueued);
    }
    if closed && acknowledged != (tcb.snd_una == end) {
        return Err(TcbField::SndUna);
    }
    if tcb.snd_wnd > MOST {
        return Err(TcbField::SndWnd);
    }
    if tcb.snd_wnd_max < tcb.snd_wnd || tcb.snd_wnd_max > MOST {
        return Err(TcbField::SndWndMax);
    }
    Ok(())
}

fn check_receiving(tcb: &Tcb) -> Result<(), TcbField> {
    let fin = u32::from(tcb.fin_taken);
    let window = (tcb.rcv_nxt - fin).distance_to(tcb.rcv_edge);
    if window > MOST {
        return Err(TcbField::RcvEdge);
    }
    if tcb.rcv_buffer == 0 || tcb.rcv_buffer > MOST {
        return Err(TcbField::RcvBuffer);
    }
    if tcb.unread > tcb.rcv_buffer {
        return Err(TcbField::Unread);
    }
    let peer_closed = matches!(
        tcb.state,
        State::CloseWait | State::Closing | State::LastAck
    );
    if tcb.fin_taken != peer_closed {
        return Err(TcbField::FinTaken);
    }
    let mut end = tcb.rcv_nxt;
    for &(start, stop) in &tcb.held {
        let inside = start.after(end) && stop.after(start) && stop.at_or_before(tcb.rcv_edge);
        if tcb.fin_taken || !inside {
            return Err(TcbField::Held);
        }
        end = stop;
    }
    if let Some(fin) = tcb.fin_at {
        let distance = tcb.rcv_nxt.distance_to(fin);
        if tcb.fin_taken || distance == 0 || distance > window {
            return Err(TcbField::FinAt);
        }
        if end.after(fin) {
            return Err(TcbField::Held);
        }
    }
    Ok(())
}

fn state_to_byte(state: State) -> u8 {
    match state {
        State::Closed => 0,
        State::SynSent => 1,
        State::SynReceived => 2,
        State::Established => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::CloseWait => 6,
        State::Closing => 7,
        State::LastAck => 8,
        State::TimeWait => 9,
    }
}

/// A state that a connection can be handed over in.
fn state_from_byte(byte: u8) -> Option<State> {
    Some(match byte {
        3 => State::Established,
        4 => State::FinWait1,
        5 => State::FinWait2,
        6 => State::CloseWait,
        7 => State::Closing,
        8 => State::LastAck,
        _ => return None,
    })
}

struct Writer<'a> {
    bytes: &'a mut [u8; TCB_IMAGE_BYTES],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// In nanoseconds.
    fn span(&mut self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.put(&nanos.to_le_bytes());
    }
}

struct Reader<'a> {
    bytes: &'a [u8; TCB_IMAGE_BYTES],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        taken.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        taken
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn seq(&mut self) -> SeqNum {
        SeqNum(self.u32())
    }

    fn span(&mut self) -> Duration {
        Duration::from_nanos(u64::from_le_bytes(self.take()))
    }
}

/// Milliseconds on the ring.
fn to_millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

fn from_millis(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}
