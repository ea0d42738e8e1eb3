//! Files whose pages are not this machine's, and memory that is no plain memfd.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nic::ring::RegionId;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::rig::{Raw, Rig, path};
use crate::memory;
use crate::message::{Answer, Extent, Refusal, Request};

fn register(len: u64, writable: bool) -> Request {
    Request::Register(Extent {
        id: RegionId(1),
        offset: 0,
        len,
        writable,
    })
}

/// Mounts of this thread's own. False, with the reason printed, where mounts are not allowed.
#[allow(unsafe_code)]
fn own_mounts() -> bool {
    // SAFETY: descriptors stay shared; what is unshared is the view of the file system.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let unshared = unshared.and_then(|()| mount_change("/", private));
    if let Err(error) = unshared {
        println!("skipped: no mounts of its own: {error}");
    }
    unshared.is_ok()
}

/// A file that is in the lower layer of an overlay, both of which are tmpfs. With the file itself.
fn overlaid() -> Option<(File, File)> {
    if !own_mounts() {
        return None;
    }
    let place = path();
    fs::create_dir(&place).unwrap();
    mount("none", &place, "tmpfs", MountFlags::empty(), None).unwrap();
    let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| {
        let place = place.join(name);
        fs::create_dir(&place).unwrap();
        place
    });
    fs::write(lower.join("file"), [7; 8192]).unwrap();
    let name = |place: &Path| place.display().to_string();
    let layers = [name(&lower), name(&upper), name(&work)];
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        layers[0], layers[1], layers[2]
    );
    let options = std::ffi::CString::new(options).unwrap();
    match mount(
        "none",
        &merged,
        "overlay",
        MountFlags::empty(),
        options.as_c_str(),
    ) {
        Ok(()) => {}
        Err(Errno::NODEV) => {
            println!("skipped: this Linux has no overlays");
            return None;
        }
        Err(error) => panic!("{error}"),
    }
    let open = |place: &Path| File::open(place.join("file")).unwrap();
    let files = (open(&merged), open(&lower));
    unmount(&place, UnmountFlags::DETACH).unwrap();
    fs::remove_dir(&place).unwrap();
    Some(files)
}

#[test]
fn a_file_of_an_overlay_is_refused_whatever_its_layers_are() {
    let Some((file, lower)) = overlaid() else {
        return;
    };
    let mut rig = Rig::new();
    let host = rig.host();
    for (file, answer) in [
        (&lower, Answer::Registered),
        (&file, Answer::Refused(Refusal::BadFile)),
    ] {
        let got = rig.ask(&host, &register(8192, false), Some(file.as_fd()));
        assert_eq!(got, Some(answer));
    }
}

#[test]
fn huge_pages_are_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let file = match rustix::fs::memfd_create("huge", flags) {
        Ok(file) => file,
        Err(error) => return println!("skipped: no huge pages: {error}"),
    };
    const LEN: u64 = 1 << 30;
    rustix::fs::ftruncate(&file, LEN).unwrap();
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    assert!(!memory::keeps(file.as_fd(), LEN));
    let mut rig = Rig::new();
    let host = rig.host();
    let answer = rig.ask(&host, &register(LEN, true), Some(file.as_fd()));
    assert_eq!(answer, Some(Answer::Refused(Refusal::BadMemory)));
}

/// Set in the process that is the file system, to where it is to be.
const PLACE: &str = "LONGSHORE_TEST_FUSE";

/// A file system of one file, which opens and then answers nothing: in another process, with whose end all that waits for it goes on.
struct Silent {
    process: Child,
    /// Whose mounts have it.
    thread: String,
    place: PathBuf,
}

impl Silent {
    fn start() -> Option<Silent> {
        let place = path();
        fs::write(&place, "").unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "tests::file_systems::is_a_silent_file_system",
            ])
            .env(PLACE, &place)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut said = said.map_while(Result::ok);
        let thread = said.find_map(|line| Some(line.split_once("mounted ")?.1.to_owned()));
        let silent = Silent {
            thread: thread.clone().unwrap_or_default(),
            process,
            place,
        };
        if thread.is_none() {
            println!("skipped: no FUSE");
        }
        thread.map(|_| silent)
    }

    fn open(&self) -> OwnedFd {
        let root = format!("/proc/{}/root", self.thread);
        let inside = self.place.strip_prefix("/").unwrap();
        File::open(Path::new(&root).join(inside)).unwrap().into()
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.place);
    }
}

const INIT: u32 = 26;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;

/// What answers: a file of a page, `linux/fuse.h`.
fn fuse_answer(opcode: u32) -> Option<Vec<u8>> {
    match opcode {
        // Version 7.31, and writes of a page.
        INIT => {
            let mut words = [0u32; 16];
            (words[0], words[1], words[5], words[6]) = (7, 31, 4096, 1);
            Some(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
        }
        GETATTR => {
            let mut words = [0u32; 26];
            // Node, size, mode, links.
            (words[4], words[6], words[19], words[20]) = (1, 4096, 0o100_644, 1);
            Some(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
        }
        OPEN => Some(vec![0; 16]),
        _ => None,
    }
}

#[test]
fn is_a_silent_file_system() {
    let Some(place) = std::env::var_os(PLACE) else {
        return;
    };
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let (Ok(mut device), true) = (device, own_mounts()) else {
        return println!("skipped: no FUSE");
    };
    let options = format!(
        "fd={},rootmode=100644,user_id=0,group_id=0",
        device.as_raw_fd()
    );
    let options = std::ffi::CString::new(options).unwrap();
    if let Err(error) = mount(
        "silent",
        &place,
        "fuse",
        MountFlags::empty(),
        options.as_c_str(),
    ) {
        return println!("skipped: no FUSE: {error}");
    }
    // Of this thread's root only.
    println!("mounted {}", rustix::thread::gettid());
    let mut request = vec![0; 1 << 18];
    while let Ok(40..) = device.read(&mut request) {
        let opcode = u32::from_ne_bytes(request[4..8].try_into().unwrap());
        if let Some(answer) = fuse_answer(opcode) {
            let len = (16 + answer.len()) as u32;
            let head = [&len.to_ne_bytes()[..], &[0; 4], &request[8..16]].concat();
            device.write_all(&[head, answer].concat()).unwrap();
        }
    }
}

/// The data thread turns, and another host is served.
fn serves_others(rig: &mut Rig, other: &Raw) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        let answer = rig.ask(other, &Request::Unfinished, None);
        assert_eq!(answer, Some(Answer::Unfinished(0)));
    }
}

#[test]
fn a_file_system_that_does_not_answer_holds_up_its_host_only() {
    let Some(silent) = Silent::start() else {
        return;
    };
    let mut rig = Rig::new();
    let other = rig.host_of_another_socket();
    let host = rig.host();
    let file = silent.open();
    // It is asked what file system that is.
    let request = register(4096, false);
    host.send(&request.to_bytes(), Some(file.as_fd()));
    serves_others(&mut rig, &other);
    assert_eq!(host.answer(&request), None, "it waits");
    drop(silent);
    drop(file);
    let answer = rig.until(|_| host.answer(&request));
    assert_eq!(answer, Some(Answer::Refused(Refusal::BadFile)));
    rig.leave(host);
}
