//! Segments as scripts write them: `ACK 1+1000 ack 1 win 500 sack 2001-3001`.

use std::fmt;

use wire::Ecn;
use wire::tcp::Flags;

use super::text::{Words, number};

/// A segment, its numbers relative to the initial ones of the side that sends them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    pub flags: Flags,
    pub seq: i64,
    pub len: u32,
    pub ack: Option<i64>,
    pub window: Option<u16>,
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: Option<Stamps>,
    pub sack: Vec<(i64, i64)>,
    /// What the IP header says of congestion.
    pub ecn: Ecn,
    /// The urgent pointer of what comes.
    pub urgent: Option<u16>,
    /// The peer's port, if it is not the usual one.
    pub port: Option<u16>,
    pub begins: Begins,
    /// How far a new initial number is from the one before, but for some thousands.
    pub isn: Option<i64>,
}

/// TSval and TSecr; without one, it is the usual one (of a segment that comes) or any (of one that leaves).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stamps {
    pub val: Option<i64>,
    pub echo: Option<i64>,
}

/// Whether a SYN of ours begins new sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Begins {
    /// Only the first of its flow.
    #[default]
    Once,
    /// It does, wherever.
    Anew,
    /// It does, above all that were used before.
    Above,
}

const FLAGS: [(&str, Flags); 8] = [
    ("SYN", Flags::SYN),
    ("FIN", Flags::FIN),
    ("RST", Flags::RST),
    ("PSH", Flags::PSH),
    ("ACK", Flags::ACK),
    ("URG", Flags::URG),
    ("ECE", Flags::ECE),
    ("CWR", Flags::CWR),
];

impl Segment {
    pub fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let mut segment = Self {
            flags: flags(words.word("the flags")?)?,
            ..Self::default()
        };
        let place = words.word("the sequence number")?;
        let (seq, len) = place.split_once('+').unwrap_or((place, "0"));
        (segment.seq, segment.len) = (number(seq)?, number(len)?);
        while let Some(word) = words.next() {
            segment.take_field(word, words)?;
        }
        Ok(segment)
    }

    /// Whether what has left is this, as far as the script says.
    pub fn is_met_by(&self, came: &Segment) -> bool {
        let given = |wanted: Option<i64>, came: Option<i64>| wanted.is_none() || wanted == came;
        let stamps = match (self.timestamps, came.timestamps) {
            (Some(wanted), Some(came)) => {
                given(wanted.val, came.val) && given(wanted.echo, came.echo)
            }
            (None, None) => true,
            _ => self.flags.contains(Flags::SYN) && self.timestamps.is_none(),
        };
        let flags = |segment: &Segment| match self.flags.contains(Flags::PSH) {
            true => segment.flags,
            false => segment.flags.without(Flags::PSH),
        };
        stamps
            && flags(self) == flags(came)
            && self.seq == came.seq
            && self.len == came.len
            && given(self.ack, came.ack)
            && given(self.window.map(i64::from), came.window.map(i64::from))
            && given(self.mss.map(i64::from), came.mss.map(i64::from))
            && given(self.scale.map(i64::from), came.scale.map(i64::from))
            && (!self.sack_permitted || came.sack_permitted)
            && self.sack == came.sack
            && self.ecn == came.ecn
            && self.port == came.port
    }

    fn take_field(&mut self, word: &str, words: &mut Words<'_>) -> Result<(), String> {
        match word {
            "ack" => self.ack = Some(words.number("the acknowledgment")?),
            "win" => self.window = Some(words.number("the window")?),
            "mss" => self.mss = Some(words.number("the MSS")?),
            "scale" => self.scale = Some(words.number("the shift")?),
            "sackok" => self.sack_permitted = true,
            "ts" => self.timestamps = Some(stamps(words.word("the timestamps")?)?),
            "sack" => self.sack = blocks(words.word("the blocks")?)?,
            "urgent" => self.urgent = Some(words.number("the urgent pointer")?),
            "port" => self.port = Some(words.number("the port")?),
            "ect0" => self.ecn = Ecn::Ect0,
            "ect1" => self.ecn = Ecn::Ect1,
            "ce" => self.ecn = Ecn::Ce,
            "anew" => self.begins = Begins::Anew,
            "isn" => {
                self.begins = Begins::Anew;
                self.isn = Some(words.number("the distance")?);
            }
            "above" => self.begins = Begins::Above,
            _ => return Err(format!("`{word}` is no field of a segment")),
        }
        Ok(())
    }
}

fn flags(word: &str) -> Result<Flags, String> {
    let mut flags = Flags::NONE;
    if word == "-" {
        return Ok(flags);
    }
    for name in word.split(',') {
        let known = FLAGS.iter().find(|(known, _)| *known == name);
        let (_, flag) = known.ok_or_else(|| format!("`{name}` is no flag"))?;
        flags |= *flag;
    }
    Ok(flags)
}

fn stamps(word: &str) -> Result<Stamps, String> {
    let part = |part: &str| match part {
        "*" => Ok(None),
        _ => number(part).map(Some),
    };
    let (val, echo) = word.split_once('/').unwrap_or((word, "*"));
    Ok(Stamps {
        val: part(val)?,
        echo: part(echo)?,
    })
}

fn blocks(word: &str) -> Result<Vec<(i64, i64)>, String> {
    let block = |block: &str| {
        let (left, right) = block
            .split_once('-')
            .ok_or_else(|| format!("`{block}` is no block; write it like 1001-2001"))?;
        Ok((number(left)?, number(right)?))
    };
    word.split(',').map(block).collect()
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = FLAGS.iter();
        let flags = flags.filter(|(_, flag)| self.flags.contains(*flag));
        let flags: Vec<&str> = flags.map(|(name, _)| *name).collect();
        let flags = match flags.is_empty() {
            true => "-".to_owned(),
            false => flags.join(","),
        };
        write!(f, "{flags} {}", self.seq)?;
        if self.len > 0 {
            write!(f, "+{}", self.len)?;
        }
        let fields = [
            ("ack", self.ack),
            ("win", self.window.map(i64::from)),
            ("mss", self.mss.map(i64::from)),
            ("scale", self.scale.map(i64::from)),
            ("port", self.port.map(i64::from)),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                write!(f, " {name} {value}")?;
            }
        }
        if self.sack_permitted {
            f.write_str(" sackok")?;
        }
        if let Some(Stamps { val, echo }) = self.timestamps {
            let part = |part: Option<i64>| part.map_or("*".to_owned(), |part| part.to_string());
            write!(f, " ts {}/{}", part(val), part(echo))?;
        }
        match self.ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => f.write_str(" ect0")?,
            Ecn::Ect1 => f.write_str(" ect1")?,
            Ecn::Ce => f.write_str(" ce")?,
        }
        for (nth, (left, right)) in self.sack.iter().enumerate() {
            let before = if nth == 0 { " sack " } else { "," };
            write!(f, "{before}{left}-{right}")?;
        }
        Ok(())
    }
}
