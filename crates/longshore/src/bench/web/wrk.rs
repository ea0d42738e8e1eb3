//! wrk, the client: it asks on all connections for the file, again and again.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;

use super::namespace::Namespace;
use super::requests::Requests;
use super::site::Site;
use crate::bench::daemon;
use crate::bench::folder::Folder;
use crate::signals::Signals;

/// Longest time that wrk may take beyond that it was given.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a request may take.
const TIMEOUT: &str = "60s";

/// What is needed to run wrk.
pub struct Wrk {
    program: PathBuf,
    /// Counts and no more.
    count: PathBuf,
    /// Compares every response with the file.
    compare: PathBuf,
    requests: Requests,
    signals: Signals,
}

/// What a run of wrk came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Responses.
    pub requests: u64,
    /// Bytes of responses with their heads, also of those that had not ended.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
    /// Connections that failed, and responses that did not come or had another status.
    pub errors: u64,
    /// Responses with other content than the file's; only looked for where asked for.
    pub wrong: u64,
    /// From requests to the ends of their responses.
    pub latency: Latency,
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Of half of the requests.
    pub p50: u64,
    /// Of 99 in 100.
    pub p99: u64,
}

impl Load {
    /// Fails when not every request was answered, of so many connections in so many seconds.
    ///
    /// # Errors
    /// With what can be done about it.
    fn check(&self, connections: u32, seconds: u32) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.requests > 0,
            "nothing was answered in {seconds} s on {connections} connections ({} errors): give --seconds more, for each \
             connection begins with a handshake",
            self.errors
        );
        anyhow::ensure!(
            self.errors == 0,
            "{} requests were answered, and {} failed or had no answer within {TIMEOUT}, on {connections} connections",
            self.requests,
            self.errors
        );
        Ok(())
    }
}

impl Wrk {
    /// Writes the scripts that it needs.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn prepare(folder: &Folder, site: &Site, requests: Requests) -> anyhow::Result<Self> {
        let compare = COMPARE.replace("FILE", &site.file.display().to_string());
        Ok(Self {
            program: daemon::program("wrk", "wrk")?,
            count: folder.write("count.lua", DONE)?,
            compare: folder.write("compare.lua", compare + DONE)?,
            requests,
            signals: Signals::block()?,
        })
    }

    /// Asks for `url` for as long as a round takes.
    ///
    /// # Errors
    /// When wrk fails, not every request was answered, or the user asks to end.
    pub fn run(&self, client: &Namespace, url: &str, compares: bool) -> anyhow::Result<Load> {
        let Requests {
            connections,
            seconds,
            ..
        } = self.requests;
        let script = if compares { &self.compare } else { &self.count };
        let mut command = Command::new(&self.program);
        command.args(["--threads", "1", "--timeout", TIMEOUT]);
        command.arg(format!("--connections={connections}"));
        command.arg(format!("--duration={seconds}s"));
        command.arg("--script").arg(script).arg(url);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        daemon::end_with_us(&mut command);
        let mut process = client.run(move || command.spawn().context("wrk can't be started"))?;
        let watched = self.watch(&process, Duration::from_secs(seconds.into()));
        if watched.is_err() {
            let _ = process.kill();
        }
        let output = process.wait_with_output()?;
        watched?;
        let said = String::from_utf8_lossy(&output.stdout);
        let load = parse(&said).with_context(|| {
            let error = String::from_utf8_lossy(&output.stderr);
            format!("wrk failed: {} {}", said.trim(), error.trim())
        })?;
        load.check(connections, seconds)?;
        Ok(load)
    }

    /// Waits for its end.
    fn watch(&self, process: &Child, duration: Duration) -> anyhow::Result<()> {
        let ended = pidfd_open(Pid::from_child(process), PidfdFlags::empty())?;
        let until = Instant::now() + duration + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            anyhow::ensure!(!left.is_zero(), "wrk does not end");
            let time_out = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut polled = [
                PollFd::new(&ended, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            // An interrupted wait is one that was too short.
            let _ = poll(&mut polled, Some(&time_out));
            if !polled[0].revents().is_empty() {
                return Ok(());
            }
            anyhow::ensure!(!self.signals.received(), "asked to end");
        }
    }
}

/// Reads the line of our scripts.
fn parse(said: &str) -> Option<Load> {
    let line = said.lines().find_map(|line| line.strip_prefix(MARK))?;
    let numbers: Vec<u64> = line
        .split_whitespace()
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    let [requests, bytes, took, errors, wrong, p50, p99] = numbers[..] else {
        return None;
    };
    Some(Load {
        requests,
        bytes,
        took: Duration::from_micros(took),
        errors,
        wrong,
        latency: Latency { p50, p99 },
    })
}

/// Of the line that the scripts print.
const MARK: &str = "longshore:";

const DONE: &str = r#"
function done(summary, latency)
    local errors, wrong_ones = summary.errors, 0
    for _, thread in ipairs(threads or {}) do
        wrong_ones = wrong_ones + thread:get("wrong")
    end
    print(string.format("longshore: %d %d %d %d %d %d %d", summary.requests, summary.bytes, summary.duration,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout, wrong_ones,
        latency:percentile(50), latency:percentile(99)))
end
"#;

const COMPARE: &str = r#"
threads = {}
function setup(thread)
    table.insert(threads, thread)
end
function init()
    local file = io.open("FILE", "rb")
    expected, wrong = file:read("*a"), 0
    file:close()
end
function response(_, _, body)
    if body ~= expected then
        wrong = wrong + 1
    end
end
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_is_read_to_the_last_number() {
        let said = "Running 2s test @ http://192.0.2.1:8080/file\nlongshore: 10 2684354 2000123 0 0 700 1900\n";
        let load = parse(said).expect("a line of ours");
        assert_eq!((load.requests, load.bytes), (10, 2_684_354));
        assert_eq!((load.errors, load.wrong), (0, 0));
        assert_eq!(load.took, Duration::from_micros(2_000_123));
        assert_eq!(
            load.latency,
            Latency {
                p50: 700,
                p99: 1900
            }
        );
        assert_eq!(parse("unable to connect to 192.0.2.1:8080"), None);
        assert_eq!(parse("longshore: 10 2684354 2000123 0 0 700"), None);
    }

    #[test]
    fn a_run_in_which_nothing_was_answered_says_so() {
        let none = Load::default().check(10_000, 2).unwrap_err();
        assert!(
            none.to_string()
                .starts_with("nothing was answered in 2 s on 10000 connections (0 errors)"),
            "{none}"
        );
        let some = Load {
            requests: 7,
            errors: 2,
            ..Load::default()
        };
        let some = some.check(10_000, 2).unwrap_err();
        assert!(
            some.to_string()
                .starts_with("7 requests were answered, and 2 failed"),
            "{some}"
        );
        let all = Load {
            requests: 7,
            ..Load::default()
        };
        all.check(10_000, 2).unwrap();
    }
}
