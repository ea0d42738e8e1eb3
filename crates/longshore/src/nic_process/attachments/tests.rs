use attachment::{DataMemory, Request, Shown, SlotId};

use super::super::link::pair;
use super::*;

fn header(connection: u64, uid: u32, kind: Kind) -> Header {
    Header {
        connection: ConnectionId(connection),
        uid,
        kind,
    }
}

/// Of a slot that is not attached.
fn ask(channel: BorrowedFd<'_>, header: Header) {
    let slot = SlotId {
        slab: 0,
        index: 0,
        generation: 0,
    };
    let request = Admitted {
        request: Request::Settle { slot },
        shown: Shown::Nothing,
    };
    let (bytes, _) = request.to_bytes();
    channel::send(channel, header, &bytes, None, SendFlags::empty()).unwrap();
}

fn poll(attachments: &mut Attachments) {
    attachments.poll(Instant::now(), &mut [], |_, _| Some(Vec::new()));
}

fn answered(channel: BorrowedFd<'_>) -> Result<Header, Errno> {
    let mut buffer = vec![0; MOST_BYTES];
    let answer = channel::receive(channel, &mut buffer, RecvFlags::DONTWAIT);
    answer.map(|message| message.header)
}

#[test]
fn a_connection_is_never_another_users() {
    let mut attachments = Attachments::default();
    for kind in [Kind::Request, Kind::Closed] {
        let (control, workers) = pair().unwrap();
        let control = control.as_fd();
        attachments.connect(workers);
        ask(control, header(7, 1000, Kind::Request));
        // As many connections later.
        ask(control, header(7 + (1 << 32), 1001, Kind::Request));
        poll(&mut attachments);
        assert_eq!(answered(control), Ok(header(7, 1000, Kind::Answer)));
        assert_eq!(
            answered(control),
            Ok(header(7 + (1 << 32), 1001, Kind::Answer))
        );
        assert_eq!(attachments.tenants.len(), 2);
        match kind {
            Kind::Request => ask(control, header(7, 1001, kind)),
            _ => channel::send(
                control,
                header(7, 1001, kind),
                &[],
                None,
                SendFlags::empty(),
            )
            .unwrap(),
        }
        poll(&mut attachments);
        assert!(
            attachments.fd().is_none(),
            "a control process that confuses them is let go of"
        );
        assert_eq!(answered(control), Err(Errno::PIPE));
    }
}

#[test]
fn all_memory_for_data_is_half_of_the_machines_at_most() {
    let mut registry = Registry::new(limits(), None);
    let mut attach = |uid, bytes| {
        let file = DataMemory::create(bytes)
            .unwrap()
            .as_fd()
            .try_clone_to_owned();
        let asked = Admitted {
            request: Request::Memory,
            shown: Shown::Memory(file.unwrap()),
        };
        let mut tenant = Tenant::new(uid);
        let answer = registry.answer(&mut tenant, asked, |_| unreachable!("it is no order"));
        answer.result.map(|()| tenant)
    };
    let a_users = limits().memory / 2;
    assert!(a_users <= available_memory() / 4);
    assert_eq!(
        attach(1000, a_users + (1 << 20)).map(drop),
        Err(Errno::NOSPC)
    );
    let _first = attach(1000, a_users - (1 << 20)).unwrap();
}
