//! What hosts, NICs and wires do together, in virtual time.

mod black_holes;
mod blocks;
mod changed_source;
mod congestion;
mod connections;
mod handed_off;
mod handoff;
mod host_first;
mod on_the_path;
mod oracle;
mod ownership;
mod patterns;
mod pdu_streams;
mod responses;
mod splice;
mod strategies;
mod syn_flood;
mod workers;
