//! Settings.

use super::policy::Selection;

/// Which connections are handed off to the NIC (Connection handoff policies §3.3); none by default.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Handoff {
    /// The policy for connections of all ports that have none of their own.
    pub selection: Selection,
    /// Policies for connections of single ports of this side's.
    pub per_port: Vec<(u16, Selection)>,
}

impl Handoff {
    /// One policy for all connections.
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            per_port: Vec::new(),
        }
    }

    /// Whether any connection may be chosen.
    pub fn is_on(&self) -> bool {
        let mut all = self.per_port.iter().map(|(_, selection)| selection);
        self.selection != Selection::Off || all.any(|selection| *selection != Selection::Off)
    }
}
