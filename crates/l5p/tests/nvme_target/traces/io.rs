//! I/O commands, and hosts that break the rules.

use super::*;

#[test]
fn reading_and_writing() {
    let (mut rig, admin, io) = in_pieces();
    let data = testkit::pattern(4096);
    for fua in [false, true] {
        let write = |start, count| Io::Write {
            blocks: blocks(start, count),
            fua,
        };
        let read = |start, count| Io::Read {
            blocks: blocks(start, count),
            fua,
        };
        let same = |start, count| Io::Compare {
            blocks: blocks(start, count),
            fua,
        };
        say(
            &mut rig,
            io,
            write(8, 8).entry(1, 1).with_data(in_capsule(4096)),
            &data,
        );
        say(
            &mut rig,
            io,
            write(16, 20).entry(2, 7).with_data(transport(20 * 512)),
            &[],
        );
        say(
            &mut rig,
            io,
            read(7, 40).entry(3, 1).with_data(transport(40 * 512)),
            &[],
        );
        say(
            &mut rig,
            io,
            same(8, 8).entry(4, 1).with_data(in_capsule(4096)),
            &data,
        );
        say(
            &mut rig,
            io,
            same(9, 8).entry(5, 1).with_data(in_capsule(4096)),
            &data,
        );
        say(
            &mut rig,
            io,
            same(16, 20).entry(6, 7).with_data(transport(20 * 512)),
            &[],
        );
        let zeroes = Io::WriteZeroes {
            blocks: blocks(20, 3),
            fua,
            deallocate: !fua,
        };
        say(&mut rig, io, zeroes.entry(7, 7), &[]);
        say(&mut rig, io, Io::Flush.entry(8, 1), &[]);
        say(
            &mut rig,
            admin,
            set(Feature::VOLATILE_WRITE_CACHE, u32::from(fua)),
            &[],
        );
    }
    let range = |start, count| {
        Range {
            attributes: 0,
            count,
            start,
        }
        .to_bytes()
    };
    let ranges = [range(0, 3), range(7, 0), range(100, 200)].concat();
    for (count, deallocate) in [(3, true), (2, true), (3, false)] {
        let say_of = Io::DatasetManagement {
            ranges: count,
            deallocate,
        };
        let len = 16 * u32::from(count);
        say(
            &mut rig,
            io,
            say_of.entry(9, 1).with_data(in_capsule(len)),
            &ranges[..len as usize],
        );
        say(
            &mut rig,
            io,
            say_of.entry(10, 1).with_data(transport(len)),
            &[],
        );
    }
    compare("nvme_target_reading_and_writing", rig);
}

#[test]
fn commands_that_are_refused() {
    let (mut rig, _, io) = in_pieces();
    let read = |start, count| Io::Read {
        blocks: blocks(start, count),
        fua: false,
    };
    let write = |start, count| Io::Write {
        blocks: blocks(start, count),
        fua: false,
    };
    let zeroes = |start, count| Io::WriteZeroes {
        blocks: blocks(start, count),
        fua: false,
        deallocate: false,
    };
    let trim = |ranges| Io::DatasetManagement {
        ranges,
        deallocate: true,
    };
    let cases = [
        (1, read(BLOCKS, 1), 512),
        (1, read(BLOCKS - 1, 1), 512),
        (1, read(BLOCKS - 1, 2), 1024),
        (1, read(u64::MAX, 1), 512),
        (1, read(u64::MAX - 1, 2), 1024),
        (1, read(1 << 55, 1), 512),
        (1, read(0, 2048), 2048 * 512),
        (1, read(0, 2049), 2049 * 512),
        (1, read(0, 1), 511),
        (1, read(0, 1), 513),
        (1, read(0, 1), 0),
        (0, read(0, 1), 512),
        (2, read(0, 1), 512),
        (u32::MAX, read(0, 1), 512),
        (1, write(BLOCKS, 1), 512),
        (1, write(0, 1), 1024),
        (1, write(0, 2049), 2049 * 512),
        (3, write(0, 1), 512),
        (1, zeroes(BLOCKS - 1, 2), 0),
        (1, zeroes(0, 4096), 0),
        (1, zeroes(0, 65536), 0),
        (u32::MAX, Io::Flush, 0),
        (0, Io::Flush, 0),
        (8, Io::Flush, 0),
        (1, trim(1), 15),
        (1, trim(2), 16),
        (1, trim(256), 4096),
        (9, trim(1), 16),
    ];
    for (cid, (nsid, command, len)) in (1..).zip(cases) {
        let entry = command.entry(cid, nsid).with_data(transport(len));
        brief(
            &mut rig,
            io,
            &format!("{command:?} of {nsid:x} with {len}"),
            entry,
        );
    }
    for flag in [1 << 26, 1 << 29, 1 << 31] {
        for opcode in [1, 2, 5, 8] {
            let cid = (flag >> 20) as u16 + u16::from(opcode);
            let mut entry = SubmissionEntry::new(opcode, cid, 1).with_data(transport(512));
            entry.cdw10[2] = flag;
            brief(&mut rig, io, &format!("{opcode:x} with {flag:x}"), entry);
        }
    }
    compare("nvme_target_commands_that_are_refused", rig);
}

