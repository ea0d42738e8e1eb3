//! Looks at every frame that comes to or leaves an interface, for bytes that must not be there.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::stream;

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub frames: AtomicU64,
    pub shown: AtomicU64,
}

const BUFFER: i32 = 64 << 20;

/// Watches from now on, in a thread of its own.
pub fn watch(interface: &str) -> Result<Arc<Seen>> {
    let socket = packet_socket(interface)?;
    let seen = Arc::new(Seen::default());
    let told = Arc::clone(&seen);
    std::thread::spawn(move || {
        let mut frame = vec![0; 70_000];
        loop {
            // SAFETY: there is room for this length.
            let len = unsafe {
                libc::recv(
                    socket.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    0,
                )
            };
            let Ok(len) = usize::try_from(len) else {
                continue;
            };
            told.shown
                .fetch_add(u64::from(stream::shows(&frame[..len])), SeqCst);
            told.frames.fetch_add(1, SeqCst);
        }
    });
    Ok(seen)
}

fn packet_socket(interface: &str) -> Result<OwnedFd> {
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: system calls with values; a new descriptor is ours.
    let socket = unsafe {
        let fd = libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            i32::from(protocol),
        );
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    crate::sockets::set(
        socket.as_raw_fd(),
        libc::SOL_SOCKET,
        libc::SO_RCVBUFFORCE,
        &BUFFER.to_ne_bytes(),
    )?;
    let name = std::ffi::CString::new(interface)?;
    // SAFETY: an address of its own type, with its size, borrowed for the calls.
    unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        let bound = libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len);
        if bound != 0 {
            return Err(Error::last_os_error());
        }
    }
    Ok(socket)
}
