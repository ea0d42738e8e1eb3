//! What a NIC has made of received bytes.

use std::io::Write;
use std::os::fd::AsFd;

use attachment::results::{Results, Writer};
use kernel_tls::TLS_RX;
use l5p::crypto::Cipher;
use l5p::tls::CryptoInfo;

use crate::end::{connect_unread, info, keys};
use crate::nic;

/// The cipher in the middle of the first record under these keys.
fn cipher(info: &CryptoInfo, header: &[u8]) -> Cipher {
    let mut cipher = Cipher::new(info.algorithm, info.key());
    cipher.start(&info.iv, header);
    cipher
}

/// Until it is given the new keys it counts on under those before (RFC 8446 §7.2): what it makes of the peer's records then is undone.
#[test]
fn what_the_nic_makes_of_a_record_under_keys_that_were_replaced_is_undone() {
    let _running = nic::running();
    let (reader, mut peer) = connect_unread();
    let (socket, case) = (reader.socket.as_fd(), (0x0304, 51));
    let set = |key| {
        reader
            .session
            .set_option(socket, TLS_RX, &keys(case, key, 0))
    };
    assert_eq!(set(1), Ok(()));
    let slot = nic::flow(reader.cookie).slot.expect("a slot");
    let results = Results::new(slot.slot().results());
    let replaced = results.next_tag(results.announced_epoch());
    assert_eq!(set(2), Ok(()));

    let content = b"under the new keys";
    let header = [23, 3, 3, 0, (content.len() + 1 + 16) as u8];
    let mut record = [&content[..], &[23]].concat();
    let mut new = cipher(&info(2, 0), &header);
    new.encrypt_in_place(&mut record);
    cipher(&info(1, 0), &header).encrypt_in_place(&mut record);
    let all = [&header[..], &record, &new.finish()].concat();
    let run = (nic::tcpsn(0), all.len() as u32);
    Writer::default()
        .decrypted(results, run, replaced)
        .expect("room for a run");
    peer.write_all(&all).expect("loopback");

    let mut room = [0; 100];
    let read = reader
        .session
        .receive(socket, &mut [&mut room], false, 0)
        .map(|read| &room[..read.len]);
    assert_eq!(read, Ok(&content[..]));
}
