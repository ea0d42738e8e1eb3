//! Several runs, a thread for each core.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use sim::handoff::{Config, Outcome, Run};

/// Runs all of them; gives the outcomes in the same order.
///
/// # Errors
/// When a run breaks off.
pub fn run_all(configs: &[Config], quiet: bool) -> anyhow::Result<Vec<Outcome>> {
    let Run { warm_up, measured } = Run::default();
    let each = warm_up + measured;
    let packets = each * configs.len() as u64;
    let bar = if quiet {
        ProgressBar::hidden()
    } else {
        bar(packets)
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(config) = configs.get(at) else {
                return done;
            };
            bar.set_message(config.to_string());
            let mut counted = 0;
            let outcome = sim::handoff::run(config, |packets, all| {
                let packets = packets.min(all);
                bar.inc(packets.saturating_sub(counted));
                counted = counted.max(packets);
            });
            bar.inc(each.saturating_sub(counted));
            done.push((at, outcome));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut outcomes = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores.min(configs.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let mut outcomes = Vec::new();
        for thread in threads {
            let done = thread.join().map_err(|_| anyhow!("a run broke off"))?;
            outcomes.extend(done);
        }
        anyhow::Ok(outcomes)
    })?;
    bar.finish_and_clear();
    outcomes.sort_by_key(|(at, _)| *at);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

fn bar(packets: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg:24} {wide_bar} {percent:>3} %  {elapsed_precise}, {eta} left",
    )
    .expect("the template is well-formed");
    ProgressBar::new(packets).with_style(style)
}
