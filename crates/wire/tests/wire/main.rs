//! Behaviour of the parsers, the emitters and the arithmetic, as properties and as examples from the RFCs.

mod checksum;
mod corpus;
mod icmp;
mod ip;
mod link;
mod nvme_pages;
mod packet;
mod samples;
mod seq;
mod tcp;
