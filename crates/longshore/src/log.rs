//! The log, on the standard error.

use std::collections::HashMap;
use std::fmt;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::{Event, Level, Subscriber};
use tracing_log::NormalizeEvent;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, format};
use tracing_subscriber::registry::LookupSpan;

/// Target of warnings that clients can cause as often as they like: one of a kind is logged in [`INTERVAL`]. The warnings of
/// rustls are such ones too, and those of other crates whose target ends like this one.
pub const LIMITED: &str = "longshore::limited";

const INTERVAL: Duration = Duration::from_secs(60);

/// Starts the log. `RUST_LOG` says how much of it there is.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .event_format(Limited {
            format: format().with_target(false),
            kinds: Mutex::default(),
        })
        .with_writer(std::io::stderr)
        .init();
}

/// A format that leaves out warnings of which there are too many.
struct Limited {
    format: Format,
    kinds: Mutex<Kinds>,
}

impl<S, N> FormatEvent<S, N> for Limited
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut others = 0;
        if let Some(kind) = limited(event)
            && let Ok(mut kinds) = self.kinds.lock()
        {
            match kinds.admit(kind, Instant::now()) {
                Some(suppressed) => others = suppressed,
                None => return Ok(()),
            }
        }
        self.format.format_event(context, writer.by_ref(), event)?;
        match others {
            0 => Ok(()),
            others => writeln!(writer, "  and {others} more like it before"),
        }
    }
}

/// Where in the program an event comes from.
type Kind = (String, Option<u32>);

/// The kind of an event that clients can cause.
fn limited(event: &Event<'_>) -> Option<Kind> {
    let of_log = event.normalized_metadata();
    let metadata = of_log.as_ref().unwrap_or_else(|| event.metadata());
    let target = metadata.target();
    let is_limited = *metadata.level() <= Level::WARN
        && (target.ends_with("::limited") || target.split("::").next() == Some("rustls"));
    let file = metadata.file().unwrap_or(target);
    is_limited.then(|| (file.to_owned(), metadata.line()))
}

/// When each kind was logged last, and how many of it were not since.
#[derive(Debug, Default)]
struct Kinds(HashMap<Kind, (Instant, u64)>);

impl Kinds {
    /// Whether to log one of this kind: how many before it were not.
    fn admit(&mut self, kind: Kind, now: Instant) -> Option<u64> {
        let Some((logged, suppressed)) = self.0.get_mut(&kind) else {
            self.0.insert(kind, (now, 0));
            return Some(0);
        };
        if now.duration_since(*logged) < INTERVAL {
            *suppressed += 1;
            return None;
        }
        *logged = now;
        Some(std::mem::take(suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_kind_is_logged_in_a_minute_and_the_next_says_how_many_were_not() {
        let mut kinds = Kinds::default();
        let kind = |line| ("file".to_owned(), Some(line));
        let begin = Instant::now();
        assert_eq!(kinds.admit(kind(1), begin), Some(0));
        for second in 0..60 {
            let now = begin + Duration::from_secs(second);
            assert_eq!(kinds.admit(kind(1), now), None);
        }
        assert_eq!(kinds.admit(kind(2), begin), Some(0), "kinds are apart");
        assert_eq!(kinds.admit(kind(1), begin + INTERVAL), Some(60));
        assert_eq!(kinds.admit(kind(1), begin + INTERVAL), None);
        assert_eq!(kinds.admit(kind(1), begin + 2 * INTERVAL), Some(1));
    }
}
