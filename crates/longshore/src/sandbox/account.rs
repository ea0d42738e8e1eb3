//! The option `--user` of servers.

use anyhow::{Result, bail};
use clap::Args;
use rustix::process::geteuid;

use super::{Files, Identity, Profile, enter_with_files};

/// The user that a server becomes.
#[derive(Clone, Debug, Default, Args)]
pub struct Account {
    /// Become this user once files, keys and interfaces are open; it must be able to read the files that are served. Without
    /// --user root stays root, without capabilities
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

impl Account {
    /// The number of the user that the server becomes, if it becomes another one.
    ///
    /// # Errors
    /// There is no such user.
    pub fn uid(&self) -> Result<Option<u32>> {
        let identity = self.user.as_deref().map(Identity::of_account);
        Ok(identity.transpose()?.map(|identity| identity.uid))
    }

    /// Gives up what the server does not need from here on; see [`enter_with_files`].
    ///
    /// # Errors
    /// When there is no such user, this process is not root's, or the system refuses.
    pub fn enter(&self, files: Files<'_>) -> Result<()> {
        let identity = match &self.user {
            Some(name) if !geteuid().is_root() => {
                bail!("only root can become {name}; run with sudo, or without --user")
            }
            Some(name) => Some(Identity::of_account(name)?),
            None => None,
        };
        enter_with_files(Profile::Server, identity, files)
    }
}
