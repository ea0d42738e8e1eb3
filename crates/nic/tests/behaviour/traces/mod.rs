//! What a host and the wire see of the NIC: frames, reports, completions, wakeups and counters of whole scenarios, written down in `tests/traces`. Whatever
//! changes some of it on purpose shows there what it does; `LONGSHORE_WRITE=1` writes them anew.

mod connections;
mod contexts;
mod owners;
mod receive;
mod transmit;
mod turns;

use std::time::{Duration, Instant};

use nic::ring::{FunctionConfig, Packet, RecvDescriptor, SendDescriptor};
use nic::{FrameMeta, Nic, NicConfig};
use testkit::bare::{BareHost, drain};
use testkit::written;
use wire::ethernet;
use wire::packet::{self, Class};
use wire::tcp::Flags;

/// Lines written down of a scenario; of what comes behind, only a sum.
const WRITTEN: usize = 90;
const WIDTH: usize = 180;

/// A NIC with its hosts, and all that was seen of them.
struct Bench {
    nic: Nic,
    hosts: Vec<BareHost>,
    began: Instant,
    now: Instant,
    lines: Vec<String>,
    /// What was said of each queue's rings last.
    rings: Vec<String>,
}

impl Bench {
    fn new(config: NicConfig) -> Bench {
        let began = Instant::now();
        Bench {
            nic: Nic::new(config),
            hosts: Vec::new(),
            began,
            now: began,
            lines: Vec::new(),
            rings: Vec::new(),
        }
    }

    /// With one host, whose memory holds different bytes.
    fn with(config: NicConfig, function: FunctionConfig) -> Bench {
        let mut bench = Bench::new(config);
        bench.attach(function);
        bench
    }

    fn attach(&mut self, function: FunctionConfig) {
        let host = BareHost::attach(&mut self.nic, function);
        let bytes: Vec<u8> = (0..testkit::bare::MEMORY)
            .map(|at| testkit::fixtures::byte(1, at))
            .collect();
        host.memory.write(0, &bytes);
        self.hosts.push(host);
    }

    fn host(&mut self) -> &mut BareHost {
        &mut self.hosts[0]
    }

    fn say(&mut self, what: impl AsRef<str>) {
        self.lines.push(clip(what.as_ref()));
    }

    /// A frame comes, whose checksums the NIC looks at; what becomes of it is seen at the end of the batch.
    fn bring(&mut self, frame: &[u8]) {
        self.nic.handle_frame(self.now, frame, FrameMeta::default());
    }

    /// Posts to the send ring of a host's first queue.
    fn post(&mut self, descriptor: &SendDescriptor<'_>) {
        let posted = self.hosts[0].queues[0].send.post(descriptor);
        if let Err(error) = posted {
            self.say(format!("{error:?}"));
        }
    }

    /// Does all that is to be done, says what for, and what is seen of it.
    fn settle(&mut self, what: impl AsRef<str>) {
        let at = self.now.duration_since(self.began).as_micros();
        self.say(format!("{at} {}", what.as_ref()));
        self.hosts.iter_mut().for_each(BareHost::publish);
        let frames = drain(&mut self.nic, self.now);
        for (frame, meta) in frames {
            self.say(format!("  > {}", told(&frame, meta)));
        }
        self.nic.flush(self.now);
        self.look();
    }

