//! What RFC 9113 has a server refuse.

use super::raw::*;
use super::rig;

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;

fn hello() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// A request whose last field is this one, without compression.
fn with_field(name: &str, value: &str) -> Vec<u8> {
    let mut fields = GET_SHORT.to_vec();
    fields.extend([0, name.len() as u8]);
    fields.extend(name.as_bytes());
    fields.push(value.len() as u8);
    fields.extend(value.as_bytes());
    get(1, &fields)
}

/// Sends this, for which the connection ends with this error, or a stream if that is enough. Of frames that can't be read, `h2` says
/// PROTOCOL_ERROR.
fn refused(section: &str, bytes: &[u8], is_stream: bool, error: u32) {
    let mut rig = rig(&format!("refusal-{}", section.replace(' ', "-")));
    let raw = Raw::open(&mut rig, bytes);
    let goaway = raw.first(GOAWAY);
    let reset = raw.first(RST_STREAM).filter(|_| is_stream);
    let told = goaway.or(reset).map(Came::error);
    let is_told = told.is_some_and(|told| [error, PROTOCOL_ERROR].contains(&told));
    assert!(is_told, "{section}: {:?}", raw.came);
    assert_eq!(raw.ended.is_some(), goaway.is_some(), "{section}");
}

#[test]
fn what_breaks_the_connection_ends_it() {
    let oversize = frame(DATA, 0, 1, &[0; 16_385]);
    let window = |increment: u32| frame(WINDOW_UPDATE, 0, 0, &increment.to_be_bytes());
    let open = frame(HEADERS, END_STREAM, 1, GET_SHORT);
    let cases: [(&str, Vec<u8>, u32); 19] = [
        ("4.2 too long", oversize, FRAME_SIZE_ERROR),
        ("4.3 no HPACK", get(1, &[0xff; 12]), COMPRESSION_ERROR),
        (
            "4.3 interleaved",
            [open, frame(PING, 0, 0, &[0; 8])].concat(),
            PROTOCOL_ERROR,
        ),
        (
            "5.1 reset of an idle stream",
            frame(RST_STREAM, 0, 9, &[0; 4]),
            PROTOCOL_ERROR,
        ),
        (
            "5.1 window of an idle stream",
            frame(WINDOW_UPDATE, 0, 9, &[0, 0, 0, 1]),
            PROTOCOL_ERROR,
        ),
        ("5.1.1 even", get(2, GET_SHORT), PROTOCOL_ERROR),
        (
            "6.1 data of no stream",
            frame(DATA, 0, 0, b"x"),
            PROTOCOL_ERROR,
        ),
        (
            "6.1 padding",
            [frame(HEADERS, 4, 1, GET_SHORT), frame(DATA, 8, 1, &[9, 0])].concat(),
            PROTOCOL_ERROR,
        ),
        ("6.2 fields of no stream", get(0, GET_SHORT), PROTOCOL_ERROR),
        (
            "6.4 length",
            [get(1, GET_FILE), frame(RST_STREAM, 0, 1, &[0; 3])].concat(),
            FRAME_SIZE_ERROR,
        ),
        (
            "6.5 of a stream",
            frame(SETTINGS, 0, 1, &[]),
            PROTOCOL_ERROR,
        ),
        (
            "6.5 length",
            frame(SETTINGS, 0, 0, &[0; 5]),
            FRAME_SIZE_ERROR,
        ),
        (
            "6.5 ack with content",
            frame(SETTINGS, 1, 0, &[0; 6]),
            FRAME_SIZE_ERROR,
        ),
        (
            "6.5.2 window",
            frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
            FLOW_CONTROL_ERROR,
        ),
        (
            "6.6 push",
            frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2]),
            PROTOCOL_ERROR,
        ),
        ("6.7 length", frame(PING, 0, 0, &[0; 7]), FRAME_SIZE_ERROR),
        ("6.9 nothing", window(0), PROTOCOL_ERROR),
        ("6.9.1 too much", window(0x7fff_ffff), FLOW_CONTROL_ERROR),
        (
            "6.10 alone",
            frame(CONTINUATION, 4, 1, GET_SHORT),
            PROTOCOL_ERROR,
        ),
    ];
    for (section, bytes, error) in cases {
        refused(section, &[hello(), bytes].concat(), false, error);
    }
    let order = [hello(), get(5, GET_SHORT), get(3, GET_SHORT)].concat();
    refused("5.1.1 order", &order, false, PROTOCOL_ERROR);
}

