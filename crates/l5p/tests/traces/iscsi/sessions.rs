//! Sessions from login to logout.

use super::*;

#[test]
fn a_session() {
    let mut talk = Talk::new(config());
    talk.set_up();
    let read = talk.submit(Transfer::Read, 4096);
    talk.data_in(read, 2048, &[2; 2048], None, Residual::None);
    talk.data_in(read, 0, &[1; 2048], Some(0), Residual::None);
    let write = talk.submit(Transfer::Write, 20_480);
    talk.ready(write, 0, 2048, 16_384);
    talk.ready(write, 1, 18_432, 2048);
    talk.respond(write, 0, 0, Residual::None, &[]);
    let flush = talk.submit(Transfer::None, 0);
    talk.respond(flush, 0, 0, Residual::None, &[]);
    let nop = |talk: &Talk, transfer_tag| NopIn {
        lun: Lun::default(),
        task_tag: NO_TAG,
        transfer_tag,
        numbers: talk.numbers(),
        data_len: 0,
    };
    for transfer_tag in [7, NO_TAG] {
        let nop = nop(&talk, transfer_tag);
        talk.hear(Pdu::NopIn(nop), &[], true);
    }
    for _ in 0..5 {
        talk.submit(Transfer::None, 0);
    }
    let agreed = *talk.host.agreed();
    talk.lines.push(format!("{agreed:?}"));
    talk.host.shutdown();
    for tag in 0..4 {
        let bits = talk.sent.iter().rev().find_map(|sent| match sent.pdu {
            Pdu::ScsiCommand(command) if TaskTag::from_bits(command.task_tag).tag == tag => {
                Some(command.task_tag)
            }
            _ => None,
        });
        talk.respond(bits.expect("each tag was used"), 0, 0, Residual::None, &[]);
    }
    talk.answer_logout();
    compare("iscsi_session", talk.lines);
}

#[test]
fn logins() {
    let mut lines = Vec::new();
    let (security, operational, full) = (Stage::Security, Stage::Operational, Stage::FullFeature);
    let success = LoginStatus::SUCCESS;
    let chap = || {
        Some(Chap {
            user: "me".into(),
            secret: b"a long secret".to_vec(),
        })
    };
    let mut told =
        |name: &str, chap: Option<Chap>, steps: &[(Stage, Option<Stage>, LoginStatus, &str)]| {
            lines.push(name.to_owned());
            let mut talk = Talk::new(Config {
                chap,
                data_digest: true,
                ..config()
            });
            for (stage, next, status, text) in steps {
                if !talk.login(*stage, *next, *status, text) {
                    break;
                }
            }
            lines.extend(
                talk.lines
                    .into_iter()
                    .skip(1)
                    .filter(|line| !line.starts_with('<') || line.contains("}): ")),
            );
        };
    let method = (security, None, success, "AuthMethod=CHAP");
    told(
        "chap",
        chap(),
        &[
            method,
            (security, None, success, "CHAP_A=5 CHAP_I=7 CHAP_C=0x00ff10"),
            (security, Some(operational), success, ""),
        ],
    );
    told(
        "chap in base64",
        chap(),
        &[
            method,
            (
                security,
                None,
                success,
                "CHAP_A=5 CHAP_I=0x10 CHAP_C=0bAAECAwQFBgc=",
            ),
        ],
    );
    for text in [
        "CHAP_A=7 CHAP_I=7 CHAP_C=0x00",
        "CHAP_A=5 CHAP_I=256 CHAP_C=0x00",
        "CHAP_A=5 CHAP_C=0x00",
        "CHAP_A=5 CHAP_I=1",
        "CHAP_A=5 CHAP_I=1 CHAP_C=zz",
        "CHAP_A=5 CHAP_I=1 CHAP_C=0x",
    ] {
        told(text, chap(), &[method, (security, None, success, text)]);
    }
    told("no secret", None, &[method]);
    told(
        "another method",
        chap(),
        &[(security, None, success, "AuthMethod=KRB5")],
    );
    told(
        "no method",
        None,
        &[
            (security, None, success, "AuthMethod=None"),
            (security, Some(operational), success, ""),
        ],
    );
    told(
        "refused",
        None,
        &[(security, None, LoginStatus::AUTHENTICATION_FAILURE, "")],
    );
    told(
        "not found",
        None,
        &[(security, None, LoginStatus::NOT_FOUND, "")],
    );
    told(
        "elsewhere",
        None,
        &[(
            security,
            None,
            LoginStatus {
                class: 1,
                detail: 1,
            },
            "TargetAddress=10.0.0.9:3260,1",
        )],
    );
    told(
        "out of turn",
        None,
        &[(operational, Some(full), success, "")],
    );
    told("endless", None, &[(security, None, success, ""); 40]);
    let first = (security, Some(operational), success, "");
    for keys in [
        "HeaderDigest=None DataDigest=CRC32C",
        "HeaderDigest=CRC32C,None",
        "MaxRecvDataSegmentLength=511",
        "MaxRecvDataSegmentLength=0x1000",
        "MaxRecvDataSegmentLength=16777216",
        "FirstBurstLength=99999999",
        "FirstBurstLength=512 MaxBurstLength=600",
        "MaxBurstLength=x",
        "ImmediateData=No InitialR2T=Yes",
        "ImmediateData=Maybe",
        "InitialR2T=No",
        "MaxOutstandingR2T=4 ErrorRecoveryLevel=2",
        "HeaderDigest=Reject DataDigest=NotUnderstood",
        "IFMarker=No OFMarker=No X-com.test=1 TargetAlias=disk",
        "novalue",
    ] {
        told(
            keys,
            None,
            &[first, (operational, Some(full), success, keys)],
        );
        told(
            "and on",
            None,
            &[
                first,
                (operational, None, success, keys),
                (operational, Some(full), success, ""),
            ],
        );
    }
    compare("iscsi_logins", written::shorten(lines, 130));
}
