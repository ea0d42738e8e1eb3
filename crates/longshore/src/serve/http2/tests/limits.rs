//! Clients that take too long, or send more than they ask for.

use std::time::Duration;

use port::impair::Impairment;

use super::browser::Browser;
use super::raw::*;
use super::rig;
use crate::access_log::{AccessLog, Logging};
use crate::serve::files::FileSource;

const NO_ERROR: u32 = 0;
const ENHANCE_YOUR_CALM: u32 = 11;

fn hello() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// How a client is told that it has sent this too often.
fn flooded(name: &str, bytes: &[u8]) {
    let mut rig = rig(name);
    let mut raw = Raw::open(&mut rig, &hello());
    for _ in 0..20_000 {
        raw.send(&mut rig, bytes);
        if raw.ended.is_some() {
            break;
        }
    }
    let goaway = raw.first(GOAWAY).expect("it is told");
    assert_eq!(goaway.error(), ENHANCE_YOUR_CALM, "{name}");
    assert_eq!(rig.server.counters().http2_floods, 1, "{name}");
    raw.run(&mut rig, Duration::from_secs(10));
    assert_eq!(rig.server.counters().connections_open, 0, "{name}");
}

#[test]
fn floods_of_frames_that_ask_for_nothing_end_the_connection() {
    let of = |kind, payload: &[u8]| frame(kind, 0, 0, payload).repeat(100);
    flooded("pings", &of(PING, &[0; 8]));
    flooded("settings", &of(SETTINGS, &[]));
    flooded("windows", &of(WINDOW_UPDATE, &[0, 0, 0, 1]));
    // Of which all but a hundred are refused.
    let mut rig = rig("requests");
    let streams = (1..10_000).step_by(2);
    let gets: Vec<u8> = streams.flat_map(|stream| get(stream, GET_FILE)).collect();
    let mut raw = Raw::open(&mut rig, &hello());
    raw.send(&mut rig, &gets);
    assert_eq!(raw.first(GOAWAY).unwrap().error(), ENHANCE_YOUR_CALM);
    let priority = frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]);
    flooded("priorities", &priority.repeat(100));
}

/// CVE-2023-44487: streams that are reset as soon as they have begun, each in a packet of its own or all in one.
#[test]
fn a_client_that_resets_what_it_asks_for_is_sent_away() {
    let reset = |stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
    let mut rig = rig("resets");
    let mut raw = Raw::open(&mut rig, &hello());
    let mut streams = (1..1000).step_by(2);
    while let (None, Some(stream)) = (raw.ended, streams.next()) {
        raw.send(&mut rig, &get(stream, GET_FILE));
        raw.send(&mut rig, &reset(stream));
    }
    assert_eq!(raw.first(GOAWAY).unwrap().error(), ENHANCE_YOUR_CALM);
    assert!(rig.server.counters().requests <= 150);

    let mut rig = super::rig("resets-at-once");
    let streams = (1..400).step_by(2);
    let both = streams.flat_map(|stream| [get(stream, GET_FILE), reset(stream)]);
    let bytes: Vec<u8> = both.flatten().collect();
    let mut raw = Raw::open(&mut rig, &hello());
    raw.send(&mut rig, &bytes);
    assert_eq!(raw.first(GOAWAY).unwrap().error(), ENHANCE_YOUR_CALM);
    assert_eq!(rig.server.counters().http2_floods, 1);
}

/// VU#421644: fields without an end.
#[test]
fn fields_that_go_on_for_ever_end_the_connection() {
    let mut rig = rig("continuation");
    let mut raw = Raw::open(&mut rig, &hello());
    raw.send(&mut rig, &frame(HEADERS, END_STREAM, 1, GET_SHORT));
    for _ in 0..5000 {
        let more = frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b");
        raw.send(&mut rig, &more.repeat(20));
        if raw.ended.is_some() {
            break;
        }
    }
    assert!(raw.first(GOAWAY).is_some());
    assert_eq!(rig.server.counters().requests, 0);
}

/// CVE-2019-9511: a window that is opened byte by byte has a frame sent for each.
#[test]
fn content_byte_by_byte_is_no_work_that_earns_frames() {
    let mut rig = rig("dribble");
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let mut raw = Raw::open(&mut rig, &[PREFACE, &settings, &get(1, GET_FILE)].concat());
    let window = frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]);
    for _ in 0..700 {
        raw.send(&mut rig, &window.repeat(4));
        if raw.ended.is_some() {
            break;
        }
    }
    let goaway = raw.first(GOAWAY).expect("it is told");
    assert_eq!(goaway.error(), ENHANCE_YOUR_CALM);
    assert_eq!(rig.server.counters().http2_floods, 1);
}

/// A hundred streams at a time; the next one is refused.
#[test]
fn more_than_a_hundred_streams_are_refused() {
    let mut rig = rig("many");
    let mut raw = Raw::open(&mut rig, &hello());
    for stream in (1..=201).step_by(2) {
        raw.send(&mut rig, &get(stream, GET_FILE));
    }
    let refused = raw.first(RST_STREAM).unwrap();
    assert_eq!((refused.head.stream, refused.error()), (201, 7));
    assert_eq!(rig.server.counters().requests, 100);
}

