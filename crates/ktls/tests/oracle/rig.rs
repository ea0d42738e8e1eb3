//! Namespaces, processes, wires.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::nic::{Wire, check_counters, follow, lay_wire, start_nic, stat_soon};
use crate::openssl::OpenSsl;
use crate::stream::Stream;

/// Which part a process of this program has.
pub const ROLE: &str = "LONGSHORE_ORACLE";
const DIRECTORY: &str = "LONGSHORE_ORACLE_DIRECTORY";
const WIRE: &str = "LONGSHORE_ORACLE_WIRE";
pub const PROGRAM: &str = "10.77.0.1";
pub const PEER: &str = "10.77.0.2";
pub const PORT: u16 = 4433;
/// The peer's end of the wire.
pub const INTERFACE: &str = "w1";
/// Nothing takes as long.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// So many connections are of every cipher and version.
const ENOUGH: u32 = 6;
/// What the peer says when all connections have ended.
pub const WATCHED: &str = "all connections have ended";
/// What the program says when the NIC's process is to die.
pub const KILL: &str = "kill the NIC";

/// The connections of a run.
pub fn cases() -> impl Iterator<Item = Case> {
    let first = number("LONGSHORE_SEED").unwrap_or(0);
    let count = number("LONGSHORE_CASES").unwrap_or(12);
    (first..first.saturating_add(count)).map(Case::new)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Where certificates are.
pub fn directory() -> PathBuf {
    std::env::var_os(DIRECTORY)
        .expect("it was started with it")
        .into()
}

pub fn wire_name() -> String {
    std::env::var(WIRE).unwrap_or_default()
}

/// Whether the NIC dies in every connection.
pub fn is_dying() -> bool {
    wire_name() == Wire::Dying.name()
}

pub fn from_program(case: &Case) -> Stream {
    Stream {
        which: case.seed as u32 * 2 + 1,
    }
}

pub fn from_peer(case: &Case) -> Stream {
    Stream {
        which: case.seed as u32 * 2 + 2,
    }
}

/// Waits until the socket has something, or room if it is to write, a moment at the most.
///
/// # Errors
/// When the end has come.
pub fn wait(socket: &TcpStream, writes: bool, end: Instant) -> Result<(), String> {
    let fd = socket.as_raw_fd();
    let events = libc::POLLIN | if writes { libc::POLLOUT } else { 0 };
    let mut polled = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one entry, borrowed for the call.
    unsafe { libc::poll(&raw mut polled, 1, 1000) };
    match Instant::now() < end {
        true => Ok(()),
        false => Err(format!("not within {TIMEOUT:?}")),
    }
}

/// Why it can't be run here.
fn lacking() -> Option<String> {
    // SAFETY: it asks only.
    if unsafe { libc::geteuid() } != 0 {
        return Some("needs root, for network namespaces and TAP interfaces".to_owned());
    }
    if let Err(error) = OpenSsl::load() {
        return Some(format!("needs OpenSSL 3's library (libssl3): {error}"));
    }
    for program in ["ip", "openssl"] {
        if Command::new(program).arg("-V").output().is_err() {
            return Some(format!("needs {program}"));
        }
    }
    // SAFETY: this process has one thread yet.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Some("no network namespace can be made here".to_owned());
    }
    let tap = ["tuntap", "add", "dev", "probe", "mode", "tap"];
    if !ip(&tap) {
        return Some("no TAP interface can be made here".to_owned());
    }
    None
}

/// Runs all that there is.
pub fn main() -> ExitCode {
    if let Some(lacks) = lacking() {
        println!("ok - kernel sockets behind the NIC against OpenSSL # SKIP {lacks}");
        return ExitCode::SUCCESS;
    }
    let files = build();
    assert!(ip(&["link", "set", "lo", "up"]), "iproute2");
    let directory = std::env::temp_dir().join(format!("longshore-oracle.{}", std::process::id()));
    std::fs::create_dir(&directory).expect("a directory");
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args([
            "-nodes", "-days", "2", "-subj", "/CN=peer", "-keyout", "leaf.key", "-out", "leaf.pem",
        ])
        .current_dir(&directory)
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{made:?}");
    let mut failed = false;
    for wire in [Wire::Clean, Wire::Impaired, Wire::Dying] {
        let ran = run(wire, &files, &directory);
        if let Err(error) = &ran {
            println!("not ok - {}: {error}", wire.name());
            let log = std::fs::read_to_string(directory.join("nic.log"));
            println!("# the NIC's log:\n{}", log.unwrap_or_default());
        }
        failed |= ran.is_err();
    }
    let _ = std::fs::remove_dir_all(&directory);
    ExitCode::from(u8::from(failed))
}

