//! From one disk to another: what was read into a block is written from it.

use std::time::Instant;

use anyhow::{Result, bail};

use super::progress::bar;
use crate::disk::{Action, Disk, Part};

/// Copies all of a disk to the beginning of another one.
pub(crate) fn run<F: Disk, T: Disk>(from: &mut F, to: &mut T, quiet: bool) -> Result<()> {
    check_fit(from, to)?;
    let (source, target) = (from.geometry(), to.geometry());
    let bar = bar(quiet, Some(source.size));
    let started = Instant::now();
    let longest = from.part_len().min(to.part_len());
    let longest = u64::from(longest / target.block_size * target.block_size);
    let (mut asked, mut done) = (0, 0);
    while done < source.size {
        while asked < source.size
            && let Some(block) = from.take_block()
        {
            let len = longest.min(source.size - asked) as u32;
            let part = Part {
                offset: asked,
                len,
                block,
            };
            from.submit(Action::Read, part)?;
            asked += u64::from(len);
        }
        let mut progress = false;
        while let Some((part, _)) = from.poll_done()? {
            to.submit(Action::Write, part)?;
            progress = true;
        }
        while let Some((part, _)) = to.poll_done()? {
            done += u64::from(part.len);
            bar.set_position(done);
            progress = true;
        }
        if !progress {
            to.wait()?;
        }
    }
    if target.has_cache {
        to.flush()?;
    }
    bar.finish_and_clear();
    if !quiet {
        let seconds = started.elapsed().as_secs_f64();
        let rate = done as f64 * 8.0 / seconds.max(1e-9) / 1e6;
        eprintln!(
            "{} to {}: {done} bytes in {seconds:.3} s, {rate:.0} Mbit/s",
            from.name(),
            to.name()
        );
    }
    Ok(())
}

/// Whether all of a disk can be written to another one.
fn check_fit<F: Disk, T: Disk>(from: &F, to: &T) -> Result<()> {
    let (source, target) = (from.geometry(), to.geometry());
    if target.is_read_only {
        bail!("{} is read-only", to.name());
    }
    if target.size < source.size || !source.size.is_multiple_of(target.block_size.into()) {
        bail!(
            "{} has {} bytes in blocks of {}: the {} bytes of {} do not fit",
            to.name(),
            target.size,
            target.block_size,
            source.size,
            from.name()
        );
    }
    Ok(())
}
