//! Session tickets.

use l5p::tls::{Event, Violation};
use rustls::HandshakeKind;
use wire::tls::ContentType;

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

#[test]
fn a_malformed_ticket_is_refused() {
    let configs = Configs::new(l5p::tls::Version::Tls13, l5p::tls::Algorithm::Aes128Gcm);
    let mut post_handshake = configs.connect(Ours::Client).post_handshake;
    let ticket = &[4, 0, 0, 2, 0, 0][..];
    let error = post_handshake
        .handle_record(5, ContentType::HANDSHAKE, [ticket])
        .unwrap_err();
    assert_eq!(error.record, 5);
    assert!(matches!(error.violation, Violation::Refused(_)));
}
