//! The other host: OpenSSL, which knows nothing of kernel sockets or NICs.

use std::io::{BufRead, ErrorKind, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::case::{Case, Random};
use crate::openssl::{Connection, Done, OpenSsl};
use crate::rig::{self, INTERFACE, PEER, PORT, TIMEOUT, WATCHED};
use crate::stream::Stream;
use crate::watch;

pub fn main() -> ExitCode {
    // SAFETY: this process has one thread.
    let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(moved, 0, "a namespace");
    println!("ready");
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .expect("the interface is here");
    for arguments in [
        "link set lo up".to_owned(),
        format!("addr add {PEER}/24 dev {INTERFACE}"),
        format!("link set {INTERFACE} up"),
    ] {
        let done = Command::new("ip").args(arguments.split(' ')).status();
        assert!(done.is_ok_and(|status| status.success()), "ip {arguments}");
    }
    let seen = watch::watch(INTERFACE).expect("a packet socket");
    let listener = TcpListener::bind((PEER, PORT)).expect("an address of ours");
    println!("listens");
    let library = OpenSsl::load().expect("OpenSSL, which was there before");
    let (mut failed, mut report) = (false, Vec::new());
    for case in rig::cases() {
        let (socket, _) = listener.accept().expect("the program");
        if let Err(error) = converse(&library, &case, &socket) {
            failed = true;
            // At once: it may be why the program fails.
            eprintln!("# the peer, {case}: {error}");
        }
    }
    let (frames, shown) = (seen.frames.load(SeqCst), seen.shown.load(SeqCst));
    report.push(format!(
        "# {frames} frames on the wire, {shown} of them with bytes that were sent"
    ));
    failed |= shown > 0;
    // Bytes in clear, to see that they would be found.
    let datagrams = UdpSocket::bind((PEER, PORT)).expect("an address of ours");
    let end = Instant::now() + TIMEOUT;
    while seen.shown.load(SeqCst) == shown && Instant::now() < end {
        let bytes = Stream { which: 3 }.bytes(5, 100);
        let _ = datagrams.send_to(&bytes, (rig::PROGRAM, PORT));
        std::thread::sleep(Duration::from_millis(20));
    }
    if seen.shown.load(SeqCst) == shown {
        failed = true;
        report.push("# bytes in clear were not found on the wire".to_owned());
    }
    println!("{WATCHED}");
    // Until the NIC has ended.
    let _ = std::io::stdin().lock().read_line(&mut line);
    println!("{}", report.join("\n"));
    ExitCode::from(u8::from(failed))
}

fn converse(library: &OpenSsl, case: &Case, socket: &TcpStream) -> Result<(), String> {
    socket.set_nonblocking(true).expect("a socket");
    let directory = rig::directory();
    let files = (directory.join("leaf.pem"), directory.join("leaf.key"));
    let files: (&Path, &Path) = (&files.0, &files.1);
    let mut connection = Connection::new(library, case, files, socket.as_raw_fd())?;
    let end = Instant::now() + TIMEOUT;
    while !connection.handshake()? {
        rig::wait(socket, true, end)?;
    }
    let mut random = Random::new(case.seed ^ 0xbeef);
    let (ours, theirs) = (rig::from_peer(case), rig::from_program(case));
    let (mut sent, mut blocked, mut got) = (0, 0, 0);
    let (mut closed, mut ended) = (false, false);
    let mut room = vec![0; 300_000];
    while !(closed && ended) {
        let mut moved = false;
        if sent < case.bytes.1 {
            let len = match blocked {
                0 => random.size(case.bytes.1 - sent),
                len => len,
            };
            match connection.write(&ours.bytes(sent, len))? {
                Done::Bytes(bytes) => {
                    (sent, blocked, moved) = (sent + bytes, 0, true);
                    if case.updates_keys && sent < case.bytes.1 && random.once_in(8) {
                        connection.update_keys(random.once_in(2))?;
                    }
                }
                _ => blocked = len,
            }
        } else if !closed && (got == case.bytes.0 || !case.updates_keys) {
            // With all received it has nothing more to answer, for which the program may be gone.
            closed = connection.close()?;
        }
        // A request for new keys that is read now would be answered at once, and OpenSSL takes that for the write that waits for room.
        let waits = blocked > 0;
        if !ended && !waits {
            let len = random.size(room.len());
            let read = match connection.read(&mut room[..len]) {
                // OpenSSL answers a request for new keys also when all has been said, and the program may have left.
                Err(_) if closed && got == case.bytes.0 => Done::End,
                other => other?,
            };
            match read {
                Done::Bytes(bytes) => {
                    theirs.check(got, &room[..bytes])?;
                    got += bytes;
                    moved = true;
                }
                Done::Blocked => {}
                Done::End => ended = true,
            }
        }
        if !(moved || closed && ended) {
            rig::wait(socket, waits, end).map_err(|error| {
                format!("{error}: sent {sent}, received {got}, {closed}, {ended}")
            })?;
        }
    }
    drain(socket, end)?;
    match got == case.bytes.0 {
        true => Ok(()),
        false => Err(format!("the stream has ended at {got}")),
    }
}

/// Reads what OpenSSL has left, up to the end: closing a socket with something unread resets the connection, and what the program has not got is
/// lost.
fn drain(mut socket: &TcpStream, end: Instant) -> Result<(), String> {
    let mut left = [0; 4096];
    loop {
        match socket.read(&mut left) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let waited = rig::wait(socket, false, end);
                waited.map_err(|error| format!("{error}: the program does not end"))?;
            }
            // The program has left.
            Err(_) => return Ok(()),
        }
    }
}
