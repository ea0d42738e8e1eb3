//! The client's side of the handshake: fixed newstyle, up to the first request.

#[cfg(test)]
mod tests;

use thiserror::Error;
use wire::nbd::{
    MAGIC, MAX_NAME, MAX_REQUEST, OPTION_MAGIC, OPTION_REPLY_MAGIC, flag, handshake, info, option,
    reply_type,
};

/// Bytes that a server greets with: two numbers and flags.
const GREETING_LEN: usize = 18;
/// Bytes of an option reply's header.
const REPLY_LEN: usize = 20;
/// Bytes of an option reply's data at most: a name, and what is said of it.
const MAX_DATA: u32 = 2 * MAX_NAME as u32 + 64;
/// Bytes behind the size and flags of an export that is named by the oldest option.
const ZEROES_LEN: usize = 124;

/// A handshake as far as it is.
#[derive(Debug)]
pub struct Handshake {
    name: String,
    /// TLS is to be used.
    secures: bool,
    step: Step,
    no_zeroes: bool,
    structured: bool,
    export: Option<(u64, u16)>,
    block_sizes: [u32; 3],
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Greeting,
    StartTls,
    Structured,
    Go,
    ExportName,
}

/// What is known of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// Bytes.
    pub size: u64,
    /// What can be done with it ([`wire::nbd::flag`]).
    pub flags: u16,
    /// What requests are to be multiples of.
    pub min_block: u32,
    /// What requests should be multiples of.
    pub preferred_block: u32,
    /// The most bytes of data of one request.
    pub max_request: u32,
    /// Reads are answered by structured replies.
    pub structured: bool,
}

impl Export {
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether nothing may be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.has(flag::READ_ONLY)
    }

    /// Whether writes may be in a cache before a flush.
    #[must_use]
    pub fn can_flush(&self) -> bool {
        self.has(flag::SEND_FLUSH)
    }
}

/// What the handshake has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A TLS handshake comes next; [`Handshake::secured`] goes on after it.
    StartTls,
    /// Requests may be sent.
    Export(Export),
}

/// Why there is no export.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// What answers is no server of this protocol.
    #[error("what answers is no NBD server")]
    NotNbd,
    /// It speaks the protocol of before 2011.
    #[error("the server speaks the old handshake only, which has no exports by name")]
    Oldstyle,
    /// What it says makes no sense.
    #[error("the server answers option {0} with what makes no sense")]
    Malformed(u32),
    /// The server does not have it.
    #[error("the server has no export \"{name}\"{}", told(.message))]
    UnknownExport {
        /// Its name.
        name: String,
        /// The server's own words.
        message: String,
    },
    /// The server wants TLS.
    #[error("the server requires TLS{}", told(.0))]
    TlsRequired(String),
    /// The server does not do TLS.
    #[error("the server does not do TLS{}", told(.0))]
    NoTls(String),
    /// The server says no.
    #[error("the server refuses ({reason}){}", told(.message))]
    Refused {
        /// Why, by the number it gives.
        reason: &'static str,
        /// The server's own words.
        message: String,
    },
}

fn told(message: &str) -> String {
    match message.is_empty() {
        true => String::new(),
        false => format!(": {message}"),
    }
}

impl Handshake {
    /// Asks for the export of this name; the empty one names the server's default.
    #[must_use]
    pub fn new(name: &str, secures: bool) -> Handshake {
        Handshake {
            name: name.to_owned(),
            secures,
            step: Step::Greeting,
            no_zeroes: false,
            structured: false,
            export: None,
            block_sizes: [1, 4096, MAX_REQUEST],
        }
    }

