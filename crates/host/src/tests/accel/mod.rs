//! Connections that the NIC sets up and finishes (seed 002).

mod alone;
