//! What two hosts do, each on a NIC of its own, in one thread and in virtual time.

mod accel;
mod disk;
mod duplicates;
mod groups;
mod handoff;
mod hostile;
mod iscsi;
mod memory;
mod nbd;
mod neighbours;
mod nvme;
mod nvme_hosts;
mod nvme_initiator;
mod nvme_loss;
mod nvme_target;
mod offload;
mod pair;
mod pdus;
mod plain;
mod pressure;
mod psk;
mod succession;
mod tls;
mod zero_copy;
