//! What a session finds out first: a unit, or targets.

use super::*;

#[test]
fn units_and_targets() {
    let mut lines = Vec::new();
    for device in [[0, 0], [0x20, 0], [0x1f, 0], [5, 0x80], [0, 0x80]] {
        lines.push(format!("{device:x?}"));
        let mut talk = Talk::logged_in(config());
        let before = talk.lines.len();
        talk.probe(&device);
        lines.extend(
            talk.lines
                .split_off(before)
                .into_iter()
                .filter(|line| !line.starts_with(['<', '>'])),
        );
    }
    // Errors at each step.
    let sense = |key: u8, code: u8| {
        [
            0, 18, 0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, code, 0, 0, 0, 0, 0,
        ]
    };
    for (status, sense) in [
        (2, sense(6, 0x29)),
        (2, sense(5, 0x20)),
        (2, sense(2, 4)),
        (8, sense(0, 0)),
        (2, sense(1, 0x17)),
    ] {
        for good in 0..5 {
            let mut talk = Talk::logged_in(config());
            let mut inquiry = [0; 36];
            inquiry[4] = 31;
            let mut capacity = [0; 32];
            capacity[7] = 99;
            capacity[10] = 2;
            for answer in [&inquiry[..], &[], &capacity, &[3, 0, 0, 0]]
                .into_iter()
                .take(good)
            {
                let task = talk.task();
                match answer {
                    [] => talk.respond(task, 0, 0, Residual::None, &[]),
                    answer => talk.data_in(
                        task,
                        0,
                        answer,
                        Some(0),
                        Residual::Underflow(255u32.saturating_sub(answer.len() as u32)),
                    ),
                };
            }
            let before = talk.lines.len();
            for _ in 0..5 {
                let task = talk.task();
                if !talk.respond(task, 0, status, Residual::None, &sense) {
                    break;
                }
            }
            let said: Vec<String> = talk
                .lines
                .split_off(before)
                .into_iter()
                .filter(|line| !line.starts_with('<'))
                .collect();
            lines.push(format!(
                "{status} {:?} behind {good}: {} lines {:08x} {}",
                &sense[4..5],
                said.len(),
                written::sum_lines(&said) as u32,
                said.last().map_or("", String::as_str)
            ));
        }
    }
    let mut talk = Talk::logged_in(Config {
        target: None,
        ..config()
    });
    let parts = [
        "TargetName=iqn.a\0TargetAddress=10.0.0.1:3260,1\0TargetAddr",
        "ess=[fd00::1]:3260,2\0Other=1\0TargetName=iqn.b\0",
    ];
    for (n, part) in parts.into_iter().enumerate() {
        let response = TextResponse {
            is_final: n == 1,
            continues: false,
            lun: Lun::default(),
            task_tag: 0xffff_fffe,
            transfer_tag: if n == 1 { NO_TAG } else { 9 },
            numbers: talk.numbers(),
            data_len: part.len() as u32,
        };
        talk.stat_sn += 1;
        talk.hear(Pdu::TextResponse(response), part.as_bytes(), true);
    }
    talk.host.shutdown();
    talk.poll();
    lines.extend(talk.lines);
    compare("iscsi_units_and_targets", lines);
}
