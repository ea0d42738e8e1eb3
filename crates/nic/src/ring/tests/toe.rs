//! Descriptors of connections handed off, and their control blocks.

use std::time::Duration;

use proptest::prelude::*;
use tcp::{CloseReason, Config, Connection, State, TimeWaitEntry, TimerSnapshot};
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

use super::super::toe::*;
use super::super::*;
use super::descriptors::{pass, slices};

const TOE: ToeId = ToeId {
    index: 5,
    generation: 77,
};

fn flow() -> FlowKey {
    FlowKey {
        src: ([10, 0, 0, 1].into(), 80),
        dst: ([10, 0, 0, 2].into(), 40_000),
    }
}

fn taken(command: ToeCommand<'_>) -> (ToeRequest, Vec<Slice>) {
    match pass(&SendDescriptor::Toe(command)) {
        (Command::Toe(request), slices) => (request, slices),
        (other, _) => panic!("{other:?}"),
    }
}

#[test]
fn commands_arrive_as_they_were_posted() {
    let toe = TOE;
    let tcb = slices(1)[0];
    let offer = ToeOffer {
        toe,
        flow: flow(),
        hop: MacAddr([2, 0, 0, 0, 0, 9]),
        hop_limit: 63,
        tcb,
    };
    assert_eq!(
        taken(ToeCommand::Begin { toe, flow: flow() }).0,
        ToeRequest::Begin { toe, flow: flow() }
    );
    assert_eq!(
        taken(ToeCommand::Offer(&offer)),
        (ToeRequest::Offer(offer), vec![tcb])
    );
    assert_eq!(taken(ToeCommand::Cancel { toe }).0, ToeRequest::Cancel(toe));
    assert_eq!(
        taken(ToeCommand::Restore { toe }).0,
        ToeRequest::Restore(toe)
    );
    assert_eq!(taken(ToeCommand::Close { toe }).0, ToeRequest::Close(toe));
    assert_eq!(taken(ToeCommand::Abort { toe }).0, ToeRequest::Abort(toe));
    assert_eq!(taken(ToeCommand::Detach { toe }).0, ToeRequest::Detach(toe));
    for option in [ToeOption::NoDelay(true), ToeOption::Cork(false)] {
        let request = taken(ToeCommand::Option { toe, option }).0;
        assert_eq!(request, ToeRequest::Option(toe, option));
    }
    let (context, tcpsn, len) = (ContextId(9), SeqNum(7), 11);
    let resume = ToeCommand::Resume {
        toe,
        context,
        tcpsn,
        len,
    };
    let request = ToeRequest::Resume {
        toe,
        context,
        tcpsn,
        len,
    };
    assert_eq!(taken(resume).0, request);
}

#[test]
fn a_send_has_all_its_slices() {
    for count in [1, 9, 10, MAX_TOE_SEND_SLICES] {
        let payload = slices(count);
        let bytes = payload.iter().map(|slice| slice.len).sum();
        let (request, got) = taken(ToeCommand::Send {
            toe: TOE,
            seq: SeqNum(3),
            context: Some(ContextId(4)),
            flags: SendFlags::MUTABLE_SOURCE,
            payload: &payload,
        });
        let sent = ToeRequest::Send {
            toe: TOE,
            seq: SeqNum(3),
            bytes,
            context: Some(ContextId(4)),
            flags: SendFlags::MUTABLE_SOURCE,
        };
        assert_eq!((request, got), (sent, payload));
    }
}

#[test]
fn events_arrive_as_they_were_told() {
    let toe = TOE;
    let entry = TimeWaitEntry {
        snd_nxt: SeqNum(1),
        rcv_nxt: SeqNum(2),
        rcv_wnd: 3,
        window: 4,
        timestamps: Some((5, 6)),
    };
    let refused = |reason| ToeEvent::Refused { toe, reason };
    let restored = |reason| ToeEvent::Restored { toe, reason };
    let closed = |time_wait| ToeEvent::Closed {
        toe,
        reason: CloseReason::TimedOut,
        time_wait,
    };
    let events = [
        ToeEvent::Ready { toe },
        refused(RefuseReason::Unsupported),
        refused(RefuseReason::Tcb(TcbField::Version)),
        refused(RefuseReason::Tcb(TcbField::RcvBufMax)),
        ToeEvent::Accepted { toe },
        ToeEvent::Delivered {
            toe,
            seq: SeqNum(1),
            skip: 2,
            len: 3,
            rcv_nxt: SeqNum(4),
            snd_una: SeqNum(5),
            flight: 6,
        },
        ToeEvent::Acked {
            toe,
            snd_una: SeqNum(8),
            flight: 9,
        },
        ToeEvent::PeerFin {
            toe,
            rcv_nxt: SeqNum(u32::MAX),
        },
        closed(None),
        closed(Some(entry)),
        closed(Some(TimeWaitEntry {
            timestamps: None,
            ..entry
        })),
        restored(RestoreReason::Asked),
        restored(RestoreReason::Load),
        restored(RestoreReason::Transmit {
            error: ErrorCode::SourceFaulted,
            context: Some(ContextId(9)),
        }),
        restored(RestoreReason::Transmit {
            error: ErrorCode::TableFull,
            context: None,
        }),
        ToeEvent::Recover {
            toe,
            context: ContextId(1),
            tcpsn: SeqNum(2),
            sent: SeqNum(3),
        },
        ToeEvent::Room {
            soft_limit: 1,
            active: 2,
        },
        ToeEvent::CommandFailed {
            index: 1 << 40,
            context: None,
            tcpsn: SeqNum(9),
            error: ErrorCode::BadLength,
        },
    ];
    for event in events {
        assert_eq!(ToeEvent::decode(&event.encode()), Some(event));
    }
}

