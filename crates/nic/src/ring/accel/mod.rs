//! Descriptors of connection setup, teardown and splicing on the device (AccelTCP).

mod command;
mod listener;
mod notice;
mod splice;
mod teardown;

pub use listener::{InstallListener, ListenRuleId, ListenerOptions};
pub use notice::{AccelRoom, Established};
pub use splice::{Leg, LegState, Side, Splice, SpliceEnd, SpliceEnded, SpliceId, SpliceState};
pub use teardown::{Teardown, TimestampState};

pub(crate) use command::AccelCommand;
pub(super) use command::{decode, slices_fit};