#[test]
fn what_breaks_a_stream_resets_it() {
    let length = with_field("content-length", "5");
    let no_path = get(1, b"\x82\x87\x01\x01h");
    let cases: [(&str, Vec<u8>, u32); 6] = [
        ("8.2.1 upper case", with_field("Name", "x"), PROTOCOL_ERROR),
        (
            "8.2.2 connection",
            with_field("connection", "close"),
            PROTOCOL_ERROR,
        ),
        ("8.2.2 te", with_field("te", "gzip"), PROTOCOL_ERROR),
        ("8.3 pseudo field", with_field(":none", "x"), PROTOCOL_ERROR),
        ("8.3.1 no path", no_path, PROTOCOL_ERROR),
        ("8.1.1 length", length, PROTOCOL_ERROR),
    ];
    for (section, bytes, error) in cases {
        refused(section, &[hello(), bytes].concat(), true, error);
    }
}

#[test]
fn data_behind_the_end_of_a_stream_is_refused() {
    let mut rig = rig("closed");
    let bytes = [hello(), get(1, GET_FILE), frame(DATA, 0, 1, b"x")].concat();
    let raw = Raw::open(&mut rig, &bytes);
    let told = raw.first(RST_STREAM).or(raw.first(GOAWAY));
    let error = told.map(Came::error).unwrap();
    assert!([STREAM_CLOSED, PROTOCOL_ERROR].contains(&error), "{error}");
}

#[test]
fn what_is_no_preface_ends_the_connection() {
    let mut rig = rig("preface");
    let raw = Raw::open(&mut rig, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(raw.ended.is_some());
    assert_eq!(rig.server.counters().requests, 0);
}

/// Statuses are indexed in HPACK's static table: 200 by 0x88, 400 by 0x8c.
#[test]
fn what_is_understood_and_wrong_gets_a_status() {
    let hosts = with_field("host", "other");
    let mut rig = rig("status");
    let no_authority = get(3, b"\x82\x87\x04\x06/short");
    let raw = Raw::open(&mut rig, &[hello(), hosts, no_authority].concat());
    let heads = raw.came.iter().filter(|it| it.head.kind == HEADERS);
    let statuses: Vec<u8> = heads.map(|it| it.payload[0]).collect();
    assert_eq!(statuses, [0x8c, 0x8c]);
    assert_eq!(rig.server.counters().responses_4xx, 2);
}

/// RFC 9113 §4.1 and §5.5: kinds of frames that are unknown are ignored.
#[test]
fn unknown_frames_and_settings_are_ignored() {
    let mut rig = rig("unknown");
    let unknown = frame(0x42, 0xff, 0, &[1; 100]);
    let settings = frame(SETTINGS, 0, 0, &[0x42, 0x42, 0, 0, 0, 1]);
    let raw = Raw::open(
        &mut rig,
        &[hello(), unknown, settings, get(1, GET_SHORT)].concat(),
    );
    assert_eq!(raw.ended, None);
    assert_eq!(rig.server.counters().responses_2xx, 1);
}

/// A request may bring content, which nobody reads: its response comes, and then the client is told to stop (RFC 9113 §8.1).
#[test]
fn content_of_a_request_is_dropped() {
    let mut rig = rig("content");
    let get = frame(HEADERS, END_HEADERS, 1, GET_SHORT);
    let content = frame(DATA, 0, 1, &[7; 10_000]);
    let mut raw = Raw::open(&mut rig, &[hello(), get, content.repeat(2)].concat());
    assert_eq!(rig.server.counters().responses_2xx, 1);
    let reset = raw.first(RST_STREAM).expect("it is told to stop");
    assert_eq!((reset.head.stream, reset.error()), (1, 0));
    raw.send(&mut rig, &super::raw::get(3, GET_SHORT));
    assert_eq!(rig.server.counters().responses_2xx, 2);
}
