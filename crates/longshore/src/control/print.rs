//! The answers for people, and for programs (`--json`).

use std::fmt::Write as _;

use serde::Serializer;
use serde::ser::SerializeMap;

use super::protocol::{CounterGroup, NvmeFigures, Socket, TcpFigures, TlsFigures};

/// Counters as `ethtool -S` prints them.
pub fn counters(groups: &[CounterGroup], all: bool) -> String {
    let mut text = String::new();
    for group in groups {
        let _ = writeln!(text, "{} statistics:", group.name);
        let shown = |value: u64| all || value != 0;
        for (name, value) in group.counters.iter().filter(|(_, value)| shown(*value)) {
            let _ = writeln!(text, "     {name}: {value}");
        }
    }
    text
}

/// Counters as one JSON object per group, in order.
pub fn counters_json(groups: &[CounterGroup]) -> serde_json::Result<String> {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::pretty(&mut out);
    let mut map = serializer.serialize_map(Some(groups.len()))?;
    for group in groups {
        map.serialize_entry(&group.name, &InOrder(&group.counters))?;
    }
    map.end()?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

struct InOrder<'a>(&'a [(String, u64)]);

impl serde::Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Sockets as `ss -ti` prints them.
pub fn sockets(sockets: &[Socket]) -> String {
    let width = |pick: fn(&Socket) -> &str, least: usize| {
        sockets
            .iter()
            .map(|socket| pick(socket).len())
            .max()
            .unwrap_or(0)
            .max(least)
    };
    let state = width(|s| &s.state, 5);
    let local = width(|s| &s.local, 18);
    let remote = width(|s| &s.remote, 17);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<state$} {:>8} {:>8} {:>local$} {:>remote$}",
        "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port",
    );
    for socket in sockets {
        let _ = writeln!(
            text,
            "{:<state$} {:>8} {:>8} {:>local$} {:>remote$}",
            socket.state, socket.receive_queue, socket.send_queue, socket.local, socket.remote,
        );
        let owner = socket.owner.iter().map(|owner| format!("owner:{owner}"));
        let figures: Vec<String> = owner
            .chain(socket.spliced.then(|| "spliced".to_owned()))
            .chain(socket.tcp.iter().map(tcp))
            .chain(socket.tls.iter().map(tls))
            .chain(socket.nvme.iter().map(nvme))
            .collect();
        if !figures.is_empty() {
            let _ = writeln!(text, "\t {}", figures.join(" "));
        }
    }
    text
}

fn tcp(figures: &TcpFigures) -> String {
    let mut text = String::new();
    let mut flag = |set: bool, name: &str| {
        if set {
            text.push_str(name);
            text.push(' ');
        }
    };
    flag(figures.timestamps, "ts");
    flag(figures.sack, "sack");
    text.push_str(&figures.congestion);
    if let Some((theirs, ours)) = figures.wscale {
        let _ = write!(text, " wscale:{theirs},{ours}");
    }
    let _ = write!(text, " rto:{}", milliseconds(figures.rto_us));
    if figures.backoff > 0 {
        let _ = write!(text, " backoff:{}", figures.backoff);
    }
    let _ = write!(
        text,
        " rtt:{}/{} mss:{} advmss:{} cwnd:{}",
        milliseconds(figures.rtt_us),
        milliseconds(figures.rttvar_us),
        figures.mss,
        figures.advmss,
        figures.cwnd / u32::from(figures.mss.max(1)),
    );
    if let Some(ssthresh) = figures.ssthresh {
        let _ = write!(
            text,
            " ssthresh:{}",
            ssthresh / u32::from(figures.mss.max(1))
        );
    }
    let _ = write!(
        text,
        " bytes_sent:{} bytes_acked:{} bytes_received:{} segs_out:{} segs_in:{} state:{}",
        figures.bytes_sent,
        figures.bytes_acked,
        figures.bytes_received,
        figures.segs_out,
        figures.segs_in,
        figures.ca_state,
    );
    if figures.rtt_us > 0 {
        let rate = f64::from(figures.cwnd) * 8.0 / (figures.rtt_us as f64 / 1e6);
        let _ = write!(text, " send {}", bits_per_second(rate));
    }
    for (name, value) in [
        ("bytes_retrans", figures.bytes_retrans),
        ("retrans", u64::from(figures.retrans)),
        ("timeouts", u64::from(figures.timeouts)),
        ("undos", u64::from(figures.undos)),
        ("dsack_dups", u64::from(figures.dsack_dups)),
        ("unacked", u64::from(figures.unacked)),
        ("sacked", u64::from(figures.sacked)),
        ("lost", u64::from(figures.lost)),
        ("notsent", u64::from(figures.notsent)),
    ] {
        if value > 0 {
            let _ = write!(text, " {name}:{value}");
        }
    }
    let _ = write!(
        text,
        " rcv_space:{} rcv_wnd:{} snd_wnd:{} minrtt:{}",
        figures.rcv_space,
        figures.rcv_wnd,
        figures.snd_wnd,
        milliseconds(figures.minrtt_us),
    );
    if figures.reordering_seen {
        text.push_str(" reord_seen");
    }
    text
}

fn tls(figures: &TlsFigures) -> String {
    let mut text = format!(
        "tls:{} cipher:{} tx:{} rx:{} records_sent:{} records_full:{} records_partial:{} records_none:{}",
        figures.version,
        figures.cipher,
        figures.tx,
        figures.rx,
        figures.records_sent,
        figures.records_full,
        figures.records_partial,
        figures.records_none,
    );
    if figures.resync_requests > 0 {
        let _ = write!(text, " resyncs:{}", figures.resync_requests);
    }
    if figures.key_updates > 0 {
        let _ = write!(text, " key_updates:{}", figures.key_updates);
    }
    text
}

fn nvme(figures: &NvmeFigures) -> String {
    format!(
        "nvme:{} cntlid:{} qid:{} depth:{} inflight:{} host:{}",
        figures.subsystem,
        figures.controller,
        figures.queue,
        figures.depth,
        figures.in_flight,
        figures.host,
    )
}

/// As `ss` does: milliseconds, with as many decimals as there are.
fn milliseconds(us: u64) -> String {
    let text = format!("{}.{:03}", us / 1000, us % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn bits_per_second(rate: f64) -> String {
    match rate {
        r if r >= 1e9 => format!("{:.1}Gbps", r / 1e9),
        r if r >= 1e6 => format!("{:.1}Mbps", r / 1e6),
        r => format!("{r:.0}bps"),
    }
}
