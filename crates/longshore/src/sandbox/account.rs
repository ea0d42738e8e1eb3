//! The option `--user` of servers.

use anyhow::{Result, bail};
use clap::Args;
use rustix::process::geteuid;

use super::{Files, Identity, Profile, enter_with_files};

/// As whom a server goes on.
#[derive(Clone, Debug, Default, Args)]
pub struct Account {
    /// Go on as this user once files, keys and interfaces are open; it must be able to read what is served. Without it the user
    /// stays; root goes on without its capabilities, and reads what belongs to root or is for everybody
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

impl Account {
    /// Gives up what the server does not need from here on; see [`enter_with_files`].
    ///
    /// # Errors
    /// When there is no such user, it takes root to go on as it, or the system refuses.
    pub fn enter(&self, files: Files<'_>) -> Result<()> {
        let identity = match &self.user {
            Some(name) if !geteuid().is_root() => bail!("only root goes on as {name}; see --user"),
            Some(name) => Some(Identity::of_account(name)?),
            None => None,
        };
        enter_with_files(Profile::Server, identity, files)
    }
}
