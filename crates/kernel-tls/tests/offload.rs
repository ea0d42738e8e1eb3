//! Sockets whose records a NIC makes: what goes into the socket, and what the NIC is told.

#[path = "offload/end.rs"]
mod end;
#[path = "offload/epochs.rs"]
mod epochs;
#[path = "offload/files.rs"]
mod files;
#[path = "offload/forked.rs"]
mod forked;
mod keys;
#[path = "offload/linux.rs"]
mod linux;
#[path = "offload/nic.rs"]
mod nic;
#[path = "offload/receive.rs"]
mod receive;
#[path = "offload/restart.rs"]
mod restart;
mod signals;
#[path = "offload/stream.rs"]
mod stream;
