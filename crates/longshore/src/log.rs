//! The log, on the standard error.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tracing::{Event, Level, Subscriber};
use tracing_log::NormalizeEvent;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, format};
use tracing_subscriber::registry::LookupSpan;

/// Target of warnings that clients can cause as often as they like: one of a kind is logged in [`INTERVAL`]. The warnings of
/// rustls are such ones too, and those of other crates whose target ends like this one.
pub const LIMITED: &str = "longshore::limited";

const INTERVAL: Duration = Duration::from_secs(60);

/// What says how lines are written.
pub const FORMAT: &str = "LONGSHORE_LOG_FORMAT";

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    /// For people.
    Text,
    /// One JSON object each.
    Json,
}

impl Lines {
    fn of(wanted: Option<&OsStr>) -> Result<Self> {
        match wanted.map(|wanted| wanted.to_str()) {
            None | Some(Some("" | "text")) => Ok(Self::Text),
            Some(Some("json")) => Ok(Self::Json),
            Some(_) => bail!("{FORMAT} can be `text` or `json`"),
        }
    }
}

/// Starts the log. `RUST_LOG` says how much of it there is, [`FORMAT`] how its lines are written.
///
/// # Errors
///
/// There is no such format.
pub fn start() -> Result<()> {
    let lines = Lines::of(std::env::var_os(FORMAT).as_deref())?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match lines {
        Lines::Text => log
            .with_ansi(std::io::stderr().is_terminal())
            .event_format(Limited::new(lines, format().with_target(false)))
            .init(),
        Lines::Json => log
            .with_ansi(false)
            .fmt_fields(JsonFields::new())
            .event_format(Limited::new(lines, json()))
            .init(),
    }
    Ok(())
}

/// Time, level, where in the program, and what the event has, side by side.
fn json() -> Format<Json> {
    format().json().flatten_event(true)
}

/// A format that leaves out warnings of which there are too many.
struct Limited<F> {
    lines: Lines,
    format: F,
    kinds: Arc<Mutex<Kinds>>,
}

impl<F> Limited<F> {
    fn new(lines: Lines, format: F) -> Self {
        Self {
            lines,
            format,
            kinds: Arc::default(),
        }
    }
}

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
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
        match (self.lines, others) {
            (_, 0) => self.format.format_event(context, writer, event),
            (Lines::Text, others) => {
                self.format.format_event(context, writer.by_ref(), event)?;
                writeln!(writer, "  and {others} more like it before")
            }
            (Lines::Json, others) => {
                let mut line = String::new();
                self.format
                    .format_event(context, Writer::new(&mut line), event)?;
                let object = line.trim_end();
                let fields = object.strip_suffix('}').ok_or(fmt::Error)?;
                writeln!(writer, r#"{fields},"suppressed":{others}}}"#)
            }
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
    use std::io::Write;

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn each_line_in_json_is_an_object_that_says_how_many_like_it_were_not_logged() {
        let written = Written::default();
        let format = Limited::new(Lines::Json, json());
        let kinds = format.kinds.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(written.clone())
            .fmt_fields(JsonFields::new())
            .event_format(format)
            .finish();
        tracing::subscriber::with_default(log, || {
            for turn in 0..3 {
                tracing::warn!(target: LIMITED, peer = "10.9.0.1", "a \"peer\" is odd");
                if turn == 1 {
                    for (logged, _) in kinds.lock().unwrap().0.values_mut() {
                        *logged -= INTERVAL;
                    }
                }
            }
        });
        let lines = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        for line in &lines {
            assert_eq!(line["level"], "WARN");
            assert_eq!(line["message"], "a \"peer\" is odd");
            assert_eq!(line["peer"], "10.9.0.1");
            assert_eq!(line["target"], LIMITED);
        }
        assert_eq!(lines[0].get("suppressed"), None);
        assert_eq!(lines[1]["suppressed"], 1);
    }

    #[test]
    fn a_format_that_there_is_not_is_refused() {
        let of = |wanted: &str| Lines::of(Some(OsStr::new(wanted)));
        assert_eq!(Lines::of(None).unwrap(), Lines::Text);
        assert_eq!(of("json").unwrap(), Lines::Json);
        assert_eq!(
            of("xml").unwrap_err().to_string(),
            "LONGSHORE_LOG_FORMAT can be `text` or `json`"
        );
    }

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
