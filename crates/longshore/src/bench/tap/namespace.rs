//! A network namespace for one thread, with a TAP in it.

use std::ffi::CStr;
use std::io;
use std::net::Ipv4Addr;

use anyhow::Context as _;
use port::tap::{Tap, TapConfig};
use rustix::thread::{CpuSet, UnshareFlags, sched_getaffinity, sched_setaffinity};

/// The TAP's name; no other namespace sees it.
const NAME: &str = "longshore0";
/// Linux's address on it.
pub const LINUX: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Ours.
pub const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// Length of their network's prefix.
pub const PREFIX: u8 = 24;

/// Moves the calling thread into new network and mount namespaces. They are gone when nothing uses them any more.
pub fn enter() -> anyhow::Result<()> {
    // SAFETY: neither flag unshares the file descriptor table, which other code may rely on; the thread keeps its
    // memory and signals.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }.context(
        "a network namespace can't be made; run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN)",
    )?;
    // /sys shows the namespace that it was mounted in. Only the steering of packets needs it.
    let _ = mount_sysfs();
    Ok(())
}

fn mount_sysfs() -> io::Result<()> {
    let mount = |source: &CStr, target: &CStr, kind: Option<&CStr>, flags| {
        let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the strings are C strings that outlive the call, and no data is passed.
        let result = unsafe {
            libc::mount(
                source.as_ptr(),
                target.as_ptr(),
                kind,
                flags,
                std::ptr::null(),
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    mount(c"sysfs", c"/sys", Some(c"sysfs"), 0)
}

/// A TAP in the calling thread's namespace, up, with Linux's address.
pub fn open_tap() -> anyhow::Result<Tap> {
    let tap = Tap::open(NAME, TapConfig::default())?;
    set_address().with_context(|| format!("{LINUX} can't be given to {NAME}"))?;
    tap.set_up()
        .with_context(|| format!("{NAME} can't be set up"))?;
    Ok(tap)
}

fn set_address() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mask = Ipv4Addr::from(u32::MAX << (32 - PREFIX));
    for (request, address) in [(libc::SIOCSIFADDR, LINUX), (libc::SIOCSIFNETMASK, mask)] {
        // SAFETY: all zeros is a valid `ifreq`.
        let mut asked: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in asked.ifr_name.iter_mut().zip(NAME.bytes()) {
            *to = from as libc::c_char;
        }
        let inet = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 0,
            sin_addr: libc::in_addr {
                s_addr: u32::from(address).to_be(),
            },
            sin_zero: [0; 8],
        };
        // SAFETY: both are plain socket addresses of 16 bytes.
        asked.ifr_ifru.ifru_addr =
            unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(inet) };
        // SAFETY: the request takes an `ifreq` with an address, and only reads it.
        if unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&socket), request, &asked) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Keeps the calling thread on one of the processors that it may use, by its number among them. Answers what it was
/// allowed before; does nothing where there is only one.
pub fn pin(number: usize) -> Option<CpuSet> {
    let allowed = sched_getaffinity(None).ok()?;
    let one = only(number)?;
    sched_setaffinity(None, &one).is_ok().then_some(allowed)
}

/// One of the processors that the calling thread may use, by its number among them; none where there is only one.
pub fn only(number: usize) -> Option<CpuSet> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut one = CpuSet::new();
    one.set(nth(&allowed, number)?);
    (allowed.count() > 1).then_some(one)
}

/// Lets the calling thread run where it was allowed before.
pub fn restore(affinity: Option<CpuSet>) {
    if let Some(affinity) = affinity {
        let _ = sched_setaffinity(None, &affinity);
    }
}

/// Lets the kernel work on the TAP's packets on this processor. To be called by the thread that is pinned to it.
pub fn steer_to(_number: usize) {
    let Ok(mine) = sched_getaffinity(None) else {
        return;
    };
    if let Some(cpu) = nth(&mine, 0).filter(|&cpu| cpu < 32 && mine.count() == 1) {
        let path = format!("/sys/class/net/{NAME}/queues/rx-0/rps_cpus");
        let _ = std::fs::write(path, format!("{:x}", 1u32 << cpu));
    }
}

fn nth(set: &CpuSet, number: usize) -> Option<usize> {
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .nth(number)
}
