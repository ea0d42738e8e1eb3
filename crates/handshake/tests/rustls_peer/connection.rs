//! A connection between one of ours and a rustls peer, in memory.

use std::io::{Read, Write};
use std::sync::Arc;

use handshake::{
    Certificate, Established, Handshake, Options, Trust, client_config, server_config,
};
use l5p::tls::{
    Algorithm, Event, Location, Output, Piece, PostHandshake, Reader, TlsError, Version, Writer,
};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use wire::tls::ContentType;

/// Which side is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    Client,
    Server,
}

pub const BOTH: [Ours; 2] = [Ours::Client, Ours::Server];

/// Configurations of both sides, from which several connections can be made.
#[derive(Clone)]
pub struct Configs {
    pub client: Arc<ClientConfig>,
    pub server: Arc<ServerConfig>,
}

impl Configs {
    pub fn new(version: Version, algorithm: Algorithm) -> Configs {
        Configs::with(&Options {
            versions: vec![version],
            algorithms: vec![algorithm],
            ..Options::default()
        })
    }

    pub fn with(options: &Options) -> Configs {
        let certificate = Certificate::self_signed(["peer.test"]).expect("a certificate");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.chain[0].clone()).expect("a root");
        Configs {
            client: client_config(Trust::Roots(Arc::new(roots)), options).expect("a client"),
            server: server_config(certificate, options).expect("a server"),
        }
    }

    pub fn handshake(&self, ours: Ours) -> (Handshake, Connection) {
        let name = || "peer.test".try_into().expect("a name");
        match ours {
            Ours::Client => (
                Handshake::client(self.client.clone(), name()).expect("a handshake"),
                ServerConnection::new(self.server.clone())
                    .expect("a server")
                    .into(),
            ),
            Ours::Server => (
                Handshake::server(self.server.clone()).expect("a handshake"),
                ClientConnection::new(self.client.clone(), name())
                    .expect("a client")
                    .into(),
            ),
        }
    }

    pub fn connect(&self, ours: Ours) -> Secured {
        let (mut handshake, mut peer) = self.handshake(ours);
        run(&mut handshake, &mut peer, usize::MAX);
        Secured::new(handshake, peer)
    }
}

/// Runs both sides until neither has anything to say, with pieces of at most `piece` bytes to ours.
pub fn run(handshake: &mut Handshake, peer: &mut Connection, piece: usize) {
    loop {
        let mut progress = false;
        while let Some(output) = handshake.poll_output() {
            give(peer, &output);
            progress = true;
        }
        let input = take(peer);
        for piece in input.chunks(piece) {
            handshake.feed(piece).expect("a good peer");
            progress = true;
        }
        if !progress {
            return;
        }
    }
}

pub fn give(peer: &mut Connection, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        peer.read_tls(&mut bytes).expect("room");
        peer.process_new_packets().expect("what rustls accepts");
    }
}

pub fn take(peer: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while peer.wants_write() {
        peer.write_tls(&mut bytes).expect("memory");
    }
    bytes
}

/// A connection whose handshake is done.
pub struct Secured {
    pub reader: Reader,
    pub writer: Writer,
    pub post_handshake: PostHandshake,
    pub peer: Connection,
    pub alpn: Option<Vec<u8>>,
    pub resumed: bool,
    /// From the peer, not yet opened.
    pub incoming: Vec<u8>,
    /// Content of application data records.
    pub received: Vec<u8>,
    pub events: Vec<Event>,
}

impl Secured {
    pub fn new(handshake: Handshake, peer: Connection) -> Secured {
        assert!(handshake.is_done() && !peer.is_handshaking());
        let Established {
            transmit,
            receive,
            alpn,
            resumed,
            leftover,
            output,
            post_handshake,
            ..
        } = handshake.into_established().expect("a complete handshake");
        assert!(output.is_empty());
        Secured {
            reader: Reader::new(receive),
            writer: Writer::new(transmit),
            post_handshake,
            peer,
            alpn,
            resumed,
            incoming: leftover,
            received: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Sends one record, encrypted in software.
    pub fn send(&mut self, content_type: ContentType, content: &[u8]) {
        let mut record = vec![0; self.writer.record_len(content.len())];
        self.writer.seal_into(content_type, &[content], &mut record);
        give(&mut self.peer, &record);
    }

    /// What the peer has received.
    pub fn peer_received(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = self.peer.reader().read_to_end(&mut bytes);
        bytes
    }

    pub fn peer_sends(&mut self, content: &[u8]) {
        for part in content.chunks(4000) {
            self.peer.writer().write_all(part).expect("room");
            self.collect();
        }
    }

    /// Takes what the peer wants to send.
    pub fn collect(&mut self) {
        self.incoming.extend(take(&mut self.peer));
    }

    /// Opens all whole records that have come, each split in two pieces, and acts on them.
    pub fn receive(&mut self) -> Result<(), TlsError> {
        self.collect();
        while let Some(len) = self.reader.next_len(&self.incoming)? {
            let rest = self.incoming.split_off(len);
            let mut record = std::mem::replace(&mut self.incoming, rest);
            self.open(&mut record)?;
        }
        Ok(())
    }

    fn open(&mut self, record: &mut [u8]) -> Result<(), TlsError> {
        let (head, tail) = record.split_at_mut(record.len() / 3);
        let opened = self.reader.open(
            &mut [head, tail].map(|data| Piece {
                data: data.into(),
                decrypted: None,
            }),
            Output::InPlace,
        )?;
        let Location::Record(range) = opened.content else {
            panic!("opened in place");
        };
        let content = &record[range];
        self.post_handshake
            .handle_record(opened.record, opened.content_type, [content])?;
        if opened.content_type == ContentType::APPLICATION_DATA {
            self.received.extend_from_slice(content);
        }
        while let Some(event) = self.post_handshake.poll_event() {
            if let Event::ReceiveKeys(keys) = &event {
                self.reader.rekey(keys.clone());
            }
            if event == Event::KeyUpdateRequested {
                self.update_keys(false);
            }
            self.events.push(event);
        }
        Ok(())
    }

    pub fn update_keys(&mut self, request: bool) {
        let update = self.post_handshake.key_update(request).expect("TLS 1.3");
        self.send(ContentType::HANDSHAKE, &update.message);
        self.writer.rekey(update.keys);
    }

    /// Both sides send, and read what they were sent.
    pub fn check_both_ways(&mut self) {
        let to_peer: Vec<u8> = (0..10_000u32).map(|i| (i * 7) as u8).collect();
        self.send(ContentType::APPLICATION_DATA, &to_peer);
        assert_eq!(self.peer_received(), to_peer);
        self.received.clear();
        self.peer_sends(&to_peer);
        self.receive().expect("good records");
        assert_eq!(self.received, to_peer);
    }
}
