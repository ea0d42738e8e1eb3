//! Whether a namespace is still the one that it was, each time that namespaces are read.

use std::collections::{BTreeMap, BTreeSet};

use wire::nvme::identify::{LbaFormat, NamespaceIds};

use super::Namespace;

/// Namespaces that are remembered: more than are looked at, and a bound on what a controller can have us keep.
const MOST: usize = 4096;

/// The namespaces that there were, by their numbers. A number that another namespace has got is refused: commands were made for the
/// blocks of the first one.
#[derive(Debug, Default)]
pub(super) struct Identities {
    known: BTreeMap<u32, Identity>,
    replaced: BTreeSet<u32>,
}

/// What makes a namespace this one, and its blocks what they are. Its size may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    ids: NamespaceIds,
    nguid: [u8; 16],
    eui64: [u8; 8],
    format: LbaFormat,
}

impl Identities {
    /// Compares namespaces that were read with those of before, and leaves out those that would be too many to remember. Gives the numbers that
    /// are another namespace's now and were not when they were read last. One that is gone is remembered: another may come in its place.
    pub(super) fn compare(&mut self, namespaces: &mut Vec<Namespace>) -> Vec<u32> {
        let mut replaced = Vec::new();
        namespaces.retain(|namespace| {
            let (nsid, identity) = (namespace.nsid, Identity::of(namespace));
            let known = match self.known.get(&nsid) {
                Some(known) => *known,
                None if self.known.len() >= MOST => return false,
                None => *self.known.entry(nsid).or_insert(identity),
            };
            if known == identity {
                self.replaced.remove(&nsid);
            } else if self.replaced.insert(nsid) {
                replaced.push(nsid);
            }
            true
        });
        replaced
    }

    /// Whether the number is another namespace's than at first.
    pub(super) fn is_replaced(&self, nsid: u32) -> bool {
        self.replaced.contains(&nsid)
    }
}

impl Identity {
    fn of(namespace: &Namespace) -> Identity {
        let data = &namespace.data;
        Identity {
            ids: namespace.ids,
            nguid: data.nguid,
            eui64: data.eui64,
            format: LbaFormat {
                performance: 0,
                ..data.format
            },
        }
    }
}
