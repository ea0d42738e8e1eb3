//! Each test gives up its privileges in a child, which has one thread and can't get them back.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process, waitpid};

use super::{Files, Identity, Profile, enter, enter_with_files};

/// Of `asm-generic/fcntl.h`: the signal that `O_ASYNC` sends.
const F_SETSIG: libc::c_int = 10;

const PROFILES: [Profile; 4] = [
    Profile::Worker,
    Profile::Control,
    Profile::Gate,
    Profile::Server,
];

/// A child that runs `job` as a test, and then, at the end of it, stays until it is let go.
struct Child {
    pid: Pid,
    said: io::PipeReader,
    let_go: Option<io::PipeWriter>,
}

/// Says to a test's process that it is the test's own.
const ALONE: &str = "LONGSHORE_TEST_ALONE";

/// Whether this process runs this test only, so that a child of it holds no other test's locks and files. If not, one is started that does.
fn is_alone() -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let thread = std::thread::current();
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", thread.name().unwrap(), "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success() && said.contains("1 passed"),
        "{said}"
    );
    false
}

impl Child {
    fn run(job: impl FnOnce()) -> Child {
        let (said, mut says) = io::pipe().unwrap();
        let (mut waits, let_go) = io::pipe().unwrap();
        // SAFETY: the child does what it is given and ends without returning.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop((said, let_go));
            std::panic::set_hook(Box::new(|_| {}));
            let text = match catch_unwind(AssertUnwindSafe(job)) {
                Ok(()) => "done".to_owned(),
                Err(panic) => panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_default(),
            };
            let _ = says.write_all(text.as_bytes());
            drop(says);
            let _ = waits.read(&mut [0]);
            // SAFETY: ends the process, without what the test's harness does at the end.
            unsafe { libc::_exit(0) };
        }
        Child {
            pid: Pid::from_raw(pid).unwrap(),
            said,
            let_go: Some(let_go),
        }
    }

    /// Waits until the job is done, and fails as it did.
    #[track_caller]
    fn expect(&mut self) {
        let mut text = String::new();
        self.said.read_to_string(&mut text).unwrap();
        assert_eq!(text, "done");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.let_go.take());
        let _ = waitpid(Some(self.pid), rustix::process::WaitOptions::empty());
    }
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

fn identity() -> Identity {
    Identity::for_service(None, "test").unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(what: io::Result<T>) {
    let error = what.expect_err("it is allowed");
    assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
}

/// The result of a system call.
fn of(result: i64) -> io::Result<i64> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

#[test]
fn what_is_left_harms_no_other_process() {
    if !is_root() || !is_alone() {
        return;
    }
    for profile in PROFILES {
        for identity in [None, Some(identity())] {
            let parent = getpid();
            Child::run(move || {
                enter(profile, identity).unwrap();
                // SAFETY: no memory is involved but constant strings.
                unsafe {
                    refused(of(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).into()));
                    refused(of(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0).into()));
                    refused(of(libc::setuid(0).into()));
                    refused(of(libc::setgid(0).into()));
                    refused(of(libc::ptrace(libc::PTRACE_ATTACH, parent, 0, 0)));
                    refused(of(libc::unshare(libc::CLONE_NEWUSER).into()));
                    let other = parent.as_raw_nonzero().get() as libc::id_t;
                    refused(of(libc::setpriority(libc::PRIO_PROCESS, other, 19).into()));
                    refused(of(libc::setpriority(libc::PRIO_USER, 0, 19).into()));
                    of(libc::setpriority(libc::PRIO_PROCESS, 0, 19).into()).unwrap();
                    let (path, end) = (c"/bin/true".as_ptr(), std::ptr::null::<libc::c_char>());
                    refused(of(libc::execl(path, path, end).into()));
                    refused(of(libc::fork().into()));
                    let mut pair = [0; 2];
                    let made =
                        libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr());
                    refused(of(made.into()));
                    let made =
                        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
                    of(made.into()).unwrap();
                    for (command, argument) in [
                        (libc::F_SETOWN, parent.as_raw_nonzero().get()),
                        (F_SETSIG, libc::SIGKILL),
                        (libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK),
                    ] {
                        refused(of(libc::fcntl(pair[0], command, argument).into()));
                    }
                    of(libc::fcntl(pair[0], libc::F_SETFL, libc::O_NONBLOCK).into()).unwrap();
                    let pages = libc::mmap(
                        std::ptr::null_mut(),
                        4096,
                        libc::PROT_READ | libc::PROT_EXEC,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                        -1,
                        0,
                    );
                    assert_eq!(pages, libc::MAP_FAILED);
                }
                refused(kill_process(parent, Signal::USR1).map_err(Into::into));
                refused(File::create("/tmp/longshore-sandbox"));
                for path in ["/etc/shadow", "/etc/passwd"] {
                    let error = File::open(path).expect_err("it is opened");
                    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                }
            })
            .expect();
        }
    }
}

