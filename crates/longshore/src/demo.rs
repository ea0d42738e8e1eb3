//! `longshore demo`: what the TLS offload does, to be seen without privileges and without arguments.
//!
//! Two hosts, two NICs and a link in memory that loses and reorders packets. One host downloads a file from the other
//! over HTTP: in plain TCP, with TLS in software, and with TLS on the NICs.

mod download;
mod printed;
mod server;

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::bench::Mode;
use download::{Content, download};

/// Settings of `demo`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Writes a page with the plots, self-contained
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Size of the file to download, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=16_384))]
    pub size: u64,

    /// Share of the packets to lose, in each direction
    #[arg(long, value_name = "P", default_value_t = 0.005, value_parser = crate::bench::share)]
    pub loss: f64,

    /// Share of the packets to deliver late, in each direction
    #[arg(long, value_name = "P", default_value_t = 0.005, value_parser = crate::bench::share)]
    pub reorder: f64,

    /// Seed of the file, of loss and of reordering
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// The three ways to download.
const MODES: [Mode; 3] = [Mode::PlainZerocopy, Mode::Software, Mode::OffloadZerocopy];

/// Downloads in each way, and prints what each took.
///
/// # Errors
/// When a download fails, or what it brought is not the file.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let content = Content::new(options.seed, options.size << 20);
    println!(
        "Two hosts, two NICs, a link that loses {:.1} % of the packets and delivers {:.1} % late.\n\
         The server sends a file of {} MiB, SHA-256 {}.\n",
        options.loss * 100.0,
        options.reorder * 100.0,
        options.size,
        content.digest()
    );
    let mut downloads = Vec::new();
    for mode in MODES {
        let progress = bar(content.len(), label(mode));
        let download = download(options, mode, &content, &progress)?;
        progress.finish();
        downloads.push(download);
    }
    printed::print(options, &downloads)
}

fn bar(len: u64, label: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg:24} {wide_bar} {bytes:>11} of {total_bytes}  {elapsed_precise}",
    )
    .expect("the template is well-formed");
    ProgressBar::new(len).with_style(style).with_message(label)
}

fn label(mode: Mode) -> &'static str {
    match mode {
        Mode::PlainZerocopy => "plain TCP",
        Mode::Software => "software TLS",
        _ => "offloaded TLS",
    }
}

#[cfg(test)]
mod tests;
