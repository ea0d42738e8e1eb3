//! Servers of files and a client that asks for them, in network namespaces: nginx and wrk, as they are installed.

pub mod namespace;
pub mod nginx;
pub mod requests;
pub mod site;
pub mod wrk;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Every connection is a descriptor, of the client's and of the server's; beside them are the files that are being sent.
///
/// # Errors
/// When this process may not have as many.
pub fn allow_files(connections: u32) -> anyhow::Result<()> {
    let wanted = u64::from(connections) * 3 / 2 + 1024;
    let have = getrlimit(Resource::Nofile);
    if have.current.is_none_or(|have| have >= wanted) {
        return Ok(());
    }
    let raised = |maximum| {
        let limit = Rlimit {
            current: Some(wanted),
            maximum,
        };
        setrlimit(Resource::Nofile, limit)
    };
    // The hard limit as well, where that may be raised.
    let allowed = raised(have.maximum).or_else(|_| raised(Some(wanted)));
    allowed.with_context(|| {
        format!(
            "{connections} connections need {wanted} descriptors in a process: raise the limit (`ulimit -Hn`), or give \
             --connections less"
        )
    })
}
