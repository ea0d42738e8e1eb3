//! The receive side as a host sees it: frames in, descriptors and buffers out.

mod merging;
mod offload;
mod placement;
mod refusals;
mod rig;
mod stacked;
