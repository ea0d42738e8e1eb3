//! PDUs that no controller may send, and some that one may.

use l5p::nvme::initiator::{Access, Config, Incoming};
use testkit::written;
use wire::nvme::command::{CompletionEntry, Status};
use wire::nvme::{C2HData, CapsuleResp, Digests, FatalError, H2CData, ICResp, Pdu, R2T, TermReq};

use super::ready;
use crate::pair::{Pair, config, read_io, write_io};

/// PDUs that no controller may send, each to a host with a read of 8 KiB and a write of 64 KiB in flight; and some that one may.
#[test]
fn pdus_made_by_hand() {
    let response = |cid: u16, status: Status| {
        let entry = CompletionEntry {
            result: 5,
            sq_head: 3,
            cid,
            status,
        };
        Pdu::CapsuleResp(CapsuleResp {
            cqe: entry.to_bytes(),
        })
    };
    let data = |cccid, data_offset, data_len, last, success| {
        Pdu::C2HData(C2HData {
            cccid,
            data_offset,
            data_len,
            last,
            success,
        })
    };
    let r2t = |cccid, offset, len| {
        Pdu::R2T(R2T {
            cccid,
            ttag: 9,
            offset,
            len,
        })
    };
    let term = TermReq {
        error: FatalError::field(8),
        data_len: 0,
    };
    let ic = ICResp {
        pfv: 0,
        cpda: 0,
        digests: Digests::BOTH,
        max_h2c_data: 4096,
    };
    let h2c = H2CData {
        cccid: 0,
        ttag: 0,
        data_offset: 0,
        data_len: 4,
        last: true,
    };
    let cases = [
        vec![response(0, Status::SUCCESS)],
        vec![response(1, Status::SUCCESS)],
        vec![response(1, Status::WRITE_FAULT)],
        vec![response(2, Status::SUCCESS)],
        vec![response(99, Status::SUCCESS)],
        vec![response(0, Status::LBA_OUT_OF_RANGE.do_not_retry())],
        vec![data(0, 0, 8192, true, true)],
        vec![data(0, 0, 8192, true, false), response(0, Status::SUCCESS)],
        vec![data(0, 0, 4096, false, false), response(0, Status::SUCCESS)],
        vec![
            data(0, 0, 4096, false, false),
            data(0, 4096, 4096, true, true),
        ],
        vec![data(0, 0, 4096, false, false), data(0, 0, 4096, true, true)],
        vec![data(0, 0, 4096, true, true)],
        vec![data(0, 0, 8192, false, true)],
        vec![data(0, 0, 8192, false, false), response(0, Status::SUCCESS)],
        vec![data(0, 4096, 4096, true, false)],
        vec![data(0, 0, 8196, true, false)],
        vec![data(0, 8192, 4, true, false)],
        vec![data(1, 0, 4096, true, false)],
        vec![data(2, 0, 4096, true, false)],
        vec![
            r2t(1, 0, 4096),
            r2t(1, 4096, 61_440),
            response(1, Status::SUCCESS),
        ],
        vec![r2t(1, 0, 65_536), response(1, Status::SUCCESS)],
        vec![r2t(1, 0, 4096), r2t(1, 4096, 4096), r2t(1, 8192, 4096)],
        vec![r2t(1, 4096, 4096)],
        vec![r2t(1, 0, 65_540)],
        vec![r2t(1, 65_532, 8)],
        vec![r2t(1, 0, 0)],
        vec![r2t(1, 0, 4096), r2t(1, 0, 4096)],
        vec![r2t(0, 0, 4096)],
        vec![r2t(7, 0, 4096)],
        vec![Pdu::C2HTermReq(term)],
        vec![Pdu::H2CTermReq(term)],
        vec![Pdu::ICResp(ic)],
        vec![Pdu::H2CData(h2c)],
    ];
    let mut lines = Vec::new();
    for pdus in cases {
        let mut pair = ready(Config {
            io_queues: 1,
            retries: 0,
            reconnect: None,
            max_r2ts: 2,
            ..config()
        });
        let reads = pair
            .host
            .submit(Access {
                nsid: 1,
                io: read_io(0, 8192),
            })
            .unwrap();
        let writes = pair
            .host
            .submit(Access {
                nsid: 1,
                io: write_io(0, 65_536),
            })
            .unwrap();
        let sent = |pair: &mut Pair| {
            let all: Vec<String> = std::iter::from_fn(|| pair.host.poll_pdu(1))
                .map(|outgoing| match outgoing.pdu {
                    Pdu::CapsuleCmd(_) => "command".to_owned(),
                    pdu => format!("{pdu:?}"),
                })
                .collect();
            all.join(", ")
        };
        assert_eq!(
            (sent(&mut pair).as_str(), reads.index(), writes.index()),
            ("command, command", 0, 1)
        );
        for pdu in pdus {
            let (now, len) = (pair.rig.now, pdu.data_len());
            let incoming = pair.host.handle_header(now, 1, &pdu);
            let said = match incoming {
                Ok(Incoming::Data { offset, len, .. }) => format!("{len} at {offset}"),
                Ok(other) => format!("{other:?}"),
                Err(error) => error.to_string(),
            };
            if incoming.is_ok() {
                pair.host.handle_end(now, 1, true, &[]);
            }
            let mut short = crate::lines::pdu(&pdu, &[]);
            short.truncate(90);
            lines.push(format!("{short} [{len}] -> {said} | {}", sent(&mut pair)));
        }
        pair.completions();
        while let Some(action) = pair.host.poll_action() {
            pair.rig.note(|| format!("host: {action:?}"));
        }
        lines.extend(
            pair.rig
                .trace
                .take()
                .unwrap()
                .into_iter()
                .map(|line| format!("  {line}")),
        );
    }
    written::compare(
        env!("CARGO_MANIFEST_DIR"),
        "nvme_initiator_pdus_made_by_hand",
        &lines,
    );
}
