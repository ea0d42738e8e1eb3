//! Registers and configuration space as bits.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::ethernet::MacAddr;

use crate::{Action, ConfigSpace, Given, Registers};

fn given() -> Given {
    Given {
        identity: vec![5, 63, 0b110, 1500, 16],
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
    }
}

fn registers() -> Registers {
    Registers::new(given())
}

#[test]
fn a_nic_that_comes_back_offers_all_that_the_driver_was_told_of() {
    let offers = |word: usize, value: u64| {
        let mut given = given();
        given.identity[word] = value;
        registers().offer(&given)
    };
    assert!(registers().offer(&given()));
    assert!(offers(1, 63 | 1 << 7), "a feature more");
    assert!(!offers(1, 31), "one less");
    assert!(offers(2, 0b1110), "a protocol more");
    assert!(!offers(2, 0b1010), "another one");
    assert!(!offers(0, 6), "another version");
    assert!(!offers(4, 32), "other limits");
}

fn all(registers: &Registers) -> Vec<u8> {
    let mut bytes = vec![0; 0x4000];
    registers.read(0, &mut bytes);
    bytes
}

/// Offsets where something is, as often as others.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..0x10u64,
        0..0x410u64,
        0xff0..0x1410u64,
        0x3ff0..0x4010u64,
        any::<u64>()
    ]
}

proptest! {
    #[test]
    fn any_accesses_are_answered(
        accesses in vec((offset(), vec(any::<u8>(), 0..17), any::<bool>()), 0..200),
    ) {
        let (mut registers, mut config) = (registers(), ConfigSpace::new(17));
        for (offset, bytes, succeeds) in accesses {
            match registers.write(offset, &bytes) {
                Some(Action::Enable) if succeeds => {
                    if registers.wanted().is_some() {
                        registers.enabled();
                    }
                }
                Some(Action::Enable) => registers.refused(4),
                Some(Action::Disable) if succeeds => registers.disabled(),
                Some(Action::Disable) => { let _ = registers.failed(); }
                Some(Action::Reset | Action::Ring) | None => {}
            }
            let _ = registers.has_rings_in(offset, offset);
            let mut read = vec![0; bytes.len()];
            registers.read(offset, &mut read);
            let _ = config.write(offset, &bytes);
            config.read(offset, &mut read);
        }
        // Constants stay.
        let mut constant = [0; 8];
        registers.read(0, &mut constant);
        prop_assert_eq!(&constant, b"rsnl\x05\0\0\0");
        config.read(0, &mut constant[..4]);
        prop_assert_eq!(&constant[..4], b"sl\x01\0");
        registers.reset();
        prop_assert_eq!(all(&registers), all(&self::registers()));
        config.reset();
    }

    #[test]
    fn settings_are_fixed_while_the_function_is_there(
        writes in vec((0x20..0x400u64, any::<u64>()), 1..50),
    ) {
        let mut registers = registers();
        registers.enabled();
        let before = all(&registers);
        for (offset, value) in writes {
            prop_assert_eq!(registers.write(offset & !7, &value.to_le_bytes()), None);
        }
        prop_assert_eq!(all(&registers), before);
    }
}

#[test]
fn a_register_of_eight_bytes_can_be_written_by_halves() {
    let mut registers = registers();
    assert_eq!(registers.write(0x204, &7u32.to_le_bytes()), None);
    assert_eq!(registers.write(0x200, &9u32.to_le_bytes()), None);
    let mut bytes = [0; 8];
    registers.read(0x200, &mut bytes);
    assert_eq!(u64::from_le_bytes(bytes), 7 << 32 | 9);
    // Not aligned, and too short: not looked at.
    assert_eq!(registers.write(0x202, &[1; 4]), None);
    assert_eq!(registers.write(0x200, &[1; 2]), None);
    registers.read(0x200, &mut bytes);
    assert_eq!(u64::from_le_bytes(bytes), 7 << 32 | 9);
}

#[test]
fn a_bar_tells_its_size_to_who_writes_ones() {
    let mut config = ConfigSpace::new(3);
    for (at, expected) in [
        (0x10, 0xffff_c004u32),
        (0x14, u32::MAX),
        (0x18, 0xffff_f004),
    ] {
        assert!(!config.write(at, &[0xff; 4]));
        let mut bytes = [0; 4];
        config.read(at, &mut bytes);
        assert_eq!(u32::from_le_bytes(bytes), expected);
    }
    assert!(config.write(0x48, &[0, 0x80]), "FLR");
}