/// Pages that are made for a request wait in memory while its window is closed: a second large one is not made.
#[test]
fn pages_that_wait_for_windows_are_bounded() {
    let mut rig = rig("pages");
    let path = rig.folder.with_extension("log");
    let logging = Logging {
        access_log: Some(path.clone()),
        ..Logging::default()
    };
    rig.server
        .set_access_log(AccessLog::open(&logging).unwrap().unwrap());
    for nth in 0..1500 {
        std::fs::write(rig.folder.join(format!("{nth:0>200}")), "").unwrap();
    }
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let mut raw = Raw::open(&mut rig, &[PREFACE, &settings].concat());
    let streams = (1..200).step_by(2);
    let gets: Vec<u8> = streams.flat_map(|stream| get(stream, GET_ROOT)).collect();
    raw.send(&mut rig, &gets);
    let of = |kind| raw.came.iter().filter(move |it| it.head.kind == kind);
    let (answered, refused) = (of(HEADERS).count(), of(RST_STREAM).count());
    assert_eq!(answered + refused, 100);
    assert!((1..4).contains(&answered), "{answered}");
    assert!(of(RST_STREAM).all(|it| it.error() == 7));
    assert_eq!(raw.ended, None);
    rig.run_for(Duration::from_secs(2));
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(log.matches("\"GET / HTTP/2.0\" 0 0 ").count(), refused);
}

#[test]
fn who_begins_and_does_not_go_on_is_sent_away_after_the_time_for_a_head() {
    let get = get(1, GET_SHORT);
    let fields = frame(HEADERS, END_STREAM, 1, GET_SHORT);
    let ping = frame(PING, 0, 0, &[0; 8]);
    let beginnings: [(&[u8], &[u8]); 4] = [
        (b"", &PREFACE[..10]),
        (&hello(), &get[..4]),
        (&hello(), &get[..12]),
        (&hello(), &fields),
    ];
    for (nth, (before, beginning)) in beginnings.into_iter().enumerate() {
        let mut rig = rig(&format!("begins-{nth}"));
        let mut raw = Raw::open(&mut rig, &[before, beginning].concat());
        raw.run(&mut rig, Duration::from_secs(18));
        assert_eq!(raw.ended, None, "{nth}");
        raw.run(&mut rig, Duration::from_secs(4));
        assert!(raw.ended.is_some(), "{nth}");
        assert_eq!(rig.server.counters().client_timeouts, 1, "{nth}");
    }
    // Who sends whole frames has the time of an idle client.
    let mut rig = rig("pings-on");
    let mut raw = Raw::open(&mut rig, &hello());
    for second in 0.. {
        raw.send(&mut rig, &ping);
        raw.run(&mut rig, Duration::from_secs(1));
        if raw.ended.is_some() {
            assert!((74..80).contains(&second), "{second}");
            break;
        }
    }
    assert_eq!(raw.first(GOAWAY).unwrap().error(), NO_ERROR);
}

/// What it sends is read, however slowly it reads itself.
#[test]
fn who_reads_slowly_is_not_late_with_what_it_goes_on_with() {
    let mut rig = rig("slow");
    let most = 0x3fff_ffff_u32.to_be_bytes();
    let settings = frame(SETTINGS, 0, 0, &[&[0, 4][..], &most].concat());
    let window = frame(WINDOW_UPDATE, 0, 0, &most);
    let ping = frame(PING, 0, 0, &[0; 8]);
    let bytes = [
        PREFACE,
        &settings,
        &window,
        &get(1, GET_FILE),
        &get(3, GET_FILE),
        &ping[..12],
    ]
    .concat();
    let mut raw = Raw::open(&mut rig, b"");
    let now = rig.world.now();
    let written = rig.world.stack(1).write(now, raw.id, &bytes);
    assert_eq!(written, Ok(bytes.len()));
    for second in 0..40 {
        rig.run_for(Duration::from_secs(1));
        raw.take_up_to(&mut rig, 20_000);
        if second == 10 {
            let now = rig.world.now();
            let written = rig.world.stack(1).write(now, raw.id, &ping[12..]);
            assert_eq!(written, Ok(5));
        }
    }
    let counters = rig.server.counters();
    assert_eq!(
        (counters.client_timeouts, counters.connections_open),
        (0, 1)
    );
    for _ in 0..3000 {
        raw.run(&mut rig, Duration::from_millis(10));
    }
    assert!(
        raw.content
            .values()
            .all(|content| content.len() == 4_000_000)
    );
    assert_eq!(raw.content.len(), 2);
}

