//! The NIC's process, on a wire to the peer's namespace.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::rig::{Files, INTERFACE, KILL, PROGRAM, Running, TIMEOUT, ip, start};

/// The NIC's end of the wire. A veth stays when the NIC dies, whatever namespace its other end is in.
const OUR_INTERFACE: &str = "w0";

/// What the wire is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Clean,
    Impaired,
    Dying,
}

impl Wire {
    pub fn name(self) -> &'static str {
        match self {
            Wire::Clean => "clean wire",
            Wire::Impaired => "loss, reordering and duplicates",
            Wire::Dying => "the NIC dies",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Wire::Impaired => &[
                "--loss",
                "0.01",
                "--reorder",
                "0.02",
                "--duplicate",
                "0.01",
                "--seed",
                "7",
            ],
            Wire::Clean | Wire::Dying => &[],
        }
    }
}

/// A wire from here to the peer's namespace.
pub fn lay_wire(peer: u32) -> Result<(), String> {
    let process = peer.to_string();
    let end = ["peer", "name", INTERFACE, "netns", &process];
    let veth = ["link", "add", OUR_INTERFACE, "type", "veth"];
    // The one before goes with its peer's namespace, some time after the peer.
    let until = Instant::now() + TIMEOUT;
    while !ip(&[&veth[..], &end[..]].concat()) {
        if Instant::now() > until {
            return Err("there is no veth for a wire".to_owned());
        }
        ip(&["link", "del", OUR_INTERFACE]);
        std::thread::sleep(Duration::from_millis(100));
    }
    if !ip(&["link", "set", OUR_INTERFACE, "up"]) {
        return Err(format!("{OUR_INTERFACE} does not come up"));
    }
    // Linux must not answer there for the NIC's interface.
    let quiet = format!("/proc/sys/net/ipv4/conf/{OUR_INTERFACE}/arp_ignore");
    std::fs::write(&quiet, "1").map_err(|error| format!("{quiet}: {error}"))
}

/// The NIC, between the wire and an interface of Linux's.
pub fn start_nic(wire: Wire, files: &Files, directory: &Path) -> Result<Running, String> {
    let log = std::fs::File::create(directory.join("nic.log"));
    let log = log.map_err(|error| error.to_string())?;
    let mut nic = Command::new(&files.longshore);
    nic.args(["nic", "--host", &format!("tap:ls0,ip={PROGRAM}/24")]);
    nic.args(["--wire", &format!("packet:{OUR_INTERFACE}")]);
    nic.arg("--control").arg(directory.join("nic.sock"));
    nic.arg("--state").arg(directory.join("state"));
    nic.args(wire.options()).stdout(Stdio::null()).stderr(log);
    start(&mut nic)
}

/// Passes on what the program says, and kills the NIC's process when it says so.
pub fn follow(output: ChildStdout, nic: u32) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if line != KILL {
            println!("{line}");
            continue;
        }
        let children = std::fs::read_to_string(format!("/proc/{nic}/task/{nic}/children"));
        let is_worker = |pid: &i32| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments
                .split(|byte| *byte == 0)
                .any(|it| it == b"--worker")
        };
        let worker = children.ok().and_then(|children| {
            let mut pids = children.split_whitespace().flat_map(str::parse);
            pids.find(is_worker)
        });
        if let Some(worker) = worker {
            // SAFETY: a signal to the process that the NIC's supervisor has started.
            unsafe { libc::kill(worker, libc::SIGKILL) };
        }
    }
}

/// What the NIC has counted, once it is there: it may be starting.
pub fn stat_soon(files: &Files, control: &Path) -> Result<String, String> {
    let end = Instant::now() + TIMEOUT;
    loop {
        match stat(files, control) {
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            counted => return counted,
        }
    }
}

/// What the NIC has counted.
fn stat(files: &Files, control: &Path) -> Result<String, String> {
    let mut stat = Command::new(&files.longshore);
    let output = stat.args(["stat", "--all"]).arg(control).output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        other => Err(format!("stat: {other:?}")),
    }
}

/// The sum of all counters of this name.
fn counter(counted: &str, name: &str) -> u64 {
    let values = counted.lines().filter_map(|line| {
        let value = line.trim().strip_prefix(name)?.strip_prefix(':')?;
        value.trim().replace(',', "").parse::<u64>().ok()
    });
    values.sum()
}

pub fn check_counters(counted: &str, must_count: bool) -> Result<(), String> {
    for name in ["tx_tls_encrypted_bytes", "rx_tls_decrypted_bytes"] {
        let bytes = counter(counted, name);
        println!("# {name} {bytes}");
        if bytes == 0 && must_count {
            return Err(format!("{name} is 0: the NIC has done nothing"));
        }
    }
    Ok(())
}
