//! Behaviour of the ports through their public interface.

mod capture;
mod exchange;
mod frames;
mod impair;
mod memory;
mod tap;
mod veth;
