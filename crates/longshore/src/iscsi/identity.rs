//! Who we are: our name, and what proves it.

use std::fs;

use anyhow::{Context, Result, anyhow, bail};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use host::iscsi::Chap;

use super::options::Peer;
use super::uri::check_name;
use crate::secret_file;

/// Where open-iscsi keeps the name.
const NAME_FILE: &str = "/etc/iscsi/initiatorname.iscsi";
const MACHINE_ID: &str = "/etc/machine-id";
/// An ISID of this kind is random (RFC 7143 §11.12.5).
const RANDOM: u8 = 0x80;

/// What was given; else what open-iscsi has; else what this machine's ID makes, so that it is the same next time.
pub(super) fn name_of(peer: &Peer) -> Result<String> {
    let file = || {
        let text = fs::read_to_string(NAME_FILE).ok()?;
        let mut lines = text.lines();
        let name = lines.find_map(|line| line.trim().strip_prefix("InitiatorName="))?;
        Some(name.trim().to_owned())
    };
    let name = match peer.initiator.clone().or_else(file) {
        Some(name) => name,
        None => {
            let machine = fs::read_to_string(MACHINE_ID).ok();
            let machine = machine.filter(|id| !id.trim().is_empty()).ok_or_else(|| {
                anyhow!(
                    "{MACHINE_ID} is missing or empty, so this host has no name; give --initiator"
                )
            })?;
            let hash = digest(
                &SHA256,
                format!("longshore iscsi {}", machine.trim()).as_bytes(),
            );
            let id: String = hash.as_ref()[..8]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("iqn.2026-01.org.longshore:{id}")
        }
    };
    check_name(&name).context("this host's name; see --initiator")?;
    Ok(name)
}

/// What tells this session from others of this host: one of the same would end them.
pub(super) fn isid() -> Result<[u8; 6]> {
    let mut isid = [0; 6];
    rand::fill(&mut isid[1..4]).map_err(|_| anyhow!("the system has no random numbers"))?;
    isid[0] = RANDOM;
    Ok(isid)
}

/// What proves who we are, if anything was given.
pub(super) fn chap_of(peer: &Peer) -> Result<Option<Chap>> {
    let (Some(user), Some(path)) = (&peer.user, &peer.secret) else {
        return Ok(None);
    };
    let text = secret_file::read(path, "--secret")?;
    let secret = text.lines().next().unwrap_or_default();
    if secret.is_empty() {
        bail!("{} has no secret in its first line", path.display());
    }
    Ok(Some(Chap {
        user: user.clone(),
        secret: secret.as_bytes().to_vec(),
    }))
}
