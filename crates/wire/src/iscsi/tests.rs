use proptest::prelude::*;

use super::*;

fn numbers() -> impl Strategy<Value = (RequestNumbers, ResponseNumbers)> {
    any::<[u32; 5]>().prop_map(|[cmd_sn, exp_stat_sn, stat_sn, exp_cmd_sn, max_cmd_sn]| {
        let request = RequestNumbers {
            cmd_sn,
            exp_stat_sn,
        };
        let response = ResponseNumbers {
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
        };
        (request, response)
    })
}

/// A PDU of each kind that a session needs, of either sender.
fn pdus() -> impl Strategy<Value = Pdu> {
    let tag = 0..NO_TAG;
    let lun = (0..1u16 << 14).prop_map(|number| Lun::of(number).expect("a number"));
    let words = (tag, any::<u32>(), any::<u32>(), 0..MOST_DATA);
    let flags = any::<[bool; 4]>();
    (numbers(), lun, words, flags, any::<[u8; 16]>(), 0..13u8).prop_map(
        |((request, response), lun, (task_tag, a, b, data_len), flags, cdb, kind)| {
            let [immediate, is_final, reads, writes] = flags;
            let offset = a / 2;
            let residual = match b % 3 {
                0 => Residual::None,
                1 => Residual::Underflow(a),
                _ => Residual::Overflow(a),
            };
            match kind {
                0 => Pdu::ScsiCommand(ScsiCommand {
                    immediate,
                    is_final,
                    reads,
                    writes,
                    lun,
                    task_tag,
                    expected_len: a,
                    numbers: request,
                    cdb,
                    ahs_len: (b % 40) as u16 * 4,
                    data_len,
                }),
                1 => Pdu::ScsiResponse(ScsiResponse {
                    response: a as u8,
                    status: b as u8,
                    task_tag,
                    numbers: response,
                    data_count: a,
                    residual,
                    data_len,
                }),
                2 => Pdu::DataIn(DataIn {
                    is_final: is_final || reads,
                    status: reads.then_some(b as u8),
                    task_tag,
                    numbers: response,
                    data_sn: b,
                    offset,
                    residual: if reads { residual } else { Residual::None },
                    data_len,
                }),
                3 => Pdu::DataOut(DataOut {
                    is_final,
                    lun,
                    task_tag,
                    transfer_tag: a,
                    exp_stat_sn: request.exp_stat_sn,
                    data_sn: b,
                    offset,
                    data_len,
                }),
                4 => Pdu::ReadyToTransfer(ReadyToTransfer {
                    lun,
                    task_tag,
                    transfer_tag: b / 2,
                    numbers: response,
                    r2t_sn: b,
                    offset,
                    len: data_len + 1,
                }),
                5 => Pdu::NopOut(NopOut {
                    immediate,
                    lun,
                    task_tag,
                    transfer_tag: a,
                    numbers: request,
                    data_len,
                }),
                6 => Pdu::NopIn(NopIn {
                    lun,
                    task_tag,
                    transfer_tag: a,
                    numbers: response,
                    data_len,
                }),
                7 => Pdu::LoginRequest(LoginRequest {
                    stage: Stage::Operational,
                    next: is_final.then_some(Stage::FullFeature),
                    continues: !is_final && reads,
                    isid: [1, 2, 3, 4, 5, cdb[0]],
                    tsih: a as u16,
                    task_tag,
                    cid: b as u16,
                    numbers: request,
                    data_len,
                }),
                8 => Pdu::LoginResponse(LoginResponse {
                    stage: Stage::Security,
                    next: is_final.then_some(Stage::Operational),
                    continues: !is_final && reads,
                    isid: [1, 2, 3, 4, 5, cdb[0]],
                    tsih: a as u16,
                    task_tag,
                    numbers: response,
                    status: LoginStatus::SUCCESS,
                    data_len,
                }),
                9 => Pdu::TextRequest(TextRequest {
                    immediate,
                    is_final,
                    continues: !is_final && reads,
                    lun,
                    task_tag,
                    transfer_tag: a,
                    numbers: request,
                    data_len,
                }),
                10 => Pdu::TextResponse(TextResponse {
                    is_final,
                    continues: !is_final && reads,
                    lun,
                    task_tag,
                    transfer_tag: a,
                    numbers: response,
                    data_len,
                }),
                11 => Pdu::LogoutRequest(LogoutRequest {
                    immediate,
                    reason: (a % 3) as u8,
                    task_tag,
                    cid: b as u16,
                    numbers: request,
                }),
                _ => Pdu::Reject(Reject {
                    reason: RejectReason(a as u8),
                    numbers: response,
                    data_len,
                }),
            }
        },
    )
}

