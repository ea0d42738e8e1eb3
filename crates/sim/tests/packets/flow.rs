//! What a connection's packets are relative to.

use wire::SeqNum;
use wire::tcp::{Flags, Header, Options, SackBlocks, Timestamps};

use super::bench::Sent;
use super::segment::{Begins, Segment, Stamps};

/// What has been seen of a connection's packets.
#[derive(Clone, Copy)]
pub struct Flow {
    pub our_port: u16,
    /// Our initial sequence number, once it is known.
    pub iss: Option<SeqNum>,
    /// The end of all that we have sent.
    highest: SeqNum,
    /// Our first TSval, and the last.
    stamps: Option<(u32, u32)>,
    /// What the peer has said last.
    pub window: u16,
}

impl Flow {
    pub fn new(our_port: u16) -> Self {
        Self {
            our_port,
            iss: None,
            highest: SeqNum(0),
            stamps: None,
            window: u16::MAX,
        }
    }

    /// Takes from what has left what others are relative to.
    pub fn note_sent(&mut self, sent: &Sent, expected: &Segment) -> Result<(), String> {
        let header = sent.parsed.tcp;
        self.our_port = header.src_port;
        let end = header.seq + header.sequence_len(sent.parsed.payload_len);
        if header.flags.contains(Flags::SYN) {
            if expected.begins == Begins::Above && !header.seq.after(self.highest) {
                let below = header.seq.distance_to(self.highest);
                return Err(format!("the new ISN is {below} below what was sent before"));
            }
            self.check_isn(header.seq, expected.isn)?;
            if expected.begins != Begins::Once || self.iss.is_none() {
                (self.iss, self.highest) = (Some(header.seq), end);
            }
        }
        if !header.flags.contains(Flags::RST) {
            self.highest = self.highest.max(end);
        }
        if let Some(stamps) = header.options.timestamps {
            let first = self.stamps.map_or(stamps.val, |(first, _)| first);
            self.stamps = Some((first, stamps.val));
        }
        Ok(())
    }

    /// A new initial number is as far from the one before as a script says, but for what the clock moves within the tolerance.
    fn check_isn(&self, isn: SeqNum, distance: Option<i64>) -> Result<(), String> {
        const TOLERANCE: u64 = 5_000;
        let (Some(before), Some(distance)) = (self.iss, distance) else {
            return Ok(());
        };
        let came = i64::from(isn.diff(before));
        match came.abs_diff(distance) <= TOLERANCE {
            true => Ok(()),
            false => Err(format!("the new ISN is {came} from the one before")),
        }
    }

    /// What has left, in the script's numbers; the peer's are relative to `isn`.
    pub fn read_sent(&self, isn: SeqNum, sent: &Sent) -> Segment {
        let (header, len) = (sent.parsed.tcp, sent.parsed.payload_len);
        let iss = self.iss.unwrap_or_default();
        let first = self.stamps.unwrap_or_default().0;
        let theirs = |seq: SeqNum| i64::from(seq.diff(isn));
        let has_ack = header.flags.contains(Flags::ACK);
        let blocks = header.options.sack.iter();
        Segment {
            flags: header.flags,
            seq: i64::from(header.seq.diff(iss)),
            len,
            ack: has_ack.then(|| theirs(header.ack)),
            window: Some(header.window),
            mss: header.options.mss,
            scale: header.options.window_scale,
            sack_permitted: header.options.sack_permitted,
            timestamps: header.options.timestamps.map(|stamps| Stamps {
                val: Some(i64::from(stamps.val.wrapping_sub(first) as i32)),
                echo: Some(i64::from(stamps.echo)),
            }),
            sack: blocks
                .map(|(left, right)| (theirs(left), theirs(right)))
                .collect(),
            ecn: header.ecn,
            ..Segment::default()
        }
    }

    /// The header of a segment of the peer's, whose numbers are relative to `isn`.
    pub fn incoming(&self, isn: SeqNum, port: u16, segment: &Segment) -> Header {
        let iss = self.iss.unwrap_or_default();
        let ours = |at: i64| iss + at as u32;
        let mut sack = SackBlocks::EMPTY;
        for (left, right) in &segment.sack {
            sack.push(ours(*left), ours(*right));
        }
        let (first, last) = self.stamps.unwrap_or_default();
        let echo = |echo: i64| first.wrapping_add(echo as u32);
        let timestamps = segment.timestamps.map(|stamps| Timestamps {
            val: stamps.val.unwrap_or_default() as u32,
            echo: stamps.echo.map_or(last, echo),
        });
        Header {
            src_port: port,
            dst_port: self.our_port,
            seq: isn + segment.seq as u32,
            ack: segment.ack.map(ours).unwrap_or_default(),
            flags: segment.flags,
            window: self.window,
            options: Options {
                mss: segment.mss,
                window_scale: segment.scale,
                sack_permitted: segment.sack_permitted,
                timestamps,
                sack,
            },
            ecn: segment.ecn,
        }
    }
}
