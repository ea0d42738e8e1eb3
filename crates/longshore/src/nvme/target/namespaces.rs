//! From `--ns` to subsystems and their stores.

use std::path::Path;

use anyhow::{Context, Result, bail};
use aws_lc_rs::digest::{SHA256, digest};
use host::nvme::store::{StoreInfo, Stores};
use l5p::nvme::target::{Hosts, Namespace, StoreId, Subsystem};
use wire::nvme::Nqn;
use wire::nvme::identify::NamespaceIds;

use super::options::{Backing, NamespaceSpec, Target};
use super::{backing, memory};
use crate::nvme::identity::{machine_id, machine_nqn, uuid_of};
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
    let mut identities = Vec::new();
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
        let identity = (nqn, backing::identity_of(&spec.backing)?);
        // What is only read may be there more than once.
        let before = identities.iter().filter(|it| **it == identity).count();
        let ids = ids_of(&nqn, &identity.1, before);
        identities.push(identity);
        subsystem
            .namespaces
            .push(namespace(nsid, store, &info, ids));
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
fn namespace(nsid: u32, store: StoreId, info: &StoreInfo, ids: NamespaceIds) -> Namespace {
    Namespace {
        nsid,
        store,
        blocks: info.bytes >> info.block_shift,
        block_shift: info.block_shift,
        read_only: info.read_only,
        volatile_cache: info.volatile_cache,
        deallocate: info.deallocate,
        ids,
    }
}

/// The identifiers of these blocks in this subsystem, wherever they stand among its namespaces.
fn ids_of(nqn: &Nqn, identity: &[u8], before: usize) -> NamespaceIds {
    let mut name = format!("longshore namespace of {nqn}, {before} before it: ").into_bytes();
    name.extend(identity);
    let hash = digest(&SHA256, &name);
    let mut nguid = [0; 16];
    nguid.copy_from_slice(&hash.as_ref()[16..]);
    NamespaceIds {
        nguid: Some(nguid),
        uuid: Some(uuid_of(&name)),
        ..NamespaceIds::default()
    }
}

/// A serial number that is the same next time, and another on another machine: 20 characters at most.
fn serial_of(nqn: &Nqn) -> String {
    let name = format!("{nqn} on {}", machine_id().unwrap_or_default());
    let hash = digest(&SHA256, name.as_bytes());
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

    fn parsed(namespaces: &[&str]) -> Target {
        let line = "target --tap ls0 --ip 10.9.0.2/24 --nqn nqn.2024-01.test:one".split(' ');
        let namespaces = namespaces.iter().flat_map(|it| ["--ns", *it]);
        let line = <CommandLine as clap::Parser>::try_parse_from(line.chain(namespaces)).unwrap();
        line.target
    }

    fn checked(namespace: &str) -> Result<(), String> {
        check(&parsed(&[namespace])).map_err(|error| format!("{error:#}"))
    }

    /// The identifiers that hosts see.
    fn ids(namespaces: &[&str]) -> Vec<NamespaceIds> {
        let bell = host::runtime::Doorbell::new().unwrap();
        let mut stores = Stores::new(&bell, host::nvme::store::Method::Threads);
        let subsystems = open(&parsed(namespaces), &mut stores).unwrap();
        let namespaces = subsystems[0].namespaces.iter();
        namespaces.map(|namespace| namespace.ids).collect()
    }

    #[test]
    fn identifiers_go_with_the_file_and_not_with_its_place() {
        let directory = backing::tests::Scratch::new("order");
        let paths = ["a", "b"].map(|name| directory.path().join(name));
        for path in &paths {
            std::fs::write(path, [0; 4096]).unwrap();
        }
        let [a, b] = paths.each_ref().map(|path| path.to_str().unwrap());
        let first = ids(&[a, b]);
        assert_ne!(first[0], first[1]);
        assert_eq!(ids(&[a, b]), first);
        assert_eq!(ids(&[b, a]), [first[1], first[0]]);
        assert_eq!(ids(&[b]), [first[1]]);
        let read = format!("{a},ro");
        let twice = ids(&[&read, &read]);
        assert!(twice[0] == first[0] && twice[1] != first[0]);
    }

    #[test]
    fn memory_is_another_each_time() {
        let [first, second] = [(); 2].map(|()| ids(&["mem:1M", "mem:1M"]));
        assert!(!first.contains(&second[0]) && first[0] != first[1]);
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
