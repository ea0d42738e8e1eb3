//! Who we are: a host NQN and a host ID (NVMe Base 2.0 §4.5, §5.27.1.25).

use std::fs;

use anyhow::{Context, Result, anyhow};
use aws_lc_rs::digest::{SHA256, digest};
use wire::nvme::Nqn;

use super::options::Peer;

/// Where nvme-cli keeps them.
const HOSTNQN: &str = "/etc/nvme/hostnqn";
const HOSTID: &str = "/etc/nvme/hostid";
const MACHINE_ID: &str = "/etc/machine-id";

pub(super) const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// Our name and our UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) nqn: Nqn,
    pub(super) id: [u8; 16],
}

impl Identity {
    /// What was given; else what nvme-cli has; else what this machine's ID makes, so that it is the same next time.
    pub(super) fn of(peer: &Peer) -> Result<Identity> {
        let nqn = match (peer.hostnqn, line_of(HOSTNQN)) {
            (Some(nqn), _) => nqn,
            (None, Some(line)) => Nqn::new(&line).map_err(|error| {
                anyhow!("{HOSTNQN} does not begin with an NQN ({error}); give --hostnqn")
            })?,
            (None, None) => {
                machine_nqn("").context("can't make a name for this host; give --hostnqn")?
            }
        };
        // A host ID belongs to a name: one from the file would be wrong for a name that was given.
        let file = peer.hostnqn.is_none().then(|| line_of(HOSTID)).flatten();
        let id = peer
            .hostid
            .or_else(|| parse_uuid(&file?))
            .or_else(|| parse_uuid(nqn.as_str().strip_prefix(UUID_PREFIX)?))
            .unwrap_or_else(|| uuid_of(nqn.as_str().as_bytes()));
        Ok(Identity { nqn, id })
    }
}

/// A name made of this machine's ID: the same for the same `purpose`.
pub(super) fn machine_nqn(purpose: &str) -> Result<Nqn> {
    let machine = machine_id().ok_or_else(|| anyhow!("{MACHINE_ID} is missing or empty"))?;
    let what = format!("longshore {purpose} {machine}").replace("  ", " ");
    let uuid = uuid_of(what.as_bytes());
    Ok(Nqn::new(&format!("{UUID_PREFIX}{}", show_uuid(&uuid)))?)
}

/// This machine's ID, if it has one.
pub(super) fn machine_id() -> Option<String> {
    line_of(MACHINE_ID)
}

fn line_of(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// A UUID made of bytes by a hash (RFC 9562 §5.8).
pub(super) fn uuid_of(bytes: &[u8]) -> [u8; 16] {
    let hash = digest(&SHA256, bytes);
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&hash.as_ref()[..16]);
    uuid[6] = (uuid[6] & 0x0f) | 0x80;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    uuid
}

/// Reads a UUID, with hyphens or without.
pub(super) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut uuid = [0; 16];
    let mut digits = text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16));
    for byte in &mut uuid {
        *byte = (digits.next()?? << 4 | digits.next()??) as u8;
    }
    digits.next().is_none().then_some(uuid)
}

/// A UUID in its usual form.
pub(super) fn show_uuid(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_survive_their_text() {
        let text = "3f0c6fb0-8f2e-4a6a-9d2c-0c6a3d0f7b11";
        let uuid = parse_uuid(text).unwrap();
        assert_eq!(show_uuid(&uuid), text);
        assert_eq!(parse_uuid(&text.replace('-', "")), Some(uuid));
        assert_eq!(parse_uuid("3f0c"), None);
        assert_eq!(parse_uuid(&format!("{text}00")), None);
        assert_eq!(parse_uuid(&text.replace('f', "g")), None);
    }

    #[test]
    fn made_up_uuids_say_so() {
        let uuid = show_uuid(&uuid_of(b"machine"));
        assert_eq!(&uuid[14..15], "8");
        assert_ne!(uuid_of(b"machine"), uuid_of(b"other"));
    }
}
