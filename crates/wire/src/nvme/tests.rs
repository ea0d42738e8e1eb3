use proptest::prelude::*;

use super::*;

/// Rules of an established direction.
fn established(sender: Role) -> Framing {
    Framing {
        sender,
        phase: Phase::Established,
        header_digest: false,
        data_digest: false,
        alignment: 0,
        max_pdu: 1 << 20,
    }
}

fn emit(pdu: &Pdu, framing: &Framing) -> Vec<u8> {
    let mut header = [0xee; MAX_HEADER_LEN];
    let len = pdu.emit(framing, &mut header);
    header[..len].to_vec()
}

#[test]
fn a_read_of_linux_nvmet_is_read_and_written_byte_for_byte() {
    // C2HData with both digests: 4 KiB for command 0x1234, the last and successful one.
    let header = [
        7, 0x0f, 24, 28, 0x20, 0x10, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0,
    ];
    let framing = Framing {
        header_digest: true,
        data_digest: true,
        ..established(Role::Controller)
    };
    let pdu = Pdu::C2HData(C2HData {
        cccid: 0x1234,
        data_offset: 0,
        data_len: 4096,
        last: true,
        success: true,
    });
    assert_eq!(Pdu::parse(&header, &framing), Ok(pdu));
    assert_eq!(emit(&pdu, &framing), header);
    let layout = framing.check(&header).unwrap().unwrap();
    assert_eq!(layout.header_digest(), 24..28);
    assert_eq!(layout.data(), 28..4124);
    assert_eq!(layout.data_digest(), 4124..4128);
    assert_eq!(layout.pdu_len(), 4128);
}

#[test]
fn the_padding_is_what_the_alignment_needs() {
    let framing = Framing {
        header_digest: true,
        alignment: 31,
        ..established(Role::Host)
    };
    let layout = framing.layout(PduType::CapsuleCmd, 512);
    assert_eq!(layout.data(), 128..640);
    assert_eq!(framing.layout(PduType::CapsuleCmd, 0).pdu_len(), 76);
}

#[test]
fn each_wrong_field_is_named_by_its_offset() {
    let framing = established(Role::Controller);
    let good = emit(
        &Pdu::C2HData(C2HData {
            cccid: 1,
            data_offset: 8,
            data_len: 4096,
            last: true,
            success: false,
        }),
        &framing,
    );
    for (at, value, fei) in [
        (0, 8, 0),    // no such type
        (0, 6, 0),    // a type of the other side
        (1, 1, 1),    // a header digest that was not agreed on
        (1, 2, 1),    // a data digest that was not agreed on
        (1, 8, 1),    // success, but not the last
        (1, 0x10, 1), // a reserved flag
        (2, 25, 2),
        (3, 28, 3),
        (3, 0, 3),
        (4, 25, 16), // PLEN and DATAL contradict each other
        (7, 1, 4),   // longer than is accepted
        (10, 1, 10), // reserved
        (20, 1, 20), // reserved
    ] {
        let mut header = good.clone();
        header[at] = value;
        assert_eq!(
            Pdu::parse(&header, &framing),
            Err(FatalError::field(fei)),
            "byte {at} is {value}"
        );
    }
    let mut beyond = good;
    beyond[12..16].fill(0xff);
    assert_eq!(
        Pdu::parse(&beyond, &framing),
        Err(FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE))
    );
}

#[test]
fn a_connection_begins_with_its_two_pdus_and_has_them_once() {
    let request = Pdu::ICReq(ICReq {
        pfv: 0,
        hpda: 0,
        digests: Digests::BOTH,
        max_r2t: 0,
    });
    let initializing = Framing::initializing(Role::Host);
    let header = emit(&request, &initializing);
    assert_eq!(header.len(), 128);
    assert_eq!(Pdu::parse(&header, &initializing), Ok(request));
    let out_of_sequence = FatalError::of(FatalErrorStatus::SEQUENCE);
    assert_eq!(
        Pdu::parse(&header, &established(Role::Host)),
        Err(out_of_sequence)
    );
    assert_eq!(initializing.check(&[4]), Err(out_of_sequence));
}

#[test]
fn a_connection_is_refused_for_what_we_do_not_know() {
    let framing = Framing::initializing(Role::Controller);
    let good = emit(
        &Pdu::ICResp(ICResp {
            pfv: 0,
            cpda: 0,
            digests: Digests::NONE,
            max_h2c_data: 4096,
        }),
        &framing,
    );
    let parse = |at: usize, value: u8| {
        let mut header = good.clone();
        header[at] = value;
        Pdu::parse(&header, &framing)
    };
    assert_eq!(
        parse(8, 1),
        Err(FatalError {
            fes: FatalErrorStatus::UNSUPPORTED_PARAMETER,
            fei: 8
        })
    );
    assert_eq!(parse(10, 32), Err(FatalError::field(10)));
    assert_eq!(parse(11, 4), Err(FatalError::field(11)));
    assert_eq!(parse(12, 1), Err(FatalError::field(12)));
    assert_eq!(parse(13, 0x0f), Err(FatalError::field(12)));
    assert_eq!(parse(127, 1), Err(FatalError::field(16)));
}

