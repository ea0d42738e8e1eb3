//! The names of targets.

use wire::iscsi::{ProtocolError, pairs};

use super::Target;

/// Asks for all targets (RFC 7143 §B).
pub(super) const SEND_TARGETS: &[u8] = b"SendTargets=All\0";

/// The targets that an answer names.
pub(super) fn targets(text: &[u8]) -> Result<Vec<Target>, ProtocolError> {
    let mut targets: Vec<Target> = Vec::new();
    for pair in pairs(text) {
        let pair = pair?;
        match (pair.key, targets.last_mut()) {
            ("TargetName", _) => targets.push(Target {
                name: pair.value.to_owned(),
                portals: Vec::new(),
            }),
            ("TargetAddress", Some(target)) => target.portals.push(pair.value.to_owned()),
            _ => {}
        }
    }
    Ok(targets)
}
