//! Connection splicing on the device, by its rings and its wire.

mod end;
mod endings;
mod forged;
mod frames;
mod marks;
mod query;
mod refusals;
mod relay;
mod rig;
mod taking_back;
mod world;
