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
#[derive(Clone, Copy, Debug)]
struct Identity {
    /// `None`: they could not be read, or there are none.
    ids: Option<NamespaceIds>,
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
            if self.known.len() >= MOST && !self.known.contains_key(&nsid) {
                return false;
            }
            let known = self.known.entry(nsid).or_insert(identity);
            if known.is(&identity) {
                known.ids = known.ids.or(identity.ids);
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
        let has_ids = namespace.ids != NamespaceIds::default();
        Identity {
            ids: has_ids.then_some(namespace.ids),
            nguid: data.nguid,
            eui64: data.eui64,
            format: LbaFormat {
                performance: 0,
                ..data.format
            },
        }
    }

    /// Whether both may be the same namespace's. Identifiers that were not read say nothing.
    fn is(&self, other: &Identity) -> bool {
        let differ = self.ids.is_some() && other.ids.is_some() && self.ids != other.ids;
        let rest = |it: &Identity| (it.nguid, it.eui64, it.format);
        !differ && rest(self) == rest(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uuid: Option<u8>, nguid: u8) -> Identity {
        Identity {
            ids: uuid.map(|byte| NamespaceIds {
                uuid: Some([byte; 16]),
                ..NamespaceIds::default()
            }),
            nguid: [nguid; 16],
            eui64: [0; 8],
            format: LbaFormat::default(),
        }
    }

    #[test]
    fn identifiers_that_could_not_be_read_say_nothing() {
        for (before, after, same) in [
            ((Some(1), 1), (Some(1), 1), true),
            ((Some(1), 1), (Some(2), 1), false),
            ((Some(1), 1), (None, 1), true),
            ((None, 1), (Some(1), 1), true),
            ((None, 1), (None, 2), false),
        ] {
            let [before, after] = [before, after].map(|(uuid, nguid)| identity(uuid, nguid));
            assert_eq!(before.is(&after), same);
        }
    }
}
