//! Identify data and log pages: what is written is what is read, and bytes of any kind are read or refused.

use std::net::IpAddr;

use proptest::prelude::*;
use wire::ParseError;
use wire::nvme::Nqn;
use wire::nvme::identify::{
    self, CSI_NVM, ControllerData, ControllerType, IndependentNamespaceData, LbaFormat,
    NamespaceData, NamespaceIds, NamespaceList, NvmControllerData, emit_namespace_list,
};
use wire::nvme::log::{
    CommandEffects, DiscoveryEntry, DiscoveryHeader, ErrorEntry, FirmwareSlots, HealthLog, LogPage,
    SecureChannel, SecurityType, SubsystemType, SupportedPages,
};

fn controller() -> ControllerData {
    ControllerData {
        vid: 0x1af4,
        ssvid: 0x1af5,
        serial: ControllerData::text("0123456789abcdef"),
        model: ControllerData::text("longshore"),
        firmware: ControllerData::text("0.1"),
        rab: 6,
        ieee: [1, 2, 3],
        cmic: 2,
        mdts: 8,
        cntlid: 17,
        ver: 0x10400,
        oaes: 0x100,
        ctratt: 1,
        controller_type: ControllerType::IO,
        oacs: 0,
        acl: 3,
        aerl: 3,
        frmw: 3,
        lpa: 4,
        elpe: 15,
        wctemp: 350,
        cctemp: 360,
        kas: 10,
        sqes: 0x66,
        cqes: 0x44,
        maxcmd: 128,
        nn: 32,
        oncs: 0xd,
        vwc: 7,
        awun: 1,
        awupf: 2,
        sgls: identify::sgls::SUPPORTED | identify::sgls::OFFSET,
        mnan: 32,
        subnqn: Some(Nqn::new("nqn.2026-01.io.longshore:disk").unwrap()),
        ioccsz: 516,
        iorcsz: 1,
        icdoff: 0,
        fcatt: 1,
        msdbd: 1,
    }
}

#[test]
fn fields_of_identify_controller_are_where_figure_275_has_them() {
    let mut page = [0xff; identify::LEN];
    controller().emit(&mut page);
    assert_eq!(page[..2], [0xf4, 0x1a]);
    assert_eq!(&page[24..34], b"longshore ");
    assert_eq!(page[77], 8, "MDTS");
    assert_eq!(page[78..80], [17, 0], "CNTLID");
    assert_eq!(page[80..84], [0, 4, 1, 0], "VER");
    assert_eq!(page[111], 1, "CNTRLTYPE");
    assert_eq!(page[320..322], [10, 0], "KAS");
    assert_eq!(page[512..514], [0x66, 0x44], "SQES, CQES");
    assert_eq!(page[516..520], [32, 0, 0, 0], "NN");
    assert_eq!(page[536..540], [1, 0, 0x10, 0], "SGLS");
    assert_eq!(&page[768..798], b"nqn.2026-01.io.longshore:disk\0");
    assert_eq!(page[1792..1796], [4, 2, 0, 0], "IOCCSZ");
    assert_eq!(ControllerData::parse(&page), Ok(controller()));
}

#[test]
fn names_are_checked() {
    let discovery = Nqn::new("nqn.2014-08.org.nvmexpress.discovery").unwrap();
    assert_eq!(discovery, Nqn::DISCOVERY);
    assert_eq!(Nqn::new(""), Err(ParseError::BadLength(0)));
    assert!(Nqn::new(&"n".repeat(223)).is_ok());
    assert_eq!(Nqn::new(&"n".repeat(224)), Err(ParseError::BadLength(224)));
    assert_eq!(Nqn::new("nqn\n"), Err(ParseError::BadValue(10)));
    assert_eq!(Nqn::parse(&[0xff; 256]), Err(ParseError::BadValue(0xff)));
    assert_eq!(Nqn::parse(&[b'n'; 256]), Err(ParseError::BadLength(256)));
    let mut field = [0xee; 256];
    discovery.emit(&mut field);
    assert_eq!(Nqn::parse(&field), Ok(discovery));
    assert_eq!(field[255], 0);
}

