//! Content codings: gzip (RFC 1952) and zstd (RFC 8878).

use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{self, Operation};

#[cfg(test)]
mod tests;

/// Bits of the largest window of DEFLATE.
const DEFLATE_WINDOW: u8 = 15;

/// How content is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// gzip, of one member or several.
    Gzip,
    /// zstd, of one frame or several.
    Zstd,
}

/// What was compressed is not what its coding says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the compressed content is damaged")]
pub struct Damaged;

/// Makes content of what was compressed.
pub struct Decoder {
    kind: Kind,
    /// What was compressed may end here: nothing of a member or frame has come, or all of it.
    is_whole: bool,
}

enum Kind {
    Gzip(Decompress),
    Zstd(raw::Decoder<'static>),
}

impl Coding {
    /// The coding with this name in `Content-Encoding`, in any case.
    pub fn named(name: &str) -> Option<Coding> {
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Coding::Gzip),
            "zstd" => Some(Coding::Zstd),
            _ => None,
        }
    }
}

impl Decoder {
    /// At the beginning of the content. A window of zstd may have `1 << max_window` bytes. `None` when memory has run out.
    pub fn new(coding: Coding, max_window: u32) -> Option<Decoder> {
        let kind = match coding {
            Coding::Gzip => Kind::Gzip(Decompress::new_gzip(DEFLATE_WINDOW)),
            Coding::Zstd => {
                let mut decoder = raw::Decoder::new().ok()?;
                let limit = raw::DParameter::WindowLogMax(max_window);
                decoder.set_parameter(limit).ok()?;
                Kind::Zstd(decoder)
            }
        };
        Some(Decoder {
            kind,
            is_whole: true,
        })
    }

    /// Decodes from the front of `input` to the front of `output`; gives the bytes used and the bytes made. Where `output` is full there may be
    /// more, even of no input; else all of the input is used.
    ///
    /// # Errors
    /// When the input is not what the coding says, or wants a larger window.
    pub fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize), Damaged> {
        let (mut used, mut made) = (0, 0);
        loop {
            let before = (used, made);
            self.step(input, output, &mut used, &mut made)?;
            let is_done = used == input.len() && made < output.len();
            if made == output.len() || is_done {
                return Ok((used, made));
            }
            if before == (used, made) {
                return Err(Damaged);
            }
        }
    }

    fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        used: &mut usize,
        made: &mut usize,
    ) -> Result<(), Damaged> {
        let (input, output) = (&input[*used..], &mut output[*made..]);
        match &mut self.kind {
            Kind::Gzip(decoder) => {
                if self.is_whole {
                    if input.is_empty() {
                        return Ok(());
                    }
                    decoder.reset(true);
                    self.is_whole = false;
                }
                let before = (decoder.total_in(), decoder.total_out());
                let status = decoder.decompress(input, output, FlushDecompress::None);
                self.is_whole = status.map_err(|_| Damaged)? == Status::StreamEnd;
                *used += (decoder.total_in() - before.0) as usize;
                *made += (decoder.total_out() - before.1) as usize;
            }
            Kind::Zstd(decoder) => {
                let run = decoder.run_on_buffers(input, output);
                let status = run.map_err(|_| Damaged)?;
                if status.bytes_read > 0 || status.bytes_written > 0 {
                    self.is_whole = status.remaining == 0;
                }
                *used += status.bytes_read;
                *made += status.bytes_written;
            }
        }
        Ok(())
    }

    /// Whether the content may end here.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let coding = match self.kind {
            Kind::Gzip(_) => Coding::Gzip,
            Kind::Zstd(_) => Coding::Zstd,
        };
        f.debug_struct("Decoder")
            .field("coding", &coding)
            .finish_non_exhaustive()
    }
}