/// Its windows are closed: nothing waits for it that TCP could tell of.
#[test]
fn who_opens_no_window_is_reset_after_the_send_timeout() {
    let mut rig = rig("windows-closed");
    let mut browser = Browser::open(&mut rig, 0);
    browser.ask("GET", "/file", &[]);
    browser.run(&mut rig, 19_000);
    assert_eq!(rig.server.counters().connections_open, 1);
    browser.run(&mut rig, 3000);
    let counters = rig.server.counters();
    assert_eq!((counters.send_timeouts, counters.connections_open), (1, 0));
}

/// What answers its PINGs is no content.
#[test]
fn who_opens_no_window_and_pings_is_reset_after_the_send_timeout() {
    let mut rig = rig("windows-closed-pings");
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let mut raw = Raw::open(&mut rig, &[PREFACE, &settings, &get(1, GET_FILE)].concat());
    let mut quarters = 0;
    while raw.ended.is_none() && quarters < 240 {
        raw.send(&mut rig, &frame(PING, 0, 0, &[0; 8]));
        raw.run(&mut rig, Duration::from_millis(245));
        quarters += 1;
    }
    assert!((76..100).contains(&quarters), "{quarters}");
    assert_eq!(rig.server.counters().send_timeouts, 1);
}

/// Nothing was queued that its acknowledgements could tell of.
#[test]
fn who_opens_no_window_is_reset_for_the_least_rate() {
    let link = (0, Impairment::default());
    let mut rig = super::rig_on("least", 240, FileSource::InPlace, link);
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let mut raw = Raw::open(&mut rig, &[PREFACE, &settings, &get(1, GET_FILE)].concat());
    raw.run(&mut rig, Duration::from_secs(15));
    let counters = rig.server.counters();
    assert_eq!((counters.slow_readers, counters.connections_open), (1, 0));
}

/// Its acknowledgements are of what answers its PINGs, and of no content.
#[test]
fn who_opens_no_window_and_pings_is_reset_for_the_least_rate() {
    let link = (0, Impairment::default());
    let mut rig = super::rig_on("least-pings", 240, FileSource::InPlace, link);
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let mut raw = Raw::open(&mut rig, &[PREFACE, &settings, &get(1, GET_FILE)].concat());
    for _ in 0..60 {
        raw.send(&mut rig, &frame(PING, 0, 0, &[0; 8]).repeat(10));
        raw.run(&mut rig, Duration::from_millis(245));
    }
    let counters = rig.server.counters();
    assert_eq!((counters.slow_readers, counters.connections_open), (1, 0));
}

#[test]
fn who_opens_windows_too_slowly_is_reset() {
    let link = (0, Impairment::default());
    let mut rig = super::rig_on("trickle", 240, FileSource::InPlace, link);
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let mut raw = Raw::open(&mut rig, &[PREFACE, &settings, &get(1, GET_FILE)].concat());
    for _ in 0..30 {
        raw.send(&mut rig, &frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 100]));
        raw.run(&mut rig, Duration::from_secs(1));
    }
    let counters = rig.server.counters();
    assert_eq!((counters.slow_readers, counters.connections_open), (1, 0));
}

#[test]
fn when_the_server_ends_clients_are_told_which_requests_were_taken() {
    let mut rig = rig("leaves");
    let mut raw = Raw::open(&mut rig, &[hello(), get(1, GET_SHORT)].concat());
    let now = rig.world.now();
    rig.server.leave(now, rig.world.stack(0));
    raw.run(&mut rig, Duration::from_millis(5));
    let goaway = raw.first(GOAWAY).unwrap();
    assert_eq!(
        (goaway.error(), &goaway.payload[..4]),
        (NO_ERROR, &[0, 0, 0, 1][..])
    );
    assert_eq!(raw.ended, Some(false));
}

/// Requests whose responses are small take their part of a turn: other clients have theirs between them.
#[test]
fn many_requests_are_answered_in_several_turns() {
    const REQUESTS: u32 = 300;
    let mut rig = rig("turns");
    let mut raw = Raw::open(&mut rig, &hello());
    // HEAD, and a field so long that a hundred requests are what is read at a time.
    let mut fields = b"\x02\x04HEAD\x87\x01\x01h\x04\x06/short\x00\x01a\x7f\x81\x04".to_vec();
    fields.resize(fields.len() + 640, b'x');
    let streams = (1..2 * REQUESTS).step_by(2);
    let bytes: Vec<u8> = streams.flat_map(|stream| get(stream, &fields)).collect();
    let mut rest = &bytes[..];
    for _ in 0..10_000 {
        let now = rig.world.now();
        let written = rig.world.stack(1).write(now, raw.id, rest);
        rest = &rest[written.unwrap_or(0)..];
        if !rig.world.step() {
            rig.world.advance_to(now + Duration::from_micros(100));
        }
    }
    assert_eq!(rest.len(), 0);
    let now = rig.world.now();
    rig.server.poll(now, rig.world.stack(0));
    let of_a_turn = rig.server.counters().requests;
    assert!((1..=256).contains(&of_a_turn), "{of_a_turn}");
    raw.run(&mut rig, Duration::from_millis(10));
    assert_eq!(rig.server.counters().responses_2xx, u64::from(REQUESTS));
}
