//! A script: settings, and steps in time.

use std::time::Duration;

use tcp::KeepAlive;
use wire::icmp::v4::Unreachable;

use super::bench::{Mode, Setup};
use super::segment::Segment;
use super::text::{Error, Words, time};

#[derive(Debug)]
pub struct Script {
    pub modes: Vec<Mode>,
    pub setup: Setup,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub struct Step {
    pub line: usize,
    pub when: When,
    pub what: What,
}

/// When a step is.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// From the beginning.
    At(Duration),
    /// From the step before; what must leave may do so between both.
    After(Duration, Duration),
}

#[derive(Debug)]
pub enum What {
    /// The NIC gets it, so many times with sequence numbers that go on; `more` follows before the host is told.
    Arrives {
        segment: Segment,
        times: u32,
        more: bool,
    },
    /// It must leave, so many times with sequence numbers that go on.
    Leaves {
        segment: Segment,
        times: u32,
    },
    /// Nothing leaves until then.
    Silence,
    /// What has left until then is nothing to the script.
    Ignore,
    /// An ICMP error about what we sent at this sequence number.
    Icmp {
        reason: Unreachable,
        quoted: i64,
    },
    Call(Call),
    Expect(Expected),
}

/// What the application does.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Listen,
    Unlisten,
    Accept,
    Connect,
    Write(usize),
    Read(usize),
    ReadEnd,
    Shutdown,
    Close,
    Abort,
    NoDelay,
    Pacing(bool),
    Cork(bool),
    KeepAlive(Option<KeepAlive>),
    UserTimeout(Option<Duration>),
}

/// What the application must see.
#[derive(Clone, Debug)]
pub enum Expected {
    Connected,
    State(String),
    /// The connection is over, for a reason that says this.
    Closed(String),
    /// The application is told of urgent data, so many bytes ahead.
    Urgent(Option<u64>),
    Counter(String, u64),
}

impl Script {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut script = Self {
            modes: vec![Mode::Host],
            setup: Setup::default(),
            steps: Vec::new(),
        };
        if !text.starts_with("# RFC ") {
            let what = "the first line must name the clause, as in `# RFC 9293 §3.6.1: …`".into();
            return Err(Error { line: 1, what });
        }
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let number = at + 1;
                let taken = script.take_line(number, line);
                taken.map_err(|what| Error { line: number, what })?;
            }
        }
        Ok(script)
    }

    fn take_line(&mut self, line: usize, text: &str) -> Result<(), String> {
        let mut words = Words::new(text);
        match words.word("a word")? {
            "on" => {
                self.modes.clear();
                while let Some(word) = words.next() {
                    self.modes.push(word.parse()?);
                }
            }
            "set" => {
                let name = words.word("the setting")?;
                self.setup.set(name, words.word("its value")?)?;
                words.end()?;
            }
            word => {
                let when = When::parse(word)?;
                let what = What::parse(&mut words)?;
                self.steps.push(Step { line, when, what });
            }
        }
        Ok(())
    }
}

impl When {
    fn parse(word: &str) -> Result<Self, String> {
        let Some(after) = word.strip_prefix('+') else {
            return time(word).map(Self::At);
        };
        let (from, to) = after.split_once("..").unwrap_or((after, after));
        Ok(Self::After(time(from)?, time(to)?))
    }
}

impl What {
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        match words.word("what happens")? {
            "<" if words.take("icmp") => icmp(words),
            sign @ ("<" | "<<") => Ok(Self::Arrives {
                segment: Segment::parse(words)?,
                times: 1,
                more: sign == "<<",
            }),
            "<x" => Ok(Self::Arrives {
                times: words.number("how many come")?,
                segment: Segment::parse(words)?,
                more: false,
            }),
            ">" => Ok(Self::Leaves {
                segment: Segment::parse(words)?,
                times: 1,
            }),
            ">x" => Ok(Self::Leaves {
                times: words.number("how many leave")?,
                segment: Segment::parse(words)?,
            }),
            "silence" => words.end().map(|()| Self::Silence),
            "ignore" => words.end().map(|()| Self::Ignore),
            "call" => Call::parse(words).map(Self::Call),
            "expect" => Expected::parse(words).map(Self::Expect),
            other => Err(format!("`{other}` is no step")),
        }
    }
}

fn icmp(words: &mut Words<'_>) -> Result<What, String> {
    let reason = match words.word("the ICMP error")? {
        "network" => Unreachable::Network,
        "host" => Unreachable::Host,
        "port" => Unreachable::Port,
        "protocol" => Unreachable::Protocol,
        "too-big" => Unreachable::FragmentationNeeded {
            mtu: words.number("the MTU")?,
        },
        other => return Err(format!("no ICMP error `{other}`")),
    };
    let quoted = words.number("what is quoted")?;
    words.end()?;
    Ok(What::Icmp { reason, quoted })
}

impl Call {
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let call = match words.word("the call")? {
            "listen" => Self::Listen,
            "unlisten" => Self::Unlisten,
            "accept" => Self::Accept,
            "connect" => Self::Connect,
            "write" => Self::Write(words.number("the bytes")?),
            "read" if words.take("end") => Self::ReadEnd,
            "read" => Self::Read(words.number("the bytes")?),
            "shutdown" => Self::Shutdown,
            "close" => Self::Close,
            "abort" => Self::Abort,
            "nodelay" => Self::NoDelay,
            "pacing" => Self::Pacing(!words.take("off")),
            "cork" => Self::Cork(!words.take("off")),
            "keep-alive" if words.take("off") => Self::KeepAlive(None),
            "keep-alive" => Self::KeepAlive(Some(KeepAlive {
                idle: time(words.word("the idle time")?)?,
                interval: time(words.word("the interval")?)?,
                probes: words.number("the probes")?,
            })),
            "user-timeout" if words.take("off") => Self::UserTimeout(None),
            "user-timeout" => Self::UserTimeout(Some(time(words.word("the time")?)?)),
            other => return Err(format!("no call `{other}`")),
        };
        words.end().map(|()| call)
    }
}

impl Expected {
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let expected = match words.word("what is expected")? {
            "connected" => Self::Connected,
            "urgent" if words.take("none") => Self::Urgent(None),
            "urgent" => Self::Urgent(Some(words.number("how far they go")?)),
            "state" => Self::State(words.word("the state")?.to_owned()),
            "closed" => {
                let mut reason = Vec::new();
                while let Some(word) = words.next() {
                    reason.push(word);
                }
                Self::Closed(reason.join(" "))
            }
            "counter" => Self::Counter(
                words.word("the counter")?.to_owned(),
                words.number("its value")?,
            ),
            other => return Err(format!("nothing of the name `{other}` can be expected")),
        };
        words.end().map(|()| expected)
    }
}
