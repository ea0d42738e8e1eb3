//! What programs do with descriptors, which Linux's documentation takes for granted.

use std::net::TcpListener;
use std::os::fd::{AsRawFd, IntoRawFd};

use crate::sockets::*;

cases! {
    "a dup2 that fails leaves the socket in its place as it is": failed_dup2,
    "a copy of a descriptor is the same socket": copies,
    "a vfork's child that closes descriptors leaves its parent's alone": vfork,
    "so does one whose parent is a fork's child that has called nothing": vfork_in_a_fork,
    "a process that begins without handlers closes descriptors of its own": fork_without_handlers,
    "a program that this one becomes does not write in clear to the socket": exec,
    "keys that a process sets after a fork are those of the other one too": keys_after_fork,
    "a number whose socket was closed by a system call is another file's": replaced,
    "a program that closes what it has not opened does not close the library's own": close_all,
    "shutdown does not wait for the peer, and what was accepted comes before the end": shutdown,
    "what was accepted comes also if the process ends without handlers": ended_at_once,
    "close with a linger time of 0 resets a connection whose peer takes nothing": reset_by_close,
    "a signal with SA_RESTART does not interrupt a read": restarted,
}

fn failed_dup2() {
    let pair = Pair::keyed(TLS_1_3, 51);
    send(pair.a(), b"held ", libc::MSG_MORE).unwrap();
    // SAFETY: numbers only.
    let failed = unsafe { libc::dup2(9999, pair.a()) };
    assert_eq!(failed, -1);
    send(pair.a(), b"back", 0).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"held back");
}

fn copies() {
    let pair = Pair::keyed(TLS_1_3, 51);
    // SAFETY: numbers only; the copy has no other user.
    unsafe {
        let copy = libc::dup(pair.a());
        send(copy, b"by the copy", 0).unwrap();
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"by the copy");
        send(copy, b"held", libc::MSG_MORE).unwrap();
        libc::close(copy);
    }
    send(pair.a(), b" back", 0).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"held back");
}

#[allow(deprecated)]
fn vfork() {
    let pair = Pair::keyed(TLS_1_3, 51);
    // SAFETY: the child closes a descriptor of its own and ends.
    unsafe {
        let child = libc::vfork();
        if child == 0 {
            libc::close(pair.a.as_raw_fd());
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    send(pair.a(), b"still secret", 0).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"still secret");
}

/// Ends this process, with this status.
fn exit_with(is_good: bool) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(i32::from(!is_good)) }
}

/// Whether a child has ended well.
fn has_done(child: i32) -> bool {
    let mut status = -1;
    // SAFETY: our child, and room for its status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status == 0
}

#[allow(deprecated)]
fn vfork_in_a_fork() {
    let pair = Pair::keyed(TLS_1_3, 51);
    // SAFETY: the child calls functions that need no lock of another thread's, and ends; its own closes a descriptor and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        let its = unsafe { libc::vfork() };
        if its == 0 {
            // SAFETY: a number.
            unsafe { libc::close(pair.a.as_raw_fd()) };
            exit_with(true);
        }
        exit_with(has_done(its) && send(pair.a(), b"still secret", 0).is_ok());
    }
    assert!(has_done(child));
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"still secret");
}

fn fork_without_handlers() {
    unsafe extern "C" {
        fn _Fork() -> i32;
    }
    let by_number = || {
        let (flags, none) = (libc::SIGCHLD as usize, 0_usize);
        // SAFETY: a fork.
        unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) as i32 }
    };
    // SAFETY: a fork.
    let by_name = || unsafe { _Fork() };
    for fork in [&by_name as &dyn Fn() -> i32, &by_number] {
        let pair = Pair::keyed(TLS_1_3, 51);
        let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let child = fork();
        if child == 0 {
            // SAFETY: numbers, and data of this length.
            let written = unsafe {
                libc::close(pair.a());
                libc::dup2(file.as_raw_fd(), pair.a());
                libc::write(pair.a(), b"plain".as_ptr().cast(), 5)
            };
            exit_with(written == 5);
        }
        assert!(has_done(child));
        let mut read = [0; 10];
        assert_eq!(rustix::io::pread(&file, &mut read, 0), Ok(5));
        assert_eq!(read[..5], *b"plain");
        send(pair.a(), b"still secret", 0).unwrap();
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"still secret");
    }
}

fn exec() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let a = pair.a();
    // SAFETY: numbers only.
    let copies = unsafe {
        [
            a,
            libc::dup(a),
            libc::dup2(a, 400),
            libc::fcntl(a, libc::F_DUPFD, 300),
        ]
    };
    for fd in copies {
        // As programs do that mean to hand a descriptor on.
        // SAFETY: numbers only.
        unsafe {
            libc::fcntl(fd, libc::F_SETFD, 0);
            libc::ioctl(fd, libc::FIONCLEX);
        }
        let file = format!("/proc/self/fd/{fd}");
        let there = std::process::Command::new("test")
            .args(["-e", &file])
            .status();
        assert_eq!(there.unwrap().code(), Some(1), "{file}");
    }
    send(a, b"still secret", 0).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"still secret");
    for fd in &copies[1..] {
        // SAFETY: ours.
        unsafe { libc::close(*fd) };
    }
}

