//! Runs a script against a host and its NIC.

use std::collections::HashMap;
use std::time::Duration;

use host::{Event, ListenOptions, ListenerId, SocketError, SocketId};
use testkit::{frames, network};
use wire::icmp::v4::{Message, Unreachable};
use wire::tcp::Header;
use wire::{FlowKey, SeqNum};

use super::bench::{Bench, Mode, Sent, Writer, byte};
use super::flow::Flow;
use super::script::{Call, Expected, Script, Step, What, When};
use super::segment::Segment;
use super::text::Error;

/// Our port that scripts listen at, and the peer's.
const PORT: u16 = 80;
const PEER_PORT: u16 = 4000;

/// Runs all steps. Nothing may leave that the script does not say.
pub fn run(script: &Script, mode: Mode) -> Result<(), Error> {
    let mut run = Run::new(script, mode);
    for step in &script.steps {
        let line = step.line;
        run.step(step).map_err(|what| Error { line, what })?;
    }
    let line = script.steps.last().map_or(1, |step| step.line);
    run.nothing_left().map_err(|what| Error { line, what })
}

struct Run {
    bench: Bench,
    tolerance: Duration,
    /// When the step before was.
    last: Duration,
    isn: SeqNum,
    /// By the peer's port.
    flows: HashMap<u16, Flow>,
    listener: Option<ListenerId>,
    socket: Option<SocketId>,
    read: i64,
}

