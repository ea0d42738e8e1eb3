//! Linux's side: a thread with a socket of the kernel's and rustls.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use host::{TlsRole, read_cycles};
use rustls::{ClientConnection, StreamOwned};
use sim::{Identity, Suite};

use super::peer::{PORT, RECEIVE, SEND};
use super::{Settings, Source, Time};
use crate::bench::cycles_per_second;
use crate::bench::tap::namespace::OURS;

/// Times of each round.
pub struct Rounds {
    pub transmit: Vec<Time>,
    pub receive: Vec<Time>,
    pub verified: bool,
}

/// Sends and receives, in turns.
pub fn run(settings: &Settings, source: &Source, identity: &Identity) -> anyhow::Result<Rounds> {
    let mut transmit = Connection::open(identity, SEND)?;
    let mut receive = Connection::open(identity, RECEIVE)?;
    let mut rounds = Rounds {
        transmit: Vec::new(),
        receive: Vec::new(),
        verified: true,
    };
    // As with our own modes, a round to warm up goes first.
    for number in 0..=settings.run.rounds.count {
        let sent = transmit.send(settings, source)?;
        let received = receive.receive(settings, source, &mut rounds.verified)?;
        if number > 0 {
            rounds.transmit.push(sent);
            rounds.receive.push(received);
        }
    }
    transmit.close()?;
    receive.close()?;
    Ok(rounds)
}

struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    position: u64,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(identity: &Identity, what: u8) -> anyhow::Result<Self> {
        let TlsRole::Client { config, name } = identity.client(Suite::DEFAULT) else {
            unreachable!("a client's part was asked for");
        };
        let address = SocketAddr::from((OURS, PORT));
        let socket = TcpStream::connect_timeout(&address, Duration::from_secs(10))
            .context("Linux does not reach our host over the TAP")?;
        socket.set_nodelay(true)?;
        let connection = ClientConnection::new(Arc::clone(&config), name)?;
        let mut stream = StreamOwned::new(connection, socket);
        stream.write_all(&[what])?;
        stream.flush()?;
        Ok(Self {
            stream,
            position: 0,
            buffer: vec![0; 1 << 18],
        })
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.stream.conn.send_close_notify();
        self.stream.flush()?;
        Ok(())
    }

    /// Sends a round's bytes, until the peer says that it has them all.
    fn send(&mut self, settings: &Settings, source: &Source) -> anyhow::Result<Time> {
        let before = Time::of_this_thread();
        let until = self.position + settings.bytes;
        while self.position < until {
            let message = u64::from(settings.message_bytes).min(until - self.position) as usize;
            // rustls cuts what it is given at a time into records.
            for record in source
                .bytes(0, self.position, message)
                .chunks(settings.record_bytes as usize)
            {
                self.stream.write_all(record)?;
            }
            self.position += message as u64;
        }
        self.stream.flush()?;
        let mut answer = [0];
        self.stream
            .read_exact(&mut answer)
            .context("our host answers when it has all")?;
        Ok(Time::of_this_thread().since(before))
    }

    /// Asks for a round's bytes, and reads them.
    fn receive(
        &mut self,
        settings: &Settings,
        source: &Source,
        verified: &mut bool,
    ) -> anyhow::Result<Time> {
        let before = Time::of_this_thread();
        self.stream.write_all(&[RECEIVE])?;
        self.stream.flush()?;
        let until = self.position + settings.bytes;
        let mut aside = 0;
        while self.position < until {
            let len = self.stream.read(&mut self.buffer)?;
            anyhow::ensure!(len > 0, "our host closed the connection");
            let start = read_cycles();
            *verified &= source.verify(0, self.position, &self.buffer[..len]);
            aside += read_cycles() - start;
            self.position += len as u64;
        }
        let mut time = Time::of_this_thread().since(before);
        time.user = (time.user - aside as f64 / cycles_per_second()).max(0.0);
        Ok(time)
    }
}

impl Time {
    /// What the calling thread has had of the processor.
    fn of_this_thread() -> Self {
        // SAFETY: all zeros is a valid `rusage`.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes the structure that it is given.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self {
            user: seconds(usage.ru_utime),
            system: seconds(usage.ru_stime),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }
}