#[test]
fn a_term_req_carries_at_most_one_header() {
    let framing = established(Role::Controller);
    let term_req = |data_len| {
        Pdu::C2HTermReq(TermReq {
            error: FatalError::header_digest(0xdead_beef),
            data_len,
        })
    };
    let longest = term_req(MAX_TERM_REQ_DATA);
    let header = emit(&longest, &framing);
    assert_eq!(header[3..5], [0, 152]);
    assert_eq!(Pdu::parse(&header, &framing), Ok(longest));
    let too_long = emit(&term_req(MAX_TERM_REQ_DATA + 1), &framing);
    assert_eq!(Pdu::parse(&too_long, &framing), Err(FatalError::field(4)));
}

fn framing() -> impl Strategy<Value = Framing> {
    (any::<[bool; 4]>(), 0..=MAX_ALIGNMENT, 24..=1u32 << 24).prop_map(
        |([host, initializing, header_digest, data_digest], alignment, max_pdu)| {
            let sender = if host { Role::Host } else { Role::Controller };
            if initializing {
                return Framing::initializing(sender);
            }
            Framing {
                header_digest,
                data_digest,
                alignment,
                max_pdu,
                ..established(sender)
            }
        },
    )
}

/// A PDU that its sender may send, under rules that let it.
fn pdu() -> impl Strategy<Value = (Framing, Pdu)> {
    let numbers = (any::<[u16; 2]>(), 0..1u32 << 31, 1..1u32 << 16);
    (framing(), 0..4u8, numbers, any::<[u8; 16]>()).prop_map(
        |(framing, kind, ([first, second], offset, len), bytes)| {
            let digests = Digests {
                header: bytes[0] & 1 != 0,
                data: bytes[0] & 2 != 0,
            };
            let (alignment, last) = (bytes[1] % 32, bytes[2] & 1 != 0);
            let success = last && bytes[3] & 1 != 0;
            let term_req = TermReq {
                error: FatalError {
                    fes: FatalErrorStatus(first),
                    fei: offset,
                },
                data_len: len % (MAX_TERM_REQ_DATA + 1),
            };
            let pdu = match (framing.phase, framing.sender, kind) {
                (_, Role::Host, 0) => Pdu::H2CTermReq(term_req),
                (_, Role::Controller, 0) => Pdu::C2HTermReq(term_req),
                (Phase::Initializing, Role::Host, _) => Pdu::ICReq(ICReq {
                    pfv: 0,
                    hpda: alignment,
                    digests,
                    max_r2t: len,
                }),
                (Phase::Initializing, Role::Controller, _) => Pdu::ICResp(ICResp {
                    pfv: 0,
                    cpda: alignment,
                    digests,
                    max_h2c_data: MIN_MAXH2CDATA + len / 4 * 4,
                }),
                (_, Role::Host, 1) => Pdu::H2CData(H2CData {
                    cccid: first,
                    ttag: second,
                    data_offset: offset,
                    data_len: len,
                    last,
                }),
                (_, Role::Host, _) => Pdu::CapsuleCmd(CapsuleCmd {
                    sqe: [bytes, bytes, bytes, bytes].concat().try_into().unwrap(),
                    data_len: if kind == 2 { 0 } else { len },
                }),
                (_, Role::Controller, 1) => Pdu::C2HData(C2HData {
                    cccid: first,
                    data_offset: offset,
                    data_len: len,
                    last,
                    success,
                }),
                (_, Role::Controller, 2) => Pdu::CapsuleResp(CapsuleResp { cqe: bytes }),
                (_, Role::Controller, _) => Pdu::R2T(R2T {
                    cccid: first,
                    ttag: second,
                    offset,
                    len,
                }),
            };
            let max_pdu = framing.max_pdu.max(1 << 17);
            (Framing { max_pdu, ..framing }, pdu)
        },
    )
}

proptest! {
    #[test]
    fn what_was_written_is_read_again((framing, pdu) in pdu()) {
        let header = emit(&pdu, &framing);
        prop_assert_eq!(Pdu::parse(&header, &framing), Ok(pdu));
        let layout = framing.check(&header).unwrap().unwrap();
        prop_assert_eq!(layout, framing.layout(pdu.pdu_type(), pdu.data_len()));
        for end in 0..header.len() {
            let judged = framing.check(&header[..end]);
            prop_assert_eq!(judged, Ok((end >= COMMON_HEADER_LEN).then_some(layout)));
        }
    }

    #[test]
    fn a_changed_header_is_refused_or_is_another_one(
        (framing, pdu) in pdu(),
        changes in prop::collection::vec((0..128usize, any::<u8>()), 1..4),
    ) {
        let mut header = emit(&pdu, &framing);
        let len = header.len();
        header.resize(MAX_HEADER_LEN, 0);
        for (at, value) in changes {
            header[at % len] = value;
        }
        let whole = framing.check(&header);
        if let Ok(read) = Pdu::parse(&header, &framing) {
            let written = emit(&read, &framing);
            prop_assert_eq!(&header[..written.len()], &written[..]);
        }
        for end in 0..24 {
            // What is refused early is refused in any case.
            prop_assert!(framing.check(&header[..end]).is_ok() || whole.is_err());
        }
    }
}
