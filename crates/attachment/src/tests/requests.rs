//! What the library asks for reaches the NIC as it was asked, and so does the answer.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use l5p::Direction;
use wire::SeqNum;

use super::rig::{Descriptors, TENANT, keys, pair};
use crate::{
    Answer, ClientError, ConnectionError, Errno, Examine, Keys, Lifecycle, OffloadState, Resume,
    SharedSlab, Slab, SlotId, SlotRequest,
};

fn number(attached: Result<SharedSlab, ClientError>) -> Result<u16, ClientError> {
    attached.map(|shared| shared.number)
}

#[test]
fn keys_come_with_their_socket_and_are_answered_with_a_position() {
    let (told, orders) = mpsc::channel();
    let (mut client, nic) = pair(move |order| {
        if let SlotRequest::SetKeys { slot, .. } = &order {
            let (generation, state) = (slot.generation(), OffloadState::Offloaded);
            slot.slot()
                .set_status(Direction::Transmit, generation, state);
        }
        told.send(order).unwrap();
        Answer::at(SeqNum(0xffff_fff0))
    });
    let slab = Slab::create(4).unwrap();
    assert_eq!(number(client.attach(&slab)), Ok(0));
    let (index, generation) = slab.claim().unwrap();
    let slot = SlotId {
        slab: 0,
        index,
        generation,
    };
    let resume = Some(Resume {
        tcpsn: SeqNum(5),
        index: 1 << 40,
        read: Some(SeqNum(8)),
    });
    let (socket, _peer) = UnixStream::pair().unwrap();
    let request = Keys {
        slot,
        direction: Direction::Transmit,
        number: slab.slot(index).unwrap().next_request(Direction::Transmit),
        info: keys(),
        resume,
    };
    let position = client.set_keys(request.clone(), socket.as_fd());
    assert_eq!(position, Ok(SeqNum(0xffff_fff0)));
    // Had it come only now, and had the library given it up before, it would not be done.
    slab.slot(index).unwrap().next_request(Direction::Transmit);
    let late = client.set_keys(request, socket.as_fd());
    assert_eq!(late, Err(ClientError::Refused(Errno::STALE)));
    let SlotRequest::SetKeys {
        slot: named,
        direction: Direction::Transmit,
        info,
        resume: told,
        socket: facts,
    } = orders.recv().unwrap()
    else {
        panic!("another order than that for keys")
    };
    assert_eq!((info, told), (keys(), resume));
    assert_eq!((named.place().1, named.generation()), (index, generation));
    let asked = Descriptors.examine(socket.as_fd(), TENANT);
    assert_eq!(Ok(facts), asked);
    let here = slab.slot(index).unwrap();
    assert_eq!(
        here.status(Direction::Transmit, generation),
        OffloadState::Offloaded
    );

    assert_eq!(client.release(slot, 77), Ok(()));
    assert!(
        matches!(orders.recv().unwrap(), SlotRequest::Release { slot, cookie: 77, .. } if slot == named)
    );
    drop(client);
    assert_eq!(nic.join().unwrap(), ConnectionError::Closed);
}

/// A process that has closed the socket may have had its slot freed; another process goes on with the socket.
#[test]
fn keys_take_a_slot_back_unless_it_has_had_another_use() {
    let (mut client, _nic) = pair(|_| Answer::at(SeqNum(0)));
    let slab = Slab::create(1).unwrap();
    client.attach(&slab).unwrap();
    let (index, generation) = slab.claim().unwrap();
    let here = slab.slot(index).unwrap();
    let (socket, _peer) = UnixStream::pair().unwrap();
    let mut set_keys = || {
        let request = Keys {
            slot: SlotId {
                slab: 0,
                index,
                generation,
            },
            direction: Direction::Transmit,
            number: here.next_request(Direction::Transmit),
            info: keys(),
            resume: None,
        };
        client.set_keys(request, socket.as_fd())
    };
    here.free(generation);
    assert_eq!(set_keys(), Ok(SeqNum(0)));
    assert_eq!(here.lifecycle(), Lifecycle::InUse { generation });
    here.free(generation);
    slab.claim().unwrap();
    assert_eq!(set_keys(), Err(ClientError::Refused(Errno::STALE)));
}

#[test]
fn the_same_slab_is_one_on_every_connection() {
    let slab = Slab::create(1).unwrap();
    let (_, generation) = slab.claim().unwrap();
    let mut places = Vec::new();
    for _ in 0..2 {
        let (told, orders) = mpsc::channel();
        let (mut client, nic) = pair(move |order| {
            told.send(order).unwrap();
            Answer::at(SeqNum(0))
        });
        assert_eq!(number(client.attach(&slab)), Ok(0));
        assert_eq!(number(client.attach(&slab)), Ok(1), "attached twice");
        for number in 0..2 {
            let slot = SlotId {
                slab: number,
                index: 0,
                generation,
            };
            client.release(slot, 0).unwrap();
            let Ok(SlotRequest::Release { slot, .. }) = orders.recv() else {
                panic!("another order")
            };
            places.push(slot.place());
        }
        drop(client);
        nic.join().unwrap();
    }
    assert!(places.iter().all(|place| *place == places[0]));
}

#[test]
fn a_refusal_is_told_from_a_nic_that_has_gone() {
    let (mut client, _nic) = pair(|_| Answer::refused(Errno::NODEV));
    let slab = Slab::create(1).unwrap();
    client.attach(&slab).unwrap();
    let (socket, _peer) = UnixStream::pair().unwrap();
    let slot = SlotId {
        slab: 0,
        index: 0,
        generation: 1,
    };
    let stopped = client.stop(slot, 0, Direction::Receive, socket.as_fd());
    assert_eq!(stopped, Err(ClientError::Refused(Errno::NODEV)));

    let (mut client, nic) = pair(|_| panic!("the NIC dies"));
    client.attach(&slab).unwrap();
    assert!(matches!(client.release(slot, 0), Err(ClientError::Gone(_))));
    assert!(nic.join().is_err());
}
