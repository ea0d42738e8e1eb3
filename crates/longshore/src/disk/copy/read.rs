//! From a disk to a file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use anyhow::{Result, bail};
use aws_lc_rs::digest::{Context, Digest, SHA256};
use indicatif::ProgressBar;

use super::progress::{bar, summarise};
use crate::disk::{Action, Disk, Geometry, Part, Read};
use crate::get::Output;

/// Copies a disk, or a part of it, to a file that was opened.
pub(crate) fn run<D: Disk>(disk: &mut D, options: &Read, output: &mut Output) -> Result<()> {
    let range = range::<D>(options, disk.geometry())?;
    let bar = bar(options.quiet, Some(range.end - range.start));
    let started = Instant::now();
    let bytes = range.end - range.start;
    let sha256 = copy(disk, range, &bar, |bytes| output.write(bytes))?;
    output.keep()?;
    bar.finish_and_clear();
    if !options.quiet {
        summarise(&output.name(), bytes, started.elapsed(), &sha256);
    }
    Ok(())
}

/// Reads a range, gives it to `take` in order, and answers its SHA-256.
pub(super) fn copy(
    disk: &mut impl Disk,
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
            && let Some(block) = disk.take_block()
        {
            let len = u64::from(disk.part_len()).min(range.end - asked) as u32;
            let part = Part {
                offset: asked,
                len,
                block,
            };
            disk.submit(Action::Read, part)?;
            asked += u64::from(len);
        }
        let (part, _) = disk.next_done()?;
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
fn range<D: Disk>(options: &Read, geometry: Geometry) -> Result<Range<u64>> {
    let (size, block, noun) = (geometry.size, u64::from(geometry.block_size), D::NOUN);
    let length = match options.length {
        Some(length) => length,
        None => size.saturating_sub(options.offset),
    };
    if options.offset > size {
        bail!(
            "--offset {} is beyond the {noun}'s end at {size} bytes",
            options.offset
        );
    }
    if !options.offset.is_multiple_of(block) || !length.is_multiple_of(block) {
        bail!(
            "--offset {} and --length {length} must be multiples of the {noun}'s block size, {block}",
            options.offset
        );
    }
    match options.offset.checked_add(length) {
        Some(end) if end <= size => Ok(options.offset..end),
        _ => bail!(
            "--offset {} and --length {length} reach beyond the {noun}'s end at {size} bytes",
            options.offset
        ),
    }
}
