use super::*;

#[test]
fn blocks_are_named_by_the_shortest_command_that_can() {
    let short = command::read(0x0102_0304, 0x0506);
    assert_eq!(short[..10], [0x28, 0, 1, 2, 3, 4, 0, 5, 6, 0]);
    let far = command::write(1 << 32, 1);
    assert_eq!(far, [0x8a, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(command::write(0, 1 << 16)[0], 0x8a);
    assert_eq!(command::write(0, 7)[0], 0x2a);
}

#[test]
fn sense_of_both_formats_is_understood() {
    let mut fixed = [0; 18];
    (fixed[0], fixed[2], fixed[12], fixed[13]) = (0x70, 0x06, 0x29, 0x01);
    let reset = Sense {
        key: SenseKey::UNIT_ATTENTION,
        code: 0x2901,
        is_deferred: false,
    };
    assert_eq!(Sense::parse(&fixed), Some(reset));
    assert_eq!(Sense::parse(&[0x72, 0x06, 0x29, 0x01]), Some(reset));
    assert_eq!(
        reset.to_string(),
        "unit attention: the unit was reset (code 29/01)"
    );
    let short = Sense {
        key: SenseKey::ILLEGAL_REQUEST,
        code: 0,
        is_deferred: false,
    };
    assert_eq!(Sense::parse(&[0x70, 0, 5]), Some(short));
    assert!(!short.is_success() && !short.is_unknown_command());
    let recovered = Sense::parse(&[0x72, 1, 0x17, 0]).unwrap();
    assert!(recovered.is_success());
    let earlier = Sense::parse(&[0x73, 1, 0x17, 0]).unwrap();
    assert!(earlier.is_deferred && !earlier.is_success());
    assert!(earlier.to_string().starts_with("an earlier command failed"));
    assert!(
        Sense::parse(&[0x72, 5, 0x20, 0])
            .unwrap()
            .is_unknown_command()
    );
    assert_eq!(Sense::parse(&[0x70, 0]), None);
    assert_eq!(Sense::parse(&[1, 2, 3]), None);
    assert_eq!(Sense::parse(&[]), None);
}

#[test]
fn capacities_are_those_of_the_last_block() {
    let mut data = [0; 32];
    data[7] = 9;
    data[10] = 2;
    let capacity = Capacity {
        blocks: 10,
        block_len: 512,
    };
    assert_eq!(Capacity::parse_16(&data), Some(capacity));
    assert_eq!(Capacity::parse_16(&[0xff; 32]), None);
    assert_eq!(Capacity::parse_10(&data[4..12]), Some(Some(capacity)));
    assert_eq!(Capacity::parse_10(&[0xff; 8]), Some(None));
    assert_eq!(Capacity::parse_10(&[0; 7]), None);
}

#[test]
fn modes_are_found_behind_descriptors_and_other_pages() {
    let mut data = vec![0, 0, 0x80, 8];
    data.extend([0; 8]);
    data.extend([0x4a, 1, 0, 2, 9, 9]);
    data.extend([0x88, 2, 0x04, 0]);
    data[0] = data.len() as u8 - 1;
    let modes = Modes {
        is_read_only: true,
        has_cache: Some(true),
    };
    assert_eq!(Modes::parse(&data), Some(modes));
    assert_eq!(Modes::parse(&[3, 0, 0, 200]), Some(Modes::default()));
    assert_eq!(Modes::parse(&[0]), None);
}

#[test]
fn who_made_a_disk_is_told_without_blanks() {
    let mut data = [b' '; 36];
    data[0] = 0;
    data[8..11].copy_from_slice(b"ACM");
    data[16..21].copy_from_slice(b"A\x07 bc");
    let inquiry = Inquiry::parse(&data).unwrap();
    assert!(inquiry.is_disk());
    assert_eq!(inquiry.vendor.to_string(), "ACM");
    assert_eq!(inquiry.product.to_string(), "A bc");
    assert_eq!(inquiry.revision.to_string(), "");
    assert_eq!(Inquiry::parse(&data[..35]), None);
}