pub fn ip(arguments: &[&str]) -> bool {
    let done = Command::new("ip").args(arguments).output();
    done.is_ok_and(|output| output.status.success())
}

/// The programs under test.
pub struct Files {
    pub longshore: PathBuf,
    library: PathBuf,
}

fn build() -> Files {
    if let Some(longshore) = std::env::var_os("LONGSHORE") {
        let longshore = PathBuf::from(longshore);
        return Files {
            library: longshore.with_file_name("libktls.so"),
            longshore,
        };
    }
    let own = std::env::current_exe().expect("this program's path");
    let profile = own.parent().and_then(Path::parent);
    let profile = profile.expect("target/PROFILE/deps");
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--package",
        "longshore",
        "--package",
        "longshore-ktls",
    ]);
    build.arg("--target-dir");
    build.arg(profile.parent().expect("the target directory"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo").success(), "it builds");
    Files {
        longshore: profile.join("longshore"),
        library: profile.join("libktls.so"),
    }
}

/// A process that ends with this value.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Waits for its end, and says whether it was a good one.
    fn succeeds(&mut self, end: Instant) -> Result<(), String> {
        loop {
            match self.0.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(status.to_string()),
                None if Instant::now() > end => return Err("it does not end".to_owned()),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn terminate(&mut self) -> Result<(), String> {
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        self.succeeds(Instant::now() + TIMEOUT)
    }
}

fn run(wire: Wire, files: &Files, directory: &Path) -> Result<(), String> {
    let control = directory.join("nic.sock");
    let own = std::env::current_exe().expect("this program's path");
    let in_role = |role: &str| {
        let mut command = Command::new(&own);
        command
            .env(ROLE, role)
            .env(DIRECTORY, directory)
            .env(WIRE, wire.name());
        command
    };
    let mut peer = start(in_role("peer").stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let mut told = BufReader::new(peer.0.stdout.take().expect("it is piped")).lines();
    let mut await_line = |wanted: &str| match told.next() {
        Some(Ok(line)) if line == wanted => Ok(()),
        other => Err(format!("the peer says {other:?}, not {wanted}")),
    };
    await_line("ready")?;
    lay_wire(peer.0.id())?;
    let mut nic = start_nic(wire, files, directory)?;
    stat_soon(files, &control)?;
    let mut input = peer.0.stdin.take().expect("it is piped");
    let went = input.write_all(b"go\n");
    went.map_err(|error| error.to_string())?;
    await_line("listens")?;
    let all: u32 = cases().count().try_into().unwrap_or(u32::MAX);
    let end = Instant::now() + TIMEOUT * (1 + all / 4);
    let mut program = in_role("program");
    program
        .env("LD_PRELOAD", &files.library)
        .env("LONGSHORE_NIC", &control);
    let mut program = start(program.stdout(Stdio::piped()))?;
    let (output, id) = (program.0.stdout.take().expect("it is piped"), nic.0.id());
    let follows = std::thread::spawn(move || follow(output, id));
    let ended = program.succeeds(end);
    let _ = follows.join();
    let counted = stat_soon(files, &control);
    drop(program);
    if ended.is_err() {
        let counted = counted.as_deref().unwrap_or_default();
        let all = counted.lines().filter(|line| !line.ends_with(": 0"));
        all.for_each(|line| println!("# {}", line.trim()));
        // It may wait for a connection that does not come.
        let _ = peer.0.kill();
    }
    // Its interface goes with it: the NIC's end comes first.
    let watched = await_line(WATCHED);
    let terminated = nic.terminate();
    drop(input);
    let peers = peer.succeeds(Instant::now() + TIMEOUT);
    for line in told.map_while(Result::ok) {
        println!("{line}");
    }
    terminated.map_err(|error| format!("the NIC: {error}"))?;
    ended.map_err(|error| format!("the program: {error}"))?;
    watched?;
    peers.map_err(|error| format!("the peer: {error}"))?;
    // The counters of one that has died went with it; and of a few connections none may have come to it.
    check_counters(&counted?, wire != Wire::Dying && all >= ENOUGH)
}

pub fn start(command: &mut Command) -> Result<Running, String> {
    let child = command.spawn();
    child
        .map(Running)
        .map_err(|error| format!("{command:?}: {error}"))
}
