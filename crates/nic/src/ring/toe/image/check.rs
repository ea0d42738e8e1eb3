//! Whether the fields of a control block agree with each other.

use std::time::Duration;

use tcp::{MIN_MSS, State, Tcb, TimerSnapshot};
use wire::tcp::MAX_WINDOW_SCALE;

use super::super::reason::TcbField;
use super::MOST;

/// No timeout is longer (RFC 6298 §2.5 allows for one of 60 seconds or more).
const LONGEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Whether the fields agree with each other (RFC 9293 §3.3.1, §3.10.7.4).
pub(super) fn check(tcb: &Tcb) -> Result<(), TcbField> {
    check_sending(tcb)?;
    check_receiving(tcb)?;
    let right = [
        (tcb.src_port != 0, TcbField::SrcPort),
        (tcb.dst_port != 0, TcbField::DstPort),
        (tcb.mss >= MIN_MSS, TcbField::Mss),
        (tcb.adv_mss >= MIN_MSS, TcbField::AdvMss),
        (tcb.cwnd > 0, TcbField::Cwnd),
        (
            tcb.linger.is_none() || tcb.detached && tcb.state == State::FinWait2,
            TcbField::Linger,
        ),
        (
            tcb.timer_snapshot.longest() <= LONGEST_TIMEOUT
                && tcb.timer_snapshot.age() <= TimerSnapshot::OLDEST,
            TcbField::TimerSnapshot,
        ),
    ];
    let shifts = tcb.shifts.unwrap_or_default();
    if shifts.0.max(shifts.1) > MAX_WINDOW_SCALE {
        return Err(TcbField::Shifts);
    }
    match right.iter().find(|(right, _)| !right) {
        Some((_, field)) => Err(*field),
        None => Ok(()),
    }
}

fn check_sending(tcb: &Tcb) -> Result<(), TcbField> {
    let fin = u32::from(tcb.fin_queued);
    let end = tcb.write_seq + fin;
    let unacknowledged = tcb.snd_una.distance_to(end);
    if unacknowledged > MOST + fin {
        return Err(if tcb.snd_una.after(end) {
            TcbField::SndUna
        } else {
            TcbField::WriteSeq
        });
    }
    if tcb.snd_una.distance_to(tcb.snd_nxt) > unacknowledged {
        return Err(TcbField::SndNxt);
    }
    let (closed, acknowledged) = match tcb.state {
        State::Established | State::CloseWait => (false, false),
        State::FinWait1 | State::Closing | State::LastAck => (true, false),
        _ => (true, true),
    };
    if tcb.fin_queued != closed {
        return Err(TcbField::FinQueued);
    }
    if closed && acknowledged != (tcb.snd_una == end) {
        return Err(TcbField::SndUna);
    }
    if tcb.snd_wnd > MOST {
        return Err(TcbField::SndWnd);
    }
    if tcb.snd_wnd_max < tcb.snd_wnd || tcb.snd_wnd_max > MOST {
        return Err(TcbField::SndWndMax);
    }
    Ok(())
}

fn check_receiving(tcb: &Tcb) -> Result<(), TcbField> {
    let fin = u32::from(tcb.fin_taken);
    let window = (tcb.rcv_nxt - fin).distance_to(tcb.rcv_edge);
    if window > MOST {
        return Err(TcbField::RcvEdge);
    }
    if tcb.rcv_buffer == 0 || tcb.rcv_buffer > MOST {
        return Err(TcbField::RcvBuffer);
    }
    if tcb.unread > tcb.rcv_buffer {
        return Err(TcbField::Unread);
    }
    let peer_closed = matches!(
        tcb.state,
        State::CloseWait | State::Closing | State::LastAck
    );
    if tcb.fin_taken != peer_closed {
        return Err(TcbField::FinTaken);
    }
    let mut end = tcb.rcv_nxt;
    for &(start, stop) in &tcb.held {
        let inside = start.after(end) && stop.after(start) && stop.at_or_before(tcb.rcv_edge);
        if tcb.fin_taken || !inside {
            return Err(TcbField::Held);
        }
        end = stop;
    }
    if let Some(fin) = tcb.fin_at {
        let distance = tcb.rcv_nxt.distance_to(fin);
        if tcb.fin_taken || distance == 0 || distance > window {
            return Err(TcbField::FinAt);
        }
        if end.after(fin) {
            return Err(TcbField::Held);
        }
    }
    Ok(())
}
