use wire::nvme::FatalErrorStatus;
use wire::nvme::command::Fabrics;

use super::*;

#[test]
fn digests_that_were_not_asked_for_are_refused() {
    for (asked, given) in [
        (Digests::NONE, Digests::BOTH),
        (Digests::BOTH, Digests::NONE),
    ] {
        let mut queue = Queue::new(QueueConfig {
            digests: asked,
            ..config()
        });
        poll(&mut queue);
        let refused = take(&mut queue, icresp(given));
        assert_eq!(refused, Err(FatalError::field(11)));
    }
}

#[test]
fn what_was_agreed_on_holds_from_the_next_pdu() {
    let mut queue = Queue::new(QueueConfig {
        digests: Digests::BOTH,
        hpda: 3,
        ..config()
    });
    assert_eq!(queue.framing(Role::Host).phase, Phase::Initializing);
    let Pdu::ICReq(request) = poll(&mut queue).pdu else {
        panic!("ICReq comes first");
    };
    assert_eq!((request.hpda, request.max_r2t), (3, 1));
    let response = ICResp {
        pfv: 0,
        cpda: 1,
        digests: Digests::BOTH,
        max_h2c_data: 4096,
    };
    take(&mut queue, Pdu::ICResp(response)).unwrap();
    let (host, controller) = (queue.framing(Role::Host), queue.framing(Role::Controller));
    assert!(host.header_digest && controller.data_digest);
    assert_eq!((host.alignment, controller.alignment), (1, 3));
}

#[test]
fn connect_carries_its_data_in_the_capsule() {
    let mut queue = Queue::new(config());
    poll(&mut queue);
    take(&mut queue, icresp(Digests::NONE)).unwrap();
    let connect = poll(&mut queue);
    let expected = Fabrics::Connect {
        queue: 1,
        entries: 9,
        no_flow_control: true,
        keep_alive: 0,
    };
    assert_eq!(Fabrics::parse(&entry(&connect)), Ok(expected));
    let identity = Box::new(config().identity);
    assert_eq!(connect.payload, Payload::Connect(identity));
    assert_eq!(queue.poll_pdu(), None);
}

#[test]
fn a_refused_connect_says_what_is_wrong() {
    let mut queue = Queue::new(config());
    poll(&mut queue);
    take(&mut queue, icresp(Digests::NONE)).unwrap();
    queue.poll_event();
    poll(&mut queue);
    let reply = ConnectReply::Invalid {
        in_data: true,
        offset: 256,
    };
    let status = Status::CONNECT_INVALID_PARAMETERS.do_not_retry();
    let result = u64::from(reply.to_dword());
    take(&mut queue, response(0, status, result)).unwrap();
    let refused = QueueEvent::Refused { status, reply };
    assert_eq!(queue.poll_event(), Some(refused));
    assert!(!queue.submit(Io::Flush.entry(0, 1), Transfer::None, token(0)));
}

#[test]
fn commands_cannot_be_answered_before_connect() {
    let mut queue = Queue::new(config());
    poll(&mut queue);
    take(&mut queue, icresp(Digests::NONE)).unwrap();
    let sequence = Err(FatalError::of(FatalErrorStatus::SEQUENCE));
    assert_eq!(take(&mut queue, response(0, Status::SUCCESS, 0)), sequence);
    poll(&mut queue);
    assert_eq!(take(&mut queue, data(0, 0, 512, true, true)), sequence);
    assert_eq!(
        take(&mut queue, response(1, Status::SUCCESS, 0)),
        Err(FatalError::field(20))
    );
}

#[test]
fn a_second_icresp_is_refused() {
    let mut queue = live();
    let refused = queue.handle_header(&icresp(Digests::NONE));
    assert_eq!(refused, Err(FatalError::of(FatalErrorStatus::SEQUENCE)));
}

#[test]
fn the_controllers_farewell_is_told() {
    let mut queue = live();
    let error = FatalError::field(8);
    let request = wire::nvme::TermReq {
        error,
        data_len: 24,
    };
    let incoming = take(&mut queue, Pdu::C2HTermReq(request));
    assert_eq!(incoming, Ok(Incoming::Discard));
    assert_eq!(queue.poll_event(), Some(QueueEvent::Terminated(error)));
}
