//! What engines and sessions say of streams, as it is [written](testkit::written) down in the files beside.

mod contents;
mod engines;
mod iscsi;
mod nbd;
mod readers;
mod streams;
mod tls;
