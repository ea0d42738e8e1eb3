//! Clients of HTTP/2 in virtual time: those that behave, on links that do not, and those that do not.

mod browser;
mod cost;
mod ends;
mod limits;
mod raw;
mod refusals;

use std::time::Duration;

use handshake::{Certificate, Options, Trust, client_config, server_config};
use host::memory::MemoryLevel;
use host::{Offload, SocketId, TlsRole};
use port::impair::Impairment;
use proptest::prelude::*;

use self::browser::Browser;
use self::raw::{DATA, GET_SHORT, HEADERS, PREFACE, Raw, SETTINGS, frame, get};
use crate::serve::files::FileSource;
use crate::serve::tests::Rig;

fn options() -> Options {
    Options {
        alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        ..Options::default()
    }
}

/// A server with TLS, which sends files this way, on a link that does this.
fn rig_on(name: &str, rate: u32, way: FileSource, link: (u64, Impairment)) -> Rig {
    let certificate = Certificate::self_signed(["h"]).unwrap();
    let config = server_config(certificate, &options()).unwrap();
    let role = TlsRole::Server { config };
    Rig::with(&format!("http2-{name}"), rate, Some(role), way, link)
}

fn rig(name: &str) -> Rig {
    rig_on(name, 0, FileSource::InPlace, (0, Impairment::default()))
}

/// A client whose handshake of TLS is done, and has agreed to HTTP/2.
fn secured(rig: &mut Rig) -> SocketId {
    let id = secured_for(rig, options());
    assert_eq!(rig.world.stack(1).alpn(id), Some(&b"h2"[..]));
    id
}

fn secured_for(rig: &mut Rig, options: Options) -> SocketId {
    let id = rig.connect();
    let mut role = Some(TlsRole::Client {
        config: client_config(Trust::Anyone, &options).unwrap(),
        name: "h".try_into().unwrap(),
    });
    for _ in 0..60_000 {
        rig.run_for(Duration::from_millis(1));
        let now = rig.world.now();
        let stack = rig.world.stack(1);
        if stack.alpn(id).is_some() {
            stack.set_nodelay(id, true).unwrap();
            return id;
        }
        if let Some(asked) = role.clone()
            && stack.start_tls(now, id, asked, Offload::Rx).is_ok()
        {
            role = None;
        }
    }
    panic!("no handshake");
}

/// `len` bytes that tell where they are.
fn numbers(len: usize) -> Vec<u8> {
    let numbers = (0u32..).flat_map(u32::to_be_bytes);
    numbers.take(len).collect()
}

#[test]
fn responses_are_those_of_http_1() {
    let mut rig = rig("answers");
    std::fs::write(rig.folder.join("page"), numbers(50_000)).unwrap();
    let mut browser = Browser::open(&mut rig, 65_535);
    let whole = browser.ask("GET", "/page", &[]);
    let head = browser.ask("HEAD", "/page", &[]);
    let none = browser.ask("GET", "/none", &[]);
    let part = browser.ask("GET", "/page", &[("range", "bytes=100-20099")]);
    let parts = browser.ask("GET", "/page", &[("range", "bytes=0-9999,20000-29999")]);
    let list = browser.ask("GET", "/", &[]);
    let short = browser.ask("GET", "/short", &[]);
    let post = browser.ask("POST", "/page", &[]);
    browser.finish(&mut rig);
    let status = |fetch: usize| browser.fetches[fetch].status;
    let statuses = [whole, head, none, part, parts, list, short, post].map(status);
    assert_eq!(statuses, [200, 200, 404, 206, 206, 200, 200, 405]);
    let content = |fetch: usize| &browser.fetches[fetch].content[..];
    assert_eq!(content(whole), numbers(50_000));
    assert_eq!(content(head), b"");
    assert_eq!(content(part), &numbers(50_000)[100..20_100]);
    assert!(String::from_utf8_lossy(content(list)).contains("short"));
    assert_eq!(content(short), b"short");
    assert_eq!(browser.fetches[head].fields["content-length"], "50000");
    let text = String::from_utf8_lossy(content(parts));
    assert!(text.contains("Content-Range: bytes 20000-29999/50000"));
    let etag = browser.fetches[whole].fields["etag"].clone();
    let cached = browser.ask("GET", "/page", &[("if-none-match", etag.to_str().unwrap())]);
    browser.finish(&mut rig);
    assert_eq!(browser.fetches[cached].status, 304);
    let counters = rig.server.counters();
    assert_eq!((counters.connections, counters.requests), (1, 9));
    assert_eq!(counters.http2_connections, 1);
    assert!(counters.file_bytes_zero_copy >= 90_000);
}

