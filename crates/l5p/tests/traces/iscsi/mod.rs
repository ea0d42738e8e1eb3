//! An initiator of iSCSI, and a target that answers as it is told to.

mod sessions;
mod units;
mod wrong;

use std::collections::HashMap;

use l5p::iscsi::TaskTag;
use l5p::iscsi::initiator::{
    Chap, Command, Config, Event, Incoming, Initiator, Outgoing, Payload, Transfer,
};
use testkit::written;
use wire::iscsi::{
    AsyncMessage, DataIn, LoginResponse, LoginStatus, LogoutResponse, Lun, NO_TAG, NopIn, Pdu,
    ReadyToTransfer, Reject, RejectReason, Residual, ResponseNumbers, ScsiResponse, Stage,
    TextResponse,
};
use wire::scsi::command;

fn config() -> Config {
    Config {
        name: "iqn.2026-01.test:host".into(),
        target: Some("iqn.2026-01.test:disk".into()),
        lun: Lun::default(),
        isid: [0x80, 1, 2, 3, 4, 5],
        chap: None,
        header_digest: true,
        data_digest: false,
        depth: 4,
        max_data: 8192,
    }
}

/// A conversation.
struct Talk {
    host: Initiator,
    stat_sn: u32,
    lines: Vec<String>,
    /// What was sent that has not been answered.
    sent: Vec<Outgoing>,
    /// DataSN of the next Data-In, by task tag.
    data_sns: HashMap<u32, u32>,
}

impl Talk {
    fn new(config: Config) -> Talk {
        let mut talk = Talk {
            host: Initiator::new(config),
            stat_sn: 1,
            lines: Vec::new(),
            sent: Vec::new(),
            data_sns: HashMap::new(),
        };
        talk.poll();
        talk
    }

    /// Behind a login without authentication.
    fn logged_in(config: Config) -> Talk {
        let mut talk = Talk::new(config);
        for (stage, next) in [
            (Stage::Security, Stage::Operational),
            (Stage::Operational, Stage::FullFeature),
        ] {
            talk.login(stage, Some(next), LoginStatus::SUCCESS, "");
        }
        talk
    }

    fn answer_logout(&mut self) {
        let logout = LogoutResponse {
            response: 0,
            task_tag: 0xffff_fffe,
            numbers: self.numbers(),
            wait: 2,
            retain: 0,
        };
        self.hear(Pdu::LogoutResponse(logout), &[], true);
    }

    /// What the host sends and says.
    fn poll(&mut self) {
        while let Some(outgoing) = self.host.poll_outgoing() {
            let payload = match &outgoing.payload {
                Payload::None => String::new(),
                Payload::Bytes(bytes) => format!(" {:?}", String::from_utf8_lossy(bytes)),
                Payload::Data { tag, range } => format!(" {tag} {range:?}"),
            };
            self.lines.push(format!("> {:?}{payload}", outgoing.pdu));
            self.sent.push(outgoing);
        }
        let mut more = false;
        while let Some(ended) = self.host.poll_ended() {
            more = true;
            self.lines.push(match ended.result {
                Ok(moved) => format!("{} moved {moved}", ended.tag),
                Err(error) => format!(
                    "{}: {error}, {} {}",
                    ended.tag,
                    error.is_transient(),
                    error.is_unknown_command()
                ),
            });
            self.host.release(ended.tag);
        }
        while let Some(event) = self.host.poll_event() {
            more = true;
            self.lines.push(match event {
                Event::Ended(Some(failure)) => format!("ended: {failure}"),
                event => format!("{event:?}"),
            });
        }
        if more {
            self.poll();
        }
    }

    fn numbers(&self) -> ResponseNumbers {
        ResponseNumbers {
            stat_sn: self.stat_sn,
            exp_cmd_sn: 1,
            max_cmd_sn: 40,
        }
    }

    /// Hands in a PDU. False when the session can't go on.
    fn hear(&mut self, pdu: Pdu, data: &[u8], intact: bool) -> bool {
        let said = self.host.handle_header(&pdu);
        let mut line = match &said {
            Ok(Incoming::Data { tag, range }) => format!("< {pdu:?}: {tag} {range:?}"),
            Ok(_) => format!("< {pdu:?}"),
            Err(error) => format!("< {pdu:?}: {error}"),
        };
        let mut good = said.is_ok();
        if let Ok(incoming) = said
            && incoming != Incoming::Nothing
        {
            let inline = if incoming == Incoming::Inline {
                data
            } else {
                &[]
            };
            if let Err(error) = self.host.handle_end(intact, inline) {
                line += &format!(": {error}");
                good = false;
            }
        }
        self.lines.push(line);
        self.poll();
        good
    }

    fn login(
        &mut self,
        stage: Stage,
        next: Option<Stage>,
        status: LoginStatus,
        text: &str,
    ) -> bool {
        let text = text.replace(' ', "\0") + if text.is_empty() { "" } else { "\0" };
        let response = LoginResponse {
            isid: [0x80, 1, 2, 3, 4, 5],
            tsih: 1,
            task_tag: match self.sent.last().map(|sent| sent.pdu) {
                Some(Pdu::LoginRequest(request)) => request.task_tag,
                _ => 0,
            },
            numbers: self.numbers(),
            status,
            stage,
            next,
            continues: false,
            data_len: text.len() as u32,
        };
        self.stat_sn += 1;
        self.hear(Pdu::LoginResponse(response), text.as_bytes(), true)
    }