    /// Takes in what the server says, as far as it is there, and adds what is to be answered to `out`. Gives how many bytes were used,
    /// and what it came to, if anything.
    ///
    /// # Errors
    /// Why there will be no export.
    pub fn advance(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Outcome>), HandshakeError> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let taken = match self.step {
                Step::Greeting => self.take_greeting(rest, out)?,
                Step::ExportName => match self.take_export(rest) {
                    Some(len) => return Ok((used + len, self.outcome())),
                    None => None,
                },
                _ => {
                    let Some(reply) = self.option_reply(rest)? else {
                        return Ok((used, None));
                    };
                    let len = REPLY_LEN + reply.data.len();
                    if let Some(outcome) = self.take_reply(reply, out)? {
                        return Ok((used + len, Some(outcome)));
                    }
                    Some(len)
                }
            };
            match taken {
                Some(len) => used += len,
                None => return Ok((used, None)),
            }
        }
    }

    /// TLS protects what follows.
    pub fn secured(&mut self, out: &mut Vec<u8>) {
        self.ask(Step::Structured, out);
    }

    fn take_greeting(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, HandshakeError> {
        let shown = &MAGIC.to_be_bytes()[..input.len().min(8)];
        if !input.starts_with(shown) {
            return Err(HandshakeError::NotNbd);
        }
        let Some(greeting) = input.first_chunk::<GREETING_LEN>() else {
            return Ok(None);
        };
        if greeting[8..16] != OPTION_MAGIC.to_be_bytes() {
            return Err(HandshakeError::Oldstyle);
        }
        let flags = u16::from_be_bytes([greeting[16], greeting[17]]);
        if flags & handshake::FIXED_NEWSTYLE == 0 {
            return Err(HandshakeError::Oldstyle);
        }
        let answer = flags & (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        self.no_zeroes = flags & handshake::NO_ZEROES != 0;
        out.extend(u32::from(answer).to_be_bytes());
        self.ask(
            match self.secures {
                true => Step::StartTls,
                false => Step::Structured,
            },
            out,
        );
        Ok(Some(GREETING_LEN))
    }

    /// The next reply to an option. `None` while it is not whole.
    fn option_reply<'a>(&self, input: &'a [u8]) -> Result<Option<OptionReply<'a>>, HandshakeError> {
        let Some((header, rest)) = input.split_first_chunk::<REPLY_LEN>() else {
            return Ok(None);
        };
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (option, kind, len) = (word(8), word(12), word(16));
        let asked = self.step.option();
        if header[..8] != OPTION_REPLY_MAGIC.to_be_bytes() || option != asked || len > MAX_DATA {
            return Err(HandshakeError::Malformed(asked));
        }
        let data = rest.get(..len as usize);
        Ok(data.map(|data| OptionReply { kind, data }))
    }

    fn take_reply(
        &mut self,
        reply: OptionReply<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Outcome>, HandshakeError> {
        let OptionReply { kind, data } = reply;
        let malformed = Err(HandshakeError::Malformed(self.step.option()));
        match (self.step, kind) {
            (Step::StartTls, reply_type::ACK) => return Ok(Some(Outcome::StartTls)),
            (Step::Structured, reply_type::ACK) => {
                self.structured = true;
                self.ask(Step::Go, out);
            }
            (Step::Structured, kind)
                if kind & reply_type::ERROR != 0 && kind != reply_type::ERROR_TLS_REQUIRED =>
            {
                self.ask(Step::Go, out);
            }
            (Step::Go, reply_type::INFO) => self.take_info(data)?,
            (Step::Go, reply_type::ACK) => {
                let outcome = self.outcome();
                return if outcome.is_some() {
                    Ok(outcome)
                } else {
                    malformed
                };
            }
            (Step::Go, reply_type::ERROR_UNSUPPORTED) => self.ask(Step::ExportName, out),
            (_, kind) if kind & reply_type::ERROR != 0 => return Err(self.refused(kind, data)),
            _ => return malformed,
        }
        Ok(None)
    }

    fn take_info(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        let malformed = HandshakeError::Malformed(option::GO);
        let Some((kind, data)) = data.split_first_chunk::<2>() else {
            return Err(malformed);
        };
        match u16::from_be_bytes(*kind) {
            info::EXPORT => {
                let data: [u8; 10] = data.try_into().map_err(|_| malformed)?;
                self.export = Some(export_of(&data));
            }
            info::BLOCK_SIZE => {
                let data: &[u8; 12] = data.try_into().map_err(|_| malformed.clone())?;
                let mut sizes = [0; 3];
                for (size, bytes) in sizes.iter_mut().zip(data.chunks_exact(4)) {
                    *size = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                }
                let [least, preferred, most] = sizes;
                let is_possible = least.is_power_of_two()
                    && least <= 1 << 16
                    && preferred.is_power_of_two()
                    && least <= preferred
                    && least <= most;
                if !is_possible {
                    return Err(malformed);
                }
                self.block_sizes = sizes;
            }
            // More than was asked for.
            _ => {}
        }
        Ok(())
    }

    /// What follows the oldest option: no header, and the end of the connection where there is no such export.
    fn take_export(&mut self, input: &[u8]) -> Option<usize> {
        let (export, rest) = input.split_first_chunk::<10>()?;
        let zeroes = if self.no_zeroes { 0 } else { ZEROES_LEN };
        rest.get(..zeroes)?;
        self.export = Some(export_of(export));
        Some(export.len() + zeroes)
    }

    fn outcome(&self) -> Option<Outcome> {
        let (size, flags) = self.export?;
        let [min_block, preferred_block, most] = self.block_sizes;
        // A server without a limit says 2^32 - 1.
        let max_request = most.min(MAX_REQUEST) / min_block * min_block;
        Some(Outcome::Export(Export {
            size,
            flags,
            min_block,
            preferred_block,
            max_request,
            structured: self.structured,
        }))
    }

    fn ask(&mut self, step: Step, out: &mut Vec<u8>) {
        self.step = step;
        let name = self.name.as_bytes();
        let mut data = Vec::new();
        match step {
            Step::Go => {
                data.extend((name.len() as u32).to_be_bytes());
                data.extend(name);
                data.extend(1u16.to_be_bytes());
                data.extend(info::BLOCK_SIZE.to_be_bytes());
            }
            Step::ExportName => data.extend(name),
            Step::Greeting | Step::StartTls | Step::Structured => {}
        }
        out.extend(OPTION_MAGIC.to_be_bytes());
        out.extend(step.option().to_be_bytes());
        out.extend((data.len() as u32).to_be_bytes());
        out.extend(data);
    }

    fn refused(&self, kind: u32, data: &[u8]) -> HandshakeError {
        let message: String = String::from_utf8_lossy(data)
            .chars()
            .filter(|char| !char.is_control())
            .collect();
        let reason = match kind {
            reply_type::ERROR_UNKNOWN => {
                return HandshakeError::UnknownExport {
                    name: self.name.clone(),
                    message,
                };
            }
            reply_type::ERROR_TLS_REQUIRED => return HandshakeError::TlsRequired(message),
            _ if self.step == Step::StartTls => return HandshakeError::NoTls(message),
            reply_type::ERROR_UNSUPPORTED => "option not supported",
            reply_type::ERROR_POLICY => "forbidden by its policy",
            reply_type::ERROR_INVALID => "option invalid",
            reply_type::ERROR_PLATFORM => "not possible on its platform",
            reply_type::ERROR_SHUTDOWN => "it is shutting down",
            reply_type::ERROR_BLOCK_SIZE_REQUIRED => "it requires its block size",
            reply_type::ERROR_TOO_BIG => "request too big",
            _ => "for a reason that is not known",
        };
        HandshakeError::Refused { reason, message }
    }
}

/// What a server says to an option.
struct OptionReply<'a> {
    kind: u32,
    data: &'a [u8],
}

impl Step {
    /// What was asked.
    fn option(self) -> u32 {
        match self {
            Step::StartTls => option::STARTTLS,
            Step::Structured => option::STRUCTURED_REPLY,
            Step::ExportName => option::EXPORT_NAME,
            Step::Greeting | Step::Go => option::GO,
        }
    }
}

/// Size and flags.
fn export_of(bytes: &[u8; 10]) -> (u64, u16) {
    let [s0, s1, s2, s3, s4, s5, s6, s7, f0, f1] = *bytes;
    let size = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    (size, u16::from_be_bytes([f0, f1]))
}
