//! A control block in memory: what host and device hand each other with a connection.
//!
//! The device copies it once and checks each field against the others; so does the host with
//! what comes back.

mod check;

use std::time::Duration;

use tcp::{
    Algorithm, Config, EcnMode, KeepAlive, State, Tcb, TcbEcn, TcbTimestamps, TimerSnapshot,
};
use wire::SeqNum;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromZeros, transmute_mut, transmute_ref};

use super::super::layout::{ImageRange, TcbBytes};
use super::MAX_HELD;
use super::reason::TcbField;
use check::check;

/// Bytes of an image.
pub const TCB_IMAGE_BYTES: usize = size_of::<TcbBytes>();

/// "TCB" and a version.
const VERSION: u32 = u32::from_le_bytes(*b"TCB\x02");
/// Most bytes that a connection may have queued, and the largest window (RFC 7323 §2.3).
const MOST: u32 = 1 << 30;

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
const ECN: u32 = 1 << 15;
const ECN_ECHO: u32 = 1 << 16;
const ECN_REDUCED: u32 = 1 << 17;
const PACING: u32 = 1 << 18;
const ALL_FLAGS: u32 = (1 << 19) - 1;

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
        let image: &mut TcbBytes = transmute_mut!(bytes);
        *image = TcbBytes::new_zeroed();
        image.version = VERSION.into();
        image.flags = self.flags().into();
        self.write_tcb(image);
        self.write_config(image);
        Ok(())
    }

    fn write_tcb(&self, image: &mut TcbBytes) {
        let tcb = &self.tcb;
        image.state = state_to_byte(tcb.state);
        image.held_count = tcb.held.len() as u8;
        (image.peer_shift, image.own_shift) = tcb.shifts.unwrap_or_default();
        image.src_port = tcb.src_port.into();
        image.dst_port = tcb.dst_port.into();
        image.window = tcb.window.into();
        image.mss = tcb.mss.into();
        image.adv_mss = tcb.adv_mss.into();
        image.snd_una = tcb.snd_una.0.into();
        image.snd_nxt = tcb.snd_nxt.0.into();
        image.write_seq = tcb.write_seq.0.into();
        image.snd_wnd = tcb.snd_wnd.into();
        image.snd_wnd_max = tcb.snd_wnd_max.into();
        image.rcv_nxt = tcb.rcv_nxt.0.into();
        image.unread = tcb.unread.into();
        image.rcv_edge = tcb.rcv_edge.0.into();
        image.rcv_buffer = tcb.rcv_buffer.into();
        image.fin_at = tcb.fin_at.unwrap_or(SeqNum(0)).0.into();
        image.ssthresh = tcb.ssthresh.into();
        image.cwnd = tcb.cwnd.into();
        if let Some(timestamps) = tcb.timestamps {
            image.recent = timestamps.recent.into();
            image.value = timestamps.val.into();
            image.recent_age = nanos(timestamps.recent_age);
        }
        let (smoothed, variation) = tcb.rtt.unwrap_or_default();
        (image.srtt, image.rttvar) = (nanos(smoothed), nanos(variation));
        image.rto = nanos(tcb.rto);
        image.linger = nanos(tcb.linger.unwrap_or_default());
        let left = &tcb.timer_snapshot;
        image.timers = [
            left.retransmit,
            left.tail_probe,
            left.persist,
            left.keep_alive,
        ]
        .map(|left| nanos(left.unwrap_or(NOT_SET)));
        (image.backoff, image.tries, image.probes) = (left.backoff, left.tries, left.probes);
        image.progress_age = nanos(left.progress_age);
        image.heard_age = nanos(left.heard_age);
        for (range, (start, end)) in image.held.iter_mut().zip(&tcb.held) {
            (range.start, range.end) = (start.0.into(), end.0.into());
        }
    }

    fn write_config(&self, image: &mut TcbBytes) {
        let config = &self.config;
        let keep_alive = config.keep_alive.unwrap_or_default();
        image.config_mss = config.mss.into();
        image.congestion = match config.congestion {
            Algorithm::NewReno => 1,
            Algorithm::Cubic => 2,
        };
        image.initial_window = config.initial_window;
        image.syn_retries = config.syn_retries;
        image.retries = config.retries;
        image.orphan_retries = config.orphan_retries;
        image.orphan_timeout_ms = millis(config.orphan_timeout.max(Duration::from_millis(1)));
        image.keep_alive_probes = keep_alive.probes;
        image.rcv_buf = config.rcv_buf.into();
        image.rcv_buf_max = config.rcv_buf_max.into();
        image.snd_buf = config.snd_buf.into();
        image.tso_max = config.tso_max.into();
        image.keep_alive_idle_ms = millis(keep_alive.idle);
        image.keep_alive_interval_ms = millis(keep_alive.interval);
        image.delayed_ack_ms = millis(config.delayed_ack.unwrap_or_default());
        image.user_timeout_ms = millis(config.user_timeout.unwrap_or_default());
        image.time_wait_ms = millis(config.time_wait);
        image.fin_wait2_ms = millis(config.fin_wait_2);
        image.min_rto = nanos(config.min_rto);
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
            (tcb.ecn.is_some(), ECN),
            (tcb.ecn.is_some_and(|ecn| ecn.echo), ECN_ECHO),
            (tcb.ecn.is_some_and(|ecn| ecn.reduced), ECN_REDUCED),
            (config.pacing, PACING),
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
        let image: &TcbBytes = transmute_ref!(bytes);
        if image.version != VERSION {
            return Err(TcbField::Version);
        }
        let flags = image.flags.get();
        let reserved = image._1.iter().fold(image._0, |set, byte| set | byte);
        let is_ecn_told_of = flags & (ECN_ECHO | ECN_REDUCED) != 0;
        if flags & !ALL_FLAGS != 0 || reserved != 0 || is_ecn_told_of && flags & ECN == 0 {
            return Err(TcbField::Flags);
        }
        let set = |flag: u32| flags & flag != 0;
        let tcb = read_tcb(image, set)?;
        let config = read_config(image, set, &tcb)?;
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

fn read_tcb(image: &TcbBytes, set: impl Fn(u32) -> bool) -> Result<Tcb, TcbField> {
    let held = usize::from(image.held_count);
    let held = image.held.get(..held).ok_or(TcbField::Held)?;
    let range = |range: &ImageRange| (seq(range.start), seq(range.end));
    Ok(Tcb {
        state: state_from_byte(image.state).ok_or(TcbField::State)?,
        src_port: image.src_port.get(),
        dst_port: image.dst_port.get(),
        snd_una: seq(image.snd_una),
        snd_nxt: seq(image.snd_nxt),
        write_seq: seq(image.write_seq),
        fin_queued: set(FIN_QUEUED),
        snd_wnd: image.snd_wnd.get(),
        snd_wnd_max: image.snd_wnd_max.get(),
        rcv_nxt: seq(image.rcv_nxt),
        unread: image.unread.get(),
        rcv_edge: seq(image.rcv_edge),
        rcv_buffer: image.rcv_buffer.get(),
        window: image.window.get(),
        fin_taken: set(FIN_TAKEN),
        fin_at: set(FIN_AT).then_some(seq(image.fin_at)),
        held: held.iter().map(range).collect(),
        owes_ack: set(OWES_ACK),
        mss: image.mss.get(),
        adv_mss: image.adv_mss.get(),
        shifts: set(SHIFTS).then_some((image.peer_shift, image.own_shift)),
        sack: set(SACK),
        timestamps: set(TIMESTAMPS).then(|| TcbTimestamps {
            recent: image.recent.get(),
            recent_age: span(image.recent_age),
            val: image.value.get(),
        }),
        ecn: set(ECN).then(|| TcbEcn {
            echo: set(ECN_ECHO),
            reduced: set(ECN_REDUCED),
        }),
        rtt: set(RTT).then(|| (span(image.srtt), span(image.rttvar))),
        rto: span(image.rto),
        ssthresh: image.ssthresh.get(),
        cwnd: image.cwnd.get(),
        detached: set(DETACHED),
        linger: set(LINGER).then(|| span(image.linger)),
        timer_snapshot: timer_snapshot(image),
    })
}

/// What is left of a timer that is not set.
const NOT_SET: Duration = Duration::from_nanos(u64::MAX);

fn timer_snapshot(image: &TcbBytes) -> TimerSnapshot {
    let left = image
        .timers
        .map(|left| Some(span(left)).filter(|left| *left != NOT_SET));
    let [retransmit, tail_probe, persist, keep_alive] = left;
    TimerSnapshot {
        retransmit,
        tail_probe,
        persist,
        keep_alive,
        backoff: image.backoff,
        tries: image.tries,
        probes: image.probes,
        progress_age: span(image.progress_age),
        heard_age: span(image.heard_age),
    }
}

fn read_config(image: &TcbBytes, set: impl Fn(u32) -> bool, tcb: &Tcb) -> Result<Config, TcbField> {
    let spell = |millis: U32| Duration::from_millis(millis.get().into());
    let (orphan_retries, orphan_timeout) = match image.orphan_timeout_ms.get() {
        0 => {
            let config = Config::default();
            (config.orphan_retries, config.orphan_timeout)
        }
        _ => (image.orphan_retries, spell(image.orphan_timeout_ms)),
    };
    Ok(Config {
        // That is agreed on by now, and the host's business.
        ecn: EcnMode::default(),
        mtu_probing: false,
        pacing: set(PACING),
        mss: image.config_mss.get(),
        rcv_buf: image.rcv_buf.get(),
        rcv_buf_max: image.rcv_buf_max.get(),
        snd_buf: image.snd_buf.get(),
        congestion: match image.congestion {
            1 => Algorithm::NewReno,
            2 => Algorithm::Cubic,
            _ => return Err(TcbField::Congestion),
        },
        initial_window: image.initial_window,
        nagle: set(NAGLE),
        delayed_ack: set(DELAYED_ACK).then(|| spell(image.delayed_ack_ms)),
        keep_alive: set(KEEP_ALIVE).then(|| KeepAlive {
            idle: spell(image.keep_alive_idle_ms),
            interval: spell(image.keep_alive_interval_ms),
            probes: image.keep_alive_probes,
        }),
        user_timeout: set(USER_TIMEOUT).then(|| spell(image.user_timeout_ms)),
        timestamps: tcb.timestamps.is_some(),
        sack: tcb.sack,
        window_scale: tcb.shifts.is_some(),
        tso_max: image.tso_max.get(),
        min_rto: span(image.min_rto),
        syn_retries: image.syn_retries,
        syn_ack_retries: image.syn_retries,
        retries: image.retries,
        time_wait: spell(image.time_wait_ms),
        fin_wait_2: spell(image.fin_wait2_ms),
        orphan_retries,
        orphan_timeout,
    })
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

fn seq(position: U32) -> SeqNum {
    SeqNum(position.get())
}

fn span(nanos: U64) -> Duration {
    Duration::from_nanos(nanos.get())
}

fn nanos(span: Duration) -> U64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).into()
}

fn millis(span: Duration) -> U32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX).into()
}
