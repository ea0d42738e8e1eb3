//! rustls reads what engine and writer make, and the reader what rustls makes.

use l5p::tls::{Alert, Direction, Engine, Event, Location, Offloaded, Output, Piece, Violation};
use l5p::{Integrity, Walker};
use wire::SeqNum;
use wire::tls::ContentType;

use crate::PAIRS;
use crate::connection::{BOTH, Configs, Ours, give, take};

#[test]
fn software_records_go_both_ways() {
    for (version, algorithm) in PAIRS {
        for ours in BOTH {
            let mut connection = Configs::new(version, algorithm).connect(ours);
            assert_eq!(connection.alpn.as_deref(), Some(&b"http/1.1"[..]));
            for _ in 0..3 {
                connection.check_both_ways();
            }
        }
    }
}

#[test]
fn rustls_reads_records_that_the_engine_encrypts() {
    for (version, algorithm) in PAIRS {
        let mut connection = Configs::new(version, algorithm).connect(Ours::Server);
        let keys = connection.writer.crypto_info();
        let mut engine = Engine::new(&keys, Direction::Transmit);
        let mut walker = Walker::new(keys.sequence);
        let (mut stream, mut expected) = (Vec::new(), Vec::new());
        for (i, len) in [1, 16384, 0, 1448, 77, 5000].into_iter().enumerate() {
            let content = vec![i as u8; len];
            let layout = connection
                .writer
                .record_layout(ContentType::APPLICATION_DATA, len);
            connection.writer.commit(SeqNum(stream.len() as u32), len);
            stream.extend([layout.header(), &content, layout.trailer()].concat());
            expected.extend(content);
        }
        let mut got = Vec::new();
        for packet in stream.chunks(1448) {
            let mut output = vec![0; packet.len()];
            walker.advance(&mut engine, packet, &mut output).unwrap();
            give(&mut connection.peer, &output);
            got.extend(connection.peer_received());
        }
        assert_eq!(got, expected);
    }
}

#[test]
fn the_engine_decrypts_records_of_rustls() {
    for (version, algorithm) in PAIRS {
        let mut connection = Configs::new(version, algorithm).connect(Ours::Server);
        connection.receive().unwrap();
        let keys = connection.reader.crypto_info();
        let mut engine = Engine::new(&keys, Direction::Receive);
        let mut walker = Walker::new(keys.sequence);
        let content: Vec<u8> = (0..50_000u32).map(|i| (i * 3) as u8).collect();
        connection.peer_sends(&content);
        let mut stream = std::mem::take(&mut connection.incoming);
        for packet in stream.chunks_mut(999) {
            let input = packet.to_vec();
            let walked = walker.advance(&mut engine, &input, packet).unwrap();
            assert_eq!(walked.integrity, Integrity::Good);
        }
        assert!(walker.at_boundary());
        let mut got = Vec::new();
        let context = connection.reader.begin_context();
        while let Some(len) = connection.reader.next_len(&stream).unwrap() {
            let mut record: Vec<u8> = stream.drain(..len).collect();
            let piece = Piece {
                data: record[..].as_mut().into(),
                decrypted: Some(context),
            };
            let opened = connection
                .reader
                .open(&mut [piece], Output::InPlace)
                .unwrap();
            assert_eq!(opened.offloaded, Offloaded::Full);
            let Location::Record(range) = opened.content else {
                panic!("opened in place");
            };
            got.extend_from_slice(&record[range]);
        }
        assert_eq!(got, content);
    }
}

#[test]
fn a_close_goes_both_ways() {
    for (version, algorithm) in PAIRS {
        for ours in BOTH {
            let mut connection = Configs::new(version, algorithm).connect(ours);
            connection.send(ContentType::ALERT, &Alert::CloseNotify.to_bytes());
            let state = connection.peer.process_new_packets().unwrap();
            assert!(state.peer_has_closed());
            connection.peer.send_close_notify();
            connection.receive().unwrap();
            assert_eq!(connection.events.last(), Some(&Event::CloseNotify));
        }
    }
}

#[test]
fn a_fatal_alert_is_told() {
    for (version, algorithm) in PAIRS {
        let mut connection = Configs::new(version, algorithm).connect(Ours::Client);
        // A record that was changed on the way makes rustls complain.
        let mut record = vec![0; connection.writer.record_len(4)];
        connection
            .writer
            .seal_into(ContentType::APPLICATION_DATA, &[b"data"], &mut record);
        *record.last_mut().unwrap() ^= 1;
        connection.peer.read_tls(&mut &record[..]).unwrap();
        connection.peer.process_new_packets().unwrap_err();
        connection.receive().unwrap();
        let told = Event::PeerAlert(Alert::BadRecordMac);
        assert_eq!(connection.events.last(), Some(&told));
    }
}

#[test]
fn a_changed_record_of_rustls_is_refused() {
    for (version, algorithm) in PAIRS {
        let mut connection = Configs::new(version, algorithm).connect(Ours::Client);
        connection.receive().unwrap();
        connection.peer_sends(b"data");
        *connection.incoming.last_mut().unwrap() ^= 1;
        let record = connection.reader.record_index();
        let error = connection.receive().unwrap_err();
        assert_eq!(error.record, record);
        assert_eq!(error.violation, Violation::BadTag);
        connection.send(ContentType::ALERT, &[1, 90]);
        let _ = take(&mut connection.peer);
    }
}