#[test]
fn hosts_that_break_the_rules() {
    let all = testkit::pattern(1 << 16);
    let mut lines = Vec::new();
    let changes: [fn(&mut H2CData); 16] = [
        |_| {},
        |d| d.cccid += 1,
        |d| d.ttag += 1,
        |d| d.ttag = 127,
        |d| d.ttag = 128,
        |d| d.data_offset += 4,
        |d| d.data_offset += 4096,
        |d| d.data_offset = 0xffff_e000,
        |d| d.data_len -= 4,
        |d| d.data_len += 4,
        |d| d.data_len = 0,
        |d| d.last = false,
        |d| (d.data_len, d.last) = (2048, false),
        |d| (d.data_offset, d.data_len) = (2048, 2048),
        |d| (d.data_offset, d.data_len) = (12288, 4096),
        |d| d.data_len = u32::MAX,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (mut rig, _, io) = in_pieces();
        let write = Io::Write {
            blocks: blocks(0, 32),
            fua: false,
        };
        rig.command(io, write.entry(0x77, 1).with_data(transport(32 * 512)), &[]);
        let asked = drain(&mut rig, io);
        rig.trace = Some(vec![format!("{number}")]);
        for r2t in &asked {
            let mut data = H2CData {
                cccid: r2t.cccid,
                ttag: r2t.ttag,
                data_offset: r2t.offset,
                data_len: r2t.len,
                last: true,
            };
            change(&mut data);
            let len = data.data_len.min(1 << 16) as usize;
            if rig.send(io, Pdu::H2CData(data), &all[..len]).is_err() {
                break;
            }
        }
        drain(&mut rig, io);
        rig.wait(SECOND);
        lines.extend(rig.trace.take().unwrap());
    }
    for pdu in [
        Pdu::ICReq(ICReq {
            pfv: 0,
            hpda: 0,
            digests: Digests::NONE,
            max_r2t: 0,
        }),
        Pdu::H2CTermReq(TermReq {
            error: FatalError::field(8),
            data_len: 0,
        }),
        Pdu::C2HTermReq(TermReq {
            error: FatalError::field(8),
            data_len: 0,
        }),
        Pdu::R2T(R2T {
            cccid: 0,
            ttag: 0,
            offset: 0,
            len: 512,
        }),
    ] {
        let (mut rig, admin, io) = in_pieces();
        _ = rig.send(io, pdu, &[]);
        _ = rig.send(admin, pdu, &[]);
        sum_up(&mut rig);
        lines.extend(rig.trace.take().unwrap());
    }
    // Capsules of the lengths that they may have, and not.
    let (mut rig, admin, io) = in_pieces();
    for (id, said, len) in [
        (admin, 64, 64),
        (admin, 8192, 8192),
        (io, 512, 512),
        (io, 512, 256),
        (io, 512, 1024),
        (io, 512, 0),
        (io, 0, 512),
        (io, 4096, 4096),
        (io, 4100, 4100),
        (admin, 8196, 8196),
    ] {
        let write = Io::Write {
            blocks: blocks(0, (said / 512).max(1)),
            fua: false,
        };
        let entry = write.entry(1, 1).with_data(in_capsule(said));
        let capsule = wire::nvme::CapsuleCmd {
            sqe: entry.to_bytes(),
            data_len: len,
        };
        let intact = said != 4096;
        _ = rig.send_damaged(id, Pdu::CapsuleCmd(capsule), &all[..len as usize], intact);
        drain(&mut rig, id);
    }
    lines.extend(rig.trace.take().unwrap());
    written::compare(
        env!("CARGO_MANIFEST_DIR"),
        "nvme_target_hosts_that_break_the_rules",
        &lines,
    );
}
