//! Which namespaces a controller has, and what they are: lists, and questions for each of them.

use wire::nvme::command::Status;
use wire::nvme::identify::{Cns, NamespaceData, NamespaceIds, NamespaceList};

use super::{Failure, Namespace};

/// The most namespaces that are looked at.
const MAX_NAMESPACES: usize = 1024;
/// The most lists of them that are asked for.
const MAX_LISTS: usize = 16;

/// Namespaces as far as they were read.
#[derive(Debug)]
pub(super) struct NamespaceReading {
    /// To be identified, the next one last.
    left: Vec<u32>,
    /// The namespace after which the next list begins; `None`: there is no other list.
    list_after: Option<u32>,
    /// Lists that were asked for.
    lists: usize,
    /// A list is being asked for.
    pub(super) listing: bool,
    pub(super) read: Vec<Namespace>,
    /// The namespace of which the identifiers are being asked for.
    current: Option<Namespace>,
}

impl Default for NamespaceReading {
    fn default() -> NamespaceReading {
        NamespaceReading {
            left: Vec::new(),
            list_after: Some(0),
            lists: 0,
            listing: false,
            read: Vec::new(),
            current: None,
        }
    }
}

impl NamespaceReading {
    /// What to ask next; `None`: all are read.
    pub(super) fn next(&mut self) -> Option<(Cns, u32)> {
        if let Some(current) = &self.current {
            return Some((Cns::NAMESPACE_IDS, current.nsid));
        }
        if self.read.len() >= MAX_NAMESPACES {
            return None;
        }
        if let Some(nsid) = self.left.last() {
            return Some((Cns::NAMESPACE, *nsid));
        }
        let after = self.list_after.filter(|_| self.lists < MAX_LISTS)?;
        self.lists += 1;
        self.listing = true;
        Some((Cns::ACTIVE_NAMESPACES, after))
    }

    /// Takes in an answer. A namespace that is gone by now is left out.
    pub(super) fn take(&mut self, answer: &[u8], status: Status) -> Result<(), Failure> {
        if let Some(mut current) = self.current.take() {
            if status.is_success() {
                current.ids = NamespaceIds::parse(answer).unwrap_or_default();
            }
            self.read.push(current);
        } else if std::mem::take(&mut self.listing) {
            return self.take_list(answer);
        } else if let (Some(nsid), true) = (self.left.pop(), status.is_success()) {
            let data = NamespaceData::parse(answer).map_err(|error| Failure::Answer {
                what: "Identify Namespace",
                error,
            })?;
            self.current = (data.nsze > 0).then_some(Namespace {
                nsid,
                data,
                ids: NamespaceIds::default(),
            });
        }
        Ok(())
    }

    fn take_list(&mut self, answer: &[u8]) -> Result<(), Failure> {
        let list = NamespaceList::parse(answer).map_err(|error| Failure::Answer {
            what: "the list of namespaces",
            error,
        })?;
        let mut last = self.list_after.unwrap_or(0);
        let ascending = list
            .iter()
            .take_while(|nsid| std::mem::replace(&mut last, *nsid) < *nsid);
        self.left = ascending.collect();
        let full = self.left.len() == NamespaceList::CAPACITY;
        self.list_after = self.left.last().copied().filter(|_| full);
        self.left.reverse();
        Ok(())
    }
}