fn keys_after_fork() {
    let pair = Pair::plain();
    ulp(pair.a()).unwrap();
    ulp(pair.b()).unwrap();
    let (go, gone) = rustix::pipe::pipe().unwrap();
    // SAFETY: the child calls functions that need no lock of another thread's, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _ = rustix::io::read(&go, &mut [0_u8; 1]);
        let sent = send(pair.a(), b"from the child", 0).is_ok();
        let got = recv(pair.b(), 14, 0).is_ok_and(|got| got == b"from the child");
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!(sent && got))) };
    }
    set(pair.a(), SOL_TLS, TLS_TX, &keys(TLS_1_3, 51, 1)).unwrap();
    set(pair.b(), SOL_TLS, TLS_RX, &keys(TLS_1_3, 51, 1)).unwrap();
    rustix::io::write(&gone, &[0]).unwrap();
    let mut status = -1;
    // SAFETY: our child, and room for its status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    send(pair.a(), b"from the parent", 0).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"from the parent");
}

fn replaced() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let a = pair.a.into_raw_fd();
    let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    // SAFETY: data of this length; the number has no other user.
    let written = unsafe {
        assert_eq!(libc::syscall(libc::SYS_close, a), 0);
        assert_eq!(
            libc::syscall(libc::SYS_dup3, file.as_raw_fd(), a, libc::O_CLOEXEC),
            i64::from(a)
        );
        libc::write(a, b"plain".as_ptr().cast(), 5)
    };
    assert_eq!(written, 5);
    let mut read = [0; 10];
    assert_eq!(rustix::io::pread(&file, &mut read, 0), Ok(5));
    assert_eq!(read[..5], *b"plain");
}

/// A connection whose peer takes nothing, filled until nothing more is accepted; how much was.
fn filled() -> (Pair, usize) {
    let pair = Pair::keyed(TLS_1_3, 51);
    let accepted = fill(&pair);
    (pair, accepted)
}

fn fill(pair: &Pair) -> usize {
    let mut accepted = 0;
    while let Ok(sent) = send(pair.a(), &[7; 100_000], libc::MSG_DONTWAIT) {
        accepted += sent;
    }
    accepted
}

fn read_all(pair: &Pair) -> usize {
    let mut got = 0;
    loop {
        match recv(pair.b(), 1 << 20, 0).unwrap().len() {
            0 => return got,
            more => got += more,
        }
    }
}

fn close_all() {
    // The library's thread has descriptors for what waits for room.
    let (pair, accepted) = filled();
    for fd in 500..2000 {
        // SAFETY: none of these numbers is ours.
        unsafe { libc::close(fd) };
    }
    // SAFETY: as above.
    let closed = unsafe { libc::close_range(500, 5000, 0) };
    assert_eq!(closed, 0);
    drop(TcpListener::bind("127.0.0.1:0"));
    let Pair { a, b } = pair;
    drop(a);
    let rest = Pair {
        a: b.try_clone().unwrap(),
        b,
    };
    assert_eq!(read_all(&rest), accepted);
}

fn shutdown() {
    let (pair, accepted) = filled();
    let begun = std::time::Instant::now();
    // SAFETY: numbers only.
    assert_eq!(unsafe { libc::shutdown(pair.a(), libc::SHUT_WR) }, 0);
    assert!(begun.elapsed() < std::time::Duration::from_secs(1));
    assert_eq!(
        errno(send(pair.a(), b"late", libc::MSG_NOSIGNAL)),
        libc::EPIPE
    );
    assert_eq!(read_all(&pair), accepted);
}

fn ended_at_once() {
    unsafe extern "C" {
        fn _Exit(status: i32) -> !;
        fn quick_exit(status: i32) -> !;
    }
    let ends: [unsafe fn(); 4] = [
        // SAFETY: each ends the process.
        || unsafe { libc::_exit(0) },
        // SAFETY: as above.
        || unsafe { _Exit(0) },
        // SAFETY: as above.
        || unsafe { quick_exit(0) },
        // SAFETY: as above.
        || unsafe {
            libc::syscall(libc::SYS_exit_group, 0);
        },
    ];
    for (which, end) in ends.into_iter().enumerate() {
        let pair = Pair::keyed(TLS_1_3, 51);
        let (go, gone) = rustix::pipe::pipe().unwrap();
        let (told, tell) = rustix::pipe::pipe().unwrap();
        // SAFETY: the child calls functions that need no lock of another thread's, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _ = rustix::io::read(&go, &mut [0_u8; 1]);
            let _ = rustix::io::write(&tell, &fill(&pair).to_ne_bytes());
            // SAFETY: ends the child.
            unsafe { end() };
        }
        // The child alone has it from here on.
        let Pair { a, b } = pair;
        drop(a);
        rustix::io::write(&gone, &[0]).unwrap();
        let mut accepted = [0; size_of::<usize>()];
        rustix::io::read(&told, &mut accepted).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let a = b.try_clone().unwrap();
        let got = read_all(&Pair { a, b });
        assert_eq!(got, usize::from_ne_bytes(accepted), "way {which}");
        assert!(has_done(child));
    }
}

fn reset_by_close() {
    let (Pair { a, b }, _) = filled();
    rustix::net::sockopt::set_socket_linger(&a, Some(std::time::Duration::ZERO)).unwrap();
    drop(a);
    let none = rustix::event::PollFlags::empty();
    let patience = rustix::time::Timespec {
        tv_sec: 30,
        tv_nsec: 0,
    };
    let mut polled = [rustix::event::PollFd::new(&b, none)];
    assert_eq!(rustix::event::poll(&mut polled, Some(&patience)), Ok(1));
}

fn restarted() {
    extern "C" fn nothing(_: i32) {}
    let pair = Pair::keyed(TLS_1_3, 51);
    // SAFETY: a handler that does nothing, and a signal to this thread.
    let this = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        libc::pthread_self()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            // SAFETY: the thread waits for this one.
            unsafe { libc::pthread_kill(this, libc::SIGUSR1) };
            std::thread::sleep(std::time::Duration::from_millis(50));
            send(pair.a(), b"at last", 0).unwrap();
        });
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"at last");
    });
}
