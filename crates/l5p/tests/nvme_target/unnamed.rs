//! Hosts that do not say who they are.

use l5p::nvme::target::PskIdentity;
use wire::nvme::Nqn;
use wire::nvme::command::{ConnectData, ConnectReply, Status};
use wire::nvme::log::{DiscoveryHeader, LogPage};

use super::admin::log;
use super::rig::*;

fn unnamed(subsystem: Nqn) -> ConnectData {
    ConnectData {
        host: Nqn::EMPTY,
        ..connect_data(subsystem)
    }
}

#[test]
fn a_host_without_a_name_gets_what_any_host_may_have() {
    let mut rig = Rig::new();
    let id = rig.open(0);
    let reply = rig.connect_as(id, unnamed(subsystem()), 0, 32, 0);
    let ConnectReply::Accepted { controller, .. } =
        ConnectReply::from_dword(reply.dword0(), reply.status.is_success())
    else {
        panic!("{reply:?}");
    };
    rig.enable(id, true);
    let data = ConnectData {
        controller,
        ..unnamed(subsystem())
    };
    let io = rig.open(0);
    assert!(rig.connect_as(io, data, 1, 32, 0).status.is_success());

    // What is for hosts of some names is not for it, nor does it see that in the log.
    let id = rig.open(0);
    let refused = rig.connect_as(id, unnamed(other_subsystem()), 0, 32, 0);
    assert!(refused.status.is(Status::CONNECT_INVALID_HOST));
    let id = rig.open(0);
    let reply = rig.connect_as(id, unnamed(Nqn::DISCOVERY), 0, 32, 0);
    assert!(reply.status.is_success());
    let (_, data) = rig.ask(id, log(LogPage::DISCOVERY, 0, 1024), 1024);
    assert_eq!(DiscoveryHeader::parse(&data).unwrap().records, 1);
}

#[test]
fn a_host_that_has_proved_its_name_must_say_it() {
    let mut rig = Rig::new();
    let proved = PskIdentity {
        host: host(),
        subsystem: subsystem(),
    };
    let id = rig.open_as(Some(proved), 0);
    let refused = rig.connect_as(id, unnamed(subsystem()), 0, 32, 0);
    assert!(refused.status.is(Status::CONNECT_INVALID_HOST));
}

#[test]
fn a_name_that_is_no_text_is_refused() {
    let mut rig = Rig::new();
    let id = rig.open(0);
    let mut data = connect_data(subsystem()).to_bytes();
    data[512] = 0xff;
    let reply = rig.connect_with(id, &data, 0, 32, 0);
    let invalid = ConnectReply::Invalid {
        in_data: true,
        offset: 512,
    };
    assert_eq!(reply.dword0(), invalid.to_dword());
}