/// Frames are as long as a record has room for, and their last one ends the stream, wherever the file's bytes are from.
#[test]
fn content_is_cut_into_frames_that_fill_a_record() {
    const FILE: usize = 256 << 10;
    for (nth, way) in [FileSource::InPlace, FileSource::Copied]
        .into_iter()
        .enumerate()
    {
        let mut rig = rig_on(&format!("frames-{nth}"), 0, way, (0, Impairment::default()));
        std::fs::write(rig.folder.join("file"), numbers(FILE)).unwrap();
        let most = 0x3fff_ffff_u32.to_be_bytes();
        let settings = frame(SETTINGS, 0, 0, &[&[0, 4][..], &most].concat());
        let window = frame(raw::WINDOW_UPDATE, 0, 0, &most);
        let mut raw = Raw::open(
            &mut rig,
            &[PREFACE, &settings, &window, &get(1, raw::GET_FILE)].concat(),
        );
        raw.run(&mut rig, Duration::from_millis(100));
        assert!(raw.content[&1] == numbers(FILE), "{way:?}");
        let data = raw.came.iter().filter(|it| it.head.kind == DATA);
        let frames: Vec<(u32, bool)> = data
            .map(|it| (it.head.len, it.head.ends_stream()))
            .collect();
        let mut wanted = vec![(16_375, false); 16];
        wanted.push((144, true));
        assert_eq!(frames, wanted, "{way:?}");
    }
}

/// A hundred at a time, with windows so small that each is stopped many times, or so large that the socket stops them.
#[test]
fn a_hundred_responses_at_a_time_are_whole() {
    for (window, way) in [(20_000, FileSource::InPlace), (4 << 20, FileSource::Copied)] {
        let link = (window.into(), Impairment::default());
        let mut rig = rig_on(&format!("hundred-{window}"), 0, way, link);
        for size in 0..100 {
            let content = numbers(size * 700);
            std::fs::write(rig.folder.join(format!("{size}")), content).unwrap();
        }
        let mut browser = Browser::open(&mut rig, window);
        for size in 0..100 {
            browser.ask("GET", &format!("/{size}"), &[]);
        }
        browser.finish(&mut rig);
        for (size, fetch) in browser.fetches.iter().enumerate() {
            let why = (way, &fetch.error, &browser.over);
            assert_eq!(
                (fetch.status, fetch.is_whole),
                (200, true),
                "{size} {why:?}"
            );
            assert_eq!(fetch.content, numbers(size * 700), "{size}");
        }
    }
}

/// What the NIC encrypts is made again for retransmissions, and what it decrypts of requests begins anew behind a loss.
fn is_whole_on_a_bad_link(seed: u64) {
    let link = Impairment {
        loss: 0.03,
        reorder: 0.03,
        reorder_gap: 5,
        duplicate: 0.01,
        delay: Duration::from_micros(200),
        ..Impairment::default()
    };
    let mut rig = rig_on(
        &format!("loss-{seed}"),
        0,
        FileSource::InPlace,
        (seed, link),
    );
    std::fs::write(rig.folder.join("page"), numbers(300_000)).unwrap();
    let mut browser = Browser::open(&mut rig, 100_000);
    for _ in 0..4 {
        browser.ask("GET", "/page", &[]);
    }
    browser.run(&mut rig, 2);
    for _ in 0..4 {
        browser.ask("GET", "/page", &[("range", "bytes=1000-199999")]);
        browser.run(&mut rig, 1);
    }
    browser.finish(&mut rig);
    let page = numbers(300_000);
    for (nth, fetch) in browser.fetches.iter().enumerate() {
        let wanted = match nth {
            0..4 => &page[..],
            _ => &page[1000..200_000],
        };
        assert!(fetch.content == wanted, "seed {seed}: {nth} differs");
    }
}

