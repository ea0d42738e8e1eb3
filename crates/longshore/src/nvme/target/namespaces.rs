//! From `--ns` to subsystems and their stores.

use std::path::Path;

use anyhow::{Context, Result, bail};
use aws_lc_rs::digest::{SHA256, digest};
use host::nvme::store::{StoreInfo, Stores};
use l5p::nvme::target::{Hosts, Namespace, StoreId, Subsystem};
use wire::nvme::Nqn;
use wire::nvme::identify::NamespaceIds;

use super::memory;
use super::options::{Backing, NamespaceSpec, Target};
use crate::nvme::identity::{machine_nqn, uuid_of};
use crate::report;

/// Refuses what can't be served, before anything is opened that others see.
pub(super) fn check(options: &Target) -> Result<()> {
    let usual = usual(options)?;
    let names = options.namespaces.iter().flat_map(|spec| spec.nqn);
    if names.chain([usual]).any(|nqn| nqn == Nqn::DISCOVERY) {
        bail!(
            "{} is the name of discovery; give the subsystem another",
            Nqn::DISCOVERY
        );
    }
    let mut wanted = 0u64;
    for spec in &options.namespaces {
        match &spec.backing {
            Backing::Memory(bytes) => wanted = wanted.saturating_add(*bytes),
            Backing::Path(path) => {
                Stores::look_at(path, spec.block_shift, spec.read_only)
                    .with_context(|| what_to_do(path))?;
            }
        }
    }
    let all = wanted.saturating_add(options.data_memory);
    match memory::available() {
        Some(available) if all > available => bail!(
            "--ns mem: and --data-memory need {}, and {} are available; give less, or files",
            report::bytes(all),
            report::bytes(available)
        ),
        _ => Ok(()),
    }
}

/// Opens what `--ns` names, and says what it belongs to.
pub(super) fn open(options: &Target, stores: &mut Stores) -> Result<Vec<Subsystem>> {
    let usual = usual(options)?;
    let hosts = match options.allow.is_empty() {
        true => Hosts::Any,
        false => Hosts::Only(options.allow.clone()),
    };
    let mut subsystems: Vec<Subsystem> = Vec::new();
    for spec in &options.namespaces {
        let store = open_store(spec, stores)?;
        let nqn = spec.nqn.unwrap_or(usual);
        let at = match subsystems.iter().position(|subsystem| subsystem.nqn == nqn) {
            Some(at) => at,
            None => {
                subsystems.push(Subsystem {
                    nqn,
                    serial: serial_of(&nqn),
                    model: "longshore".to_owned(),
                    hosts: hosts.clone(),
                    namespaces: Vec::new(),
                });
                subsystems.len() - 1
            }
        };
        let subsystem = &mut subsystems[at];
        let nsid = subsystem.namespaces.len() as u32 + 1;
        let info = stores.info(store);
        subsystem
            .namespaces
            .push(namespace(&nqn, nsid, store, &info));
    }
    Ok(subsystems)
}

/// The subsystem of namespaces that name none.
fn usual(options: &Target) -> Result<Nqn> {
    match options.nqn {
        Some(nqn) => Ok(nqn),
        None => machine_nqn("target").context("can't make a name for the subsystem; give --nqn"),
    }
}

fn open_store(spec: &NamespaceSpec, stores: &mut Stores) -> Result<StoreId> {
    let (block_shift, read_only) = (spec.block_shift, spec.read_only);
    Ok(match &spec.backing {
        Backing::Memory(bytes) => stores.add_in_memory(*bytes, block_shift, read_only)?,
        Backing::Path(path) => stores
            .open(path, block_shift, read_only)
            .with_context(|| what_to_do(path))?,
    })
}

fn what_to_do(path: &Path) -> String {
    format!("can't serve --ns {}", path.display())
}

/// A namespace that is a whole store.
pub(super) fn namespace(nqn: &Nqn, nsid: u32, store: StoreId, info: &StoreInfo) -> Namespace {
    let name = format!("longshore namespace {nsid} of {nqn}");
    let hash = digest(&SHA256, name.as_bytes());
    let mut nguid = [0; 16];
    nguid.copy_from_slice(&hash.as_ref()[16..]);
    Namespace {
        nsid,
        store,
        blocks: info.bytes >> info.block_shift,
        block_shift: info.block_shift,
        read_only: info.read_only,
        volatile_cache: info.volatile_cache,
        deallocate: info.deallocate,
        ids: NamespaceIds {
            nguid: Some(nguid),
            uuid: Some(uuid_of(name.as_bytes())),
            ..NamespaceIds::default()
        },
    }
}

/// A serial number that is the same next time: 20 characters at most.
fn serial_of(nqn: &Nqn) -> String {
    let hash = digest(&SHA256, nqn.as_str().as_bytes());
    hash.as_ref()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        target: Target,
    }

    fn checked(namespace: &str) -> Result<(), String> {
        let line = [
            "target",
            "--tap",
            "ls0",
            "--ip",
            "10.9.0.2/24",
            "--ns",
            namespace,
        ];
        let line = <CommandLine as clap::Parser>::try_parse_from(line).unwrap();
        check(&line.target).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn more_memory_than_there_is_is_refused_with_both_numbers() {
        let error = checked("mem:9000G").unwrap_err();
        assert!(
            error.contains("need 9000 GiB") && error.contains("available"),
            "{error}"
        );
        assert_eq!(checked("mem:1M"), Ok(()));
    }

    #[test]
    fn a_file_that_is_not_there_is_refused_by_its_name() {
        let error = checked("/nonexistent.img").unwrap_err();
        assert!(error.contains("/nonexistent.img"), "{error}");
    }
}
