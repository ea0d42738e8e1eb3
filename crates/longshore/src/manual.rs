//! `longshore man` and `longshore completions`: what is made from the command line's own description.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::printing::put_bytes;

/// `longshore man`.
#[derive(Clone, Debug, Args)]
pub struct ManOptions {
    /// Directory to write to; it is made if it does not exist
    pub directory: PathBuf,
}

/// `longshore completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsOptions {
    /// Shell that is to complete the command line
    pub shell: Shell,
}

/// Writes a man page for each command.
///
/// # Errors
/// The directory or a page can't be written.
pub fn man(options: &ManOptions) -> Result<()> {
    let directory = &options.directory;
    fs::create_dir_all(directory)
        .with_context(|| format!("can't make the directory {}", directory.display()))?;
    let mut command = Cli::command();
    command.build();
    write_pages(&command, "longshore", directory)
}

/// The page of a command, and those of its subcommands.
fn write_pages(command: &Command, name: &str, directory: &Path) -> Result<()> {
    let path = directory.join(format!("{name}.1"));
    fs::write(&path, page(command, name)?)
        .with_context(|| format!("can't write {}", path.display()))?;
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            write_pages(inner, &format!("{name}-{}", inner.get_name()), directory)?;
        }
    }
    Ok(())
}

/// One page in roff. What stands behind the options in the help keeps its lines.
fn page(command: &Command, name: &str) -> io::Result<Vec<u8>> {
    let notes = command.get_after_help().map(ToString::to_string);
    let man = Man::new(command.clone()).title(name);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_opts().next().is_some() || command.get_positionals().next().is_some() {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = notes {
        page.extend_from_slice(b".SH EXAMPLES\n.nf\n");
        let lines = notes.lines();
        for line in lines.skip_while(|line| line.starts_with("Example")) {
            page.extend_from_slice(verbatim(line).as_bytes());
            page.push(b'\n');
        }
        page.extend_from_slice(b".fi\n");
    }
    Ok(page)
}

/// A line that roff shows as it is.
fn verbatim(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line,
    }
}

/// Prints a completion script.
pub fn completions(options: &CompletionsOptions) {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "longshore", &mut script);
    put_bytes(&script);
}

#[cfg(test)]
mod tests;
