use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use proptest::prelude::*;
use rustix::io::Errno;

use l5p::tls::{ContentType, CryptoInfo, HEADER_LEN, MAX_PLAINTEXT, Version, Writer};

use super::{Batch, MAX_FRAMING, MOST_RECORDS};
use crate::abi;
use crate::session::Session;
use crate::session::direction::{Own, locked};
use crate::session::epoch::{DeviceEpoch, Records};
use crate::session::send::content::{Content, Job};
use crate::session::send::frame::Frame;
use crate::shared::Mapping;

proptest! {
    /// Headers and trailers are those that the software's records have, and the sums are right.
    #[test]
    fn records_are_laid_out_as_the_writer_lays_them_out(
        content in 1usize..700_000,
        version in prop::sample::select(vec![Version::Tls12, Version::Tls13]),
        algorithm in prop::sample::select(vec![l5p::tls::Algorithm::Aes128Gcm, l5p::tls::Algorithm::ChaCha20Poly1305]),
        sequence in 0..u64::MAX,
        cut in 0usize..800_000,
    ) {
        let info = CryptoInfo { version, algorithm, key: [3; 32], iv: [0xee; 12], sequence };
        let (shared, writer) = (Mapping::new().expect("memory"), Own::empty());
        let mut sending = locked(shared.sending.lock(), &writer);
        sending.keys.set(&info);
        sending.device_begins();
        let first_nonce = sending.keys.first_nonce;
        let Ok(Records::Device(epoch)) = sending.records() else {
            panic!("the NIC makes the records");
        };
        let batch = Batch::new(&epoch, abi::RECORD_TYPE_DATA, content).expect("keys");
        prop_assert!(batch.records() <= MOST_RECORDS);
        let mut framing = vec![0xff; batch.framing_len()];
        batch.write_framing(&mut framing);
        let mut made = Vec::new();
        let mut expected = Vec::new();
        for record in 0..=batch.records() {
            let framing_range = batch.framing_range(record);
            prop_assert!(framing_range.len() <= MAX_FRAMING);
            made.extend(&framing[framing_range]);
            if record < batch.records() {
                let len = batch.content_range(record).len();
                made.extend(std::iter::repeat_n(7, len));
                let info = CryptoInfo { sequence: sequence.wrapping_add(record as u64), ..info.clone() };
                let mut writer = Writer::new(info);
                writer.count_nonces_from(first_nonce);
                let layout = writer.record_layout(ContentType(abi::RECORD_TYPE_DATA), len);
                expected.extend(layout.header());
                expected.extend(std::iter::repeat_n(7, len));
                expected.extend(layout.trailer());
                prop_assert_eq!(expected.len(), batch.len_of(record + 1));
            }
        }
        prop_assert!(made == expected, "the bytes differ");
        let cut = cut.min(made.len());
        let begun = batch.begun(cut);
        prop_assert!(batch.len_of(begun) >= cut);
        prop_assert!(begun == 0 || batch.len_of(begun - 1) < cut);
        prop_assert!(MAX_PLAINTEXT + HEADER_LEN + MAX_FRAMING < crate::shared::MAX_RECORD);
    }
}

/// Bytes of content in a record, as short as may be.
const MOST: u16 = 100;

/// Has the NIC make the records of a direction that has so many numbers left.
fn with_numbers(
    left: u64,
    test: impl FnOnce(&Session, &TcpStream, &mut DeviceEpoch<'_>, TcpStream),
) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
    let (peer, _) = listener.accept().expect("loopback");
    let session = Session::new(socket.as_fd()).expect("an established socket");
    let mut sending = session.sending();
    sending.keys.set(&CryptoInfo {
        version: Version::Tls13,
        algorithm: l5p::tls::Algorithm::Aes128Gcm,
        key: [3; 32],
        iv: [0xee; 12],
        sequence: u64::MAX - left,
    });
    sending.limit = MOST;
    sending.device_begins();
    let Ok(Records::Device(mut epoch)) = sending.records() else {
        panic!("the NIC makes the records");
    };
    test(&session, &socket, &mut epoch, peer);
}

#[test]
fn a_call_ends_where_there_is_no_number_for_another_record() {
    with_numbers(2, |session, socket, epoch, mut peer| {
        let content = [7; 3 * MOST as usize];
        let mut job = Job {
            content: Content {
                pieces: &[&content],
                skip: 0,
            },
            record_type: abi::RECORD_TYPE_DATA,
            more: false,
            left: content.len(),
            accepted: 0,
        };
        let sent = session.advance_device(socket.as_fd(), epoch, &mut job);
        assert_eq!(sent, Err(Errno::BADMSG));
        assert_eq!(job.accepted, 2 * usize::from(MOST));
        assert_eq!(epoch.keys.check(), Err(Errno::BADMSG));
        socket
            .shutdown(std::net::Shutdown::Write)
            .expect("shutdown");
        let mut wire = Vec::new();
        peer.read_to_end(&mut wire).expect("the records");
        assert_eq!(wire.len(), 2 * (HEADER_LEN + usize::from(MOST) + 17));
    });
}

#[test]
fn a_record_before_a_file_takes_a_number_too() {
    let records = |left, open| {
        let mut records = None;
        with_numbers(left, |_, _, epoch, _| {
            epoch.open = open;
            let frame = Frame::new(epoch, 5 * usize::from(MOST), MOST_RECORDS);
            if let Some(Frame { batch, .. }) = frame {
                let last = batch.first + batch.records() as u64 - 1;
                assert!(last < u64::MAX, "the last number is never used");
                records = Some(batch.records());
            }
        });
        records
    };
    assert_eq!(records(9, 10), Some(5));
    assert_eq!(records(3, 0), Some(3));
    assert_eq!(records(3, 10), Some(2));
    assert_eq!(records(1, 0), Some(1));
    assert_eq!(records(1, 10), None);
    assert_eq!(records(0, 0), None);
}
