//! `longshore nvme read` and `write`: between a namespace and a file, many commands at a time.

mod progress;
mod read;
mod write;

pub(super) use read::run as read;
pub(super) use write::run as write;
