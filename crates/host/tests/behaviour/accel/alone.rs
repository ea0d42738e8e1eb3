//! The host asks for everything, and the NIC has room for nothing: the host does it all itself.

use std::net::SocketAddr;
use std::time::Duration;

use crate::pair::{CLIENT, Connected as _, PORT, Pair, SERVER, hosts, hosts_with, v4, v6};
use host::{Accel, Event, Holder, ListenOptions, SocketError};
use testkit::pattern;

fn alone() -> Pair {
    hosts_with(|_, node| {
        node.stack.accel = Accel::ALL;
        node.nic.accel.listeners = 0;
        node.nic.accel.closing = 0;
        node.nic.accel.splices = 0;
    })
}

#[test]
fn what_the_nic_refuses_the_host_does_itself() {
    for ip in [v4, v6] {
        let mut pair = alone();
        let (client, server) = pair.connected(ip);
        let data = pattern(100_000);
        assert_eq!(pair.transfer(CLIENT, client, server, &data), data);
        let response = pattern(9_000);
        let now = pair.now();
        let written = pair.stack(SERVER).write(now, server, &response);
        assert_eq!(written, Ok(response.len()));
        pair.close(SERVER, server);
        let mut read = Vec::new();
        let mut buffer = vec![0; 20_000];
        let ended = pair.run_until(Duration::from_secs(10), |pair| {
            let now = pair.now();
            match pair.stack(CLIENT).read(now, client, &mut buffer) {
                Ok(0) => true,
                Ok(bytes) => {
                    read.extend_from_slice(&buffer[..bytes]);
                    false
                }
                Err(SocketError::WouldBlock) => false,
                Err(error) => panic!("{error}"),
            }
        });
        assert!(ended && read == response);
        pair.close(CLIENT, client);
        pair.run_for(Duration::from_secs(1));
        for at in [CLIENT, SERVER] {
            let sockets: Vec<_> = pair.stack(at).sockets().collect();
            assert!(sockets.iter().all(|it| it.id.is_none()), "{sockets:?}");
            assert!(sockets.iter().all(|it| it.holder == Holder::Host));
            assert!(pair.counter(at, "AccelTeardowns") <= 1);
            let asked = pair.counter(at, "AccelTeardowns");
            assert_eq!(pair.counter(at, "AccelTeardownsRefused"), asked);
        }
        assert!(pair.counter(SERVER, "AccelListenersRefused") >= 1);
        assert_eq!(pair.counter(SERVER, "AccelCurrListeners"), 0);
        assert_eq!(pair.counter(SERVER, "AccelSetups"), 0);
    }
}

/// Connections from cookies wait to be accepted as others do, and count no more than once.
#[test]
fn a_listener_goes_on_accepting_connections_from_cookies() {
    let mut pair = hosts();
    let address = SocketAddr::new(v4(SERVER), PORT);
    let options = ListenOptions {
        backlog: 4,
        always_cookies: true,
        ..ListenOptions::default()
    };
    let listener = pair.stack(SERVER).listen(address, options).expect("free");
    for _ in 0..20 {
        let now = pair.now();
        let client = pair.stack(CLIENT).connect(now, address).expect("a route");
        let mut accepted = None;
        let done = pair.run_until(Duration::from_secs(5), |pair| {
            accepted = accepted.or_else(|| pair.stack(SERVER).accept(listener));
            accepted.is_some() && pair.events(CLIENT).contains(&Event::Connected(client))
        });
        assert!(done, "the backlog is full for good");
        pair.abort(CLIENT, client);
        let accepted = accepted.expect("done");
        pair.run_for(Duration::from_millis(10));
        pair.close(SERVER, accepted);
    }
}