    /// As [`settle`](Self::settle), until the first host has been told of so many resources: a thread of the NIC's makes them, each in its time.
    fn settle_resources(&mut self, what: &str, count: usize) {
        let mut reports = Vec::new();
        for _ in 0..10_000 {
            self.nic.flush(self.now);
            while let Some(descriptor) = self.hosts[0].pop(0) {
                match descriptor {
                    RecvDescriptor::Resource { .. } => reports.push(format!("  < {descriptor:?}")),
                    other => self.say(format!("  < {other:?}")),
                }
            }
            self.hosts[0].publish();
            if reports.len() >= count {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        reports.sort();
        self.lines.append(&mut reports);
        self.settle(what);
    }

    /// What the hosts find on their rings.
    fn look(&mut self) {
        let mut woken = Vec::new();
        self.nic
            .take_wakeups(|function, queue| woken.push((function.0, queue)));
        if !woken.is_empty() {
            self.say(format!("  woken {woken:?}"));
        }
        for host in 0..self.hosts.len() {
            for queue in 0..self.hosts[host].queues.len() {
                self.look_at(host, queue);
            }
        }
    }

    fn look_at(&mut self, host: usize, queue: usize) {
        let name = format!("{host}.{queue}");
        while let Some(descriptor) = self.hosts[host].pop(queue) {
            let line = match &descriptor {
                RecvDescriptor::Packet(packet) => {
                    let packet = *packet;
                    let bytes = self.hosts[host].read(descriptor).map(|it| it.bytes);
                    received(&packet, &bytes.unwrap_or_default())
                }
                other => format!("{other:?}"),
            };
            self.say(format!("  < {name} {line}"));
        }
        let queue = &mut self.hosts[host].queues[queue];
        let [sent, commanded] = [&mut queue.send, &mut queue.commands].map(|ring| {
            let completed = ring.completed();
            format!("{completed}/{}", ring.posted())
        });
        let free = [queue.small.free(u32::MAX), queue.large.free(u32::MAX)];
        let rings = format!("  = {name} sent {sent} commanded {commanded} free {free:?}");
        let _ = queue.publish();
        if !self.rings.contains(&rings) {
            let prefix = format!("  = {name} ");
            self.rings.retain(|known| !known.starts_with(&prefix));
            self.rings.push(rings.clone());
            self.say(rings);
        }
    }

    fn pass(&mut self, micros: u64) {
        self.now += Duration::from_micros(micros);
    }

    /// Lets time pass, with the NIC called as it asks for; at most so many times.
    fn wait(&mut self, millis: u64, calls: usize) {
        let end = self.now + Duration::from_millis(millis);
        for _ in 0..calls {
            let Some(at) = self.nic.poll_timeout().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            self.settle("by time");
        }
        self.now = end;
    }

    /// Compares all that was seen with what is written down.
    fn end(mut self, name: &str) {
        let mut lines = written::shorten(std::mem::take(&mut self.lines), WRITTEN);
        for host in &self.hosts {
            let counters = self.nic.function_counters(host.id);
            let counted = counters.iter().flat_map(|counters| counters.iter());
            let counted = counted.filter(|(_, count)| *count != 0);
            lines.push(format!("counted by {}:", host.id.0));
            for (name, count) in counted {
                let counted = format!(" {name} {count}");
                match lines.last_mut() {
                    Some(line) if line.len() + counted.len() < WIDTH => *line += &counted,
                    _ => lines.push(counted),
                }
            }
        }
        let all = self.nic.counters();
        let all: Vec<u64> = all.iter().map(|(_, count)| count).collect();
        lines.push(format!(
            "{:016x}",
            written::sum(format!("{all:?}").as_bytes())
        ));
        written::compare(env!("CARGO_MANIFEST_DIR"), name, &lines);
    }
}

/// A line of which the end is only summed up if it is long.
fn clip(line: &str) -> String {
    let line = line.trim_end();
    match line.char_indices().nth(WIDTH) {
        None => line.to_owned(),
        Some((end, _)) => format!(
            "{} … {:08x}",
            &line[..end],
            written::sum(line.as_bytes()) as u32
        ),
    }
}

/// A frame in a line.
fn told(frame: &[u8], meta: FrameMeta) -> String {
    let mut line = match (frame.get(..6), ethernet::destination(frame)) {
        (Some(_), Some(to)) => format!("{to} "),
        _ => String::new(),
    };
    line += &match packet::classify(frame) {
        Class::Tcp(parsed) => {
            let tcp = &parsed.tcp;
            let (src, dst) = (parsed.flow.src, parsed.flow.dst);
            let sums = if parsed.verify_checksums(frame) {
                "ok"
            } else {
                "no"
            };
            let mut rest = format!(
                "{}:{}>{} seq {} ack {} {} w{} len {} sums {sums}",
                src.0,
                src.1,
                dst.1,
                tcp.seq.0,
                tcp.ack.0,
                flags(tcp.flags),
                tcp.window,
                parsed.payload_len
            );
            if let Some(timestamps) = tcp.options.timestamps {
                rest += &format!(" ts {}/{}", timestamps.val, timestamps.echo);
            }
            rest
        }
        Class::Malformed(error) => format!("{error:?}"),
        _ => format!("{} bytes", frame.len()),
    };
    if meta != FrameMeta::default() {
        let FrameMeta {
            gso_size,
            needs_checksum,
            checksum_valid,
        } = meta;
        line += &format!(" gso {gso_size} {needs_checksum:?} {checksum_valid}");
    }
    format!("{line} {:08x}", written::sum(frame) as u32)
}

fn flags(flags: Flags) -> String {
    let names = [
        (Flags::SYN, 'S'),
        (Flags::FIN, 'F'),
        (Flags::RST, 'R'),
        (Flags::PSH, 'P'),
        (Flags::ACK, '.'),
        (Flags::URG, 'U'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
    ];
    let set = names.iter().filter(|(flag, _)| flags.contains(*flag));
    set.map(|(_, name)| name).collect()
}

/// A received packet in a line.
fn received(packet: &Packet, bytes: &[u8]) -> String {
    let Packet {
        header_len,
        payload_len,
        segments,
        context,
        processed,
        placed,
        notes,
        checksum_ok,
        hash,
        hash_type,
        buffer,
    } = packet;
    let by: String = (0..3)
        .map(|layer| if processed.by(layer) { '1' } else { '0' })
        .collect();
    let context = context.map_or(String::new(), |context| {
        let replaced = processed.is_replaced();
        format!(" context {} by {by} {replaced}", context.0)
    });
    let mut line = format!(
        "packet {header_len}+{payload_len} of {segments} at {}+{}{context}",
        buffer.offset, buffer.len
    );
    if (*placed, *notes) != (0, 0) {
        line += &format!(" placed {placed} notes {notes}");
    }
    line += &format!(" sums {checksum_ok} hash {hash:08x} {hash_type:?}: ");
    let whole = usize::from(*header_len) + *payload_len as usize;
    let mut shown = bytes.to_vec();
    shown.resize(whole.max(bytes.len()), 0);
    line + &told(&shown, FrameMeta::default())
}
