//! Where the content goes. A file appears under its name only when it is whole. What a program has open already (`/dev/stdout`) is written as it comes.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use url::Url;

use crate::printing::{flush, put_bytes};

/// An output, opened when there is something to write.
#[derive(Debug)]
pub struct Output {
    target: Target,
    /// Where it is written, when it is open.
    file: Option<(File, PathBuf)>,
}

#[derive(Debug)]
enum Target {
    Standard,
    /// Written as it comes: a device, a FIFO, or what a program has open.
    Direct(PathBuf),
    /// Written beside itself, then renamed.
    File(PathBuf),
}

/// Further names of such files that are tried when one is there already.
const MOST_PARTIAL: usize = 100;

impl Output {
    /// Where `--output` says, or a new file of the URL's name.
    pub fn choose(output: Option<&Path>, url: &Url) -> Result<Output> {
        let target = match output {
            Some(path) => return Output::to(path),
            None => {
                let name = url
                    .path_segments()
                    .and_then(|mut segments| segments.next_back());
                let name = match name.filter(|name| !name.is_empty()) {
                    Some(name) => percent_encoding::percent_decode_str(name)
                        .decode_utf8_lossy()
                        .replace(['/', '\0'], "_"),
                    None => "index.html".to_owned(),
                };
                if fs::symlink_metadata(&name).is_ok() || name == "." || name == ".." {
                    bail!("{name} exists here; say with -o where to write");
                }
                Target::at(Path::new(&name))?
            }
        };
        Ok(Output { target, file: None })
    }

    /// A file, or the standard output for `-`.
    pub fn to(path: &Path) -> Result<Output> {
        let target = match path == Path::new("-") {
            true => Target::Standard,
            false => Target::at(path)?,
        };
        Ok(Output { target, file: None })
    }

    /// Its name, for messages.
    pub fn name(&self) -> String {
        match &self.target {
            Target::Standard => "standard output".to_owned(),
            Target::Direct(path) | Target::File(path) => path.display().to_string(),
        }
    }

    /// Opens it, though nothing is to be written.
    pub fn open(&mut self) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let opened = match &self.target {
            Target::Standard => return Ok(()),
            Target::Direct(path) => open_direct(path).map(|file| (file, path.clone())),
            Target::File(path) => create_partial(path),
        };
        let file = opened.map_err(|error| {
            let name = self.name();
            match error.kind() {
                ErrorKind::AlreadyExists => anyhow!(
                    "{name}.part and {MOST_PARTIAL} like it are there; remove those that nothing writes"
                ),
                _ => Error::new(error).context(format!(
                    "can't write {name}; give -o a file in a directory that you may write to"
                )),
            }
        })?;
        self.file = Some(file);
        Ok(())
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.open()?;
        match &mut self.file {
            Some((file, _)) => file
                .write_all(bytes)
                .with_context(|| format!("{} can't be written", self.name())),
            None => {
                put_bytes(bytes);
                Ok(())
            }
        }
    }

    /// The content is whole: gives it its name.
    pub fn keep(&mut self) -> Result<()> {
        self.open()?;
        let file = self.file.take();
        match (&self.target, file) {
            (Target::Standard, _) => flush(),
            (Target::File(path), Some((_, partial))) => fs::rename(partial, path)
                .with_context(|| format!("{} can't be written", path.display()))?,
            (Target::File(_) | Target::Direct(_), _) => {}
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let (Some((_, partial)), Target::File(_)) = (&self.file, &self.target) {
            let _ = fs::remove_file(partial);
        }
    }
}

impl Target {
    fn at(path: &Path) -> Result<Target> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                bail!(
                    "{} is a directory; give -o the name of a file",
                    path.display()
                )
            }
            Ok(metadata) if !metadata.is_file() => Ok(Target::Direct(path.to_path_buf())),
            _ => Ok(match end_of_link(path) {
                Some(path) => Target::File(path),
                None => Target::Direct(path.to_path_buf()),
            }),
        }
    }
}

/// Opens what is written as it comes. What a program has open stays, and more comes behind it.
fn open_direct(path: &Path) -> io::Result<File> {
    match is_the_systems(path) && path.is_file() {
        true => File::options().append(true).open(path),
        false => File::create(path),
    }
}

/// Makes a new file beside an output. What has such a name already is the user's, or another program's.
fn create_partial(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut tried = 0;
    loop {
        let mut partial = path.as_os_str().to_owned();
        match tried {
            0 => partial.push(".part"),
            _ => partial.push(format!(".part{tried}")),
        }
        let partial = PathBuf::from(partial);
        match File::create_new(&partial) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && tried < MOST_PARTIAL => {
                tried += 1;
            }
            created => return Ok((created?, partial)),
        }
    }
}

/// What is to be replaced: the path, or the file to which it is a link. `None` of a link that leads to no file, and of the
/// system's own.
fn end_of_link(path: &Path) -> Option<PathBuf> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if !is_link {
        return Some(path.to_path_buf());
    }
    fs::canonicalize(path)
        .ok()
        .filter(|_| !is_the_systems(path))
}

/// Whether it is a link of the system's to what a program has open.
fn is_the_systems(path: &Path) -> bool {
    let starts = ["/proc", "/dev/fd", "/dev/stdout", "/dev/stderr"];
    starts.iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_stays_one_and_its_file_is_replaced() {
        let directory = std::env::temp_dir().join(format!("longshore-link-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let [file, link, lost] = ["file", "link", "lost"].map(|name| directory.join(name));
        fs::write(&file, "before").unwrap();
        symlink("file", &link).unwrap();
        symlink("nowhere", &lost).unwrap();
        for (path, end) in [(&link, &file), (&lost, &directory.join("nowhere"))] {
            let mut output = Output::to(path).unwrap();
            output.write(b"after").unwrap();
            output.keep().unwrap();
            assert!(fs::symlink_metadata(path).unwrap().is_symlink());
            assert_eq!(fs::read(end).unwrap(), b"after");
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 4);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_file_of_the_users_that_is_called_like_a_partial_one_stays() {
        let directory = std::env::temp_dir().join(format!("longshore-part-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let [file, own] = ["file", "file.part"].map(|name| directory.join(name));
        fs::write(&own, "the user's").unwrap();
        for keeps in [false, true] {
            let mut output = Output::to(&file).unwrap();
            output.write(b"content").unwrap();
            assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
            if keeps {
                output.keep().unwrap();
            }
        }
        assert_eq!(fs::read(&file).unwrap(), b"content");
        assert_eq!(fs::read(&own).unwrap(), b"the user's");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_systems_links_are_written_through() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let target = Target::at(Path::new(&path)).unwrap();
        assert!(matches!(target, Target::Direct(_)), "{target:?}");
    }

    #[test]
    fn what_is_open_already_keeps_what_it_has() {
        let path = std::env::temp_dir().join(format!("longshore-open-{}", std::process::id()));
        fs::write(&path, "before, ").unwrap();
        let file = File::open(&path).unwrap();
        let open = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let mut output = Output::to(Path::new(&open)).unwrap();
        output.write(b"after").unwrap();
        output.keep().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before, after");
        fs::remove_file(&path).unwrap();
    }
}
