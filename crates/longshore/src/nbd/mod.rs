//! `longshore nbd`: exports of NBD servers, on our stack.

mod bench;
mod driver;
mod options;
mod pipeline;
mod uri;

use anyhow::{Result, bail};

use crate::disk::{self, Input};
use crate::get::Output;

use driver::Driver;
pub use options::Command;
use options::{Copy, Export, Info, Read, Write};
use pipeline::Pipeline;
use uri::Uri;

/// Does what was asked.
///
/// # Errors
/// When it can't be done: the message says why, and what can be done.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Info(options) => info(options),
        Command::Read(options) => read(options),
        Command::Write(options) => write(options),
        Command::Copy(options) => copy(options),
        Command::Bench(options) => bench::run(options),
    }
}

/// Connects, does something with the export, and says goodbye.
fn with_export<R>(export: &Export, act: impl FnOnce(&mut Pipeline<'_>) -> Result<R>) -> Result<R> {
    let mut driver = Driver::new(&export.peer)?;
    let at = driver.connect(&export.peer, &export.uri)?;
    driver.with(|driver| act(&mut Pipeline::new(driver, at)?))
}

fn info(options: &Info) -> Result<()> {
    let export = with_export(&options.export, |pipeline| Ok(pipeline.export()))?;
    let uri = &options.export.uri;
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
    println!("{uri}");
    println!("  size {} bytes", export.size);
    println!(
        "  blocks of {}, preferred {}, at most {} bytes in a request",
        export.min_block, export.preferred_block, export.max_request
    );
    println!(
        "  read-only: {}, flush: {}, structured replies: {}",
        yes(export.is_read_only()),
        yes(export.can_flush()),
        yes(export.structured)
    );
    Ok(())
}

fn read(options: &Read) -> Result<()> {
    let mut output = Output::to(&options.how.output)?;
    output.open()?;
    with_export(&options.export, |pipeline| {
        disk::read(pipeline, &options.how, &mut output)
    })
}

fn write(options: &Write) -> Result<()> {
    let mut input = Input::open(&options.how)?;
    with_export(&options.export, |pipeline| {
        disk::write(pipeline, &options.how, &mut input)
    })
}

/// Between two exports, or an export and a file.
fn copy(options: &Copy) -> Result<()> {
    let Copy {
        from,
        to,
        peer,
        quiet,
    } = options;
    let export = |uri: Uri| Export {
        uri,
        peer: (**peer).clone(),
    };
    let quiet = *quiet;
    match (Uri::of_word(from)?, Uri::of_word(to)?) {
        (Some(from), Some(to)) => {
            let mut driver = Driver::new(peer)?;
            let (from, to) = (driver.connect(peer, &from)?, driver.connect(peer, &to)?);
            driver.with(|driver| {
                let mut source = Pipeline::new(driver, from)?;
                disk::between(&mut source, &mut Pipeline::new(driver, to)?, quiet)
            })
        }
        (Some(from), None) => read(&Read {
            export: export(from),
            how: disk::Read {
                output: to.into(),
                offset: 0,
                length: None,
                quiet,
            },
        }),
        (None, Some(to)) => write(&Write {
            export: export(to),
            how: disk::Write {
                input: from.into(),
                offset: 0,
                pad: true,
                verify: false,
                quiet,
            },
        }),
        (None, None) => bail!("neither {from} nor {to} is an export; give one by nbd://HOST/NAME"),
    }
}
