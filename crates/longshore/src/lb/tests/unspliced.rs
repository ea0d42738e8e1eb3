//! What is not spliced, and that the counters say why.

use host::Accel;
use port::impair::Impairment;

use super::rig::{Manner, Rig, content};

const CLOSE: &str = "Connection: close\r\n";

/// A load balancer that splices, with more settings of its frontend.
fn rig(frontend: &str, mode: Manner) -> Rig {
    let config = format!(
        "[frontends.web]\nlisten = [\"10.0.0.1:80\"]\npool = \"app\"\n{frontend}\n\
         [pools.app]\nbackends = [\"10.0.0.2:8081\"]\nhealth = {{ check = \"none\" }}\n"
    );
    let accel = Accel {
        splice: true,
        ..Accel::NONE
    };
    let servers = [(8081, mode)];
    Rig::on(&config, &servers, Impairment::default(), 1 << 20, accel)
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
}

/// The counters of the frontend that begin with `splice` and are not zero.
fn counted(rig: &Rig) -> Vec<(&'static str, u64)> {
    let (_, counters) = rig.balancer.frontends().next().unwrap();
    let counters = counters.iter();
    counters
        .filter(|(name, value)| name.starts_with("splice_refused") && *value > 0)
        .collect()
}

#[test]
fn the_counters_say_why_a_response_is_not_spliced() {
    let pipelined = get("/n/10", CLOSE) + "GET";
    for (frontend, request, reason) in [
        ("", get("/n/400000", ""), "keep_alive"),
        ("", get("/n/10", CLOSE), "short"),
        ("", get("/chunked/400000", CLOSE), "chunked"),
        ("", get("/n/400000", CLOSE) + "GET", "client_data"),
        ("", pipelined, "short"),
        ("splice = \"never\"", get("/n/400000", CLOSE), "config"),
        (
            "splice = \"after-first-request\"",
            get("/close/10", ""),
            "backend_close",
        ),
    ] {
        let mut rig = rig(frontend, Manner::Serves);
        let client = rig.client(80, request.clone());
        assert_eq!(rig.answers(client, 1)[0].status, 200);
        let name = format!("splice_refused_{reason}");
        assert_eq!(counted(&rig), [(&*name, 1)], "{frontend} {request}");
        let (_, counters) = rig.balancer.frontends().next().unwrap();
        assert_eq!(counters.splices_refused, 1);
    }
}

#[test]
fn a_tcp_connection_of_one_short_exchange_counts_as_short() {
    let mut rig = rig("mode = \"tcp\"", Manner::Echoes);
    let client = rig.client(80, "hello");
    rig.clients[client].ends = true;
    rig.run(|rig| rig.clients[client].is_over());
    rig.run_for(std::time::Duration::from_secs(1));
    assert_eq!(counted(&rig), [("splice_refused_short", 1)]);
}

/// Python's http.server and others close, as they are asked to, and do not say so in the response (RFC 9112 §9.6).
#[test]
fn a_long_last_response_is_spliced_if_its_server_does_not_say_that_it_closes() {
    let mut rig = rig("", Manner::Serves);
    let client = rig.client(80, get("/n/4000000", CLOSE));
    let answers = rig.answers(client, 1);
    assert_eq!(answers[0].content, content(4_000_000));
    rig.run(|rig| rig.clients[client].is_over());
    rig.clients[client].ends = true;
    rig.run_for(std::time::Duration::from_secs(10));
    let (_, counters) = rig.balancer.frontends().next().unwrap();
    assert_eq!((counters.splices, counted(&rig)), (1, Vec::new()));
    assert!(counters.spliced_bytes_out > 1_000_000, "{counters:?}");
}
