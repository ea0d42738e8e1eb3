//! What a library that is broken or bad gives the NIC.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use l5p::Direction;
use l5p::nvme::{Parameters, Role};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::rig::{Descriptors, TENANT, keys, on_its_way, pair};
use crate::message::REQUEST_BYTES;
use crate::{
    Admitted, Answer, BadRequest, BadSlab, ClientError, Connection, ConnectionError, DataMemory,
    Errno, Keys, Limits, PduOffload, Refusal, Registry, Request, Resolved, Shown, Slab, SlotId,
    Tenant,
};

/// A file in memory, of this size and with these seals.
fn memory(flags: MemfdFlags, size: u64, seals: SealFlags) -> OwnedFd {
    let file = rustix::fs::memfd_create("test", flags | MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, size).unwrap();
    if !seals.is_empty() {
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    }
    file
}

#[test]
fn memory_that_may_go_away_is_no_slab() {
    let (seal, both) = (
        MemfdFlags::ALLOW_SEALING,
        SealFlags::SHRINK | SealFlags::GROW,
    );
    let cases = [
        (
            memory(MemfdFlags::empty(), 8192, SealFlags::empty()),
            BadSlab::NotSealed,
        ),
        (memory(seal, 8192, SealFlags::SHRINK), BadSlab::NotSealed),
        (memory(seal, 8192, SealFlags::GROW), BadSlab::NotSealed),
        (memory(seal, 0, both), BadSlab::Size(0)),
        (memory(seal, 4096, both), BadSlab::Size(4096)),
        (memory(seal, 8193, both), BadSlab::Size(8193)),
        (
            memory(seal, 4096 * ((1 << 16) + 2), both),
            BadSlab::Size(4096 * ((1 << 16) + 2)),
        ),
        (memory(seal, 8192, both), BadSlab::Header(0)),
        (
            OwnedFd::from(File::open("/dev/null").unwrap()),
            BadSlab::NotSealed,
        ),
        (
            OwnedFd::from(UnixStream::pair().unwrap().0),
            BadSlab::NotSealed,
        ),
    ];
    for (file, reason) in cases {
        assert_eq!(Slab::open(file).unwrap_err(), reason);
    }
}

#[test]
fn memory_of_huge_pages_is_no_slab() {
    // Such a page may be missing when it is touched, which would end the process.
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::CLOEXEC;
    let Ok(file) = rustix::fs::memfd_create("test", flags) else {
        return; // a kernel without them
    };
    rustix::fs::ftruncate(&file, 2 << 20).unwrap();
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    assert_eq!(Slab::open(file).unwrap_err(), BadSlab::NotOrdinaryMemory);
}

#[test]
fn slots_that_are_not_attached_are_refused() {
    let (mut client, _nic) = pair(|order| panic!("carried out {order:?}"));
    let slot = |slab, index| SlotId {
        slab,
        index,
        generation: 1,
    };
    let refused = Err(ClientError::Refused(Errno::STALE));
    assert_eq!(client.release(slot(0, 0), 0), refused);
    client.attach(&Slab::create(2).unwrap()).unwrap();
    assert_eq!(client.release(slot(0, 2), 0), refused);
    assert_eq!(client.release(slot(0, u32::MAX), 0), refused);
    assert_eq!(client.release(slot(1, 0), 0), refused);
    assert_eq!(client.release(slot(u16::MAX, 0), 0), refused);
}

