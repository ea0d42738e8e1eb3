//! The virtual machine: QEMU from the root.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::image::Image;
use super::network::end;
use super::options::GuestOptions;
use super::root::Root;
use crate::nic_process::inherited::end_with_parent;
use crate::signals::Signals;

/// A busy machine may have Linux measure emulated clocks without end before it comes to drivers. It is started again then.
const COMES_UP: Duration = Duration::from_secs(45);
/// System calls that QEMU goes without: the guest may get through to it.
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
/// What `init.sh` says first.
const IS_UP: &str = "longshore: the kernel is up";
const TRIES: usize = 3;
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// What a machine is made of.
#[derive(Debug)]
pub struct Machine<'a> {
    /// Where its QEMU is.
    pub root: &'a Root,
    /// What it boots.
    pub image: &'a Image,
    /// What the user has asked for.
    pub options: &'a GuestOptions,
    /// Sockets of the functions that it gets.
    pub functions: &'a [PathBuf],
    /// A directory of this run: `told` is seen by the guest.
    pub directory: &'a Path,
}

/// How a run has ended.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Ended,
    TimeIsUp,
    /// The kernel does not come up.
    Stuck,
    /// This process was told to end.
    Told,
}

impl Machine<'_> {
    /// Runs the guest to its end. The exit code of its command, or 124.
    ///
    /// # Errors
    /// When it dies before its command has ended.
    pub fn run(&self, signals: &Signals) -> Result<u8> {
        let until = self
            .options
            .time
            .map(|time| Instant::now() + Duration::from_secs(time));
        let _console = self.open_console()?;
        for attempt in 1..=TRIES {
            let mut process = self.start()?;
            let ending = self.watch(&process, signals, until, attempt < TRIES);
            if !matches!(ending, Ok(Ending::Ended)) {
                // It gives the terminal back.
                let _ = kill_process(Pid::from_child(&process), Signal::TERM);
            }
            end(&mut process);
            match ending? {
                Ending::Ended => return self.exit_code(),
                Ending::TimeIsUp => return Ok(124),
                Ending::Told => return Ok(143),
                Ending::Stuck => eprintln!(
                    "longshore: the kernel has not come up in {} s; once more",
                    COMES_UP.as_secs()
                ),
            }
        }
        bail!("the kernel does not come up: {}", self.last_messages())
    }

    fn watch(
        &self,
        process: &Child,
        signals: &Signals,
        until: Option<Instant>,
        again: bool,
    ) -> Result<Ending> {
        let ended = pidfd_open(Pid::from_child(process), PidfdFlags::empty())
            .context("can't watch QEMU")?;
        let begun = Instant::now();
        let mut is_up = !again;
        loop {
            let mut polled = [
                PollFd::new(&ended, PollFlags::IN),
                PollFd::new(signals, PollFlags::IN),
            ];
            let _ = poll(&mut polled, Some(&LOOK));
            if !polled[0].revents().is_empty() {
                return Ok(Ending::Ended);
            }
            if signals.received() {
                return Ok(Ending::Told);
            }
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return Ok(Ending::TimeIsUp);
            }
            is_up =
                is_up || fs::read_to_string(self.console()).is_ok_and(|text| text.contains(IS_UP));
            if !is_up && now.duration_since(begun) > COMES_UP {
                return Ok(Ending::Stuck);
            }
        }
    }

    fn start(&self) -> Result<Child> {
        fs::write(self.console(), "")?;
        let mut command = self.command();
        if !self.options.command.is_empty() {
            command.stdin(Stdio::null());
        }
        command.stderr(File::create(self.messages())?);
        end_with_parent(&mut command);
        command.spawn().context("can't run QEMU")
    }

    fn command(&self) -> Command {
        let machine = &self.options.machine;
        let share = self.root.path().join("usr/share");
        let megabytes = machine.memory_bytes >> 20;
        let mut command = self.root.program("usr/bin/qemu-system-x86_64");
        command
            .arg("-L")
            .arg(share.join("seabios"))
            .arg("-L")
            .arg(share.join("qemu"));
        command.args([
            "-no-reboot",
            "-nodefaults",
            "-display",
            "none",
            "-cpu",
            "max",
            "-sandbox",
            SANDBOX,
        ]);
        command.arg("-M").arg(if machine.kvm {
            "q35,accel=kvm"
        } else {
            "q35,accel=tcg"
        });
        command.args([
            "-smp",
            &machine.smp.to_string(),
            "-m",
            &megabytes.to_string(),
        ]);
        // The NIC sees the guest's memory where it is: it is shared.
        command.arg("-object").arg(format!(
            "memory-backend-memfd,id=memory,size={megabytes}M,share=on"
        ));
        command.args(["-numa", "node,memdev=memory"]);
        command
            .arg("-kernel")
            .arg(&self.image.kernel)
            .arg("-initrd")
            .arg(&self.image.initrd);
        command
            .arg("-append")
            .arg("console=ttyS0 panic=-1 loglevel=6 mitigations=off no_timer_check");
        self.add_serial_ports(&mut command);
        self.add_directories(&mut command);
        for socket in self.functions {
            let socket = serde_json::json!({ "type": "unix", "path": socket });
            let device = serde_json::json!({ "driver": "vfio-user-pci", "socket": socket });
            command.arg("-device").arg(device.to_string());
        }
        command
    }

    /// Ports for the kernel's messages, for the terminal, and for the exit code.
    fn add_serial_ports(&self, command: &mut Command) {
        command.arg("-chardev").arg(self.kernel_messages());
        command.args([
            "-serial",
            "chardev:kernel",
            "-chardev",
            "stdio,id=terminal,signal=off",
            "-serial",
            "chardev:terminal",
        ]);
        command
            .arg("-serial")
            .arg(prefixed("file:", self.directory.join("code")));
    }

    /// The directories of this machine that the guest sees.
    fn add_directories(&self, command: &mut Command) {
        directory(command, "root", self.root.path(), ",readonly=on");
        directory(command, "told", &self.directory.join("told"), "");
        if let Some(modules) = &self.image.modules {
            directory(command, "modules", modules, ",readonly=on");
        }
        if let Some(shared) = &self.options.share {
            directory(command, "share", shared, "");
        }
    }

    /// Where the kernel's messages go, and what this looks at.
    fn console(&self) -> PathBuf {
        self.directory.join("console")
    }

    /// The device of QEMU's for the kernel's messages. What the user wants them in need not be a file that can be read.
    fn kernel_messages(&self) -> String {
        let console = doubled(&self.console());
        match &self.options.machine.console {
            Some(given) => format!(
                "file,id=kernel,path={},logfile={console},logappend=off",
                doubled(given)
            ),
            None => format!("file,id=kernel,path={console}"),
        }
    }

    /// QEMU would wait for a reader of a pipe, without end. The reader sees an end when what this gives is dropped, unless QEMU has the pipe by then.
    fn open_console(&self) -> Result<Option<File>> {
        let Some(given) = &self.options.machine.console else {
            return Ok(None);
        };
        let mut how = File::options();
        how.write(true).create(true).truncate(false);
        let opened = how.custom_flags(OFlags::NONBLOCK.bits() as i32).open(given);
        let path = given.display();
        match opened {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                bail!("--console {path} is a pipe that nothing reads; start its reader first")
            }
            opened => opened
                .map(Some)
                .with_context(|| format!("can't write {path}")),
        }
    }

    /// Where QEMU's messages go.
    fn messages(&self) -> PathBuf {
        self.directory.join("qemu.log")
    }

    fn exit_code(&self) -> Result<u8> {
        let mut told = String::new();
        let code = File::open(self.directory.join("code"));
        let _ = code.and_then(|mut file| file.read_to_string(&mut told));
        match told.trim() {
            "driver" => bail!("the guest can't load the driver: {}", self.last_messages()),
            "" => bail!("the guest has died: {}", self.last_messages()),
            code => code
                .parse()
                .with_context(|| format!("the guest has told no exit code but `{code}`")),
        }
    }

    /// The last of the kernel's messages, and of QEMU's.
    fn last_messages(&self) -> String {
        [self.console(), self.messages()]
            .map(|path| end_of(&path))
            .join("\n")
    }
}

/// The last lines of a file.
fn end_of(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Adds a directory of this machine that the guest mounts by its tag.
fn directory(command: &mut Command, tag: &str, path: &Path, options: &str) {
    let path = doubled(path);
    let options =
        format!("local,id={tag},path={path},security_model=none,multidevs=remap{options}");
    command.arg("-fsdev").arg(options);
    command
        .arg("-device")
        .arg(format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
}

/// A path for an option with several parts: QEMU takes two commas for one.
fn doubled(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn prefixed(prefix: &str, path: impl AsRef<Path>) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(prefix);
    text.push(path.as_ref());
    text
}
