//! Connections whose handshake a NIC has done in our name (AccelTCP, "Connection Setup Offload").

use std::time::Instant;

use wire::tcp::{Header, Options, SackBlocks, Timestamps};

use crate::options::{Negotiated, TIMESTAMPS_LEN, agreed_mss, shift_for};
use crate::time::Time;
use crate::{Config, Connection, Initial};

/// What the SYNs of a connection agreed on that the NIC has exchanged with the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The MSS that the peer's SYN announced, or less: bytes of payload and options per packet.
    pub mss: u16,
    /// The peer's window shift; `None` if either side's SYN had none.
    pub window_scale: Option<u8>,
    /// Both SYNs permitted selective acknowledgements.
    pub sack: bool,
    /// TSval of a segment that we send now, on the clock of our SYN-ACK. Not used if the peer's segments have no timestamps.
    pub timestamp: u32,
}

impl Handshake {
    /// The options of the peer's SYN, as far as they are in force.
    fn options(&self, ack: &Header) -> Options {
        Options {
            mss: Some(self.mss),
            window_scale: self.window_scale,
            sack_permitted: self.sack,
            timestamps: ack.options.timestamps.map(|timestamps| Timestamps {
                val: timestamps.val,
                echo: 0,
            }),
            sack: SackBlocks::EMPTY,
        }
    }

    /// Shift of the windows that the peer announces, where we offer `config`.
    pub fn peer_shift(&self, config: &Config) -> u8 {
        self.settled(config).snd_shift
    }

    /// Shift of the windows that we announce, where we offer `config`.
    pub fn our_shift(&self, config: &Config) -> u8 {
        self.settled(config).rcv_shift
    }

    /// The window field of the segments that we send while nothing waits for the application, on a connection that
    /// [`Connection::from_handshake`] would make.
    pub fn window_field(&self, config: &Config) -> u16 {
        let most = config.rcv_buf_max.clamp(4, 1 << 30);
        let buffer = config.rcv_buf.max(4 << shift_for(most)).min(most);
        (buffer >> self.settled(config).rcv_shift).min(u32::from(u16::MAX)) as u16
    }

    /// Payload bytes per packet that we send with timestamps, when we announce `ours`.
    pub fn payload_mss(&self, ours: u16) -> u16 {
        let options = Options {
            mss: Some(self.mss),
            ..Options::default()
        };
        agreed_mss(ours.max(64), &options) - TIMESTAMPS_LEN
    }

    fn settled(&self, config: &Config) -> Negotiated {
        let mut options = Negotiated::offer(config);
        options.settle(&Options {
            window_scale: self.window_scale,
            ..Options::default()
        });
        options
    }
}

impl Connection {
    /// Makes the connection of a handshake that the NIC has done in our name: established, passively opened, with `ack`
    /// (the peer's first segment after its SYN) not processed yet, so that it is to be given to
    /// [`handle_segment`](Self::handle_segment) next. `config` must be what was offered to the peer.
    pub fn from_handshake(
        now: Instant,
        config: &Config,
        ack: &Header,
        handshake: &Handshake,
    ) -> Self {
        let isn = Initial {
            seq: ack.ack - 1,
            timestamp: handshake.timestamp,
        };
        let mut connection = Self::new(now, config, ack.dst_port, ack.src_port, isn);
        connection.passive = true;
        let mut syn = *ack;
        syn.seq = ack.seq - 1;
        syn.options = handshake.options(ack);
        connection.take_syn(Time(0), &syn);
        connection.snd.nxt = connection.snd.iss + 1;
        let window = u32::from(ack.window) << connection.options.snd_shift;
        connection.snd.window.note(ack.seq, ack.ack, window);
        connection.establish(Time(0), None);
        connection.acknowledge_syn();
        connection
    }
}
