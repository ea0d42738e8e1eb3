//! From a file to a disk.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use aws_lc_rs::digest::{Context, Digest, SHA256};
use indicatif::ProgressBar;

use super::progress::{bar, summarise};
use super::read;
use crate::disk::{Action, Disk, Geometry, Part, Write};

/// Copies a file to a disk.
pub(crate) fn run<D: Disk>(disk: &mut D, options: &Write, input: &mut Input) -> Result<()> {
    let (geometry, noun) = (disk.geometry(), D::NOUN);
    if geometry.is_read_only {
        bail!("{} is read-only", disk.name());
    }
    let block_size = u64::from(geometry.block_size);
    if !options.offset.is_multiple_of(block_size) {
        bail!(
            "--offset {} must be a multiple of the {noun}'s block size, {block_size}",
            options.offset
        );
    }
    let end = options.offset.checked_add(input.len.unwrap_or(0));
    if end.is_none_or(|end| end > geometry.size) {
        bail!(
            "{} does not fit at --offset {}: the {noun} has {} bytes",
            input.name,
            options.offset,
            geometry.size
        );
    }
    if let Some(len) = input.len
        && !options.pad
        && !len.is_multiple_of(block_size)
    {
        bail!(
            "{} has {len} bytes, which is not a multiple of the block size, {block_size}; give --pad to fill the last block with zeroes",
            input.name
        );
    }
    let bar = bar(options.quiet, input.len);

    let started = Instant::now();
    let (bytes, sha256) = copy(disk, input, options, &bar)?;
    if geometry.has_cache {
        disk.flush()?;
    }
    let took = started.elapsed();
    if options.verify {
        bar.set_message("verifying");
        let range = options.offset..options.offset + bytes;
        let again = read::copy(disk, range, &bar, |_| Ok(()))?;
        if again.as_ref() != sha256.as_ref() {
            bail!("the {noun} does not hold what was written: its SHA-256 differs");
        }
    }
    bar.finish_and_clear();
    if !options.quiet {
        summarise(&input.name, bytes, took, &sha256);
    }
    Ok(())
}

/// Writes all of the input; answers how many bytes, padding included, and their SHA-256.
fn copy<D: Disk>(
    disk: &mut D,
    input: &mut Input,
    options: &Write,
    bar: &ProgressBar,
) -> Result<(u64, Digest)> {
    let Geometry {
        size, block_size, ..
    } = disk.geometry();
    let mut hash = Context::new(&SHA256);
    let (mut offset, mut in_flight, mut done) = (options.offset, 0, 0);
    let mut at_end = false;
    loop {
        while !at_end && let Some(mut block) = disk.take_block() {
            // SAFETY: the block was taken just now: nothing names it.
            let bytes = unsafe { block.bytes_mut() };
            let mut len = input.fill(bytes)?;
            at_end = len < bytes.len();
            let over = len % block_size as usize;
            if over > 0 {
                if !options.pad {
                    bail!(
                        "{} ends inside a block of {block_size} bytes; give --pad to fill it with zeroes",
                        input.name
                    );
                }
                let end = len - over + block_size as usize;
                bytes[len..end].fill(0);
                len = end;
            }
            if offset + len as u64 > size {
                bail!(
                    "{} does not fit: the {} has {size} bytes",
                    input.name,
                    D::NOUN
                );
            }
            if len == 0 {
                break;
            }
            hash.update(&bytes[..len]);
            let len = len as u32;
            disk.submit(Action::Write, Part { offset, len, block })?;
            offset += u64::from(len);
            in_flight += 1;
        }
        if in_flight == 0 {
            return Ok((done, hash.finish()));
        }
        let (part, _) = disk.next_done()?;
        in_flight -= 1;
        done += u64::from(part.len);
        bar.set_position(done);
    }
}

/// What is written.
pub(crate) struct Input {
    file: Box<dyn io::Read>,
    name: String,
    len: Option<u64>,
}

impl Input {
    /// Opens what is to be written.
    pub(crate) fn open(options: &Write) -> Result<Input> {
        let path = &options.input;
        if path.as_os_str() == "-" {
            return Ok(Input {
                file: Box::new(io::stdin()),
                name: "standard input".to_owned(),
                len: None,
            });
        }
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("can't read {name}; see -i"))?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            bail!("{name} is a directory; give -i a file");
        }
        Ok(Input {
            file: Box::new(file),
            name,
            len: metadata.is_file().then_some(metadata.len()),
        })
    }

    /// Fills `bytes` as far as there is input.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(len) => filled += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("can't read {}", self.name));
                }
            }
        }
        Ok(filled)
    }
}
