//! The load balancer on one of several cores, and all of them as one service.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use handshake::Certificates;

use super::balancer::{BackendState, Balancer};
use super::config::Config;
use super::control;
use super::options::Options;
use serde::Deserialize;

use crate::attach::Attached;
use crate::cli::Command as Main;
use crate::control::{Answer, Request};
use crate::read_again::expect_regular;
use crate::service::Application;
use crate::shards::Shard;
use crate::succession::{Drains, HandsOver, Shards};

/// How often the NIC is asked at the end whether it has finished.
const FINISHED: Duration = Duration::from_millis(10);
/// Other cores may end so long after the time by which all should have.
const LATE: Duration = Duration::from_secs(2);

/// Backends that one piece of news tells of.
const NEWS: usize = 1000;

/// The load balancer of one core.
pub(super) struct Balancing {
    balancer: Balancer,
    /// Its number, and how many there are.
    part: (u16, u16),
    /// It was told to end, and has.
    is_done: bool,
    /// When the NIC is asked whether it has finished.
    asks: Option<Instant>,
}

impl Balancing {
    /// The `nth` of `count`.
    pub(super) fn new(balancer: Balancer, nth: u16, count: u16) -> Self {
        Balancing {
            balancer,
            part: (nth, count),
            is_done: false,
            asks: None,
        }
    }

    /// Whether no session is left, and the NIC has sent what it was given of closed connections, unless that takes too long.
    fn has_ended(&self, now: Instant, attached: &mut Attached) -> Result<bool> {
        let is_late = self.balancer.ends().is_none_or(|ends| ends <= now);
        let is_done = self.balancer.is_done(now, attached.runtime.stack());
        Ok(is_done && (is_late || attached.runtime.has_finished_teardowns()?))
    }

    fn reload(&mut self, config: &Config, attached: &mut Attached) -> Vec<String> {
        let (nth, count) = self.part;
        let config = config.share(nth, count);
        let stack = attached.runtime.stack();
        self.balancer.reload(Instant::now(), config, stack)
    }

    fn stop(&mut self, attached: &mut Attached) {
        self.balancer.stop(Instant::now(), attached.runtime.stack());
    }

    fn answer(&mut self, request: Request, attached: &mut Attached) -> Answer {
        control::answer(Instant::now(), &mut self.balancer, attached, request)
    }
}

impl Shard for Balancing {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool> {
        let progress = self.balancer.poll(now, attached.runtime.stack());
        if self.balancer.ends().is_some() && !self.is_done {
            self.is_done = self.has_ended(now, attached)?;
            self.asks = (!self.is_done).then(|| now + FINISHED);
        }
        Ok(progress)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = [self.balancer.poll_timeout(), self.asks];
        deadlines.into_iter().flatten().min()
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl Drains for Balancing {
    fn drain(&mut self, now: Instant, attached: &mut Attached, drains: bool) {
        let stack = attached.runtime.stack();
        self.balancer.retire(now, stack, drains);
    }

    fn abort_all(&mut self, now: Instant, attached: &mut Attached) {
        self.balancer.abort_all(now, attached.runtime.stack());
    }

    fn news(&self) -> Vec<serde_json::Value> {
        let backends = self.balancer.backends();
        let pieces = backends.chunks(NEWS).map(serde_json::to_value);
        pieces.flatten().collect()
    }

    fn hear(&mut self, _now: Instant, _attached: &mut Attached, news: &serde_json::Value) {
        if let Ok(backends) = Vec::<BackendState>::deserialize(news) {
            self.balancer.inherit(&backends);
        }
    }
}

/// The load balancer of this thread, which makes the health checks, and those of others; what they prove themselves with, and the file of
/// their settings and options.
pub(super) struct All {
    pub(super) shards: Shards<Balancing>,
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) config: PathBuf,
}

impl All {
    /// Whether a process that had the place before has connections left, which may go on as long as those here.
    fn awaits_predecessor(&self, now: Instant) -> bool {
        let ends = self.shards.own.balancer.ends();
        self.shards.has_predecessor() && ends.is_some_and(|ends| now < ends)
    }

