//! Files with keys.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use zeroize::Zeroizing;

/// What nobody but the owner should do, as the bits of a file's mode. A group may read: so Debian's `ssl-cert` has it.
const EXPOSED: u32 = 0o026;

/// Reads a file of text with keys, which was named by `option`. The text is zeroed when it is dropped. That others may read or change the
/// file is told as a warning.
///
/// # Errors
/// When it can't be read.
pub fn read(path: &Path, option: &str) -> Result<Zeroizing<String>> {
    let failed = || format!("{} can't be read; see {option}", path.display());
    let mut file = File::open(path).with_context(failed)?;
    let metadata = file.metadata().with_context(failed)?;
    if let Some(exposed) = exposure(path, metadata.permissions().mode()) {
        tracing::warn!("{exposed}");
    }
    // A string that grew would leave copies behind.
    let room = usize::try_from(metadata.len()).unwrap_or_default() + 1;
    let mut text = Zeroizing::new(String::with_capacity(room));
    file.read_to_string(&mut text).with_context(failed)?;
    Ok(text)
}

/// What is wrong with a mode, if something is.
fn exposure(path: &Path, mode: u32) -> Option<String> {
    let path = path.display();
    (mode & EXPOSED != 0).then(|| {
        let mode = mode & 0o7777;
        format!(
            "{path} has keys in it, and others may read or change it (mode {mode:04o}); run: chmod 600 {path}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_may_read_or_change_is_told_with_the_remedy() {
        let path = Path::new("/etc/keys");
        for mode in [0o100600, 0o100400, 0o100640, 0o100700] {
            assert_eq!(exposure(path, mode), None, "{mode:o}");
        }
        for mode in [0o100644, 0o100660, 0o100604, 0o100602] {
            let text = exposure(path, mode).unwrap();
            assert!(text.contains(&format!("{:04o}", mode & 0o777)), "{text}");
            assert!(text.ends_with("chmod 600 /etc/keys"), "{text}");
        }
    }

    #[test]
    fn the_text_is_read_whole() {
        let path = std::env::temp_dir().join(format!("longshore-secret-{}", std::process::id()));
        std::fs::write(&path, "a:00\n").unwrap();
        let text = read(&path, "--psk").unwrap();
        assert_eq!(*text, "a:00\n");
        std::fs::remove_file(&path).unwrap();
        let error = read(&path, "--psk").expect_err("it is gone").to_string();
        assert!(error.contains("--psk"), "{error}");
    }
}
