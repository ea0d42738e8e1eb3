//! A NIC that does not answer a host, or not yet, and may have its function all the same.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;

use nic::ring::{HostFunction, Region, RegionId, RegisterError};
use rustix::event::{EventfdFlags, eventfd};

use super::rig::{MAC, config, path};
use crate::connection::Connection;
use crate::message::{Answer, Request};
use crate::{Client, Identity, Refusal};

/// A host that was taken in: its socket, the NIC's end of its bell, and what it has registered.
type Host = (OwnedFd, UnixStream, Vec<RegionId>);

/// Answers the next host until it has a function and so many regions.
fn take_in(listener: &UnixListener, regions: usize) -> Host {
    let socket = OwnedFd::from(listener.accept().unwrap().0);
    let mut connection = Connection::new(&socket);
    agree(&mut connection);
    let (bell, theirs) = UnixStream::pair().unwrap();
    let nics = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let (mac, mtu) = (MAC, 1500);
    let bells = [theirs.as_fd(), nics.as_fd()];
    connection
        .answer(Answer::SetUp { mac, mtu }, &bells)
        .unwrap();
    let registered = (0..regions).map(|_| {
        let request = connection.next().unwrap().request();
        connection.answer(Answer::Registered, &[]).unwrap();
        match request {
            Ok(Request::Register(extent)) => extent.id,
            other => panic!("{other:?}"),
        }
    });
    let registered = registered.collect();
    (socket, bell, registered)
}

fn refuse(listener: &UnixListener, refusal: Refusal) {
    let socket = OwnedFd::from(listener.accept().unwrap().0);
    let mut connection = Connection::new(&socket);
    agree(&mut connection);
    connection.answer(Answer::Refused(refusal), &[]).unwrap();
}

/// Answers a host until it asks for a function.
fn agree(connection: &mut Connection<'_>) {
    loop {
        let answer = match connection.next().unwrap().request() {
            Ok(Request::Identify(at)) => Identity::default().answer(at),
            Ok(Request::Features(_)) => Answer::Agreed,
            Ok(Request::SetUp(_)) => return,
            other => panic!("{other:?}"),
        };
        connection.answer(answer, &[]).unwrap();
    }
}

fn memory(function: &HostFunction) -> Arc<Region> {
    Arc::new(function.regions.allocate(4096).unwrap())
}

/// The NIC would find there what the id stood for before.
#[test]
fn an_id_is_used_again_only_when_the_nic_has_heard_that_it_is_free() {
    for hangs_up in [true, false] {
        let path = path();
        let listener = UnixListener::bind(&path).unwrap();
        let nic = thread::spawn(move || {
            let host = take_in(&listener, 1);
            (listener, host)
        });
        let (mut client, function) = Client::connect(&path, config()).unwrap();
        let first = function.register(memory(&function)).unwrap();
        let (listener, (socket, bell, _)) = nic.join().unwrap();
        // The NIC's process has the function whether its gate has gone, or does not answer.
        let socket = (!hangs_up).then_some(socket);
        function.regions.unregister(first);
        for _ in 0..2 {
            let refused = function.register(memory(&function));
            assert!(matches!(refused, Err(RegisterError::NotShared(_))));
        }
        assert!(client.answer(), "the function is there");

        drop((socket, bell));
        assert!(!client.answer());
        let waits = function.register(memory(&function));
        assert_eq!(waits, Ok(first), "there is no NIC that knows the id");
        let nic = thread::spawn(move || take_in(&listener, 1));
        assert!(client.reconnect(|| ()).unwrap());
        let (_socket, _bell, registered) = nic.join().unwrap();
        assert_eq!(registered, [first]);
        std::fs::remove_file(path).unwrap();
    }
}

/// It has not let go of what it had of this host when it stood still.
#[test]
fn a_nic_that_has_no_room_yet_is_asked_again() {
    let path = path();
    let listener = UnixListener::bind(&path).unwrap();
    let nic = thread::spawn(move || {
        drop(take_in(&listener, 0));
        for refusal in [Refusal::Busy, Refusal::NotEmpty, Refusal::NoRoom] {
            refuse(&listener, refusal);
        }
        take_in(&listener, 0)
    });
    let (mut client, _function) = Client::connect(&path, config()).unwrap();
    while client.answer() {
        thread::yield_now();
    }
    for _ in 0..3 {
        assert!(!client.reconnect(|| ()).unwrap());
        assert!(!client.is_connected());
    }
    assert!(client.reconnect(|| ()).unwrap());
    let _host = nic.join().unwrap();
    std::fs::remove_file(path).unwrap();
}
