//! `longshore demo`: what the TLS offload does, to be seen without privileges and without arguments.
//!
//! Two hosts, two NICs and a link in memory that loses and reorders packets. One host downloads a file from the other
//! over HTTP: in plain TCP, with TLS in software, and with TLS on the NICs, several times in turn.

mod download;
mod printed;
mod server;

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::bench::Wanted;
use crate::bench::tls::Mode;
use crate::{report, size};
use download::{Content, Downloads, download};

/// Settings of `demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  longshore demo
  longshore demo --loss 0.02 --report demo.html
  longshore demo --bytes 256M --rounds 9")]
pub struct Options {
    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Size of the file to download, up to 16G
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::between(1, 16 << 30))]
    pub bytes: u64,

    /// Downloads in each mode; each figure is their median
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Share of packets lost in each direction, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.005, value_parser = crate::bench::share)]
    pub loss: f64,

    /// Share of packets delivered late in each direction, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.005, value_parser = crate::bench::share)]
    pub reorder: f64,

    /// Random seed for the file, loss and reordering
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Options {
    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            json: false,
            page: self.report.as_deref(),
        }
    }
}

/// What is compared.
const MODES: [Mode; 3] = [Mode::PlainZerocopy, Mode::Software, Mode::OffloadZerocopy];

/// Downloads in each mode in turn, several times, and prints the medians.
///
/// # Errors
/// When a download fails, or what it brought is not the file.
pub fn run(options: &Options) -> anyhow::Result<()> {
    options.wanted().check()?;
    let content = Content::new(options.seed, options.bytes);
    outln!(
        "Two hosts, two NICs, and a link that loses {:.1} % of the packets and delivers {:.1} % late.\n\
         The client downloads {} from the server {} times in each mode.\n\
         SHA-256 {}\n",
        options.loss * 100.0,
        options.reorder * 100.0,
        report::bytes(options.bytes),
        options.rounds,
        content.digest()
    );
    let progress = bar(content.len() * u64::from(options.rounds) * MODES.len() as u64);
    // Memory and caches are not new to the first mode.
    download(options, MODES[0], &content, &ProgressBar::hidden())?;
    let mut rounds = MODES.map(|_| Vec::new());
    for _ in 0..options.rounds {
        for (mode, downloads) in MODES.into_iter().zip(&mut rounds) {
            progress.set_message(label(mode));
            downloads.push(download(options, mode, &content, &progress)?);
        }
    }
    progress.finish_and_clear();
    let downloads: Vec<Downloads> = MODES
        .into_iter()
        .zip(&rounds)
        .map(|(mode, rounds)| Downloads::of(mode, rounds))
        .collect();
    printed::print(options, &downloads)
}

fn bar(len: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg:14} {wide_bar} {bytes:>11} of {total_bytes}  {elapsed_precise}",
    )
    .expect("the template is well-formed");
    ProgressBar::new(len).with_style(style)
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
