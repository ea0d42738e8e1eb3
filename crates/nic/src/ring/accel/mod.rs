//! Descriptors of connection setup, teardown and splicing on the device (AccelTCP).
//!
//! ```text
//! word   InstallListener      Teardown                        Splice               ListenerCredit, …  Reinject
//! 0      opcode|flags|…|mss   opcode|flags|…|slices|…|mss      opcode|flags         opcode             opcode|slices
//! 1      rule | backlog       ticket | payload bytes          splice | idle ms     rule | credits     gso size
//! 2–3    address              source address                  leg a (9 words)                         frame
//! 4–5    port|mss|window|…    destination address
//! 6                           ports|window|shift|retransmits
//! 7                           hop's MAC | hop limit
//! 8–12                        numbers and times
//! 11                                                          leg b (9 words)
//! 16–23                       slices (4 × 2 words)
//!
//! leg    source address (2) | destination address (2) | ports|shifts|options|hop limit | hop's MAC|mss
//!        snd_nxt|rcv_nxt | peer's window|… | recent|value of timestamps
//! ```

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
pub(super) use teardown::{TEARDOWN_SLICES, TEARDOWN_SLICES_AT};
