//! `longshore top`: what running services do now: threads, traffic, connections and their owners, counters by the second.
//!
//! A sample is what services tell at their control sockets, and what `/proc` tells of their threads. Two of them make rates, rates make
//! tables, and tables are drawn on a screen or printed.

mod rates;
mod sample;
mod sampler;
mod tables;
mod text;
mod threads;
mod view;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ratatui::crossterm::event::{self, Event};

use crate::control::Service;
use crate::printing::{flush, put};
use crate::signals::Signals;

use rates::Rates;
use sampler::Sampler;
use tables::Selection;
use view::{Reaction, View};

/// Examples of the command.
pub const EXAMPLES: &str = "\
Keys: Tab shows the next view (overview, counters, connections), / filters rows, the arrows scroll,
+ and - change the interval, Space pauses, q quits.

Examples:
  sudo longshore top /run/longshore.sock
  sudo longshore top nic=/run/longshore.sock web=/run/serve.sock --interval 2
  sudo longshore top /run/serve.sock --batch --count 1 --filter tls";

/// How long a key may wait for the screen.
const PATIENCE: Duration = Duration::from_millis(50);

/// `longshore top`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Control sockets of the services [default name: the file's, without its extension]
    #[arg(required = true, value_name = "[NAME=]SOCKET", value_parser = Service::parse)]
    pub services: Vec<Service>,
    /// Seconds between two looks
    #[arg(short = 'd', long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    /// Print reports instead of a screen; so it does anyway when the output is no terminal
    #[arg(short, long)]
    pub batch: bool,
    /// End after so many reports; implies --batch
    #[arg(short = 'n', long, value_name = "N")]
    pub count: Option<u64>,
    /// Show only counters and connections with this in their row
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub filter: String,
}

fn parse_interval(argument: &str) -> Result<Duration, String> {
    let seconds: f64 = argument.parse().map_err(|_| "not a number".to_owned())?;
    match (0.1..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("0.1 to 3600".to_owned()),
    }
}

/// Shows what services do until a key, a signal or the count ends it.
///
/// # Errors
/// Two services have one name, none answers, or the terminal fails.
pub fn run(options: &Options) -> Result<()> {
    Service::check_names(&options.services)?;
    let selection = Selection {
        filter: options.filter.clone(),
    };
    let is_screen = !options.batch && options.count.is_none() && io::stdout().is_terminal();
    let start = || Sampler::start(options.services.clone(), options.interval);
    match is_screen {
        true => {
            // Before the thread, which takes the mask over.
            let signals = Signals::block()?;
            let view = View::new(options.interval, selection);
            show(start(), view, &signals).context("the terminal")
        }
        false => print(&start(), options, &selection),
    }
}

fn print(sampler: &Sampler, options: &Options, selection: &Selection) -> Result<()> {
    let mut left = options.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(rates) = sampler.next(Duration::from_secs(60)) else {
            continue;
        };
        let failures = rates
            .services
            .iter()
            .filter_map(|it| it.activity.as_ref().err());
        let failures: Vec<&str> = failures.map(String::as_str).collect();
        ensure!(
            failures.len() < rates.services.len(),
            "{}",
            failures.join("; ")
        );
        put(text::report(&rates, selection));
        flush();
        left -= 1;
    }
    Ok(())
}

fn show(sampler: Sampler, mut view: View, signals: &Signals) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let ended = loop {
        let drawn = terminal.draw(|frame| view.draw(frame)).map(drop);
        if drawn.is_err() || signals.received() {
            break drawn;
        }
        match react(&sampler, &mut view) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    ratatui::restore();
    ended
}

/// Takes keys and rates; `false` when it is to end.
fn react(sampler: &Sampler, view: &mut View) -> io::Result<bool> {
    let rates: Option<Rates> = sampler.next(Duration::ZERO);
    if let Some(rates) = rates {
        view.update(rates);
        return Ok(true);
    }
    if event::poll(PATIENCE)?
        && let Event::Key(key) = event::read()?
        && key.is_press()
    {
        match view.press(key) {
            Reaction::Draw => {}
            Reaction::Interval(interval) => sampler.set_interval(interval),
            Reaction::Quit => return Ok(false),
        }
    }
    Ok(true)
}