#[test]
fn slabs_beyond_the_limits_are_refused() {
    let limits = Limits {
        slots: 320,
        slabs_per_connection: 3,
        memory: 64 << 30,
        memories_per_connection: 2,
    };
    let (mut registry, mut tenant) = (Registry::new(limits, None), Tenant::default());
    let attach = |registry: &mut Registry, tenant: &mut Tenant, slab: &Slab| {
        let admitted = Admitted {
            request: Request::Attach,
            shown: Shown::Memory(slab.as_fd().try_clone_to_owned().unwrap()),
        };
        match registry.resolve(tenant, admitted)? {
            Resolved::Attached(answer) => Ok(answer.slab),
            Resolved::SlotRequest(order) => panic!("an attachment was taken for {order:?}"),
        }
    };
    let (large, small) = (Slab::create(128).unwrap(), Slab::create(3).unwrap());
    assert_eq!(attach(&mut registry, &mut tenant, &large), Ok(0));
    let refused = attach(&mut registry, &mut tenant, &small);
    assert_eq!(refused, Err(Refusal::TooMany), "more slots");
    assert_eq!(attach(&mut registry, &mut tenant, &large), Ok(1));
    assert_eq!(attach(&mut registry, &mut tenant, &large), Ok(2));
    let refused = attach(&mut registry, &mut tenant, &large);
    assert_eq!(refused, Err(Refusal::TooMany), "more slabs");
    drop(tenant);
    let mut other = Tenant::default();
    assert_eq!(
        attach(&mut registry, &mut other, &small),
        Ok(0),
        "those of a connection that has gone count no more"
    );
}

#[test]
fn memory_for_data_keeps_its_size_and_there_is_only_so_much_of_it() {
    let memfd = |bytes, seals| memory(MemfdFlags::ALLOW_SEALING, bytes, seals);
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    let bad = |file: OwnedFd| DataMemory::open(file).unwrap_err();
    assert_eq!(bad(memfd(4096, SealFlags::GROW)), BadSlab::NotSealed);
    for bytes in [0, 4095, (64 << 30) + 4096] {
        assert_eq!(bad(memfd(bytes, sealed)), BadSlab::MemorySize(bytes));
    }
    assert_eq!(DataMemory::create(5000).unwrap().len(), 8192);

    let (mut client, _nic) = pair(|order| panic!("carried out {order:?}"));
    let memory = DataMemory::create(4096).unwrap();
    for number in 0..Limits::default().memories_per_connection {
        assert_eq!(client.add_memory(&memory), Ok(number));
    }
    let refused = Err(ClientError::Refused(Errno::NOSPC));
    assert_eq!(client.add_memory(&memory), refused);
    client.attach(&Slab::create(1).unwrap()).unwrap();
    let slot = SlotId {
        slab: 0,
        index: 0,
        generation: 1,
    };
    let pdus = PduOffload {
        slot,
        number: 0,
        memory: 99,
        parameters: parameters(true),
    };
    let refused = Err(ClientError::Refused(Errno::STALE));
    assert_eq!(client.start_pdus(pdus, memory.as_fd()), refused);
}

#[test]
fn a_request_without_its_descriptor_is_refused() {
    let (library, mut connection) = connection();
    for request in [Request::Attach, set_keys()] {
        (&library).write_all(&request.to_bytes()).unwrap();
        let incoming = connection.poll_request().unwrap().unwrap();
        let answer = incoming.answer(TENANT, &mut Descriptors, |_| panic!("it was admitted"));
        assert_eq!(answer.result, Err(Errno::BADF));
    }
}

#[test]
fn more_descriptors_than_one_end_the_connection() {
    let file = File::open("/dev/null").unwrap();
    let bytes = set_keys().to_bytes();
    for batches in [&[2][..], &[1, 1], &[9]] {
        let (library, mut connection) = connection();
        let mut sent = 0;
        for (at, descriptors) in batches.iter().enumerate() {
            let end = bytes.len() * (at + 1) / batches.len();
            send_with(
                &library,
                &bytes[sent..end],
                &vec![file.as_fd(); *descriptors],
            );
            sent = end;
        }
        let error = loop {
            match connection.poll_request() {
                Ok(None) => {}
                Ok(Some(_)) => panic!("{batches:?} was taken as a request"),
                Err(error) => break error,
            }
        };
        assert_eq!(error, ConnectionError::Descriptors);
    }
}

#[test]
fn a_library_that_reads_no_answers_is_given_up() {
    let (_library, mut connection) = connection();
    let error = (0..1 << 20).find_map(|_| connection.answer(Answer::refused(Errno::INVAL)).err());
    assert_eq!(error, Some(ConnectionError::Unread));
}

