//! Answers that are wrong, or tell of failures.

use super::*;

/// What the lines of a session's beginning say is told once.
fn ready(lines: &mut Vec<String>, name: &str) -> Talk {
    lines.push(name.to_owned());
    let mut talk = Talk::new(config());
    talk.set_up();
    talk.lines.clear();
    talk
}

/// The kind of a PDU, and why it is refused.
fn in_short(line: &str) -> String {
    let kind = line.split(" { ").next().unwrap_or_default();
    match line.split_once("}): ") {
        Some((_, said)) => format!("  {kind}: {said}"),
        None => format!("  {kind}"),
    }
}

/// Asks for a negotiation.
fn ask(talk: &mut Talk) {
    let message = AsyncMessage {
        lun: Lun::default(),
        numbers: talk.numbers(),
        event: 4,
        parameters: [0, 0, 3],
        data_len: 0,
    };
    talk.stat_sn += 1;
    talk.hear(Pdu::AsyncMessage(message), &[], true);
}

fn text(talk: &mut Talk, task_tag: u32, transfer_tag: u32, continues: bool, text: &str) {
    let is_whole = !text.is_empty() && !continues;
    let text = text.replace(' ', "\0") + if is_whole { "\0" } else { "" };
    let response = TextResponse {
        is_final: transfer_tag == NO_TAG,
        continues,
        lun: Lun::default(),
        task_tag,
        transfer_tag,
        numbers: talk.numbers(),
        data_len: text.len() as u32,
    };
    talk.stat_sn += 1;
    talk.hear(Pdu::TextResponse(response), text.as_bytes(), true);
}

/// Negotiations that the target asks for (RFC 7143 §11.9.1).
fn negotiations(lines: &mut Vec<String>) {
    const TAG: u32 = 0xffff_fffd;
    type Case = fn(&mut Talk);
    let cases: [(&str, Case); 7] = [
        ("asked twice, then over", |t| {
            ask(t);
            ask(t);
            text(t, TAG, NO_TAG, false, "");
            text(t, TAG, NO_TAG, false, "");
        }),
        ("a shorter segment", |t| {
            ask(t);
            text(t, TAG, 7, true, "MaxRecvData");
            text(
                t,
                TAG,
                8,
                false,
                "SegmentLength=512 TargetAlias=x MaxBurstLength=512 X-y=z",
            );
            text(t, TAG, NO_TAG, false, "");
            let write = t.submit(Transfer::Write, 4096);
            t.ready(write, 0, 512, 3584);
        }),
        ("a longer segment", |t| {
            ask(t);
            text(t, TAG, NO_TAG, false, "MaxRecvDataSegmentLength=100000");
            let write = t.submit(Transfer::Write, 10_240);
            t.ready(write, 0, 2048, 8192);
        }),
        ("a segment of no length", |t| {
            ask(t);
            text(t, TAG, NO_TAG, false, "MaxRecvDataSegmentLength=0");
        }),
        ("without end", |t| {
            ask(t);
            for tag in 0..17 {
                text(t, TAG, tag, false, "");
            }
        }),
        ("not asked for", |t| text(t, TAG, NO_TAG, false, "")),
        ("of another task", |t| {
            ask(t);
            text(t, TAG + 1, NO_TAG, false, "");
        }),
    ];
    for (name, case) in cases {
        let mut talk = ready(lines, &format!("negotiation: {name}"));
        case(&mut talk);
        lines.extend(talk.lines.iter().map(|line| match line.contains(" \"") {
            true => format!("  {line}"),
            false => in_short(line),
        }));
    }
}

/// Answers to a logout: to one that was not sent, of another task, and the right one.
fn logouts(lines: &mut Vec<String>) {
    let mut talk = ready(lines, "logout");
    let answer = |talk: &mut Talk, task_tag| {
        let response = LogoutResponse {
            response: 0,
            task_tag,
            numbers: talk.numbers(),
            wait: 2,
            retain: 0,
        };
        talk.stat_sn += 1;
        talk.hear(Pdu::LogoutResponse(response), &[], true);
    };
    talk.host.shutdown();
    answer(&mut talk, 0xffff_fffe);
    answer(&mut talk, 1);
    answer(&mut talk, 0xffff_fffe);
    lines.extend(talk.lines.iter().map(|line| in_short(line)));
}

