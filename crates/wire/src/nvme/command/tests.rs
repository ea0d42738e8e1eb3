//! Entries as they are on the wire, and back.

use proptest::prelude::*;

use super::*;
use crate::nvme::Nqn;
use crate::nvme::identify::Cns;
use crate::nvme::log::LogPage;

/// What Linux 6.18 sends on its admin queue: Connect with its data in the capsule.
#[test]
fn a_connect_as_linux_sends_it() {
    let mut bytes = [0; SubmissionEntry::LEN];
    bytes[..5].copy_from_slice(&[0x7f, 0x40, 0, 0, 0x01]);
    bytes[32..34].copy_from_slice(&[0x00, 0x04]);
    bytes[39] = 0x01;
    bytes[44] = 31;
    bytes[46] = 0x04;
    bytes[48..52].copy_from_slice(&15_000u32.to_le_bytes());

    let entry = SubmissionEntry::parse(&bytes);
    assert!(entry.uses_sgl() && !entry.is_fused());
    let data = DataPointer::InCapsule {
        offset: 0,
        len: 1024,
    };
    assert_eq!(entry.data, data);
    let connect = Fabrics::Connect {
        queue: 0,
        entries: 32,
        no_flow_control: true,
        keep_alive: 15_000,
    };
    assert_eq!(Fabrics::parse(&entry), Ok(connect));
    assert_eq!(connect.entry(0).with_data(data).to_bytes(), bytes);
}

#[test]
fn types_of_fabrics_commands_are_there_or_optional_or_reserved() {
    for kind in 0..=0xff {
        let entry = SubmissionEntry::new(opcode::FABRICS, 1, kind);
        let expected = match kind {
            0 | 1 | 4 | 8 => None,
            5 | 6 => Some(Status::INVALID_OPCODE),
            _ => Some(Status::INVALID_FIELD),
        };
        let refused = Fabrics::parse(&entry).err();
        assert_eq!(refused, expected.map(Status::do_not_retry), "{kind}");
    }
}

#[test]
fn only_fabrics_commands_may_leave_psdt_at_another_value() {
    for (flags, fabrics, other) in [
        (0x00, true, false),
        (0x40, true, true),
        (0x80, true, false),
        (0xc0, false, false),
    ] {
        for (code, expected) in [(opcode::FABRICS, fabrics), (opcode::READ, other)] {
            let mut entry = SubmissionEntry::new(code, 1, 1);
            entry.flags = flags;
            assert_eq!(entry.uses_sgl(), expected, "{code:02x} {flags:02x}");
        }
    }
}

#[test]
fn two_bits_of_authreq_ask_for_authentication() {
    for bit in 16..32 {
        let reply = ConnectReply::Accepted {
            controller: 7,
            authentication: bit == 17 || bit == 18,
        };
        assert_eq!(ConnectReply::from_dword(7 | 1 << bit, true), reply, "{bit}");
    }
}

/// A read of 256 KiB on blocks of 512 bytes, as Linux sends it.
#[test]
fn a_read_as_linux_sends_it() {
    let mut bytes = [0; SubmissionEntry::LEN];
    bytes[..8].copy_from_slice(&[0x02, 0x40, 0x34, 0x12, 1, 0, 0, 0]);
    bytes[34] = 0x04;
    bytes[39] = 0x5a;
    bytes[40..48].copy_from_slice(&0x1_0000_0200u64.to_le_bytes());
    bytes[48..50].copy_from_slice(&511u16.to_le_bytes());

    let read = Io::Read {
        blocks: Blocks {
            start: 0x1_0000_0200,
            count: 512,
        },
        fua: false,
    };
    assert_eq!(Io::parse(&SubmissionEntry::parse(&bytes)), Ok(read));
    let data = DataPointer::Transport { len: 256 << 10 };
    assert_eq!(read.entry(0x1234, 1).with_data(data).to_bytes(), bytes);
}

#[test]
fn statuses_have_the_values_of_the_specification() {
    assert_eq!(Status::TRANSIENT_TRANSPORT_ERROR.bits(), 0x022);
    assert_eq!(Status::LBA_OUT_OF_RANGE.bits(), 0x080);
    assert_eq!(Status::CONNECT_INVALID_HOST.bits(), 0x184);
    assert_eq!(Status::UNRECOVERED_READ_ERROR.bits(), 0x281);
    assert_eq!(Status::HOST_PATHING_ERROR.bits(), 0x370);
    let refused = Status::INVALID_OPCODE.do_not_retry();
    assert_eq!(refused.bits(), 0x4001);
    assert!(refused.is(Status::INVALID_OPCODE) && refused.is_final());
    assert_eq!(
        refused.to_string(),
        "invalid command opcode (SCT 0h, SC 01h, do not retry)"
    );
    assert!(Status::from_bits(0x4000).is_success());
}

#[test]
fn registers_hold_their_fields() {
    let capabilities = Capabilities::new(128, 30);
    assert_eq!(capabilities.0, 0x20_1e01_007f);
    assert_eq!(capabilities.max_queue_entries(), 128);
    assert_eq!(Capabilities::new(1 << 16, 0).max_queue_entries(), 1 << 16);
    assert_eq!(Configuration::ENABLED.0, 0x0046_0001);
    assert_eq!(
        Configuration::ENABLED.with_normal_shutdown().shutdown(),
        Shutdown::Normal
    );
    assert_eq!(Version::new(1, 3, 0).0, 0x0001_0300);
    assert_eq!(Version::new(2, 0, 1).to_string(), "2.0.1");
    let status = ControllerStatus::new(true, false, ShutdownStatus::Complete);
    assert_eq!(status.0, 0b1001);
    assert!(status.ready() && status.shutdown() == ShutdownStatus::Complete);
}

