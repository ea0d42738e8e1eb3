//! The host's side of NVMe/TCP as pure state machines.
//!
//! [`Queue`] is one queue pair, which is one connection: it opens it, sends commands and the data that R2Ts ask for, and
//! checks what comes in before a byte of data is placed. [`Controller`] has several of them: it sets a controller up,
//! identifies its namespaces, keeps it alive, and reconnects. Both hold no data: that is named by command, offset and
//! length, and the owner of the memory moves it.
//!
//! Sections are those of NVMe Base 2.0c and NVMe/TCP 1.0.

mod commands;
mod controller;
mod queue;
mod requests;

pub use commands::Transfer;
pub use controller::{
    Access, Action, Closing, Config, Controller, ControllerInfo, Event, Failure, Limits, Namespace,
    Reconnect, SubmitError,
};
pub use queue::{
    ADMIN_IN_CAPSULE, Begins, Ended, Incoming, Negotiated, Outgoing, Payload, Queue, QueueConfig,
    QueueEvent,
};
pub use requests::{CommandId, Completion};
