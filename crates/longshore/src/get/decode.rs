//! Content codings: what a server has compressed (RFC 9110 §8.4.1, RFC 8878), within a bound on what becomes of it.

use std::io::{self, Write};

use anyhow::{Result, anyhow, bail};
use flate2::write::MultiGzDecoder;
use zstd::stream::raw::{self, Operation, OutBuffer};

use super::output::Output;
use crate::report;

/// The most memory that a zstd frame may make its reader keep, as a power of 2: that of RFC 9659 §3.
const ZSTD_WINDOW: u32 = 23;
/// Bytes of what zstd gives at a time.
const PIECE: usize = 64 << 10;

/// What is accepted, the best first.
pub(super) const ACCEPTED: &str = "zstd, gzip";

/// Content on its way to the output.
pub(super) struct Decoder<'a> {
    coding: Coding<'a>,
    /// Bytes before decoding.
    taken: u64,
}

enum Coding<'a> {
    Identity(Bounded<'a>),
    Gzip(Box<MultiGzDecoder<Bounded<'a>>>),
    Zstd(Box<Zstd<'a>>),
}

struct Zstd<'a> {
    decoder: raw::Decoder<'static>,
    output: Bounded<'a>,
    piece: Vec<u8>,
    /// Nothing of a frame has come, or all of it.
    is_between_frames: bool,
}

/// An output that takes no more than so much.
struct Bounded<'a> {
    output: &'a mut Output,
    limit: Option<u64>,
    written: u64,
}

/// Content becomes more than is allowed.
#[derive(Debug, thiserror::Error)]
#[error("it becomes more than {}", report::bytes(*.0))]
struct TooLarge(u64);

/// The output takes nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
struct Unwritable(anyhow::Error);

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.written + bytes.len() as u64;
        if let Some(limit) = self.limit.filter(|limit| written > *limit) {
            return Err(io::Error::other(TooLarge(limit)));
        }
        let written_out = self.output.write(bytes);
        written_out.map_err(|error| io::Error::other(Unwritable(error)))?;
        self.written = written;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> Decoder<'a> {
    /// For content that a server says to have coded so, if it was asked to; what is decoded may have `limit` bytes.
    ///
    /// # Errors
    /// When the coding is none that was accepted.
    pub(super) fn new(
        coding: Option<&str>,
        limit: Option<u64>,
        output: &'a mut Output,
    ) -> Result<Decoder<'a>> {
        let asked = limit.is_some();
        let named = coding.map(str::trim).filter(|_| asked);
        let output = Bounded {
            output,
            limit,
            written: 0,
        };
        let coding = match named.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "identity") => Coding::Identity(output),
            Some("gzip" | "x-gzip") => Coding::Gzip(Box::new(MultiGzDecoder::new(output))),
            Some("zstd") => {
                let mut decoder = raw::Decoder::new()?;
                decoder.set_parameter(raw::DParameter::WindowLogMax(ZSTD_WINDOW))?;
                Coding::Zstd(Box::new(Zstd {
                    decoder,
                    output,
                    piece: vec![0; PIECE],
                    is_between_frames: true,
                }))
            }
            Some(other) => bail!(
                "the server answers with the content coding {other:?}, and only {ACCEPTED} were asked for; leave --compressed out"
            ),
        };
        Ok(Decoder { coding, taken: 0 })
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// When they are not what the coding says, become too much, or can't be written.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.taken += bytes.len() as u64;
        let taken = self.taken;
        let done = match &mut self.coding {
            Coding::Identity(output) => output.write_all(bytes),
            Coding::Gzip(decoder) => decoder.write_all(bytes),
            Coding::Zstd(zstd) => zstd.take(bytes),
        };
        done.map_err(|error| explain(error, taken))
    }

    /// All bytes have come; gives how many were taken, and how many became of them.
    ///
    /// # Errors
    /// When the content is cut short.
    pub(super) fn finish(self) -> Result<(u64, u64)> {
        let taken = self.taken;
        let output = match self.coding {
            Coding::Identity(output) => output,
            Coding::Gzip(mut decoder) => {
                // An empty answer has not even a header.
                if taken > 0 {
                    let ended = decoder.try_finish();
                    ended.map_err(|error| explain(error, taken))?;
                }
                return Ok((taken, decoder.get_ref().written));
            }
            Coding::Zstd(zstd) if !zstd.is_between_frames => {
                bail!("the compressed content is cut short");
            }
            Coding::Zstd(zstd) => zstd.output,
        };
        Ok((taken, output.written))
    }
}

impl Zstd<'_> {
    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        // Once more when all is taken, for what the decoder still holds.
        loop {
            let mut piece = OutBuffer::around(&mut self.piece[..]);
            let mut input = raw::InBuffer::around(bytes);
            let hint = self.decoder.run(&mut input, &mut piece)?;
            let (used, made) = (input.pos(), piece.pos());
            if used > 0 || made > 0 {
                self.is_between_frames = hint == 0;
            }
            self.output.write_all(&self.piece[..made])?;
            bytes = &bytes[used..];
            if bytes.is_empty() && made < PIECE {
                return Ok(());
            }
        }
    }
}

/// An error of a coding, by its name.
fn explain(error: io::Error, taken: u64) -> anyhow::Error {
    match error.downcast::<TooLarge>() {
        Ok(TooLarge(limit)) => anyhow!(
            "a decompression bomb, or more than is allowed: {} of content become more than {}; raise --max-size if it is meant",
            report::bytes(taken),
            report::bytes(limit)
        ),
        Err(error) => match error.downcast::<Unwritable>() {
            Ok(Unwritable(error)) => error,
            Err(error) => {
                anyhow::Error::from(error).context("the compressed content is damaged or cut short")
            }
        },
    }
}

#[cfg(test)]
mod tests;
