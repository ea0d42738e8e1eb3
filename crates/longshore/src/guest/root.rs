//! A root of Debian: the QEMU that a guest runs in, its kernel, a compiler for the driver, and the programs of the guest.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::geteuid;

use super::cache::{self, Entry};

const SUITE: &str = "trixie";
const MIRROR: &str = "http://deb.debian.org/debian";
/// What a root has beside what every Debian has.
const PACKAGES: &str = "qemu-system-x86,linux-headers-amd64,linux-modules-amd64,make,gcc,libc6-dev,busybox-static,kmod,cpio,\
    xz-utils,zstd,iproute2,iputils-ping,ethtool,openssl,iperf3,nginx-light,python3,python3-yaml,python3-jsonschema,socat,procps,\
    netcat-openbsd,tcpdump";
/// The kernel's image is of a package that does not ask for an initial file system, but is not named without its version.
const KERNEL_HOOK: &str =
    "chroot \"$1\" sh -c 'apt-get -qq --yes install linux-binary-$(ls /usr/lib/modules)'";
/// Enters the root `$0`, with what the kernel's build reads of /proc. The mount goes away with the process.
const ENTER: &str = "mount -t proc proc \"$0/proc\"; \
    exec chroot \"$0\" sh -e -c 'cd \"$0\"; eval \"$1\"' \"$@\"";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A root that is there, and stays as long as this does.
#[derive(Debug)]
pub struct Root {
    entry: Entry,
    version: String,
}

impl Root {
    /// The root in the cache. The first call makes it, which takes two minutes.
    ///
    /// # Errors
    /// When it can't be made; the message says what is missing.
    pub fn prepare() -> Result<Root> {
        let cache = cache_directory();
        // Versions of this program that want other packages have another one.
        let mut hasher = DefaultHasher::new();
        (SUITE, PACKAGES, KERNEL_HOOK).hash(&mut hasher);
        let entry = Entry::open(&cache, &format!("root-{:016x}", hasher.finish()))?;
        let path = entry.path();
        if !path.exists() {
            make(&cache, &entry)?;
        }
        let version = only_entry(&path.join("usr/lib/modules")).with_context(|| {
            let path = path.display();
            format!("the guest's root has no kernel; delete {path}, and it is made anew")
        })?;
        entry.share()?;
        cache::prune(&cache, "root-", remove);
        Ok(Root { entry, version })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.entry.path()
    }

    /// The version of its kernel.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Runs a program of the root on this machine, with the root's libraries.
    pub fn program(&self, program: &str) -> Command {
        let libraries = self.path().join(LIBRARIES);
        let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(&libraries);
        command.arg(self.path().join(program));
        command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
        command
    }

    /// Runs a shell script within the root, in one of its directories.
    ///
    /// # Errors
    /// When the directory is not the root's.
    pub fn inside(&self, directory: &Path, script: &str) -> Result<Command> {
        let directory = Path::new("/").join(directory.strip_prefix(self.path())?);
        let mut command = Command::new("unshare");
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8");
        command.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-e",
            "-c",
            ENTER,
        ]);
        command.arg(self.path()).arg(directory).arg(script);
        Ok(command)
    }

    /// A directory of the root's for what is made from `key`, for this process alone.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn made_of(&self, name: &str, key: &str) -> Result<Entry> {
        let parent = self.path().join("var/lib/longshore");
        let entry = Entry::open(&parent, &format!("{name}-{key}"))?;
        cache::prune(&parent, name, remove);
        Ok(entry)
    }
}

/// Runs a command to its end; what it says is in the error.
///
/// # Errors
/// When it fails.
pub fn run(mut command: Command, what: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("can't run what {what}"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("what {what} has failed: {}", gist(&told));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What of many messages says what is wrong: the first errors, or the last lines.
fn gist(told: &str) -> String {
    const LINES: usize = 3;
    let errors: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("error:"))
        .collect();
    let all: Vec<&str> = told.lines().collect();
    let lines = match errors.is_empty() {
        true => &all[all.len().saturating_sub(LINES)..],
        false => &errors[..errors.len().min(LINES)],
    };
    lines.join("; ")
}

/// The name of the only entry of a directory.
pub fn only_entry(directory: &Path) -> Option<String> {
    let mut entries = fs::read_dir(directory).ok()?;
    let first = entries.next()?.ok()?.file_name();
    match entries.next() {
        None => first.into_string().ok(),
        Some(_) => None,
    }
}

/// Where this user's programs keep what they can make again. With `sudo -E` the variables name another user's directory, who could put into the root
/// what root would run: then it is the system's.
fn cache_directory() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let ours = cache.map(|cache| cache.join("longshore/debian"));
    let ours = ours.filter(|path| is_of(path, geteuid().as_raw()));
    ours.unwrap_or_else(|| PathBuf::from("/var/cache/longshore/debian"))
}