    /// Has the others take what checks have found.
    fn pass_on_verdicts(&mut self) {
        let verdicts = self.shards.own.balancer.take_verdicts();
        if verdicts.is_empty() || self.shards.others.are_none() {
            return;
        }
        let verdicts: Arc<[_]> = verdicts.into();
        self.shards
            .others
            .tell_each_in_time(move |shard, attached| {
                for verdict in &*verdicts {
                    let stack = attached.runtime.stack();
                    shard.balancer.apply_verdict(Instant::now(), stack, verdict);
                }
            });
    }

    /// When the others have ended at the latest, or hang.
    fn late(&self) -> Option<Instant> {
        self.shards.own.balancer.ends().map(|ends| ends + LATE)
    }

    /// What the files say now, and the options that have changed and need a restart.
    fn read_again(&self) -> Result<(Config, Vec<String>)> {
        expect_regular(&self.config)?;
        let (cli, mut restart) = crate::config::read_again().map_err(|error| anyhow!("{error}"))?;
        let Main::Lb(Options::Run(run)) = cli.command else {
            bail!("the command line is no longer that of a load balancer");
        };
        let config = Config::read(&self.config)?;
        config.check_addresses(|ip| run.wire.has(ip))?;
        config.check_tls(!run.certificates.is_empty())?;
        config.check_shares(self.shards.own.part.1)?;
        if let Some(held) = &self.certificates
            && !run.certificates.is_empty()
        {
            run.certificates
                .files()
                .try_for_each(|it| expect_regular(it))?;
            run.certificates.replace(held)?;
            restart.retain(|option| option != "--cert" && option != "--key");
        }
        Ok((config, restart))
    }
}

impl Application for All {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool> {
        self.shards.others.check()?;
        let progress = self.shards.own.poll(now, attached)?;
        self.pass_on_verdicts();
        Ok(progress)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let is_done = self.shards.own.is_done();
        let late = self.late().filter(|_| is_done);
        let ends = self.shards.own.balancer.ends();
        let ends = ends.filter(|_| is_done && self.shards.has_predecessor());
        let deadlines = [self.shards.own.poll_timeout(), late, ends];
        deadlines.into_iter().flatten().min()
    }

    fn answer(&mut self, _now: Instant, request: Request, attached: &mut Attached) -> Answer {
        // Either all of them change, or none.
        if matches!(request, Request::Drain { .. })
            && let Err(error) = self.shards.others.with_each(|_, _| ())
        {
            return Answer::Error(format!("{error}; nothing has changed"));
        }
        let answer = move |shard: &mut Balancing, attached: &mut Attached| {
            shard.answer(request.clone(), attached)
        };
        self.shards.answer(attached, answer)
    }

    fn reload(&mut self, _now: Instant, attached: &mut Attached) -> Result<Vec<String>> {
        if self.shards.own.balancer.ends().is_some() {
            bail!("the load balancer is about to end");
        }
        // That all can follow, before anything changes.
        self.shards.others.with_each(|_, _| ())?;
        let (mut config, mut restart) = self.read_again()?;
        if let Some(sink) = &attached.key_log {
            config.log_keys(sink)?;
        }
        let config = Arc::new(config);
        let theirs = Arc::clone(&config);
        let followed = self
            .shards
            .others
            .with_each(move |shard, attached| drop(shard.reload(&theirs, attached)));
        if let Err(error) = followed {
            tracing::warn!("{error:#}: it follows the reload later");
        }
        // The last, so that its new checks do not wait for the others.
        restart.extend(self.shards.own.reload(&config, attached));
        Ok(restart)
    }

    fn others_go_on(&mut self) -> bool {
        self.shards.others.go_on()
    }

    fn other_sockets(&self) -> u32 {
        self.shards.others.sockets()
    }

    fn hands_over(&mut self) -> Option<&mut dyn HandsOver> {
        Some(&mut self.shards)
    }

    fn stop(&mut self, _now: Instant, attached: &mut Attached) {
        self.shards.own.stop(attached);
        self.shards
            .others
            .tell_each(|shard, attached| shard.stop(attached));
    }

    fn is_done(&self, now: Instant, _attached: &mut Attached) -> bool {
        if self.awaits_predecessor(now) {
            return false;
        }
        let Some(worker) = self.shards.others.unfinished() else {
            return self.shards.own.is_done();
        };
        let is_late = self.shards.own.is_done() && self.late().is_some_and(|late| late <= now);
        if is_late {
            tracing::warn!("worker {worker} does not end, and is left behind");
        }
        is_late
    }
}
