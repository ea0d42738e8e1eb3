//! The bodies of the fuzz targets, run by `cargo +nightly fuzz run TARGET`. `cargo test` runs the same functions over
//! `corpus/`, see [`replay`].

pub mod l5p_http;
pub mod l5p_iscsi;
pub mod l5p_nbd;
pub mod l5p_nvme;
pub mod l5p_pattern;
pub mod l5p_reader;
pub mod l5p_walker;
pub mod nic_descriptors;
pub mod nic_nvme_receive;
pub mod nic_packets;
pub mod nic_receive;
pub mod nvme_initiator;
pub mod nvme_psk;
pub mod nvme_target;
pub mod pci_guest;
pub mod pci_layout;
pub mod pci_machine;
pub mod pci_steps;
pub mod replay;
pub mod tcp_endpoint;
pub mod tls_messages;
pub mod wire_icmp;
pub mod wire_nvme;
pub mod wire_packet;
pub mod wire_tcp_options;
