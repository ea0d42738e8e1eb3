//! The load balancer on a stack in virtual time, between clients and servers that are made to misbehave.

mod admission;
mod failures;
mod http;
mod http2;
mod min_rate;
mod panic;
mod queue;
mod readers;
mod reload;
mod retire;
mod rig;
mod secured;
mod starvation;
mod tcp;
mod tls;
mod unspliced;
mod workers;
