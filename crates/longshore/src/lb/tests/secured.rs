//! Servers with TLS: they get what they would get without it, and the wire has no content in clear.

use std::path::PathBuf;
use std::time::Duration;

use handshake::{Certificate, Version};
use host::Accel;
use port::impair::Impairment;
use rcgen::{CertificateParams, KeyPair};
use sim::WorldConfig;

use super::rig::secure::server_of;
use super::rig::{Manner, Rig, SECURE, config, content};
use crate::lb::server::Server;

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";
const ANY: &str = "tls = true\nverify = false";
const NAME: &str = "backend.test";

/// A certificate, and the file that has it.
struct Proof {
    certificate: Certificate,
    file: PathBuf,
}

impl Proof {
    fn new(case: &str, name: &str) -> Proof {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let file = format!("longshore-lb-{}-{case}.pem", std::process::id());
        let file = std::env::temp_dir().join(file);
        std::fs::write(&file, &pem).unwrap();
        let key = key.serialize_pem();
        Proof {
            certificate: Certificate::from_pem(pem.as_bytes(), key.as_bytes()).unwrap(),
            file,
        }
    }

    /// The settings of a pool that trusts it.
    fn trusted(&self, sni: &str) -> String {
        let file = self.file.display().to_string();
        format!("tls = true\nca = {file:?}\nsni = {sni:?}")
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

fn proof() -> Certificate {
    Certificate::self_signed([NAME]).unwrap()
}

fn server(rig: &Rig) -> &Server {
    &rig.balancer.pools()[0].servers[0]
}

#[test]
fn requests_are_answered_over_connections_that_are_used_again_and_nothing_of_them_is_seen() {
    for (seed, version) in [
        (0, Version::Tls13),
        (1, Version::Tls12),
        (2, Version::Tls13),
    ] {
        let proof = Proof::new(&format!("whole-{seed}"), NAME);
        let lossy = Impairment {
            loss: if seed == 2 { 0.02 } else { 0.0 },
            ..Impairment::default()
        };
        let mut settings = WorldConfig {
            seed,
            links: vec![lossy; 2],
            ..WorldConfig::default()
        };
        settings.nodes[0].stack.accel = Accel::ALL;
        let config = config("", &proof.trusted(NAME), &[SECURE]);
        let mut rig = Rig::in_world(&config, &[(SECURE, Manner::Serves)], settings, 1 << 20);
        let Proof { certificate, .. } = &proof;
        let certificate = Certificate {
            chain: certificate.chain.clone(),
            key: certificate.key.clone_key(),
        };
        rig.servers_role = Some(server_of(certificate, version));
        let mut requests = b"GET /n/300000 HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
        requests.extend_from_slice(b"GET /chunked/5000 HTTP/1.1\r\nHost: h\r\n\r\n");
        let post = "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99000\r\n\r\n";
        requests.extend_from_slice(post.as_bytes());
        requests.extend_from_slice(&content(99_000));
        requests
            .extend_from_slice(b"GET /n/400000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let client = rig.client(80, requests);
        let got = rig.answers(client, 4);
        let lens: Vec<_> = got.iter().map(|answer| answer.content.len()).collect();
        assert_eq!(lens, [300_000, 5000, 99_000, 400_000]);
        assert!(got.iter().all(|it| it.content == content(it.content.len())));
        assert!(!rig.leak.was_there());
        let counters = server(&rig).counters;
        assert_eq!(counters.connections + counters.connections_reused, 4);
        assert!(counters.connections == 1 || seed == 2);
        let (_, counters) = rig.balancer.frontends().next().unwrap();
        assert_eq!(counters.splices, 0);
    }
}

#[test]
fn bytes_go_both_ways_and_are_never_spliced() {
    let tunnel = config("mode = \"tcp\"", ANY, &[SECURE]);
    let servers = [(SECURE, Manner::Echoes)];
    let clean = Impairment::default();
    let mut rig = Rig::on(&tunnel, &servers, clean, 1 << 20, Accel::ALL);
    rig.servers_role = Some(server_of(proof(), Version::Tls13));
    let client = rig.client(80, "");
    let mut wanted = 0;
    for round in 1..20 {
        let message = content(round * 5000);
        wanted += message.len();
        rig.clients[client].out.extend_from_slice(&message);
        rig.run(|rig| rig.clients[client].input.len() == wanted);
    }
    rig.clients[client].ends = true;
    rig.run(|rig| rig.clients[client].is_over());
    assert!(!rig.clients[client].is_broken);
    assert!(!rig.leak.was_there());
    let (_, counters) = rig.balancer.frontends().next().unwrap();
    assert_eq!((counters.splices, counters.splices_refused), (0, 0));
}

#[test]
fn a_server_that_proves_nothing_gets_no_request() {
    let [trusted, other] = ["trusted", "other"].map(|case| Proof::new(case, NAME));
    let checks =
        "health = { path = \"/n/1\", interval = \"100ms\", fall = 1 }\npanic-threshold = 0";
    for (shown, sni, is_right) in [
        (&trusted, NAME, true),
        (&other, NAME, false),
        (&trusted, "another.test", false),
    ] {
        let pool = format!("{}\n{checks}", trusted.trusted(sni));
        let mut rig = Rig::new(&config("", &pool, &[SECURE]), &[(SECURE, Manner::Serves)]);
        let certificate = Certificate {
            chain: shown.certificate.chain.clone(),
            key: shown.certificate.key.clone_key(),
        };
        rig.servers_role = Some(server_of(certificate, Version::Tls13));
        let client = rig.client(80, GET);
        let status = rig.answers(client, 1)[0].status;
        rig.run_for(Duration::from_secs(1));
        assert_eq!(server(&rig).health.is_up(), is_right, "{sni}");
        match is_right {
            true => assert_eq!(status, 200),
            false => {
                assert!([502, 503].contains(&status), "{status}");
                let fault = server(&rig).fault.as_ref().unwrap().to_string();
                assert!(fault.contains("certificate"), "{fault}");
            }
        }
        assert!(!rig.leak.was_there());
    }
}

#[test]
fn a_server_without_tls_is_found_to_be_down_and_sees_nothing() {
    let checks = "health = { path = \"/n/1\", interval = \"100ms\", fall = 1 }";
    let pool = format!("{ANY}\n{checks}");
    let mut rig = Rig::new(&config("", &pool, &[SECURE]), &[(SECURE, Manner::Silent)]);
    rig.run_for(Duration::from_secs(5));
    assert!(!server(&rig).health.is_up());
    assert!(!rig.leak.was_there());
}

#[test]
fn connections_in_clear_are_not_used_again_once_the_server_has_tls() {
    let plain = config("", "", &[SECURE]);
    let mut rig = Rig::new(&plain, &[(SECURE, Manner::Serves)]);
    let large = rig.client(80, "GET /n/3000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    let client = rig.client(80, GET);
    rig.answers(client, 1);
    assert!(rig.leak.was_there() && server(&rig).idle() > 0);
    rig.servers_role = Some(server_of(proof(), Version::Tls13));
    assert!(rig.reload(&config("", ANY, &[SECURE])).is_empty());
    assert_eq!(server(&rig).idle(), 0);
    assert_eq!(rig.answers(large, 1)[0].content, content(3_000_000));
    assert_eq!(server(&rig).idle(), 0);
    let before = server(&rig).counters.connections;
    for _ in 0..3 {
        let client = rig.client(80, GET);
        assert_eq!(rig.answers(client, 1)[0].status, 200);
    }
    assert_eq!(server(&rig).counters.connections, before + 1);
}
