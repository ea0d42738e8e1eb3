//! Where TLS secrets go.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use handshake::KeyLogSink;

/// Appends each line to the file at `path`.
///
/// # Errors
/// It can't be written.
pub fn file(path: &Path) -> Result<KeyLogSink> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| port::capture::keep_private(&file).map(|()| file))
        .with_context(|| format!("--keylog {} can't be written", path.display()))?;
    let file = Mutex::new(file);
    Ok(Arc::new(move |line| {
        let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _ = file.write_all(with_line_end(line).as_bytes());
    }))
}

/// The line with one end.
pub fn with_line_end(line: &str) -> String {
    format!("{}\n", line.trim_end())
}

/// One sink for all of them, if there are any.
pub fn all_of(sinks: Vec<KeyLogSink>) -> Option<KeyLogSink> {
    if sinks.is_empty() {
        return None;
    }
    Some(Arc::new(move |line: &str| {
        sinks.iter().for_each(|sink| sink(line))
    }))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_could_read_is_its_owners_alone() {
        let path = std::env::temp_dir().join(format!("longshore-keys-{}", std::process::id()));
        fs::write(&path, "before\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        file(&path).unwrap()("CLIENT_RANDOM");
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "before\nCLIENT_RANDOM\n"
        );
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_file(&path).unwrap();
    }
}