#[test]
fn a_log_page_at_an_odd_offset_is_refused() {
    let page = GetLogPage {
        id: LogPage::DISCOVERY,
        specific: 0,
        retain_event: false,
        len: 1024,
        offset: 2,
        nsid: 0,
    };
    let entry = Admin::GetLogPage(page).entry(1);
    assert!(Admin::parse(&entry).unwrap_err().is(Status::INVALID_FIELD));
}

#[test]
fn connect_data_without_a_subsystem_names_the_field() {
    let data = ConnectData {
        host_id: [7; 16],
        controller: DYNAMIC_CONTROLLER,
        subsystem: Nqn::DISCOVERY,
        host: "nqn.2014-08.org.nvmexpress:uuid:1".parse().unwrap(),
    };
    let mut bytes = data.to_bytes();
    assert_eq!(ConnectData::parse(&bytes), Ok(data));
    bytes[256] = 0;
    assert_eq!(ConnectData::parse(&bytes).unwrap_err().offset, 256);
}

#[test]
fn blocks_beyond_the_last_number_are_outside_any_namespace() {
    let blocks = Blocks {
        start: u64::MAX,
        count: 2,
    };
    assert!(!blocks.within(u64::MAX));
    assert!(Blocks { start: 6, count: 2 }.within(8));
    assert!(!Blocks { start: 7, count: 2 }.within(8));
}

fn any_admin() -> impl Strategy<Value = Admin> {
    prop_oneof![
        any::<(u8, u32, u16, u8, u16)>().prop_map(
            |(cns, nsid, controller, command_set, specific)| {
                Admin::Identify(Identify {
                    cns: Cns(cns),
                    nsid,
                    controller,
                    command_set,
                    specific,
                })
            }
        ),
        (any::<(u8, bool, u32, u32, u32)>(), 0u8..128).prop_map(
            |((id, retain_event, dwords, offset, nsid), specific)| {
                Admin::GetLogPage(GetLogPage {
                    id: LogPage(id),
                    specific,
                    retain_event,
                    len: (u64::from(dwords) + 1) * 4,
                    offset: u64::from(offset) * 4,
                    nsid,
                })
            }
        ),
        any::<(u8, bool, u32, u32)>().prop_map(|(feature, save, nsid, value)| {
            Admin::SetFeatures {
                feature: Feature(feature),
                save,
                nsid,
                value,
            }
        }),
        any::<(u16, u16)>().prop_map(|(queue, cid)| Admin::Abort { queue, cid }),
        Just(Admin::AsyncEventRequest),
        Just(Admin::KeepAlive),
    ]
}

fn any_io() -> impl Strategy<Value = Io> {
    let blocks = (any::<u64>(), 1..=MAX_BLOCKS).prop_map(|(start, count)| Blocks { start, count });
    (blocks, any::<(bool, bool)>(), 1..=MAX_RANGES, 0..6).prop_map(
        |(blocks, (fua, deallocate), ranges, which)| match which {
            0 => Io::Read { blocks, fua },
            1 => Io::Write { blocks, fua },
            2 => Io::Compare { blocks, fua },
            3 => Io::WriteZeroes {
                blocks,
                fua,
                deallocate,
            },
            4 => Io::Flush,
            _ => Io::DatasetManagement { ranges, deallocate },
        },
    )
}

proptest! {
    #[test]
    fn entries_survive_the_wire(bytes in proptest::array::uniform32(any::<u8>()), more in proptest::array::uniform32(any::<u8>())) {
        let mut entry = [0; SubmissionEntry::LEN];
        entry[..32].copy_from_slice(&bytes);
        entry[32..].copy_from_slice(&more);
        let parsed = SubmissionEntry::parse(&entry);
        prop_assert_eq!(SubmissionEntry::parse(&parsed.to_bytes()), parsed);
        let _ = (Admin::parse(&parsed), Io::parse(&parsed), Fabrics::parse(&parsed));
    }

    #[test]
    fn admin_commands_survive_the_wire(admin in any_admin(), cid: u16) {
        let entry = SubmissionEntry::parse(&admin.entry(cid).to_bytes());
        prop_assert_eq!(entry.cid, cid);
        prop_assert_eq!(Admin::parse(&entry), Ok(admin));
    }

    #[test]
    fn io_commands_survive_the_wire(io in any_io(), cid: u16, nsid: u32) {
        let entry = SubmissionEntry::parse(&io.entry(cid, nsid).to_bytes());
        prop_assert_eq!((entry.cid, entry.nsid), (cid, nsid));
        prop_assert_eq!(Io::parse(&entry), Ok(io));
    }

    #[test]
    fn properties_survive_the_wire(offset: u32, wide: bool, value: u64, cid: u16) {
        let property = Property::new(offset, wide);
        let get = Fabrics::PropertyGet(property);
        prop_assert_eq!(Fabrics::parse(&get.entry(cid)), Ok(get));
        let value = if wide { value } else { u64::from(value as u32) };
        let set = Fabrics::PropertySet(property, value);
        prop_assert_eq!(Fabrics::parse(&SubmissionEntry::parse(&set.entry(cid).to_bytes())), Ok(set));
    }

    #[test]
    fn completions_survive_the_wire(result: u64, sq_head: u16, cid: u16, status in 0u16..1 << 15) {
        let entry = CompletionEntry { result, sq_head, cid, status: Status::from_bits(status) };
        prop_assert_eq!(CompletionEntry::parse(&entry.to_bytes()), entry);
    }
}