#[test]
fn what_goes_wrong() {
    let mut lines = Vec::new();
    type Case = fn(&mut Talk, u32, u32);
    let cases: [(&str, Case); 37] = [
        ("short read", |t, read, _| {
            _ = t.data_in(read, 0, &[1; 2048], Some(0), Residual::None)
        }),
        ("short and said so", |t, read, _| {
            _ = t.data_in(read, 0, &[1; 2048], Some(0), Residual::Underflow(2048))
        }),
        ("twice", |t, read, _| {
            t.data_in(read, 0, &[1; 2048], None, Residual::None);
            t.data_in(read, 2047, &[1; 10], None, Residual::None);
        }),
        ("behind", |t, read, _| {
            _ = t.data_in(read, 4000, &[1; 97], None, Residual::None)
        }),
        ("at the end", |t, read, _| {
            _ = t.data_in(read, 4000, &[1; 96], None, Residual::None)
        }),
        ("of a write", |t, _, write| {
            _ = t.data_in(write, 0, &[1; 96], None, Residual::None)
        }),
        ("of no task", |t, read, _| {
            _ = t.data_in(read ^ 0x10000, 0, &[1; 96], None, Residual::None)
        }),
        ("of no tag", |t, _, _| {
            _ = t.data_in(900, 0, &[1; 96], None, Residual::None)
        }),
        ("status without data", |t, read, _| {
            _ = t.respond(read, 0, 0, Residual::None, &[])
        }),
        ("all underflown", |t, read, _| {
            _ = t.respond(read, 0, 0, Residual::Underflow(4096), &[])
        }),
        ("more underflown", |t, read, _| {
            _ = t.respond(read, 0, 0, Residual::Underflow(5000), &[])
        }),
        ("busy", |t, read, _| {
            _ = t.respond(read, 0, 8, Residual::None, &[])
        }),
        ("full", |t, read, _| {
            _ = t.respond(read, 0, 0x28, Residual::None, &[])
        }),
        ("aborted", |t, read, _| {
            _ = t.respond(read, 0, 0x40, Residual::None, &[])
        }),
        ("conflict", |t, read, _| {
            _ = t.respond(read, 0, 0x18, Residual::None, &[])
        }),
        ("target failure", |t, read, _| {
            _ = t.respond(read, 1, 0, Residual::None, &[])
        }),
        ("no sense", |t, read, _| {
            _ = t.respond(read, 0, 2, Residual::None, &[])
        }),
        ("medium error", |t, read, _| {
            _ = t.respond(
                read,
                0,
                2,
                Residual::None,
                &[
                    0, 18, 0x70, 0, 3, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0,
                ],
            )
        }),
        ("attention", |t, read, _| {
            _ = t.respond(
                read,
                0,
                2,
                Residual::None,
                &[
                    0, 18, 0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 0, 0, 0, 0, 0,
                ],
            )
        }),
        ("deferred", |t, read, _| {
            _ = t.respond(
                read,
                0,
                2,
                Residual::None,
                &[
                    0, 18, 0x71, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 0, 0, 0, 0, 0,
                ],
            )
        }),
        ("by descriptors", |t, read, _| {
            _ = t.respond(
                read,
                0,
                2,
                Residual::None,
                &[0, 8, 0x72, 0x0b, 0x47, 1, 0, 0, 0, 0],
            )
        }),
        ("cut sense", |t, read, _| {
            _ = t.respond(read, 0, 2, Residual::None, &[0, 99, 0x70, 0, 5])
        }),
        ("write not asked for", |t, _, write| {
            _ = t.respond(write, 0, 0, Residual::None, &[])
        }),
        ("write underflown", |t, _, write| {
            t.ready(write, 0, 2048, 8192);
            t.respond(write, 0, 0, Residual::Underflow(2048), &[]);
        }),
        ("number of a Data-In", |t, read, _| {
            t.data_sns.insert(read, 1);
            t.data_in(read, 0, &[1; 512], None, Residual::None);
        }),
        ("number of the second Data-In", |t, read, _| {
            t.data_in(read, 0, &[1; 512], None, Residual::None);
            t.data_sns.insert(read, 2);
            t.data_in(read, 512, &[1; 512], None, Residual::None);
        }),
        (
            "number of a Data-In behind one without data",
            |t, read, _| {
                t.data_in(read, 0, &[], None, Residual::None);
                t.data_in(read, 0, &[1; 512], None, Residual::None);
                t.data_sns.insert(read, 3);
                t.data_in(read, 512, &[1; 512], None, Residual::None);
            },
        ),
        ("number of an R2T", |t, _, write| {
            _ = t.ready(write, 1, 2048, 512)
        }),
        ("R2T behind", |t, _, write| {
            _ = t.ready(write, 0, 10_000, 300)
        }),
        ("R2T of what was sent", |t, _, write| {
            _ = t.ready(write, 0, 2047, 300)
        }),
        ("long R2T", |t, _, write| {
            _ = t.ready(write, 0, 2048, 16_385)
        }),
        ("R2T of a read", |t, read, _| _ = t.ready(read, 0, 0, 300)),
        ("a status is missing", |t, read, _| {
            t.stat_sn += 1;
            t.respond(read, 0, 0, Residual::None, &[]);
        }),
        ("damaged data", |t, read, _| {
            let pdu = DataIn {
                is_final: true,
                status: Some(0),
                task_tag: read,
                numbers: t.numbers(),
                data_sn: 0,
                offset: 0,
                residual: Residual::None,
                data_len: 4096,
            };
            t.hear(Pdu::DataIn(pdu), &[], false);
        }),
        ("damaged sense", |t, read, _| {
            let pdu = ScsiResponse {
                response: 0,
                status: 2,
                task_tag: read,
                numbers: t.numbers(),
                data_count: 0,
                residual: Residual::None,
                data_len: 20,
            };
            t.hear(Pdu::ScsiResponse(pdu), &[0; 20], false);
        }),
        ("rejected", |t, _, _| {
            let pdu = Reject {
                reason: RejectReason(4),
                numbers: t.numbers(),
                data_len: 48,
            };
            t.hear(Pdu::Reject(pdu), &[0; 48], true);
        }),
        ("out of turn", |t, _, _| {
            t.login(Stage::Security, None, LoginStatus::SUCCESS, "");
        }),
    ];
    for (name, case) in cases {
        let mut talk = ready(&mut lines, name);
        let read = talk.submit(Transfer::Read, 4096);
        let write = talk.submit(Transfer::Write, 10_240);
        talk.lines.clear();
        case(&mut talk, read, write);
        lines.extend(
            talk.lines
                .into_iter()
                .filter(|line| !line.starts_with('<') || line.contains("}): "))
                .map(|line| match line.split_once("}): ") {
                    Some((_, said)) => format!("  {said}"),
                    None if line.starts_with('<') => String::from("  taken"),
                    None => format!("  {line}"),
                }),
        );
    }
    for event in 0..6 {
        let mut talk = ready(&mut lines, &format!("event {event}"));
        let read = talk.submit(Transfer::Read, 512);
        let message = AsyncMessage {
            lun: Lun::default(),
            numbers: talk.numbers(),
            event,
            parameters: [0, 2, 3],
            data_len: 0,
        };
        talk.lines.clear();
        talk.stat_sn += 1;
        talk.hear(Pdu::AsyncMessage(message), &[], true);
        talk.submit(Transfer::None, 0);
        talk.data_in(read, 0, &[1; 512], Some(0), Residual::None);
        talk.answer_logout();
        lines.extend(talk.lines.into_iter().map(|line| in_short(&line)));
    }
    negotiations(&mut lines);
    logouts(&mut lines);
    compare("iscsi_what_goes_wrong", lines);
}
