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
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::control::Service;
use crate::printing::{flush, put};
use crate::signals::Signals;

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

/// How long new rates may wait for the screen.
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
    /// Print reports instead of a screen; so it does anyway without a terminal
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
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let is_screen = is_terminal && !options.batch && options.count.is_none();
    let start = || Sampler::start(options.services.clone(), options.interval);
    match is_screen {
        true => {
            // Before the thread, which takes the mask over.
            let signals = Signals::block()?;
            let view = View::new(options.interval, selection);
            show(&start(), view, &signals).context("the terminal")
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

fn show(sampler: &Sampler, mut view: View, signals: &Signals) -> Result<()> {
    let mut terminal = ratatui::try_init()?;
    let ended = follow(sampler, &mut view, signals, &mut terminal);
    ratatui::restore();
    ended
}

/// Draws what there is to see until a key or a signal ends it, or the terminal has gone.
fn follow(
    sampler: &Sampler,
    view: &mut View,
    signals: &Signals,
    terminal: &mut DefaultTerminal,
) -> Result<()> {
    let keys = keys();
    let mut drawn = None;
    while !has_ended(signals)? {
        let size = terminal.size()?;
        let rates = sampler.next(Duration::ZERO);
        let has_rates = rates.is_some();
        rates.into_iter().for_each(|rates| view.update(rates));
        if has_rates || drawn != Some(size) {
            terminal.draw(|frame| view.draw(frame))?;
            drawn = Some(size);
        }
        let Ok(key) = keys.recv_timeout(PATIENCE) else {
            continue;
        };
        drawn = None;
        match view.press(key) {
            Reaction::Draw => {}
            Reaction::Interval(interval) => sampler.set_interval(interval),
            Reaction::Quit => break,
        }
    }
    Ok(())
}

/// Keys, from a thread of their own: reading one can wait for the rest of an escape sequence, and for ever in a terminal that has gone.
fn keys() -> Receiver<KeyEvent> {
    let (tell, keys) = channel();
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if let Event::Key(key) = event
                && key.is_press()
                && tell.send(key).is_err()
            {
                break;
            }
        }
    });
    keys
}

/// Whether a signal came, or the terminal has gone.
fn has_ended(signals: &Signals) -> Result<bool> {
    let stdin = io::stdin();
    let mut terminal = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::empty())];
    match poll(&mut terminal, Some(&Timespec::default())) {
        Err(Errno::INTR) => {}
        polled => drop(polled?),
    }
    let gone = PollFlags::HUP | PollFlags::ERR;
    Ok(signals.received() || terminal[0].revents().intersects(gone))
}
