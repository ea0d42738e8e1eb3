//! Session tickets.

use l5p::tls::Event;
use rustls::HandshakeKind;

use crate::PAIRS;
use crate::connection::{BOTH, Configs, Ours};

#[test]
fn sessions_are_resumed() {
    for (version, algorithm) in PAIRS {
        for ours in BOTH {
            let configs = Configs::new(version, algorithm);
            let mut first = configs.connect(ours);
            assert!(!first.resumed);
            first.check_both_ways();
            if ours == Ours::Client && version == l5p::tls::Version::Tls13 {
                assert!(first.events.contains(&Event::Ticket));
            }
            let mut second = configs.connect(ours);
            assert!(
                second.resumed,
                "{version:?} {algorithm:?}, ours is the {ours:?}"
            );
            assert_eq!(second.peer.handshake_kind(), Some(HandshakeKind::Resumed));
            second.check_both_ways();
        }
    }
}
