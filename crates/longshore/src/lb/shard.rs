//! The load balancer on one of several cores, and all of them as one service.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use handshake::{Certificates, TicketKeys};

use super::balancer::{BackendState, Balancer};
use super::config::Config;
use super::control;
use super::options::Options;
use serde::Deserialize;

use crate::attach::Attached;
use crate::cli::Command as Main;
use crate::control::{Answer, Request, one_of};
use crate::read_again::expect_regular;
use crate::service::{Application, Place};
use crate::shards::{Shard, Threads};
use crate::succession::{self, Claimant, Drains, Succession};

/// How often the NIC is asked at the end whether it has finished.
const FINISHED: Duration = Duration::from_millis(10);
/// Other cores may end so long after the time by which all should have.
const LATE: Duration = Duration::from_secs(2);

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

    fn news(&self) -> serde_json::Value {
        serde_json::to_value(self.balancer.backends()).unwrap_or_default()
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
    pub(super) own: Balancing,
    pub(super) others: Threads<Balancing>,
    pub(super) succession: Succession,
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) tickets: Arc<TicketKeys>,
    pub(super) config: PathBuf,
}

impl All {
    fn parts<'a>(
        &'a mut self,
        attached: &'a mut Attached,
    ) -> (&'a mut Succession, succession::All<'a, Balancing>) {
        let all = succession::All {
            own: &mut self.own,
            attached,
            others: &mut self.others,
        };
        (&mut self.succession, all)
    }

    /// Whether a process that had the place before has connections left, which may go on as long as those here.
    fn awaits_predecessor(&self, now: Instant) -> bool {
        let ends = self.own.balancer.ends();
        self.succession.has_predecessor() && ends.is_some_and(|ends| now < ends)
    }

    /// Has the others take what checks have found.
    fn pass_on_verdicts(&mut self) {
        let verdicts = self.own.balancer.take_verdicts();
        if verdicts.is_empty() || self.others.are_none() {
            return;
        }
        let verdicts: Arc<[_]> = verdicts.into();
        self.others.tell_each_in_time(move |shard, attached| {
            for verdict in &*verdicts {
                let stack = attached.runtime.stack();
                shard.balancer.heed(Instant::now(), stack, verdict);
            }
        });
    }

    /// When the others have ended at the latest, or hang.
    fn late(&self) -> Option<Instant> {
        self.own.balancer.ends().map(|ends| ends + LATE)
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
        config.check_shares(self.own.part.1)?;
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
        self.others.check()?;
        let progress = self.own.poll(now, attached)?;
        self.pass_on_verdicts();
        Ok(progress)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let is_done = self.own.is_done();
        let late = self.late().filter(|_| is_done);
        let ends = self.own.balancer.ends();
        let ends = ends.filter(|_| is_done && self.succession.has_predecessor());
        let succession = self.succession.poll_timeout(Instant::now());
        let deadlines = [self.own.poll_timeout(), late, ends, succession];
        deadlines.into_iter().flatten().min()
    }

    fn answer(&mut self, _now: Instant, request: Request, attached: &mut Attached) -> Answer {
        // Either all of them change, or none.
        if matches!(request, Request::Drain { .. })
            && let Err(error) = self.others.with_each(|_, _| ())
        {
            return Answer::Error(format!("{error}; nothing has changed"));
        }
        let own = self.own.answer(request.clone(), attached);
        if self.others.are_none() {
            return own;
        }
        let others = self
            .others
            .with_each(move |shard, attached| shard.answer(request.clone(), attached));
        match others {
            Ok(others) => one_of(std::iter::once(own).chain(others).collect()),
            Err(error) => Answer::Error(error.to_string()),
        }
    }

    fn reload(&mut self, _now: Instant, attached: &mut Attached) -> Result<Vec<String>> {
        if self.own.balancer.ends().is_some() {
            bail!("the load balancer is about to end");
        }
        // That all can follow, before anything changes.
        self.others.with_each(|_, _| ())?;
        let (mut config, mut restart) = self.read_again()?;
        if let Some(sink) = &attached.key_log {
            config.log_keys(sink)?;
        }
        let config = Arc::new(config);
        let theirs = Arc::clone(&config);
        let followed = self
            .others
            .with_each(move |shard, attached| drop(shard.reload(&theirs, attached)));
        if let Err(error) = followed {
            tracing::warn!("{error:#}: it follows the reload later");
        }
        // The last, so that its new checks do not wait for the others.
        restart.extend(self.own.reload(&config, attached));
        Ok(restart)
    }

    fn others_go_on(&mut self) -> bool {
        self.others.go_on()
    }

    fn other_sockets(&self) -> u32 {
        self.others.sockets()
    }

    fn claimed(
        &mut self,
        now: Instant,
        claimant: Claimant<'_>,
        attached: &mut Attached,
    ) -> Result<()> {
        if self.own.balancer.ends().is_some() {
            bail!("the load balancer is about to end");
        }
        let tickets = self.tickets.keys();
        let (succession, mut all) = self.parts(attached);
        succession.claimed(now, claimant, tickets, &mut all)
    }

    fn look_after_other(&mut self, now: Instant, attached: &mut Attached) -> Result<Place> {
        let (succession, mut all) = self.parts(attached);
        succession.poll(now, &mut all)
    }

    fn other(&self) -> Option<BorrowedFd<'_>> {
        self.succession.fd()
    }

    fn stop(&mut self, _now: Instant, attached: &mut Attached) {
        self.own.stop(attached);
        self.others
            .tell_each(|shard, attached| shard.stop(attached));
    }

    fn is_done(&self, now: Instant, _attached: &mut Attached) -> bool {
        if self.awaits_predecessor(now) {
            return false;
        }
        let Some(worker) = self.others.unfinished() else {
            return self.own.is_done();
        };
        let is_late = self.own.is_done() && self.late().is_some_and(|late| late <= now);
        if is_late {
            tracing::warn!("worker {worker} does not end, and is left behind");
        }
        is_late
    }
}
