//! The bodies of the fuzz targets. `cargo test` runs the same functions over `corpus/`, see [`replay`].

pub mod l5p_reader;
pub mod l5p_walker;
pub mod nic_descriptors;
pub mod replay;
pub mod wire_icmp;
pub mod wire_packet;
pub mod wire_tcp_options;
