//! Between a disk and a file, many commands at a time.

mod between;
mod progress;
mod read;
mod write;

pub(crate) use between::run as between;
pub(crate) use progress::bar;
pub(crate) use read::run as read;
pub(crate) use write::{Input, run as write};
