//! Lines, and files that take them or do not.

use super::format::{combined, json};
use super::*;

fn noted(head: &[u8]) -> Noted {
    let mut noted = Noted::default();
    noted.note(head);
    noted
}

fn entry(noted: &Noted) -> Entry<'_> {
    Entry {
        time: SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456),
        took: Duration::from_micros(1500),
        client: "10.9.0.1:51000".parse().unwrap(),
        noted,
        status: 200,
        bytes: 1024,
        is_aborted: false,
        tls: Some(Tls {
            version: "TLSv1.3",
            tx: "device",
            rx: "sw",
        }),
        via: None,
    }
}

fn line(format: fn(&mut Vec<u8>, &Entry<'_>), head: &[u8]) -> String {
    let mut out = Vec::new();
    format(&mut out, &entry(&noted(head)));
    String::from_utf8(out).unwrap()
}

#[test]
fn combined_is_what_analysers_read() {
    let head = b"GET /a HTTP/1.1\r\nUser-Agent: curl/8\r\n\r\n";
    assert_eq!(
        line(combined, head),
        "10.9.0.1 - - [14/Nov/2023:22:13:20 +0000] \"GET /a HTTP/1.1\" 200 1024 \"-\" \"curl/8\"\n"
    );
}

#[test]
fn no_client_writes_lines_of_its_own() {
    let head = b"GET /\"\\\x1b[2J\xff HTTP/1.1\r\nReferer: a\rb\" 200 -\r\n\r\n";
    let text = line(combined, head);
    assert!(
        text.contains(r#""GET /\x22\x5C\x1B[2J\xFF HTTP/1.1" 200"#),
        "{text}"
    );
    assert!(text.contains(r#""a\x0Db\x22 200 -""#), "{text}");
    assert_eq!(line(json, head).lines().count(), 1);
}

#[test]
fn json_has_all_of_it() {
    let head = b"GET /a HTTP/1.1\r\nReferer: http://b/\r\n\r\n";
    let value: serde_json::Value = serde_json::from_str(&line(json, head)).unwrap();
    let expected = serde_json::json!({
        "time": "2023-11-14T22:13:20.123456Z", "client": "10.9.0.1:51000", "request": "GET /a HTTP/1.1", "status": 200,
        "bytes": 1024, "duration_us": 1500, "aborted": false, "referer": "http://b/", "user_agent": "",
        "tls": { "version": "TLSv1.3", "tx": "device", "rx": "sw" },
    });
    assert_eq!(value, expected);
}

#[test]
fn json_has_no_byte_that_a_terminal_obeys() {
    let text = line(
        json,
        "GET /\u{9b}2J\u{7f}\u{1f600}é\x1b HTTP/1.1\r\n\r\n".as_bytes(),
    );
    assert!(
        text.trim_end()
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte)),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        value["request"],
        "GET /\u{9b}2J\u{7f}\u{1f600}é\x1b HTTP/1.1"
    );
}

#[test]
fn a_line_that_a_full_disk_has_cut_is_ended() {
    let path = std::env::temp_dir().join(format!("longshore-access-log-{}", std::process::id()));
    std::fs::write(&path, "GET /cut").unwrap();
    let options = Logging {
        access_log: Some(path.clone()),
        access_log_format: Format::Combined,
    };
    for _ in 0..2 {
        let mut log = AccessLog::open(&options).unwrap().unwrap();
        log.log(&entry(&noted(b"GET / HTTP/1.1\r\n\r\n")));
    }
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0], "GET /cut");
}

#[test]
fn a_disk_that_is_full_costs_lines_and_no_more() {
    let options = Logging {
        access_log: Some("/dev/full".into()),
        access_log_format: Format::Combined,
    };
    let mut log = AccessLog::open(&options).unwrap().unwrap();
    let noted = noted(b"GET / HTTP/1.1\r\n\r\n");
    for _ in 0..20_000 {
        log.log(&entry(&noted));
    }
    assert!(log.lost() > 0);
    assert!(log.waiting.len() < MOST_BYTES + 1024);
}