    /// The task of the latest command.
    fn task(&self) -> u32 {
        let tasks = self.sent.iter().rev().find_map(|sent| match sent.pdu {
            Pdu::ScsiCommand(command) => Some(command.task_tag),
            _ => None,
        });
        tasks.expect("a command was sent")
    }

    fn data_in(
        &mut self,
        task_tag: u32,
        offset: u32,
        data: &[u8],
        status: Option<u8>,
        residual: Residual,
    ) -> bool {
        let data_sn = self.data_sns.entry(task_tag).or_default();
        *data_sn += 1;
        let data_sn = *data_sn - 1;
        let pdu = DataIn {
            is_final: true,
            status,
            task_tag,
            numbers: self.numbers(),
            data_sn,
            offset,
            residual,
            data_len: data.len() as u32,
        };
        self.stat_sn += u32::from(status.is_some());
        self.hear(Pdu::DataIn(pdu), data, true)
    }

    fn respond(
        &mut self,
        task_tag: u32,
        response: u8,
        status: u8,
        residual: Residual,
        sense: &[u8],
    ) -> bool {
        let pdu = ScsiResponse {
            response,
            status,
            task_tag,
            numbers: self.numbers(),
            data_count: 0,
            residual,
            data_len: sense.len() as u32,
        };
        self.stat_sn += 1;
        self.hear(Pdu::ScsiResponse(pdu), sense, true)
    }

    fn ready(&mut self, task_tag: u32, r2t_sn: u32, offset: u32, len: u32) -> bool {
        let pdu = ReadyToTransfer {
            lun: Lun::default(),
            task_tag,
            transfer_tag: 50 + r2t_sn,
            numbers: self.numbers(),
            r2t_sn,
            offset,
            len,
        };
        self.hear(Pdu::ReadyToTransfer(pdu), &[], true)
    }

    /// The login, and what the unit is.
    fn set_up(&mut self) {
        self.login(
            Stage::Security,
            Some(Stage::Operational),
            LoginStatus::SUCCESS,
            "TargetPortalGroupTag=1",
        );
        let keys = "HeaderDigest=CRC32C DataDigest=None MaxRecvDataSegmentLength=4096 FirstBurstLength=2048 MaxBurstLength=16384 ImmediateData=Yes";
        self.login(
            Stage::Operational,
            Some(Stage::FullFeature),
            LoginStatus::SUCCESS,
            keys,
        );
        self.probe(&[0]);
    }

    fn probe(&mut self, device: &[u8]) {
        let mut inquiry = vec![0; 36];
        inquiry[..device.len()].copy_from_slice(device);
        inquiry[4] = 31;
        inquiry[8..36].copy_from_slice(b"longshordisk            0001");
        let mut capacity = vec![0; 32];
        capacity[7] = 0xff;
        capacity[6] = 0x1f;
        capacity[10] = 2;
        let modes = [19, 0, 0x90, 0, 8, 10, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut limits = vec![0; 64];
        limits[1] = 0xb0;
        limits[3] = 60;
        limits[10] = 1;
        for answer in [inquiry, Vec::new(), capacity, modes.to_vec(), limits] {
            let task = self.task();
            if answer.is_empty() {
                self.respond(task, 0, 0, Residual::None, &[]);
            } else {
                let residual = Residual::Underflow(255u32.saturating_sub(answer.len() as u32));
                self.data_in(task, 0, &answer, Some(0), residual);
            }
            if self
                .lines
                .last()
                .is_some_and(|line| line.starts_with("ended"))
            {
                return;
            }
        }
    }

    fn submit(&mut self, transfer: Transfer, len: u32) -> u32 {
        let cdb = match transfer {
            Transfer::None => command::synchronize_cache(),
            Transfer::Read => command::read(7, len / 512),
            Transfer::Write => command::write(9, len / 512),
        };
        let taken = self.host.submit(Command {
            cdb,
            transfer,
            len,
            is_exact: true,
        });
        self.lines.push(format!("{transfer:?} {len}: {taken:?}"));
        self.poll();
        self.task()
    }
}

fn compare(name: &str, lines: Vec<String>) {
    let short = |line: &String| {
        let line = line
            .replace("ResponseNumbers ", "")
            .replace("RequestNumbers ", "")
            .replace("lun: Lun([0, 0, 0, 0, 0, 0, 0, 0]), ", "");
        match line.char_indices().nth(230) {
            Some((at, _)) => format!(
                "{}… {:08x}",
                &line[..at],
                written::sum(line.as_bytes()) as u32
            ),
            None => line,
        }
    };
    let lines: Vec<String> = lines.iter().map(short).collect();
    written::compare(env!("CARGO_MANIFEST_DIR"), name, &lines);
}
