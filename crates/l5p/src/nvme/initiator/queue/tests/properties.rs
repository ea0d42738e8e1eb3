//! Any commands, answered in any legal order, move all their data once; anything else is refused and never panics.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wire::nvme::TermReq;

use super::*;

#[derive(Clone, Debug)]
struct Wish {
    write: bool,
    blocks: u32,
    /// Where its data is cut, as shares of 256.
    cuts: Vec<u8>,
    /// The last data completes a read.
    success: bool,
}

fn wish() -> impl Strategy<Value = Wish> {
    let cuts = prop::collection::vec(any::<u8>(), 0..6);
    (any::<bool>(), 1u32..200, cuts, any::<bool>()).prop_map(|(write, blocks, cuts, success)| {
        Wish {
            write,
            blocks,
            cuts,
            success,
        }
    })
}

/// The pieces that the cuts make of `len` bytes.
fn pieces(len: u32, cuts: &[u8]) -> Vec<(u32, u32)> {
    let mut at: Vec<u32> = cuts.iter().map(|cut| len * u32::from(*cut) / 256).collect();
    at.extend([0, len]);
    at.sort_unstable();
    at.dedup();
    at.windows(2)
        .map(|pair| (pair[0], pair[1] - pair[0]))
        .collect()
}

/// What a controller has yet to do for a command.
struct Work {
    cid: u16,
    len: u32,
    wish: Wish,
    /// Parts of its data to give or to ask for.
    left: Vec<(u32, u32)>,
    /// Bytes of a write that came.
    came: u32,
    open: u32,
}

proptest! {
    #[test]
    fn all_data_moves_once(wishes in prop::collection::vec(wish(), 1..40), choices in prop::collection::vec(any::<u16>(), 1..400)) {
        let mut queue = live();
        let mut works: Vec<Work> = Vec::new();
        let mut moved: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
        let mut wishes = wishes.into_iter().enumerate();
        let mut completed = 0;
        let mut choices = choices.into_iter().cycle();
        let count = wishes.len();
        while completed < count {
            while queue.has_room() {
                let Some((n, wish)) = wishes.next() else { break };
                let len = wish.blocks * 512;
                let range = blocks(len);
                let (io, transfer) = match wish.write {
                    true => (Io::Write { blocks: range, fua: false }, Transfer::ToController(len)),
                    false => (Io::Read { blocks: range, fua: false }, Transfer::ToHost(len)),
                };
                prop_assert!(queue.submit(io.entry(0, 1), transfer, token(n as u32)));
                moved.insert(n as u32, vec![false; len as usize]);
                let cuts = wish.cuts.clone();
                let cid = n as u16;
                works.push(Work { cid, len, wish, left: pieces(len, &cuts), came: 0, open: 0 });
            }
            while let Some(outgoing) = queue.poll_pdu() {
                let mut map = |token: CommandId, offset: u32, len: u32| {
                    let range = offset as usize..(offset + len) as usize;
                    let map = &mut moved.get_mut(&(token.index() as u32)).unwrap()[range];
                    assert!(!map.contains(&true));
                    map.fill(true);
                };
                if let Payload::Command { token, offset, len } = outgoing.payload {
                    map(token, offset, len);
                }
                match outgoing.pdu {
                    Pdu::CapsuleCmd(capsule) => {
                        let begins = outgoing.begins.unwrap();
                        let work = works.iter_mut().find(|work| usize::from(work.cid) == begins.token.index());
                        let work = work.unwrap();
                        work.cid = begins.cid | 0x8000;
                        if capsule.data_len > 0 {
                            work.left.clear();
                            work.came = work.len;
                        }
                    }
                    Pdu::H2CData(data) => {
                        let work = works.iter_mut().find(|work| work.cid == data.cccid | 0x8000);
                        let work = work.unwrap();
                        work.came += data.data_len;
                        work.open -= u32::from(data.last);
                    }
                    _ => prop_assert!(false, "not expected now"),
                }
            }
            let choice = usize::from(choices.next().unwrap());
            let at = choice % works.len();
            let work = &mut works[at];
            let cid = work.cid & 0x7fff;
            let mut done = false;
            if work.left.is_empty() {
                if work.came == work.len || !work.wish.write {
                    take(&mut queue, response(cid, Status::SUCCESS, 0)).unwrap();
                    done = true;
                }
            } else if work.wish.write && work.open < 2 {
                let (offset, len) = work.left.swap_remove(choice / 7 % work.left.len());
                take(&mut queue, r2t(cid, choice as u16, offset, len)).unwrap();
                work.open += 1;
            } else if !work.wish.write {
                let (offset, len) = work.left.swap_remove(choice / 7 % work.left.len());
                let last = work.left.is_empty();
                done = last && work.wish.success;
                let incoming = take(&mut queue, data(cid, offset, len, last, done)).unwrap();
                let Incoming::Data { token, offset, len, .. } = incoming else {
                    panic!("it is data");
                };
                let map = moved.get_mut(&(token.index() as u32)).unwrap();
                map[offset as usize..(offset + len) as usize].fill(true);
            }
            if done {
                works.swap_remove(at);
                let ended = ended(&mut queue);
                prop_assert_eq!(ended.status, Status::SUCCESS);
                let n = ended.token.index() as u32;
                prop_assert!(moved[&n].iter().all(|byte| *byte));
                completed += 1;
            }
        }
        prop_assert_eq!(queue.in_flight(), 0);
    }

    #[test]
    fn a_random_controller_never_breaks_it(pdus in prop::collection::vec(any_pdu(), 0..200)) {
        let mut queue = live();
        for n in 0..8 {
            match n % 2 {
                0 => { read(&mut queue, 16384, n); }
                _ => { write(&mut queue, 16384, n); }
            }
        }
        let mut alive = 8;
        for pdu in pdus {
            match queue.handle_header(&pdu) {
                Ok(Incoming::Data { offset, len, .. }) => prop_assert!(offset + len <= 16384),
                Ok(_) => {}
                Err(_) => break,
            }
            queue.handle_end(true);
            while queue.poll_pdu().is_some() {}
            while let Some(event) = queue.poll_event() {
                alive -= usize::from(matches!(event, QueueEvent::Ended(_)));
            }
            prop_assert_eq!(queue.in_flight(), alive);
        }
        queue.close(Status::HOST_PATHING_ERROR);
        while let Some(event) = queue.poll_event() {
            alive -= usize::from(matches!(event, QueueEvent::Ended(_)));
        }
        prop_assert_eq!(alive, 0);
    }
}

fn any_pdu() -> impl Strategy<Value = Pdu> {
    let offset = prop_oneof![
        (0u32..5).prop_map(|n| n * 4096),
        0u32..20000,
        0u32..u32::MAX / 2
    ];
    let len = prop_oneof![Just(4096u32), 1u32..20000];
    let fields = (0u16..10, offset, len, any::<u16>(), any::<(bool, bool)>());
    (fields, 0..12).prop_map(
        |((cid, offset, len, tag, (last, success)), which)| match which {
            0..5 => data(cid, offset, len, last, last && success),
            5..9 => r2t(cid, tag, offset, len),
            9 => response(cid, Status::SUCCESS, 0),
            10 => response(cid, Status::from_bits(tag), u64::from(offset)),
            _ => Pdu::C2HTermReq(TermReq {
                error: FatalError::field(offset),
                data_len: 0,
            }),
        },
    )
}
