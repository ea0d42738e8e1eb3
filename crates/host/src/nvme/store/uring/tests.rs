//! Steps that the kernel takes its time for.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::*;

extern "C" fn ignore(_: libc::c_int) {}

/// A read of one byte that nobody has sent yet.
fn read_of(socket: &UnixStream, to: *mut u8) -> Step {
    Step {
        file: socket.as_raw_fd(),
        call: Call::Read {
            to: Address {
                start: to,
                memory: None,
            },
            len: 1,
            offset: u64::MAX,
        },
    }
}

#[test]
fn a_signal_does_not_end_the_wait_for_what_is_under_way() {
    let bell = Doorbell::new().unwrap();
    let Ok(mut ring) = Uring::new(&bell) else {
        return;
    };
    let (reader, mut writer) = UnixStream::pair().unwrap();
    let byte = Box::into_raw(Box::new(0u8));
    ring.push(0, read_of(&reader, byte));
    ring.publish();

    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR1, ignore as *const () as libc::sighandler_t) };
    // SAFETY: it has no conditions.
    let waiting = unsafe { libc::pthread_self() };
    let sender = thread::spawn(move || {
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(20));
            // SAFETY: that thread waits for this one at its end.
            unsafe { libc::pthread_kill(waiting, libc::SIGUSR1) };
        }
        writer.write_all(b"x").unwrap();
    });
    drop(ring);
    // SAFETY: the byte came from a box, and the ring, which wrote to it, is gone.
    let byte = unsafe { Box::from_raw(byte) };
    assert_eq!(*byte, b'x');
    sender.join().unwrap();
}

#[test]
fn there_are_never_more_steps_under_way_than_results_fit() {
    let bell = Doorbell::new().unwrap();
    let Ok(mut ring) = Uring::new(&bell) else {
        return;
    };
    let most = ring.ring.params().cq_entries();
    let (reader, mut writer) = UnixStream::pair().unwrap();
    let mut bytes = vec![0u8; 2 * most as usize];
    for (task, byte) in bytes.iter_mut().enumerate() {
        ring.push(task as u32, read_of(&reader, byte));
    }
    ring.publish();
    assert_eq!(ring.in_flight, most);
    assert!(!ring.is_unpublished(), "the kernel has all of them");

    writer.write_all(&vec![b'x'; bytes.len()]).unwrap();
    let mut finished = Vec::new();
    while finished.len() < bytes.len() {
        ring.take(&mut finished);
        ring.publish();
        thread::yield_now();
    }
    assert!(finished.iter().all(|(_, result)| *result == 1));
    drop(ring);
    assert!(bytes.iter().all(|byte| *byte == b'x'));
}

/// A filter of system calls does not see what a ring is asked for.
#[test]
fn a_ring_does_what_stores_need_and_nothing_else() {
    let bell = Doorbell::new().unwrap();
    let Ok(mut ring) = Uring::new(&bell) else {
        return;
    };
    let socket = opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build();
    assert!(ring.post(&socket.user_data(7)));
    ring.publish();
    let mut finished = Vec::new();
    while finished.is_empty() {
        ring.take(&mut finished);
    }
    assert_eq!(finished, [(7, -libc::EACCES)]);
}
