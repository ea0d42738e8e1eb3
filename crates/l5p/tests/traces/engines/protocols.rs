//! An engine of each protocol.

use super::*;

fn compare(name: &str, lines: &[String]) {
    written::compare(env!("CARGO_MANIFEST_DIR"), name, lines);
}

#[test]
fn tls() {
    let mut lines = Vec::new();
    for suite in SUITES {
        let crypto: CryptoInfo = CryptoInfo {
            sequence: 40,
            ..crypto(suite)
        };
        let contents = [700, 1, 0, 3000, 16_384].map(|len| testkit::pattern_of(len, len as u32));
        let records = Records::of(&crypto, contents);
        let mut damaged = records.wire.clone();
        damaged[300] ^= 4;
        for (name, direction, bytes) in [
            ("received", Direction::Receive, &records.wire),
            ("damaged", Direction::Receive, &damaged),
            ("sent", Direction::Transmit, &records.framed),
        ] {
            lines.push(format!("{suite:?} {name}"));
            let said = run(&crypto, None, direction, bytes, 7);
            lines.extend(written::shorten(said, 4));
        }
    }
    compare("engines_tls", &lines);
}

#[test]
fn nvme() {
    let mut lines = Vec::new();
    for (name, parameters) in streams::nvme_parameters() {
        let stream = streams::nvme(&parameters);
        let mut damaged = stream.wire.clone();
        damaged[200] ^= 1;
        for (what, direction, bytes) in [
            ("received", Direction::Receive, &stream.wire),
            ("damaged", Direction::Receive, &damaged),
            ("sent", Direction::Transmit, &stream.framed),
        ] {
            lines.push(format!("{name} {what}"));
            let said = run(&parameters, None, direction, bytes, 3);
            lines.extend(written::shorten(said, 4));
        }
    }
    compare("engines_nvme", &lines);
}

#[test]
fn nbd_and_iscsi() {
    let mut lines = Vec::new();
    for structured in [false, true] {
        let (parameters, stream) = (
            streams::nbd_parameters(structured),
            streams::nbd(structured),
        );
        for direction in [Direction::Receive, Direction::Transmit] {
            lines.push(format!("NBD {structured} {direction:?}"));
            let said = run(&parameters, None, direction, &stream, 4);
            lines.extend(written::shorten(said, 10));
        }
    }
    for sender in [iscsi::Role::Target, iscsi::Role::Initiator] {
        for (header, data) in [(false, false), (true, true), (false, true)] {
            let parameters = streams::iscsi_parameters(sender, header, data);
            let stream = streams::iscsi(&parameters);
            let mut damaged = stream.clone();
            damaged[150] ^= 1;
            for (what, direction, bytes) in [
                ("received", Direction::Receive, &stream),
                ("damaged", Direction::Receive, &damaged),
                ("sent", Direction::Transmit, &stream),
            ] {
                lines.push(format!("iSCSI {sender:?} {header} {data} {what}"));
                let said = run(&parameters, None, direction, bytes, 3);
                lines.extend(written::shorten(said, 4));
            }
        }
    }
    compare("engines_nbd_and_iscsi", &lines);
}

#[test]
fn patterns() {
    let patterns = pattern::Patterns::parse(streams::PATTERNS, 1 << 20).expect("patterns");
    let resource = pattern::Engine::make_resource(streams::PATTERNS.as_bytes(), 1 << 20);
    let parameters = pattern::Parameters {
        set: ResourceId(2),
        fingerprint: patterns.fingerprint(),
    };
    let mut lines = vec![format!(
        "{} {} {:x}",
        patterns.count(),
        patterns.tables_len(),
        patterns.fingerprint()
    )];
    for seed in 0..3 {
        for direction in [Direction::Receive, Direction::Transmit] {
            lines.extend(run(
                &parameters,
                resource.as_ref(),
                direction,
                &streams::text(40_000),
                seed,
            ));
        }
    }
    let other = pattern::Parameters {
        fingerprint: 1,
        ..parameters
    };
    lines.extend(run(&other, resource.as_ref(), Direction::Receive, b"x", 0));
    lines.extend(run(&parameters, None, Direction::Receive, b"x", 0));
    for limit in [0, 1000, 10_000, 100_000] {
        let made = pattern::Engine::make_resource(streams::PATTERNS.as_bytes(), limit);
        lines.push(format!("{limit}: {}", made.is_some()));
    }
    compare("engines_patterns", &lines);
}

#[test]
fn responses() {
    let ring = ResultRing {
        buffer_len: 5000,
        buffers: 3,
    };
    let parameters = http::Parameters { ring };
    let mut lines = Vec::new();
    for (name, response) in streams::http() {
        lines.push(name.to_owned());
        let said = run(&parameters, None, Direction::Receive, &response, 2);
        lines.extend(written::shorten(said, 6));
    }
    compare("engines_http", &lines);
}
