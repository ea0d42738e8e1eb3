//! `longshore nvme read` and `write`: between a namespace and a file.

use anyhow::Result;

use super::driver::{Driver, choose_namespace};
use super::options::Disk;
use super::pipeline::Pipeline;
use crate::disk::{self, Input, On};
use crate::get::Output;

/// Copies a namespace, or a part of it, to a file.
pub(super) fn read(options: &On<Disk, disk::Read>) -> Result<()> {
    let mut output = Output::to(&options.how.output)?;
    output.open()?;
    with_pipeline(&options.disk, |pipeline| {
        disk::read(pipeline, &options.how, &mut output)
    })
}

/// Copies a file to a namespace.
pub(super) fn write(options: &On<Disk, disk::Write>) -> Result<()> {
    let mut input = Input::open(&options.how)?;
    with_pipeline(&options.disk, |pipeline| {
        disk::write(pipeline, &options.how, &mut input)
    })
}

fn with_pipeline(disk: &Disk, act: impl FnOnce(&mut Pipeline<'_>) -> Result<()>) -> Result<()> {
    let mut driver = Driver::new(&disk.peer)?;
    let mut initiator = driver.connect_disk(disk)?;
    let namespace = choose_namespace(disk, &initiator)?;
    act(&mut Pipeline::new(&mut driver, &mut initiator, namespace)?)?;
    driver.disconnect(initiator)?;
    driver.end()
}
