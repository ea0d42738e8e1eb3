//! Nothing allocates in steady state.

mod receiving;
mod sending;
mod setup;
mod splice;
mod teardown;
mod toe;
