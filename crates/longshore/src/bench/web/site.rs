//! What the servers serve: one file; and a certificate of our own.

use std::path::PathBuf;

use anyhow::Context as _;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;

use crate::bench::folder::Folder;

/// The file's name in URLs.
pub const FILE: &str = "file";

/// Files that all servers have in common.
#[derive(Clone, Debug)]
pub struct Site {
    /// The folder of what is served.
    pub root: PathBuf,
    /// The file in it.
    pub file: PathBuf,
    /// A chain of one certificate, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

impl Site {
    /// Makes them in the folder.
    ///
    /// # Errors
    /// When there is no room.
    pub fn create(folder: &Folder, file_bytes: u64) -> anyhow::Result<Self> {
        let mut content = vec![0; usize::try_from(file_bytes).context("a file that large")?];
        // As incompressible as what is worth encrypting, and the same in every run.
        Pcg64::seed_from_u64(file_bytes).fill_bytes(&mut content);
        let root = folder.path().join("root");
        std::fs::create_dir(&root)?;
        let own = rcgen::generate_simple_self_signed(["longshore.test".to_owned()])
            .context("no certificate can be made")?;
        Ok(Self {
            file: folder.write(&format!("root/{FILE}"), content)?,
            root,
            certificate: folder.write("certificate.pem", own.cert.pem())?,
            key: folder.write("key.pem", own.signing_key.serialize_pem())?,
        })
    }
}