#[test]
fn other_versions_and_kinds_end_the_connection() {
    let right = set_keys().to_bytes();
    for (at, value, reason) in [
        (0, 1, BadRequest::Version(1)),
        (2, 8, BadRequest::Kind(8)),
        (6, 2, BadRequest::Direction(2)),
    ] {
        let (library, mut connection) = connection();
        let mut bytes = right;
        bytes[at] = value;
        (&library).write_all(&bytes).unwrap();
        assert_eq!(
            connection.poll_request().unwrap_err(),
            ConnectionError::BadRequest(reason)
        );
    }
}

proptest! {
    /// Any bytes, in any pieces, are requests or an error, and a request is what its bytes say.
    #[test]
    fn any_bytes_are_taken(
        bytes in prop::collection::vec(any::<u8>(), REQUEST_BYTES * 2),
        like_a_request in any::<bool>(),
        pieces in prop::collection::vec(1usize..200, 0..8),
    ) {
        let mut bytes = bytes;
        if like_a_request {
            bytes[..REQUEST_BYTES].copy_from_slice(&set_keys().to_bytes());
            bytes[REQUEST_BYTES..REQUEST_BYTES + 2].copy_from_slice(&1u16.to_le_bytes());
            bytes[REQUEST_BYTES + 2] %= 9;
            bytes[REQUEST_BYTES + 3] = 0;
        }
        let (library, mut connection) = connection();
        let (mut registry, mut tenant) = (Registry::default(), Tenant::default());
        let mut rest = &bytes[..];
        let mut ends = pieces.iter().copied().chain([usize::MAX]);
        let mut taken = 0;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(ends.next().unwrap()));
            let _ = (&library).write_all(now);
            rest = later;
            match connection.poll_request() {
                Ok(Some(incoming)) => {
                    taken += 1;
                    incoming.answer(TENANT, &mut Descriptors, |admitted| {
                        let order = |_| Answer::at(wire::SeqNum(0));
                        registry.answer(&mut tenant, on_its_way(admitted), order)
                    });
                }
                Ok(None) => {}
                Err(_) => return Ok(()),
            }
        }
        prop_assert!(taken <= 2);
    }

    /// What was written is what is read.
    #[test]
    fn requests_survive_the_wire(slab: u16, index: u32, generation: u32, receive: bool, resume: Option<(u32, u64)>, sequence: u64) {
        let slot = SlotId { slab, index, generation };
        let direction = if receive { Direction::Receive } else { Direction::Transmit };
        let resume = resume.map(|(tcpsn, index)| crate::Resume { tcpsn: wire::SeqNum(tcpsn), index, read: None });
        let mut info = keys();
        info.sequence = sequence;
        for request in [
            Request::Attach,
            Request::SetKeys(Keys { slot, direction, number: generation, info: info.clone(), resume }),
            Request::Stop { slot, direction, number: index },
            Request::Release { slot, cookie: sequence },
            Request::Memory,
            Request::Pdus(PduOffload { slot, number: index, memory: slab, parameters: parameters(receive) }),
            Request::Settle { slot },
        ] {
            prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
        }
    }
}

fn parameters(header_digest: bool) -> Parameters {
    Parameters {
        sender: Role::Controller,
        header_digest,
        data_digest: true,
        alignment: 3,
        max_pdu: 1 << 20,
        commands: 128,
    }
}

fn set_keys() -> Request {
    let slot = SlotId {
        slab: 0,
        index: 0,
        generation: 1,
    };
    Request::SetKeys(Keys {
        slot,
        direction: Direction::Transmit,
        number: 0,
        info: keys(),
        resume: None,
    })
}

fn connection() -> (UnixStream, Connection) {
    let (library, nic) = UnixStream::pair().unwrap();
    (library, Connection::new(OwnedFd::from(nic)))
}

fn send_with(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
    let sent = sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::empty(),
    );
    assert_eq!(sent, Ok(bytes.len()));
}
