//! Patterns in what sockets receive (Autonomous NIC offloads §7): the NIC searches, plain streams and the content of TLS records, and
//! software searches only what the NIC could not.
//!
//! A set of patterns is loaded once ([`Stack::load_patterns`](crate::Stack::load_patterns)) and then searched for in as many sockets as one likes
//! ([`Stack::start_scan`](crate::Stack::start_scan)). Whatever is read of such a socket has been searched, by one of the two; what was found is told by
//! [`Stack::take_match`](crate::Stack::take_match), behind the read that has given its last byte.

mod scan;
mod sets;

pub use l5p::pattern::{LineError, Match, Patterns, PatternsError, TABLES};
pub use sets::PatternSet;

pub(crate) use scan::{Scan, Target};
pub(crate) use sets::PatternSets;