impl Run {
    fn new(script: &Script, mode: Mode) -> Self {
        Self {
            bench: Bench::new(&script.setup, mode),
            tolerance: script.setup.tolerance,
            last: Duration::ZERO,
            isn: SeqNum(script.setup.isn),
            flows: HashMap::new(),
            listener: None,
            socket: None,
            read: 1,
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let (from, to) = match step.when {
            When::At(at) => (at, at),
            When::After(from, to) => (self.last + from, self.last + to),
        };
        if let What::Leaves { segment, times } = &step.what {
            return self.leaves(segment, *times, from, to);
        }
        if to < self.bench.elapsed() {
            return Err(format!("it is {:?} already", self.bench.elapsed()));
        }
        self.bench.run_until(to);
        while matches!(step.what, What::Ignore) && !self.bench.sent.is_empty() {
            self.bench.sent.clear();
            self.bench.run_until(to);
        }
        self.nothing_left()?;
        self.last = to;
        match &step.what {
            What::Arrives {
                segment,
                times,
                more,
            } => {
                let mut segment = segment.clone();
                for _ in 0..*times {
                    self.arrives(&segment, *more);
                    segment.seq += i64::from(segment.len);
                }
                Ok(())
            }
            What::Icmp { reason, quoted } => self.icmp(*reason, *quoted),
            What::Call(call) => self.call(*call),
            What::Expect(expected) => self.expect(expected),
            What::Silence | What::Ignore | What::Leaves { .. } => Ok(()),
        }
    }

    fn nothing_left(&self) -> Result<(), String> {
        match self.bench.sent.front() {
            Some(sent) => Err(format!("nothing was expected; came {}", self.tell(sent))),
            None => Ok(()),
        }
    }

    fn leaves(
        &mut self,
        segment: &Segment,
        times: u32,
        from: Duration,
        to: Duration,
    ) -> Result<(), String> {
        let mut expected = segment.clone();
        for _ in 0..times {
            let wanted = format!("expected > {expected} at {:?}", from);
            self.bench.run_until(to + self.tolerance);
            let Some(sent) = self.bench.sent.pop_front() else {
                return Err(format!(
                    "{wanted}; nothing came until {:?}",
                    to + self.tolerance
                ));
            };
            self.flow(sent.parsed.tcp.dst_port)
                .note_sent(&sent, &expected)
                .map_err(|what| format!("{wanted}; {what}"))?;
            let came = self.read_sent(&sent);
            let is_in_time = sent.at + self.tolerance >= from && sent.at <= to + self.tolerance;
            if !is_in_time || !expected.is_met_by(&came) {
                return Err(format!("{wanted}; came {}", self.tell(&sent)));
            }
            self.check_payload(&sent, &came)?;
            self.last = sent.at;
            expected.seq += i64::from(expected.len);
        }
        Ok(())
    }

    fn flow(&mut self, port: u16) -> &mut Flow {
        self.flows.entry(port).or_insert(Flow::new(PORT))
    }

    /// What has left, in the script's numbers.
    fn read_sent(&self, sent: &Sent) -> Segment {
        let port = sent.parsed.tcp.dst_port;
        let flow = self.flows.get(&port).copied();
        let mut segment = flow.unwrap_or(Flow::new(PORT)).read_sent(self.isn, sent);
        segment.port = (port != PEER_PORT).then_some(port);
        segment
    }

    fn tell(&self, sent: &Sent) -> String {
        format!("> {} at {:?}", self.read_sent(sent), sent.at)
    }

    fn check_payload(&self, sent: &Sent, came: &Segment) -> Result<(), String> {
        let payload = &sent.frame[sent.parsed.payload_offset..][..came.len as usize];
        let is_right = payload
            .iter()
            .zip(came.seq..)
            .all(|(got, at)| *got == byte(at));
        is_right
            .then_some(())
            .ok_or_else(|| format!("> {came} has other bytes than were written"))
    }

    fn arrives(&mut self, segment: &Segment, more: bool) {
        let port = segment.port.unwrap_or(PEER_PORT);
        let isn = self.isn;
        let flow = self.flow(port);
        flow.window = segment.window.unwrap_or(flow.window);
        let header = flow.incoming(isn, port, segment);
        let key = FlowKey {
            src: (Bench::peer_ip(), port),
            dst: (Bench::HOST_IP, flow.our_port),
        };
        let payload = (segment.seq..).take(segment.len as usize);
        let payload: Vec<u8> = payload.map(byte).collect();
        let [peer, host] = Bench::macs();
        let mut frame = frames::frame(peer, host, &key, &header, &payload);
        if let Some(pointer) = segment.urgent {
            frames::point_to_urgent(&mut frame, pointer);
        }
        self.bench.arrive(&frame, more);
    }

    fn icmp(&mut self, reason: Unreachable, quoted: i64) -> Result<(), String> {
        let (port, flow) = match self.flows.iter().next() {
            Some((port, flow)) => (*port, *flow),
            None => return Err("nothing has left that could be quoted".into()),
        };
        let key = FlowKey {
            src: (Bench::HOST_IP, flow.our_port),
            dst: (Bench::peer_ip(), port),
        };
        let header = Header {
            src_port: flow.our_port,
            dst_port: port,
            seq: flow.iss.unwrap_or_default() + quoted as u32,
            ..Header::default()
        };
        let [peer, host] = Bench::macs();
        let original = frames::headers(host, peer, &key, &header);
        let original = &original[wire::ethernet::HEADER_LEN..];
        let ends = [(peer, Bench::peer_ip()), (host, Bench::HOST_IP)];
        let frame = network::icmp(ends, &Message::Unreachable { reason, original });
        self.bench.arrive(&frame, false);
        Ok(())
    }

    fn call(&mut self, call: Call) -> Result<(), String> {
        let now = self.bench.now;
        let stack = &mut self.bench.stack;
        match call {
            Call::Listen => {
                let address = (Bench::HOST_IP, PORT).into();
                let listener = stack.listen(address, ListenOptions::default());
                self.listener = Some(listener.map_err(failed)?);
            }
            Call::Unlisten => {
                let listener = self.listener.take().ok_or("nobody listens")?;
                stack.close_listener(listener).map_err(failed)?;
            }
            Call::Connect => {
                let remote = (Bench::peer_ip(), PEER_PORT).into();
                self.socket = Some(stack.connect(now, remote).map_err(failed)?);
            }
            Call::Accept => {
                let accepted = self.listener.and_then(|listener| stack.accept(listener));
                self.socket = Some(accepted.ok_or("no connection waits")?);
                (self.bench.writer, self.read) = (None, 1);
            }
            call => self.call_socket(call)?,
        }
        self.bench.settle();
        Ok(())
    }

    fn call_socket(&mut self, call: Call) -> Result<(), String> {
        let now = self.bench.now;
        let socket = self.socket.ok_or("there is no socket yet")?;
        let stack = &mut self.bench.stack;
        match call {
            Call::Write(bytes) => {
                let writer = &mut self.bench.writer;
                let writer = writer.get_or_insert(Writer {
                    socket,
                    at: 1,
                    left: 0,
                });
                writer.left += bytes;
                Ok(())
            }
            Call::Read(bytes) => self.read(socket, bytes),
            Call::ReadEnd => {
                let read = stack.read(now, socket, &mut [0; 1]);
                same("bytes read", &0, &read.map_err(failed)?)
            }
            Call::Shutdown => stack.shutdown(now, socket).map_err(failed),
            Call::Close => stack.close(now, socket).map_err(failed),
            Call::Abort => stack.abort(now, socket).map_err(failed),
            Call::NoDelay => stack.set_nodelay(socket, true).map_err(failed),
            Call::Pacing(on) => stack.set_pacing(socket, on).map_err(failed),
            Call::Cork(on) => stack.set_cork(socket, on).map_err(failed),
            Call::KeepAlive(keep_alive) => stack.set_keep_alive(socket, keep_alive).map_err(failed),
            Call::UserTimeout(limit) => stack.set_user_timeout(socket, limit).map_err(failed),
            Call::Listen | Call::Unlisten | Call::Accept | Call::Connect => Ok(()),
        }
    }

    /// Reads so many bytes, which must be there.
    fn read(&mut self, socket: SocketId, bytes: usize) -> Result<(), String> {
        let mut data = vec![0; bytes];
        let mut got = 0;
        while got < bytes {
            let (now, stack) = (self.bench.now, &mut self.bench.stack);
            match stack.read(now, socket, &mut data[got..]) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(SocketError::WouldBlock) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        same("bytes read", &bytes, &got)?;
        let is_right = data
            .iter()
            .zip(self.read..)
            .all(|(got, at)| *got == byte(at));
        self.read += bytes as i64;
        is_right
            .then_some(())
            .ok_or_else(|| "other bytes than the peer has sent".into())
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), String> {
        let socket = self.socket;
        let of_socket = self.bench.events.iter();
        let mut of_socket = of_socket.filter(|event| event.socket() == socket);
        match expected {
            Expected::Connected => {
                let connected = of_socket.any(|event| matches!(event, Event::Connected(_)));
                connected
                    .then_some(())
                    .ok_or_else(|| "it is not connected".into())
            }
            Expected::Closed(reason) => {
                let closed = of_socket.find_map(|event| match event {
                    Event::Closed(_, reason) => Some(reason.to_string()),
                    _ => None,
                });
                same("end", reason, &closed.unwrap_or_else(|| "not yet".into()))
            }
            Expected::Urgent(ahead) => {
                let is_told = of_socket.any(|event| matches!(event, Event::Urgent(_)));
                let came = socket.and_then(|socket| self.bench.stack.urgent_ahead(socket));
                match (is_told || ahead.is_none()) && came == *ahead {
                    true => Ok(()),
                    false => Err(format!("urgent data: told {is_told}, ahead {came:?}")),
                }
            }
            Expected::State(state) => {
                let info = socket.and_then(|socket| self.bench.stack.info(socket));
                let came = info.map_or("none", |info| info.state);
                same("state", &state.as_str(), &came)
            }
            Expected::Counter(name, value) => {
                let mut counters = self.bench.stack.counters();
                let counter = counters.find(|(known, _)| known == name);
                let (_, came) = counter.ok_or_else(|| format!("no counter {name}"))?;
                same(name, value, &came)
            }
        }
    }
}

fn failed(error: SocketError) -> String {
    format!("the call failed: {error}")
}

fn same<T: PartialEq + std::fmt::Display>(
    what: &str,
    expected: &T,
    came: &T,
) -> Result<(), String> {
    match expected == came {
        true => Ok(()),
        false => Err(format!("{what}: expected {expected}, came {came}")),
    }
}