#[test]
fn a_server_reads_what_it_serves_and_changes_nothing() {
    if !is_alone() {
        return;
    }
    let path = std::env::temp_dir().join(format!("longshore-sandbox-{}", std::process::id()));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), "content").unwrap();
    let root = File::open(&path).unwrap();
    let at = path.clone();
    Child::run(move || {
        let files = Files {
            read: Some(root.as_fd()),
            read_again: &[],
            remove: None,
        };
        enter_with_files(Profile::Server, None, files).unwrap();
        let resolve = ResolveFlags::BENEATH;
        let open = |flags| openat2(&root, "file", flags, Mode::empty(), resolve);
        open(OFlags::RDONLY).unwrap();
        assert_eq!(open(OFlags::RDWR).unwrap_err(), Errno::ACCESS);
        let error = fs::remove_file(at.join("file")).expect_err("it is removed");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        File::open("/etc/passwd").expect_err("it is opened");
    })
    .expect();
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn nothing_is_left_in_the_status() {
    if !is_root() || !is_alone() {
        return;
    }
    for identity in [None, Some(identity())] {
        let mut child = Child::run(move || enter(Profile::Worker, identity).unwrap());
        child.expect();
        let pid = child.pid.as_raw_nonzero();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let nothing = "0000000000000000";
        let uid = identity.map_or(0, |identity| identity.uid);
        for (name, value) in [
            ("CapInh", nothing),
            ("CapPrm", nothing),
            ("CapEff", nothing),
            ("CapBnd", nothing),
            ("CapAmb", nothing),
            ("NoNewPrivs", "1"),
            ("Seccomp", "2"),
            ("Groups", ""),
            ("Uid", &format!("{uid}\t{uid}\t{uid}\t{uid}")),
            ("Gid", &format!("{uid}\t{uid}\t{uid}\t{uid}")),
        ] {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let found = line.unwrap().trim_start_matches(':').trim();
            assert_eq!(found, value, "{name}");
        }
    }
}

#[test]
fn its_own_user_can_not_read_its_memory() {
    if !is_root() || !is_alone() {
        return;
    }
    let identity = identity();
    let mut child = Child::run(move || enter(Profile::Worker, Some(identity)).unwrap());
    child.expect();
    let path = format!("/proc/{}/mem", child.pid.as_raw_nonzero());
    let reader = Command::new("cat")
        .arg(&path)
        .uid(identity.uid)
        .gid(identity.gid)
        .output();
    let said = String::from_utf8(reader.unwrap().stderr).unwrap();
    assert!(said.contains("Permission denied"), "{said}");
}

#[test]
fn threads_memory_descriptors_and_panics_still_work() {
    if !is_alone() {
        return;
    }
    for profile in PROFILES {
        Child::run(move || {
            enter(profile, None).unwrap();
            let thread = std::thread::Builder::new().name("one".to_owned());
            let summed = thread.spawn(|| (0..1 << 20).collect::<Vec<u64>>().len());
            assert_eq!(summed.unwrap().join().unwrap(), 1 << 20);
            let (mut from, mut to) = std::os::unix::net::UnixStream::pair().unwrap();
            to.write_all(b"a").unwrap();
            from.read_exact(&mut [0]).unwrap();
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
            std::thread::spawn(|| panic!("meant")).join().unwrap_err();
        })
        .expect();
    }
}

#[test]
fn abort_ends_the_process() {
    if !is_alone() {
        return;
    }
    let mut child = Child::run(|| {
        enter(Profile::Worker, None).unwrap();
        std::process::abort();
    });
    child.let_go = None;
    child.said.read_to_string(&mut String::new()).unwrap();
    let status = waitpid(Some(child.pid), rustix::process::WaitOptions::empty());
    let (_, status) = status.unwrap().unwrap();
    assert_eq!(status.terminating_signal(), Some(libc::SIGABRT));
}

#[test]
fn it_is_refused_beside_other_threads() {
    if !is_alone() {
        return;
    }
    let mut child = Child::run(|| {
        let (_says, waits) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || waits.recv());
        let error = enter(Profile::Worker, None).expect_err("there are two threads");
        assert!(error.to_string().contains("several threads"), "{error:#}");
    });
    child.expect();
}

#[test]
fn a_service_without_an_account_has_a_number_that_belongs_to_no_account() {
    let root = Identity::of_account("root").unwrap();
    assert_eq!(root, Identity { uid: 0, gid: 0 });
    let error = Identity::for_service(Some("no such user"), "a").expect_err("there is none");
    assert!(error.to_string().contains("no such user"), "{error:#}");
    let one = Identity::for_service(None, "one").unwrap();
    assert_eq!(one, Identity::for_service(None, "one").unwrap());
    assert_ne!(one, Identity::for_service(None, "two").unwrap());
    let passwd = Command::new("getent").arg("passwd").output().unwrap();
    let passwd = String::from_utf8(passwd.stdout).unwrap();
    assert!(!passwd.contains(&format!(":{}:", one.uid)));
}
