//! What the supervisor says.

use std::io::{self, Write};
use std::time::Duration;

use sd_notify::NotifyState;

/// Tells who reads the standard error, if anybody does.
pub(super) fn tell(what: &str) {
    let _ = writeln!(io::stderr(), "longshore: {what}");
}

/// Tells the service manager, if there is one.
pub(super) fn notify(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::warn!("can't notify the service manager: {error}");
    }
}

/// Tells the service manager that the service does not hang, and how long it may be silent from now on; not at all watched for zero.
pub(super) fn tell_watchdog(limit: Duration) {
    let limit = u32::try_from(limit.as_micros()).unwrap_or(u32::MAX);
    notify(&[NotifyState::WatchdogUsec(limit), NotifyState::Watchdog]);
}