#[test]
fn responses_are_whole_over_a_link_that_loses_and_reorders() {
    (0..4).for_each(is_whole_on_a_bad_link);
}

#[test]
#[ignore = "takes a minute"]
fn responses_are_whole_over_many_such_links() {
    (0..200).for_each(is_whole_on_a_bad_link);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn requests_are_understood_wherever_their_bytes_are_split(
        splits in prop::collection::vec(1..40usize, 1..12),
    ) {
        let bytes = [
            PREFACE,
            &frame(SETTINGS, 0, 0, &[]),
            &get(1, GET_SHORT),
            &frame(HEADERS, 1, 3, &GET_SHORT[..5]),
            &frame(raw::CONTINUATION, 4, 3, &GET_SHORT[5..]),
            &frame(raw::PING, 0, 0, b"12345678"),
        ]
        .concat();
        let mut rig = rig("split");
        let mut raw = Raw::open(&mut rig, b"");
        let mut rest = &bytes[..];
        for split in splits.iter().cycle() {
            let (part, behind) = rest.split_at(rest.len().min(*split));
            raw.send(&mut rig, part);
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        let of = |kind| raw.came.iter().filter(|it| it.head.kind == kind).count();
        prop_assert_eq!((of(HEADERS), of(DATA)), (2, 2), "{:?}", raw.came);
        prop_assert_eq!(&raw.first(raw::PING).unwrap().payload, b"12345678");
        prop_assert_eq!(raw.ended, None);
    }
}

#[test]
fn a_file_that_changes_ends_the_connection() {
    let mut rig = rig("changes");
    let mut browser = Browser::open(&mut rig, 65_535);
    browser.ask("GET", "/file", &[]);
    browser.run(&mut rig, 1);
    let file = rig.folder.join("file");
    let file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
    std::io::Write::write_all(&mut &file, b"more").unwrap();
    browser.finish(&mut rig);
    assert!(!browser.fetches[0].is_whole);
    let counters = rig.server.counters();
    assert_eq!((counters.files_changed, counters.connections_open), (1, 0));
}

#[test]
fn a_response_that_is_given_up_leaves_the_others_whole() {
    let mut rig = rig("given-up");
    let mut browser = Browser::open(&mut rig, 200_000);
    let given_up = browser.ask("GET", "/file", &[]);
    let kept = browser.ask("GET", "/file", &[]);
    browser.run(&mut rig, 1);
    browser.give_up(given_up);
    browser.fetches[given_up].is_whole = true;
    browser.finish(&mut rig);
    assert_eq!(browser.fetches[kept].content, vec![b'x'; 4_000_000]);
    assert_eq!(rig.server.counters().http2_resets, 1);
}

#[test]
fn without_memory_requests_are_refused() {
    let mut rig = rig("memory");
    let mut kept = Browser::open(&mut rig, 65_535);
    let mut new = Browser::open(&mut rig, 65_535);
    kept.ask("GET", "/short", &[]);
    kept.finish(&mut rig);
    let held = crate::serve::tests::hold_memory(&mut rig, MemoryLevel::Exhausted);
    rig.run_for(Duration::from_secs(6));
    for (browser, wanted) in [(&mut kept, [200; 2]), (&mut new, [503; 2])] {
        for status in wanted {
            let fetch = browser.ask("GET", "/short", &[]);
            browser.finish(&mut rig);
            assert_eq!(browser.fetches[fetch].status, status);
        }
    }
    assert_eq!(rig.server.counters().requests_shed, 2);
    drop(held);
}
