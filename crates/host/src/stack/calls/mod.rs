//! What an application calls.

mod connections;
mod http;
mod info;
mod memory;
mod offload;
mod options;
mod patterns;
mod pdus;
mod read;
mod run;
mod succession;
mod tls;
mod write;