#[test]
fn a_namespace_with_another_format_in_use_is_read() {
    let mut page = [0; identify::LEN];
    NamespaceData {
        nsze: 7,
        ..NamespaceData::default()
    }
    .emit(&mut page);
    page[25] = 20; // NLBAF
    page[26] = 0x20 | 3; // FLBAS: format 19
    page[128 + 4 * 19 + 2] = 12;
    assert_eq!(NamespaceData::parse(&page).unwrap().format.lbads, 12);
    page[26] = 0;
    // A format that is not supported spoils this namespace alone, which its reader finds.
    assert_eq!(NamespaceData::parse(&page).unwrap().format.lbads, 0);
}

#[test]
fn identifiers_beyond_the_page_or_of_a_wrong_length_are_refused() {
    let mut page = [0; identify::LEN];
    page[..2].copy_from_slice(&[1, 16]);
    assert_eq!(NamespaceIds::parse(&page), Err(ParseError::BadLength(16)));
    let mut page = [0xff; identify::LEN];
    assert_eq!(NamespaceIds::parse(&page), Err(ParseError::BadLength(255)));
    page[..2].copy_from_slice(&[9, 16]);
    page[20..22].copy_from_slice(&[4, 1]);
    page[24..27].copy_from_slice(&[CSI_NVM, 0, 0]);
    assert_eq!(NamespaceIds::parse(&page).unwrap().csi, Some(CSI_NVM));
}

#[test]
fn discovery_entries_are_text_ended_by_nul() {
    let entry = DiscoveryEntry {
        subtype: SubsystemType::NVM,
        secure_channel: SecureChannel::NOT_REQUIRED,
        sq_flow_control_disable: true,
        portid: 1,
        cntlid: 0xffff,
        asqsz: 32,
        eflags: 0,
        port: 4420,
        subnqn: Nqn::DISCOVERY,
        address: IpAddr::from([10, 9, 0, 2]),
        security: SecurityType::TLS13,
    };
    let mut page = [0xff; DiscoveryEntry::LEN];
    entry.emit(&mut page);
    assert_eq!(page[..4], [3, 1, 2, 6]);
    assert_eq!(&page[32..37], b"4420\0");
    assert_eq!(&page[512..522], b"10.9.0.2\0\0");
    assert_eq!(page[768], 2);
    assert_eq!(DiscoveryEntry::parse(&page), Ok(entry));
    // Some controllers pad with blanks instead.
    page[36..64].fill(b' ');
    assert_eq!(DiscoveryEntry::parse(&page), Ok(entry));
    let v6 = DiscoveryEntry {
        address: "fe80:1111:2222:3333:4444:5555:6666:7777".parse().unwrap(),
        port: 65535,
        ..entry
    };
    v6.emit(&mut page);
    assert_eq!(DiscoveryEntry::parse(&page), Ok(v6));
    page[0] = 1;
    assert_eq!(DiscoveryEntry::parse(&page), Err(ParseError::BadValue(1)));
}

#[test]
fn log_pages_are_read_as_they_were_written() {
    let mut page = [0xff; 4096];
    let pages = SupportedPages::of(&[LogPage::HEALTH, LogPage::DISCOVERY, LogPage(0xff)]);
    pages.emit(&mut page);
    assert_eq!(SupportedPages::parse(&page), Ok(pages));
    assert!(pages.contains(LogPage::DISCOVERY) && !pages.contains(LogPage::ERROR));

    let mut effects = CommandEffects::NONE;
    effects.admin[6] = CommandEffects::SUPPORTED;
    effects.io[1] = CommandEffects::SUPPORTED | CommandEffects::CHANGES_BLOCKS;
    effects.emit(&mut page);
    assert_eq!(CommandEffects::parse(&page), Ok(effects));
    assert_eq!(page[1028], 3);

    let firmware = FirmwareSlots {
        active: 1,
        first: *b"0.1.0   ",
    };
    firmware.emit(&mut page);
    assert_eq!(FirmwareSlots::parse(&page), Ok(firmware));

    let health = HealthLog {
        temperature: 300,
        data_units_read: HealthLog::data_units(512_001),
        host_writes: u128::from(u64::MAX) + 1,
        error_log_entries: 3,
        ..HealthLog::default()
    };
    assert_eq!(health.data_units_read, 2);
    health.emit(&mut page);
    assert_eq!(HealthLog::parse(&page), Ok(health));

    let header = DiscoveryHeader {
        generation: 5,
        records: 2,
    };
    header.emit(&mut page);
    assert_eq!(DiscoveryHeader::parse(&page), Ok(header));

    let error = ErrorEntry {
        count: 1,
        sqid: 2,
        cid: 3,
        status: 4,
        location: 5,
        lba: 6,
        nsid: 7,
    };
    error.emit(&mut page);
    assert_eq!(ErrorEntry::parse(&page), Ok(error));
}

