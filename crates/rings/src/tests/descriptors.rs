//! Hosts that pass what is slow to close, or too much of it; all the while the data thread [turns](Rig::turn).

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use attachment::passing;
use nic::ring::RegionId;
use rustix::fs::{OFlags, SealFlags};
use rustix::io::{Errno, ReadWriteFlags, preadv2, write};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, sendmsg, shutdown,
};

use super::rig::{Raw, Rig, config, memfd, rings};
use crate::message::{Answer, Extent, Refusal, Request};
use crate::threads::MOST_THREADS;

/// A socket that takes 20 s to close, as long as the other one is there and does not read.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    set_socket_linger(&socket, Some(Duration::from_secs(20))).unwrap();
    socket.set_nonblocking(true).unwrap();
    let full = loop {
        if let Err(error) = std::io::Write::write(&mut &socket, &[0; 65_536]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    (socket.into(), peer)
}

/// Sends a request with a descriptor that is closed here when the request is whole: the receiver has the last one.
fn pass_the_last(host: &Raw, request: &Request, descriptor: OwnedFd) {
    let bytes = request.to_bytes();
    let (head, tail) = bytes.split_at(1);
    host.send(head, Some(descriptor.as_fd()));
    drop(descriptor);
    host.send(tail, None);
}

fn register(id: u16) -> Request {
    Request::Register(Extent {
        id: RegionId(id),
        offset: 0,
        len: 4096,
        writable: true,
    })
}

/// Whether other hosts are served, and how the data thread fares meanwhile.
fn serves_others(rig: &mut Rig, other: &Raw) {
    let start = Instant::now();
    let file = memfd(4096, SealFlags::SHRINK);
    while start.elapsed() < Duration::from_millis(500) {
        let answer = rig.ask(other, &register(7), Some(file.as_fd()));
        assert_eq!(answer, Some(Answer::Registered));
    }
}

#[test]
fn a_bell_takes_no_descriptor() {
    let mut rig = Rig::new();
    let host = rig.host();
    let file = File::open("/dev/zero").unwrap();
    let errors = [Errno::PIPE, Errno::NOTSOCK];
    for (bell, error) in host.bells.iter().zip(errors) {
        let flags = SendFlags::DONTWAIT;
        let sent = passing::send(bell.as_fd(), &[1], Some(file.as_fd()), flags);
        assert_eq!(sent, Err(error));
    }
    rig.leave(host);
}

#[test]
fn a_bell_whose_flags_a_host_changes_holds_up_nothing() {
    let mut rig = Rig::new();
    let host = rig.host();
    rustix::fs::fcntl_setfl(&host.bells[1], OFlags::empty()).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        // The host's thread finds nothing where it was woken for something.
        write(&host.bells[1], &1u64.to_ne_bytes()).unwrap();
        let mut count = [0; 8];
        let mut into = [IoSliceMut::new(&mut count)];
        let _ = preadv2(&host.bells[1], &mut into, u64::MAX, ReadWriteFlags::NOWAIT);
        rig.turn();
    }
    let answer = rig.ask(&host, &Request::Unfinished, None);
    assert_eq!(answer, Some(Answer::Unfinished(0)));
    rig.leave(host);
}

#[test]
fn a_descriptor_that_is_slow_to_close_holds_up_its_own_host_only() {
    let mut rig = Rig::new();
    let host = rig.host();
    let other = rig.host_of_another_socket();
    let (socket, peer) = lingering();
    pass_the_last(&host, &Request::Unfinished, socket);
    serves_others(&mut rig, &other);
    // Its own connection waits; it goes on when the descriptor is closed.
    serves_others(&mut rig, &other);
    assert_eq!(host.answer(&Request::Unfinished), None);
    drop(peer);
    let answer = rig.until(|_| host.answer(&Request::Unfinished));
    assert_eq!(answer, Some(Answer::Unfinished(0)));
    rig.leave(host);
}

#[test]
fn descriptors_on_the_way_are_closed_off_the_data_thread_when_their_host_goes() {
    let mut rig = Rig::new();
    let other = rig.host_of_another_socket();
    let host = rig.host();
    let ((first, first_peer), (second, second_peer)) = (lingering(), lingering());
    for descriptor in [first, second] {
        host.send(&[0; 1], Some(descriptor.as_fd()));
    }
    drop(host);
    serves_others(&mut rig, &other);
    drop((first_peer, second_peer));
    rig.until(|rig| rig.server.function().is_none().then_some(()));
    rig.host();
}

#[test]
fn what_is_refused_is_closed_off_the_data_thread() {
    let mut rig = Rig::new();
    let other = rig.host_of_another_socket();
    let host = rig.host();
    for request in [register(1), Request::Unregister(RegionId(1))] {
        let (socket, peer) = lingering();
        pass_the_last(&host, &request, socket);
        serves_others(&mut rig, &other);
        drop(peer);
        if let Request::Register(_) = request {
            let answer = rig.until(|_| host.answer(&request));
            assert_eq!(answer, Some(Answer::Refused(Refusal::BadMemory)));
        }
    }
}

#[test]
fn more_descriptors_than_requests_end_the_connection_and_take_up_none() {
    let mut rig = Rig::new();
    for count in [2, 3, 253] {
        let host = rig.host();
        let file = File::open("/dev/zero").unwrap();
        let descriptors = vec![file.as_fd(); count];
        let mut space = vec![std::mem::MaybeUninit::uninit(); 2048];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let bytes = register(1).to_bytes();
        let bytes = [std::io::IoSlice::new(&bytes)];
        sendmsg(&host.socket, &bytes, &mut ancillary, SendFlags::DONTWAIT).unwrap();
        assert_eq!(rig.until(|_| host.answer(&register(1))), None, "{count}");
        rig.leave(host);
    }
}

#[test]
fn messages_may_come_in_pieces_and_end_in_the_middle() {
    let mut rig = Rig::new();
    let raw = rig.dial();
    let (request, file) = (Request::SetUp(config()), rings());
    for (at, piece) in request.to_bytes().chunks(7).enumerate() {
        raw.send(piece, (at == 3).then_some(file.as_fd()));
        rig.turn();
    }
    let answer = rig.until(|_| raw.answer(&request));
    assert!(matches!(answer, Some(Answer::SetUp { .. })));
    let memory = memfd(4096, SealFlags::SHRINK);
    raw.send(&register(0).to_bytes()[..100], Some(memory.as_fd()));
    rig.turn();
    rig.leave(raw);
    // Another one says nothing more, and can be spoken to.
    let raw = rig.dial();
    raw.send(&request.to_bytes(), Some(file.as_fd()));
    shutdown(&raw.socket, Shutdown::Write).unwrap();
    rig.until(|_| raw.answer(&request));
    rig.until(|rig| rig.server.function().is_none().then_some(()));
}

#[test]
fn those_that_say_nothing_are_few_and_make_room() {
    let mut rig = Rig::new();
    let first = rig.host();
    let silent: Vec<Raw> = (0..200).map(|_| rig.dial()).collect();
    // Half a request is no more than nothing.
    silent.iter().for_each(|raw| raw.send(&[1; 100], None));
    let is_there = |raw: &&Raw| raw.answer(&Request::Unfinished).is_none();
    rig.until(|_| {
        let count = silent.iter().filter(is_there).count();
        (count < MOST_THREADS).then_some(())
    });
    let answer = rig.ask(&first, &Request::Unfinished, None);
    assert_eq!(answer, Some(Answer::Unfinished(0)), "the host stays");
    rig.leave(first);
    rig.host();
}