/// Whether only this user and root can change what is at a path, as far as that is there.
fn is_of(path: &Path, user: u32) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    path.ancestors()
        .all(|part| match fs::symlink_metadata(part) {
            Ok(it) => {
                let is_closed = it.mode() & OTHERS_WRITE == 0 || it.mode() & STICKY != 0;
                [0, user].contains(&it.uid()) && (is_closed || it.is_symlink())
            }
            Err(error) => error.kind() == ErrorKind::NotFound,
        })
}

/// Has `mmdebstrap` make it.
fn make(cache: &Path, entry: &Entry) -> Result<()> {
    let (new, path) = (entry.unfinished(), entry.path());
    remove(&new).with_context(|| format!("can't remove {}", new.display()))?;
    let mut child = debootstrap(&new).spawn().context(
        "there is no mmdebstrap, which makes the guest's root; run: sudo apt install mmdebstrap",
    )?;
    let sources = format!("deb {MIRROR} {SUITE} main\ndeb {MIRROR} {SUITE}-backports main\n");
    child
        .stdin
        .take()
        .context("its input")?
        .write_all(sources.as_bytes())?;
    let log = cache.join("log");
    let told = follow(child.stderr.take().context("its messages")?, &log)?;
    if !child.wait()?.success() {
        bail!(
            "mmdebstrap has made no root: {told} (all it says is in {})",
            log.display()
        );
    }
    fs::rename(&new, path).with_context(|| format!("can't make {}", path.display()))
}

fn debootstrap(new: &Path) -> Command {
    let mut command = Command::new("mmdebstrap");
    command.args(["--mode=root", "--variant=minbase"]);
    command.arg(format!(
        "--aptopt=APT::Default-Release \"{SUITE}-backports\""
    ));
    command.arg("--aptopt=APT::Install-Recommends \"false\"");
    command.arg(format!("--include={PACKAGES}"));
    command.arg(format!("--customize-hook={KERNEL_HOOK}"));
    command.arg(SUITE).arg(new).arg("-");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Shows how far it is, and keeps all that it says in a log. The last error, or the last line.
fn follow(messages: impl std::io::Read, log: &Path) -> Result<String> {
    let mut log = File::create(log)?;
    eprintln!("longshore: making a root of Debian 13 for guests: 2 to 5 minutes, 1 GB");
    let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}")?;
    let progress = ProgressBar::new_spinner().with_style(style);
    progress.enable_steady_tick(Duration::from_millis(200));
    let (mut last, mut error) = (String::new(), None);
    for line in BufReader::new(messages).split(b'\n') {
        // Of a line that is written over again and again, its last form.
        let line = line?;
        let line =
            String::from_utf8_lossy(line.rsplit(|byte| *byte == b'\r').next().unwrap_or(&[]));
        writeln!(log, "{line}")?;
        if line.starts_with("E: ") {
            error.get_or_insert(line.to_string());
        }
        if let Some(step) = line.strip_prefix("I: ") {
            progress.set_message(step.to_owned());
        }
        last = line.into_owned();
    }
    progress.finish_and_clear();
    Ok(error.unwrap_or(last))
}

/// Removes a root, and nothing that is mounted below it.
fn remove(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let mut command = Command::new("rm");
    command.args(["-rf", "--one-file-system"]).arg(path);
    run(command, "removes an old root").map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn a_directory_below_another_users_is_not_used() {
        let home = std::env::temp_dir().join(format!("longshore-home-{}", std::process::id()));
        let cache = home.join(".cache");
        fs::create_dir_all(&cache).unwrap();
        let user = geteuid().as_raw();
        assert!(is_of(&cache.join("there/is/none"), user));
        // To give it away takes root.
        if chown(&home, Some(4711), None).is_ok() {
            assert!(!is_of(&cache, user), "its parent is another user's");
            assert!(is_of(&cache, 4711));
        }
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn errors_come_before_last_words() {
        assert_eq!(
            gist("a.c: error: x\nmake: 1\nmake: 2\nmake: 3\n"),
            "a.c: error: x"
        );
        assert_eq!(gist("1\n2\n3\n4"), "2; 3; 4");
        assert_eq!(gist(""), "");
    }
}