proptest! {
    #[test]
    fn namespaces_are_read_as_they_were_written(
        nsze in 1u64.., nuse: u64, features: [u8; 3], sizes: [u16; 5], nguid: [u8; 16], lbads: u8,
    ) {
        let namespace = NamespaceData {
            nsze, ncap: nsze, nuse,
            nsfeat: features[0], nmic: features[1], dlfeat: features[2],
            npwg: sizes[0], npwa: sizes[1], npdg: sizes[2], npda: sizes[3], nows: sizes[4],
            anagrpid: 1, nsattr: 1, nguid, eui64: [7; 8],
            format: LbaFormat { metadata: sizes[0], lbads, performance: features[0] & 3 },
        };
        let mut page = [0xff; identify::LEN];
        namespace.emit(&mut page);
        prop_assert_eq!(NamespaceData::parse(&page), Ok(namespace));
        let independent = IndependentNamespaceData {
            nsfeat: features[0], nmic: features[1], anagrpid: 9, nsattr: 1, nstat: 1,
        };
        independent.emit(&mut page);
        prop_assert_eq!(IndependentNamespaceData::parse(&page), Ok(independent));
        let nvm = NvmControllerData {
            wzsl: features[0], dmrl: features[1], dmrsl: 77, dmsl: nuse,
        };
        nvm.emit(&mut page);
        prop_assert_eq!(NvmControllerData::parse(&page), Ok(nvm));
    }

    #[test]
    fn identifiers_and_lists_are_read_as_they_were_written(
        ids: (Option<[u8; 8]>, Option<[u8; 16]>, Option<[u8; 16]>, Option<u8>),
        nsids in proptest::collection::vec(1u32.., 0..1200),
    ) {
        let ids = NamespaceIds { eui64: ids.0, nguid: ids.1, uuid: ids.2, csi: ids.3 };
        let mut page = [0xff; identify::LEN];
        ids.emit(&mut page);
        prop_assert_eq!(NamespaceIds::parse(&page), Ok(ids));
        emit_namespace_list(&mut page, nsids.iter().copied());
        let read: Vec<u32> = NamespaceList::parse(&page).unwrap().iter().collect();
        prop_assert_eq!(&read[..], &nsids[..nsids.len().min(NamespaceList::CAPACITY)]);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..4200)) {
        let _ = ControllerData::parse(&bytes);
        let _ = NamespaceData::parse(&bytes);
        let _ = NamespaceIds::parse(&bytes);
        let _ = NamespaceList::parse(&bytes).map(|list| list.iter().count());
        let _ = NvmControllerData::parse(&bytes);
        let _ = IndependentNamespaceData::parse(&bytes);
        let _ = DiscoveryEntry::parse(&bytes);
        let _ = DiscoveryHeader::parse(&bytes);
        let _ = SupportedPages::parse(&bytes);
        let _ = CommandEffects::parse(&bytes);
        let _ = FirmwareSlots::parse(&bytes);
        let _ = HealthLog::parse(&bytes);
        let _ = ErrorEntry::parse(&bytes);
        let _ = Nqn::parse(&bytes);
    }
}