/// The host sees whose packet comes behind the next one, once it has looked at what is there.
#[test]
fn the_connection_behind_the_next_packet_is_known_ahead() {
    let (mut host, mut device) = function(FunctionConfig::new(MacAddr([2, 0, 0, 0, 0, 1])));
    let (recv, reported) = (&mut host.queues[0].recv, &mut device.queues[0].recv);
    let delivered = |index| {
        RecvDescriptor::Toe(ToeEvent::Delivered {
            toe: ToeId {
                index,
                generation: 3,
            },
            seq: SeqNum(1),
            skip: 0,
            len: 1,
            rcv_nxt: SeqNum(2),
            snd_una: SeqNum(3),
            flight: 4,
        })
    };
    let reset = RecvDescriptor::Reset { epoch: 1 };
    for index in 0..3 {
        assert!(reported.push(delivered(index)) && reported.push(reset));
    }
    reported.publish();
    let mut seen = Vec::new();
    while recv.pop().is_some() {
        seen.push(recv.delivered_ahead().map(|toe| toe.index));
    }
    assert_eq!(seen, [None, Some(2), None, None, None, None]);
}

/// Of a connection that has sent, received and waits.
fn image() -> TcbImage {
    let now = std::time::Instant::now();
    let config = Config {
        orphan_retries: 3,
        orphan_timeout: Duration::from_secs(7),
        pacing: true,
        ..Config::default()
    };
    let mut peer = Connection::connect(now, &config, 40_000, 80, SeqNum(500));
    let syn = peer.poll_transmit(now).unwrap().header;
    let mut ours = Connection::accept(now, &config, &syn, SeqNum(u32::MAX - 10));
    let answer = ours.poll_transmit(now).unwrap().header;
    peer.handle_segment(now, &answer, 0, 1);
    let ack = peer.poll_transmit(now).unwrap().header;
    ours.handle_segment(now, &ack, 0, 1);
    assert_eq!(ours.queue(now, 5000), 5000);
    while ours.poll_transmit(now).is_some() {}
    let mut tcb = ours.tcb(now).unwrap();
    let nxt = tcb.rcv_nxt;
    tcb.held = vec![(nxt + 10, nxt + 20), (nxt + 30, nxt + 31)];
    tcb.fin_at = Some(nxt + 40);
    tcb.owes_ack = true;
    assert!(
        tcb.timer_snapshot.tail_probe.is_some(),
        "something is in flight"
    );
    tcb.timer_snapshot.keep_alive = Some(Duration::from_secs(7200));
    (
        tcb.timer_snapshot.backoff,
        tcb.timer_snapshot.tries,
        tcb.timer_snapshot.probes,
    ) = (1, 2, 3);
    tcb.timer_snapshot.progress_age = Duration::from_millis(4);
    tcb.timer_snapshot.heard_age = Duration::from_millis(5);
    TcbImage {
        tcb,
        config: ours.config(),
        cork: true,
    }
}

fn bytes_of(image: &TcbImage) -> [u8; TCB_IMAGE_BYTES] {
    let mut bytes = [0xff; TCB_IMAGE_BYTES];
    image.encode(&mut bytes).unwrap();
    bytes
}

#[test]
fn an_image_reads_back_as_it_was_written() {
    let image = image();
    assert_eq!(TcbImage::decode(&bytes_of(&image)), Ok(image));
}

#[test]
fn an_image_has_room_for_so_many_ranges_only() {
    let mut image = image();
    let nxt = image.tcb.rcv_nxt;
    image.tcb.fin_at = None;
    image.tcb.held = (1..=MAX_HELD as u32)
        .map(|n| (nxt + 3 * n, nxt + 3 * n + 1))
        .collect();
    assert_eq!(TcbImage::decode(&bytes_of(&image)), Ok(image.clone()));
    image.tcb.held.push((nxt + 900, nxt + 901));
    let mut bytes = [0; TCB_IMAGE_BYTES];
    assert!(image.encode(&mut bytes).is_err());
}

