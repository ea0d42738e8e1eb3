//! The NIC of a guest, and the peer at the other end of its wire.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use host::Cidr;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::options::GuestOptions;
use super::root::{self, Root};
use crate::attach::Line;
use crate::nic_process::inherited::end_with_parent;

/// How long the NIC may take to listen, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Enters the root `$0` to run the command `$1`, with `$2` at /mnt: below an overlay in memory, which takes what is written, as in the guest. What is
/// mounted goes away with the processes.
const ENTER: &str = "cd \"$0\"; mount -t tmpfs changes mnt; mkdir mnt/new mnt/work mnt/root; \
    mount -t overlay -o lowerdir=.,upperdir=mnt/new,workdir=mnt/work changes mnt/root; cd mnt/root; \
    mount -t proc proc proc; mount -t tmpfs tmp tmp; mount -t tmpfs run run; \
    test -z \"$2\" || mount --bind \"$2\" mnt; exec chroot . sh -c \"cd /root; $1\"";

/// A network namespace at the other end of the wire. It goes away with this.
#[derive(Debug)]
pub struct Peer<'a> {
    root: &'a Root,
    /// The namespace, as `ip netns` has it.
    pub namespace: String,
    /// This end of the wire.
    pub interface: String,
    program: Option<Child>,
}

impl<'a> Peer<'a> {
    /// Makes the namespace with an interface `eth0`, and a wire to it.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn make(root: &'a Root, address: Cidr) -> Result<Peer<'a>> {
        let pid = std::process::id();
        let peer = Peer {
            root,
            namespace: namespace_of(pid),
            interface: interface_of(pid),
            program: None,
        };
        let (namespace, interface) = (&peer.namespace, &peer.interface);
        peer.ip(&format!("netns add {namespace}"))?;
        peer.ip(&format!(
            "link add {interface} type veth peer name eth0 netns {namespace}"
        ))?;
        // Linux must not answer at this end for the guest.
        fs::write(
            format!("/proc/sys/net/ipv4/conf/{interface}/arp_ignore"),
            "8",
        )?;
        let _ = fs::write(
            format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"),
            "1",
        );
        peer.ip(&format!("link set {interface} up"))?;
        peer.ip(&format!("-n {namespace} link set lo up"))?;
        peer.ip(&format!("-n {namespace} addr add {address} dev eth0"))?;
        peer.ip(&format!("-n {namespace} link set eth0 up"))?;
        Ok(peer)
    }

    /// Runs a shell command there until the end, with the programs of the root, and `share` at /mnt. What it says goes to the standard
    /// error.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn run(&mut self, shell_command: &str, share: Option<&Path>) -> Result<()> {
        let mut command = self.root.program("usr/sbin/ip");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.args(["netns", "exec", &self.namespace]);
        command.args([
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-e",
            "-c",
            ENTER,
        ]);
        command.arg(self.root.path()).arg(shell_command);
        let share = share.map(Path::canonicalize).transpose();
        command.args(share.context("--share")?);
        command
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .process_group(0);
        end_with_parent(&mut command);
        self.program = Some(command.spawn().context("can't run the peer's command")?);
        Ok(())
    }

    fn ip(&self, arguments: &str) -> Result<()> {
        ip(self.root, arguments)
    }
}

fn ip(root: &Root, arguments: &str) -> Result<()> {
    let mut command = root.program("usr/sbin/ip");
    command.args(arguments.split(' '));
    root::run(command, "makes the peer's network").map(drop)
}

fn namespace_of(pid: u32) -> String {
    format!("longshore-{pid}")
}

fn interface_of(pid: u32) -> String {
    format!("ls{pid}")
}

/// Removes the namespace and the wire of a run, as far as they are there.
pub fn remove_network(root: &Root, pid: u32) {
    let _ = ip(root, &format!("link del {}", interface_of(pid)));
    let _ = ip(root, &format!("netns del {}", namespace_of(pid)));
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        if let Some(program) = &mut self.program {
            let _ = kill_process_group(Pid::from_child(program), Signal::TERM);
            end(program);
        }
        remove_network(self.root, std::process::id());
    }
}

/// A NIC that runs for the guest. It ends with this.
#[derive(Debug)]
pub struct Nic {
    process: Child,
    /// Where VMMs find its functions.
    pub sockets: Vec<PathBuf>,
}

impl Nic {
    /// Starts `longshore nic`, and waits until it listens. Its sockets are in `directory`.
    ///
    /// # Errors
    /// When it does not start; the message has what it says.
    pub fn start(options: &GuestOptions, wire: &str, directory: &Path) -> Result<Nic> {
        let program = std::env::current_exe().context("can't find this program's own path")?;
        let network = &options.network;
        let sockets: Vec<PathBuf> = (0..network.functions)
            .map(|index| directory.join(format!("function{index}")))
            .collect();
        let mut command = Command::new(program);
        command.arg("nic").args(["--wire", wire, "--drain", "0"]);
        for socket in &sockets {
            let queues = network.queues(options.machine.smp);
            command
                .arg("--host")
                .arg(format!("vfio-user:{},queues={queues}", socket.display()));
        }
        let control = network
            .control
            .clone()
            .unwrap_or_else(|| directory.join("control"));
        command.arg("--control").arg(control);
        command.arg("--state").arg(directory.join("state"));
        if let Some(pcap) = &network.pcap {
            command.arg("--pcap").arg(pcap);
        }
        command.args(impairments(&options.line));
        let log = directory.join("nic.log");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        end_with_parent(&mut command);
        let process = command.spawn().context("can't start the NIC")?;
        let mut nic = Nic { process, sockets };
        nic.await_sockets(&log)?;
        Ok(nic)
    }

    fn await_sockets(&mut self, log: &Path) -> Result<()> {
        let begun = Instant::now();
        while !self.sockets.iter().all(|socket| socket.exists()) {
            let has_ended = self.process.try_wait()?.is_some();
            if has_ended || begun.elapsed() > PATIENCE {
                let told = fs::read_to_string(log).unwrap_or_default();
                bail!(
                    "the NIC has not started: {}",
                    told.trim().trim_start_matches("longshore: ")
                );
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        end(&mut self.process);
    }
}

/// Waits for a process that was told to end.
pub fn end(process: &mut Child) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if !matches!(process.try_wait(), Ok(None)) {
            return;
        }
        sleep(Duration::from_millis(20));
    }
    let _ = process.kill();
    let _ = process.wait();
}

fn impairments(line: &Line) -> Vec<String> {
    let fractions = [
        ("loss", line.loss),
        ("reorder", line.reorder),
        ("duplicate", line.duplicate),
        ("corrupt", line.corrupt),
    ];
    let fractions = fractions
        .into_iter()
        .filter(|(_, fraction)| *fraction > 0.0);
    let options = fractions.map(|(name, fraction)| format!("--{name}={fraction}"));
    options.chain([format!("--seed={}", line.seed)]).collect()
}
