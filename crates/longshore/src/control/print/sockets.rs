//! Sockets as text.

use std::fmt::Write as _;

use crate::control::protocol::{NvmeFigures, Socket, SocketMemory, TcpFigures, TlsFigures};

/// What the fields of `ss` are, for its help.
pub const FIELDS: &str = "\
Each socket has a line as `ss` prints it, and below it lines for TCP, TLS and NVMe. Sizes are bytes,
times milliseconds. Recv-Q and Send-Q are bytes not yet read and not yet acknowledged; of a
listener, connections to accept and its backlog.

tcp    fields are those of `ss -ti`; and these
  state:NAME            congestion state: open, disorder, recovery, loss
  cwnd, ssthresh        in segments
  rcv_wnd, snd_wnd      windows
  undos                 retransmissions found to be unnecessary
owner:nic               the NIC runs the connection (--handoff); owner:host-quasi: lazy TCB
spliced                 the NIC forwards between this connection and another (--accel splice)
tls    version and cipher; and these
  tx, rx                who encrypts and decrypts: device (the NIC), sw, or fallback (sw although
                        the NIC was asked)
  records_sent          records sent
  records_full, _partial, _none
                        records received that the NIC decrypted completely, in part, not at all
  resyncs               questions of the NIC whether a record begins at a given place
  key_updates           KeyUpdates of TLS 1.3
nvme   the subsystem; controller and queue (cntlid, qid), its depth, commands in flight, the host

Examples:
  longshore ss /run/longshore.sock
  longshore ss /run/longshore.sock --json";

/// Sockets as `ss -ti` prints them, with a line for each layer.
pub fn sockets(sockets: &[Socket]) -> String {
    let width = |pick: fn(&Socket) -> &str, least: usize| {
        let widths = sockets.iter().map(|socket| pick(socket).len());
        widths.max().unwrap_or(0).max(least)
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
        let held: Vec<String> =
            owner
                .chain(socket.spliced.then(|| "spliced".to_owned()))
                .chain(socket.skmem.map(|SocketMemory { r, rb, t, tb }| {
                    format!("skmem:(r{r},rb{rb},t{t},tb{tb})")
                }))
                .collect();
        let layers = [
            socket.tcp.as_ref().map(|figures| ("tcp", tcp(figures))),
            (!held.is_empty()).then(|| ("", held.join(" "))),
            socket.tls.as_ref().map(|figures| ("tls", tls(figures))),
            socket.nvme.as_ref().map(|figures| ("nvme", nvme(figures))),
        ];
        for (layer, figures) in layers.into_iter().flatten() {
            for (at, line) in broken(&figures).into_iter().enumerate() {
                let layer = if at == 0 { layer } else { "" };
                let _ = writeln!(text, "    {layer:<4} {line}");
            }
        }
    }
    text
}

/// The fields, in lines that fit a terminal.
fn broken(fields: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for field in fields.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + field.len() <= 90 => {
                line.push(' ');
                line.push_str(field);
            }
            _ => lines.push(field.to_owned()),
        }
    }
    lines
}

fn tcp(figures: &TcpFigures) -> String {
    let mut text = agreed(figures);
    let mss = u32::from(figures.mss.max(1));
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
        figures.cwnd / mss,
    );
    if let Some(ssthresh) = figures.ssthresh {
        let _ = write!(text, " ssthresh:{}", ssthresh / mss);
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
        let _ = write!(text, " send:{}", bits_per_second(rate));
    }
    if let Some(rate) = figures.pacing_rate {
        let _ = write!(text, " pacing_rate:{}", bits_per_second(rate as f64 * 8.0));
    }
    text += &counted(figures);
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

/// What both ends have agreed on, and the algorithm of congestion control.
fn agreed(figures: &TcpFigures) -> String {
    let mut text = String::new();
    let agreed = [
        (figures.timestamps, "ts "),
        (figures.sack, "sack "),
        (figures.ecn, "ecn "),
    ];
    for (set, name) in agreed {
        text.push_str(if set { name } else { "" });
    }
    text.push_str(&figures.congestion);
    if let Some((theirs, ours)) = figures.wscale {
        let _ = write!(text, " wscale:{theirs},{ours}");
    }
    text
}

/// What is shown only if there was any.
fn counted(figures: &TcpFigures) -> String {
    let each = [
        ("bytes_retrans", figures.bytes_retrans),
        ("retrans", u64::from(figures.retrans)),
        ("timeouts", u64::from(figures.timeouts)),
        ("undos", u64::from(figures.undos)),
        ("dsack_dups", u64::from(figures.dsack_dups)),
        ("unacked", u64::from(figures.unacked)),
        ("sacked", u64::from(figures.sacked)),
        ("lost", u64::from(figures.lost)),
        ("notsent", u64::from(figures.notsent)),
    ];
    let there = each.into_iter().filter(|(_, value)| *value > 0);
    there
        .map(|(name, value)| format!(" {name}:{value}"))
        .collect()
}

fn tls(figures: &TlsFigures) -> String {
    let mut text = format!(
        "{} {} tx:{} rx:{} records_sent:{} records_full:{} records_partial:{} records_none:{}",
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
        "{} cntlid:{} qid:{} depth:{} inflight:{} host:{}",
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
