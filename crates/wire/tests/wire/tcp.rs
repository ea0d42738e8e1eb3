use proptest::prelude::*;
use wire::tcp::{self, Flags, Header, Options, SackBlocks, Timestamps};
use wire::{Ecn, ParseError, SeqNum};

use crate::samples;

#[test]
fn a_syn_of_linux_is_read_and_written_byte_for_byte() {
    let syn = [
        0xc0, 0x00, 0x01, 0xbb, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0,
        0, 0, 2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let (header, len) = Header::parse(&syn).unwrap();
    assert_eq!(len, 40);
    let expected = Header {
        src_port: 0xc000,
        dst_port: 443,
        seq: SeqNum(0x1122_3344),
        ack: SeqNum(0),
        flags: Flags::SYN,
        window: 64240,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: 9, echo: 0 }),
            sack: SackBlocks::EMPTY,
        },
        ecn: Ecn::NotEct,
    };
    assert_eq!(header, expected);
    let mut emitted = [0xee; 40];
    assert_eq!(header.emit(&mut emitted), 40);
    assert_eq!(emitted, syn);
}

#[test]
fn options_with_impossible_lengths_are_refused() {
    let parse = Options::parse;
    assert_eq!(
        parse(&[1, 2, 0, 0]),
        Err(ParseError::BadOption { kind: 2, length: 0 })
    );
    assert_eq!(
        parse(&[99, 1, 0, 0]),
        Err(ParseError::BadOption {
            kind: 99,
            length: 1
        })
    );
    assert_eq!(
        parse(&[1, 1, 2, 4]),
        Err(ParseError::BadOption { kind: 2, length: 4 })
    );
    assert_eq!(
        parse(&[1, 1, 1, 2]),
        Err(ParseError::BadOption { kind: 2, length: 0 })
    );
}

#[test]
fn options_that_we_do_not_know_are_passed_over() {
    // A known option with a wrong length, an unknown one, then an MSS, then the end and garbage.
    let bytes = [3, 4, 0, 0, 99, 3, 7, 2, 4, 1, 2, 0, 2, 0];
    assert_eq!(
        Options::parse(&bytes),
        Ok(Options {
            mss: Some(0x102),
            ..Options::default()
        })
    );
}

#[test]
fn a_window_scale_beyond_14_is_taken_for_14() {
    assert_eq!(
        Options::parse(&[1, 3, 3, 200]).unwrap().window_scale,
        Some(14)
    );
}

#[test]
fn with_timestamps_three_sack_blocks_fit() {
    let block = |n: u32| (SeqNum(n), SeqNum(n + 1));
    let sack: SackBlocks = (0..9).map(block).collect();
    assert_eq!(sack.len(), 4);
    let timestamps = Some(Timestamps { val: 1, echo: 2 });
    let options = Options {
        timestamps,
        sack,
        ..Options::default()
    };
    let mut bytes = [0; 40];
    assert_eq!(options.emit(&mut bytes), 40);
    let parsed = Options::parse(&bytes).unwrap();
    assert_eq!(parsed.sack.as_slice(), &sack.as_slice()[..3]);
    assert_eq!(
        Options {
            sack,
            ..Options::default()
        }
        .len(),
        36
    );
}

#[test]
fn header_lengths_beyond_the_segment_are_refused() {
    let mut bytes = [0u8; 24];
    for (offset, good) in [(0x40, false), (0x50, true), (0x60, true), (0x70, false)] {
        bytes[12] = offset;
        assert_eq!(Header::parse(&bytes).is_ok(), good, "{offset:#x}");
    }
}

#[test]
fn flags_print_as_tcpdump_does() {
    assert_eq!(format!("{:?}", Flags::SYN | Flags::ACK), "[S.]");
    let mut flags = Flags::FIN | Flags::PSH;
    flags.insert(Flags::ACK);
    flags.remove(Flags::PSH);
    assert_eq!(flags, Flags::FIN.union(Flags::ACK));
    assert!(flags.contains(Flags::FIN) && !flags.contains(Flags::FIN | Flags::PSH));
    assert!(flags.intersects(Flags::FIN | Flags::PSH));
}

proptest! {
    #[test]
    fn headers_round_trip((flow, header) in samples::flow().prop_flat_map(|flow| (Just(flow), samples::tcp_header(flow)))) {
        let mut bytes = vec![0xee; 100];
        let len = header.emit(&mut bytes);
        prop_assert_eq!(len, header.len());
        prop_assert!(len.is_multiple_of(4) && len <= tcp::MAX_HEADER_LEN);
        prop_assert_eq!(Header::parse(&bytes), Ok((header, len)));
        tcp::fill_checksum(flow.src.0, flow.dst.0, &mut bytes);
        prop_assert!(tcp::verify_checksum(flow.src.0, flow.dst.0, &bytes));
        bytes[50] ^= 0x10;
        prop_assert!(!tcp::verify_checksum(flow.src.0, flow.dst.0, &bytes));
    }

    #[test]
    fn any_options_are_read_or_refused(bytes in proptest::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..=40)) {
        if let Ok(options) = Options::parse(&bytes) {
            let mut emitted = [0; 40];
            let len = options.emit(&mut emitted);
            prop_assert_eq!(len, options.len());
        }
    }
}