fn framing(pdu: &Pdu) -> Framing {
    let code = pdu.opcode() as u8;
    let is_login = matches!(pdu.opcode(), Opcode::LoginRequest | Opcode::LoginResponse);
    Framing {
        sender: match code & 0x20 {
            0 => Role::Initiator,
            _ => Role::Target,
        },
        phase: match is_login {
            true => Phase::Login,
            false => Phase::FullFeature,
        },
        header_digest: false,
        data_digest: false,
        max_data: MOST_DATA,
    }
}

proptest! {
    #[test]
    fn a_pdu_is_read_as_it_was_written(pdu in pdus()) {
        let framing = framing(&pdu);
        let mut header = [0xaa; BHS_LEN];
        pdu.emit(&mut header);
        for len in 0..8 {
            prop_assert_eq!(framing.check(&header[..len]), Ok(None));
        }
        let lengths = framing.check(&header).unwrap().unwrap();
        prop_assert_eq!(lengths, pdu.lengths());
        prop_assert_eq!(Pdu::parse(&header, &lengths), Ok(pdu));
    }

    #[test]
    fn any_header_is_a_pdu_or_an_error(mut header in any::<[u8; 48]>(), opcode in 0..64u8, sender in any::<bool>()) {
        header[0] = opcode;
        header[4] = 0;
        let sender = if sender { Role::Initiator } else { Role::Target };
        for phase in [Phase::Login, Phase::FullFeature] {
            let framing = Framing { phase, max_data: MOST_DATA, ..Framing::login(sender) };
            if let Ok(Some(lengths)) = framing.check(&header)
                && let Ok(pdu) = Pdu::parse(&header, &lengths)
            {
                let mut again = [0; BHS_LEN];
                pdu.emit(&mut again);
                let lengths = framing.check(&again).unwrap().unwrap();
                prop_assert_eq!(Pdu::parse(&again, &lengths), Ok(pdu));
            }
        }
    }

    #[test]
    fn text_is_read_as_it_was_written(keys in proptest::collection::vec(("[A-Za-z]{1,63}", "[ -<>-~]{0,40}"), 0..9)) {
        let mut text = Vec::new();
        for (key, value) in &keys {
            Pair { key, value }.emit(&mut text);
        }
        let read: Result<Vec<_>, _> = pairs(&text).collect();
        let read: Vec<_> = read.unwrap().iter().map(|pair| (pair.key.to_owned(), pair.value.to_owned())).collect();
        prop_assert_eq!(read, keys);
    }
}

#[test]
fn what_may_not_come_is_refused_by_name() {
    let target = Framing {
        phase: Phase::FullFeature,
        max_data: 4096,
        ..Framing::login(Role::Target)
    };
    for (bytes, words) in [
        (&[0x01u8][..], "opcode 0x01 is unknown, or out of turn"),
        (&[0x23], "opcode 0x23 is unknown, or out of turn"),
        (
            &[0x21, 0],
            "flags 0x00 are impossible in a PDU of kind ScsiResponse",
        ),
        (
            &[0x25, 0x80, 0, 0, 1],
            "4 bytes of additional headers in a PDU of kind DataIn",
        ),
        (
            &[0x25, 0x80, 0, 0, 0, 0, 0x10, 1],
            "4097 bytes of data in a PDU of kind DataIn, at most 4096 are accepted",
        ),
    ] {
        assert_eq!(target.check(bytes).unwrap_err().to_string(), words);
    }
    for text in [&b"novalue\0"[..], b"=x\0", b"\xff=x\0"] {
        assert!(pairs(text).any(|pair| pair.is_err()));
    }
}

#[test]
fn units_are_named_by_number() {
    assert_eq!(Lun::of(0), Some(Lun::default()));
    assert_eq!(Lun::of(300).map(|lun| lun.to_string()), Some("300".into()));
    assert_eq!(Lun::of(1 << 14), None);
}
