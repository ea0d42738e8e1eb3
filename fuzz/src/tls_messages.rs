//! Handshakes of which a byte is changed, and whatever may come after one: nothing panics, an untouched handshake ends well,
//! and a peer that only changes its keys is stopped.

use std::sync::OnceLock;

use handshake::{Certificate, Handshake, Options, Trust, client_config, server_config};
use l5p::tls::{ContentType, Event, PostHandshake, Version};

const TYPES: [ContentType; 3] = [
    ContentType::HANDSHAKE,
    ContentType::ALERT,
    ContentType::APPLICATION_DATA,
];

/// Key updates one after the other that a peer gets away with.
const MOST_UPDATES: usize = 32;

/// Bytes: version, side and record pieces; which byte that this side gets is changed, and by what; the rest are records'
/// contents, each behind its type and length.
pub fn run(data: &[u8]) {
    let [choice, at_high, at_low, change, rest @ ..] = data else {
        return;
    };
    let version = match choice & 1 {
        0 => Version::Tls12,
        _ => Version::Tls13,
    };
    let to_client = choice & 2 != 0;
    let piece = usize::from(choice >> 2) + 1;
    let at = usize::from(u16::from_be_bytes([*at_high, *at_low]));
    let Some((mut client, mut server)) = shake(version, to_client, piece, (at, *change)) else {
        assert_ne!(*change, 0, "nobody has touched it");
        return;
    };
    let own = if to_client { &mut client } else { &mut server };
    hear(own, rest, piece);
}

/// Both sides after their handshake, if that ended well.
fn shake(
    version: Version,
    to_client: bool,
    piece: usize,
    (at, change): (usize, u8),
) -> Option<(PostHandshake, PostHandshake)> {
    let (mut client, mut server) = sides(version);
    let mut heard = 0;
    loop {
        let (mut to_server, mut for_client) = (
            client.poll_output().unwrap_or_default(),
            server.poll_output().unwrap_or_default(),
        );
        if to_server.is_empty() && for_client.is_empty() {
            break;
        }
        let changed = if to_client {
            &mut for_client
        } else {
            &mut to_server
        };
        if let Some(byte) = at.checked_sub(heard).and_then(|at| changed.get_mut(at)) {
            *byte ^= change;
        }
        heard += changed.len();
        for bytes in to_server.chunks(piece * 64) {
            server.feed(bytes).ok()?;
        }
        for bytes in for_client.chunks(piece * 64) {
            client.feed(bytes).ok()?;
        }
    }
    let (client, server) = (client.into_established(), server.into_established());
    Some((client.ok()?.post_handshake, server.ok()?.post_handshake))
}

/// Records after the handshake.
fn hear(own: &mut PostHandshake, mut records: &[u8], piece: usize) {
    let mut updates = 0;
    let mut number = 0;
    while let [kind, len, rest @ ..] = records {
        let kind = TYPES[usize::from(*kind) % TYPES.len()];
        let (content, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        records = rest;
        let heard = own.handle_record(number, kind, content.chunks(piece));
        number += 1;
        if kind == ContentType::APPLICATION_DATA {
            updates = 0;
        }
        while let Some(event) = own.poll_event() {
            match event {
                Event::ReceiveKeys(_) => updates += 1,
                Event::KeyUpdateRequested => {
                    own.key_update(false).expect("TLS 1.3 has key updates");
                }
                _ => {}
            }
        }
        assert!(updates <= MOST_UPDATES, "{updates} key updates in a row");
        if heard.is_err() {
            return;
        }
    }
}

type Sides = Box<dyn Fn() -> (Handshake, Handshake) + Send + Sync>;

/// Both sides before their handshake.
fn sides(version: Version) -> (Handshake, Handshake) {
    static SIDES: [OnceLock<Sides>; 2] = [const { OnceLock::new() }; 2];
    let make = SIDES[usize::from(version == Version::Tls13)].get_or_init(|| {
        let options = Options {
            versions: vec![version],
            ..Options::default()
        };
        let certificate = Certificate::self_signed(["peer.test"]).expect("a good name");
        let client = client_config(Trust::Anyone, &options).expect("good options");
        let server = server_config(certificate, &options).expect("good options");
        Box::new(move || {
            let name = "peer.test".try_into().expect("a good name");
            let client = Handshake::client(client.clone(), name).expect("a good name");
            let server = Handshake::server(server.clone()).expect("a good certificate");
            (client, server)
        })
    });
    make()
}