/// An image with something wrong, and the field that the device names.
#[test]
fn a_contradiction_names_its_field() {
    let refused = |field: TcbField, change: &dyn Fn(&mut TcbImage)| {
        let mut image = image();
        change(&mut image);
        assert_eq!(TcbImage::decode(&bytes_of(&image)), Err(field), "{field}");
    };
    refused(TcbField::State, &|i| i.tcb.state = State::TimeWait);
    refused(TcbField::State, &|i| i.tcb.state = State::SynReceived);
    refused(TcbField::FinQueued, &|i| i.tcb.state = State::FinWait1);
    refused(TcbField::FinQueued, &|i| i.tcb.fin_queued = true);
    refused(TcbField::FinTaken, &|i| i.tcb.state = State::CloseWait);
    refused(TcbField::FinTaken, &|i| i.tcb.fin_taken = true);
    refused(TcbField::SndUna, &|i| i.tcb.snd_una = i.tcb.write_seq + 1);
    refused(TcbField::SndUna, &|i| {
        (i.tcb.state, i.tcb.fin_queued) = (State::FinWait2, true);
    });
    refused(TcbField::SndNxt, &|i| i.tcb.snd_nxt = i.tcb.write_seq + 1);
    refused(TcbField::WriteSeq, &|i| {
        i.tcb.write_seq = i.tcb.snd_una + (1 << 30) + 1
    });
    refused(TcbField::SndWnd, &|i| i.tcb.snd_wnd = (1 << 30) + 1);
    refused(TcbField::SndWndMax, &|i| i.tcb.snd_wnd_max = 0);
    refused(TcbField::Unread, &|i| i.tcb.unread = i.tcb.rcv_buffer + 1);
    refused(TcbField::RcvEdge, &|i| i.tcb.rcv_edge = i.tcb.rcv_nxt - 1);
    refused(TcbField::RcvBuffer, &|i| i.tcb.rcv_buffer = 0);
    refused(TcbField::FinAt, &|i| i.tcb.fin_at = Some(i.tcb.rcv_nxt));
    refused(TcbField::FinAt, &|i| {
        i.tcb.fin_at = Some(i.tcb.rcv_edge + 1)
    });
    refused(TcbField::Held, &|i| i.tcb.fin_at = Some(i.tcb.rcv_nxt + 15));
    refused(TcbField::Held, &|i| i.tcb.held[1].0 = i.tcb.held[0].1);
    refused(TcbField::Held, &|i| i.tcb.held[0].0 = i.tcb.rcv_nxt);
    refused(TcbField::Held, &|i| i.tcb.held[1].1 = i.tcb.rcv_edge + 1);
    refused(TcbField::SrcPort, &|i| i.tcb.src_port = 0);
    refused(TcbField::DstPort, &|i| i.tcb.dst_port = 0);
    refused(TcbField::Mss, &|i| i.tcb.mss = 40);
    refused(TcbField::AdvMss, &|i| i.tcb.adv_mss = 1);
    refused(TcbField::Shifts, &|i| i.tcb.shifts = Some((3, 15)));
    refused(TcbField::Cwnd, &|i| i.tcb.cwnd = 0);
    refused(TcbField::Linger, &|i| {
        i.tcb.linger = Some(Duration::from_secs(1))
    });
    refused(TcbField::TimerSnapshot, &|i| {
        i.tcb.timer_snapshot.retransmit = Some(Duration::from_secs(121));
    });
    refused(TcbField::TimerSnapshot, &|i| {
        i.tcb.timer_snapshot.heard_age = TimerSnapshot::OLDEST + Duration::from_millis(1);
    });
    refused(TcbField::RcvBufMax, &|i| {
        i.config.rcv_buf_max = i.tcb.rcv_buffer - 1
    });
    refused(TcbField::RcvBufMax, &|i| {
        i.config.rcv_buf_max = (1 << 30) + 1
    });
}

#[test]
fn the_largest_values_are_good() {
    let mut image = image();
    image.config.rcv_buf_max = 1 << 30;
    image.tcb.snd_wnd_max = 1 << 30;
    image.tcb.snd_wnd = 1 << 30;
    assert_eq!(TcbImage::decode(&bytes_of(&image)), Ok(image));
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: ProptestConfig::default().failure_persistence.filter(|_| !cfg!(miri)),
        ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 })
    })]

    /// Whatever is in memory: it is refused, or makes a connection that is sound.
    #[test]
    fn any_image_is_sound_or_refused(
        changes in prop::collection::vec((0usize..TCB_IMAGE_BYTES, any::<u8>()), 0..6),
    ) {
        let mut bytes = bytes_of(&image());
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if let Ok(image) = TcbImage::decode(&bytes) {
            let now = std::time::Instant::now();
            let mut connection = Connection::hand_over(now, &image.config, &image.tcb);
            connection.assert_invariants();
            for _ in 0..64 {
                if connection.poll_transmit(now).is_none() {
                    break;
                }
            }
            if let Some(at) = connection.poll_timeout() {
                connection.handle_timeout(at);
            }
            connection.assert_invariants();
        }
    }
}
