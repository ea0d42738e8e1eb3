//! What the NIC does for whole connections (seed 002): opens them, closes them, relays between them.
//!
//! A connection is owned by the host or by the NIC, never by both. The host asks and the NIC may refuse; whatever it
//! refuses the host does itself, so that everything works the same without a NIC that can do any of it.

mod settings;
mod splice;

pub use settings::{Accel, AccelError, Holder};
pub(crate) use splice::{Part, Splices, is_of_splice};
pub use splice::{SpliceEnd, SpliceHandle, SpliceOptions, SpliceRefused, SpliceReport};
