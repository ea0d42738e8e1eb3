//! From a namespace to a file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use anyhow::{Result, bail};
use aws_lc_rs::digest::{Context, Digest, SHA256};
use indicatif::ProgressBar;

use super::progress::{bar, summarise};
use crate::get::Output;
use crate::nvme::driver::{Driver, choose_namespace};
use crate::nvme::options::Read;
use crate::nvme::pipeline::{Part, Pipeline};

/// Copies a namespace, or a part of it, to a file.
pub(in crate::nvme) fn run(options: &Read) -> Result<()> {
    let mut output = Output::to(&options.output)?;
    output.open()?;
    let mut driver = Driver::new(&options.disk.peer)?;
    let mut initiator = driver.connect_disk(&options.disk)?;
    let namespace = choose_namespace(&options.disk, &initiator)?;
    let range = range(options, namespace.size(), namespace.block_size())?;
    let bar = bar(options.quiet, Some(range.end - range.start));

    let started = Instant::now();
    let bytes = range.end - range.start;
    let mut pipeline = Pipeline::new(&mut driver, &mut initiator, namespace)?;
    let sha256 = copy(&mut pipeline, range, &bar, |bytes| output.write(bytes))?;
    output.keep()?;
    bar.finish_and_clear();
    if !options.quiet {
        summarise(&output.name(), bytes, started.elapsed(), &sha256);
    }
    driver.disconnect(initiator)?;
    driver.end()
}

/// Reads a range, gives it to `take` in order, and answers its SHA-256.
pub(super) fn copy(
    pipeline: &mut Pipeline<'_>,
    range: Range<u64>,
    bar: &ProgressBar,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Digest> {
    let mut hash = Context::new(&SHA256);
    let (mut asked, mut taken) = (range.start, range.start);
    // Parts that came before their turn. There are no more than blocks.
    let mut early: BTreeMap<u64, Part> = BTreeMap::new();
    while taken < range.end {
        while asked < range.end
            && let Some(block) = pipeline.take_block()
        {
            let len = u64::from(pipeline.part_len()).min(range.end - asked) as u32;
            pipeline.read(Part {
                offset: asked,
                len,
                block,
            })?;
            asked += u64::from(len);
        }
        let part = pipeline.next_done()?;
        early.insert(part.offset, part);
        while let Some(part) = early.remove(&taken) {
            // SAFETY: the command that named the block is complete, and no other one does.
            let bytes = &unsafe { part.block.bytes() }[..part.len as usize];
            hash.update(bytes);
            take(bytes)?;
            taken += u64::from(part.len);
            bar.set_position(taken - range.start);
        }
    }
    Ok(hash.finish())
}

/// The bytes that were asked for.
fn range(options: &Read, size: u64, block_size: u32) -> Result<Range<u64>> {
    let block = u64::from(block_size);
    let length = match options.length {
        Some(length) => length,
        None => size.saturating_sub(options.offset),
    };
    if options.offset > size {
        bail!(
            "--offset {} is beyond the namespace's end at {size} bytes",
            options.offset
        );
    }
    if !options.offset.is_multiple_of(block) || !length.is_multiple_of(block) {
        bail!(
            "--offset {} and --length {length} must be multiples of the namespace's block size, {block}",
            options.offset
        );
    }
    match options.offset.checked_add(length) {
        Some(end) if end <= size => Ok(options.offset..end),
        _ => bail!(
            "--offset {} and --length {length} reach beyond the namespace's end at {size} bytes",
            options.offset
        ),
    }
}
