//! What the supervisor says.

use std::io::{self, Write};

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
