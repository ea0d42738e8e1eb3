use super::http::Target;
use super::names::{Unit, snake_case, split_unit};
use super::*;
use crate::control::CounterGroup;

#[test]
fn names_of_linux_and_of_drivers_become_snake_case() {
    for (name, snake) in [
        ("tx_tls_ooo", "tx_tls_ooo"),
        ("TcpInSegs", "tcp_in_segs"),
        ("TlsCurrTxSw", "tls_curr_tx_sw"),
        ("TCPMemoryPressures", "tcp_memory_pressures"),
        ("responses_2xx", "responses_2xx"),
        ("Udp6InErrors", "udp6_in_errors"),
    ] {
        assert_eq!(snake_case(name), snake);
    }
    for (name, rest, unit) in [
        ("tx_bytes", "tx", Some(Unit::Bytes)),
        ("bytes_in", "in", Some(Unit::Bytes)),
        ("file_bytes_zero_copy", "file_zero_copy", Some(Unit::Bytes)),
        ("driver_cycles", "driver", Some(Unit::Cycles)),
        ("requests", "requests", None),
    ] {
        assert_eq!(split_unit(name), (rest.to_owned(), unit));
    }
}

fn scrape(service: &str, groups: Vec<CounterGroup>) -> Scrape {
    Scrape {
        service: service.to_owned(),
        groups: Some(groups),
    }
}

#[test]
fn counters_and_gauges_of_several_services_are_one_family_each() {
    let http =
        |requests| CounterGroup::new("http", [("requests", requests), ("connections_open", 2)]);
    let down = Scrape {
        service: "db".to_owned(),
        groups: None,
    };
    let text = exposition(&[scrape("a", vec![http(3)]), scrape("b", vec![http(4)]), down]).unwrap();
    for expected in [
        "# HELP longshore_http_requests Requests received.\n# TYPE longshore_http_requests counter\n\
         longshore_http_requests_total{service=\"a\"} 3\nlongshore_http_requests_total{service=\"b\"} 4\n",
        "# TYPE longshore_http_connections_open gauge\nlongshore_http_connections_open{service=\"a\"} 2\n",
        "longshore_up{service=\"a\"} 1\nlongshore_up{service=\"b\"} 1\nlongshore_up{service=\"db\"} 0\n",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert_eq!(text.matches("# TYPE longshore_http_requests ").count(), 1);
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn units_are_told_and_end_the_name() {
    let groups = vec![
        CounterGroup::new("nic", [("tx_bytes", 7)]),
        CounterGroup::new("host", [("MemLimit", 8)]),
        CounterGroup::new("frontend web", [("bytes_in", 9)]),
    ];
    let text = exposition(&[scrape("lb", groups)]).unwrap();
    for expected in [
        "# UNIT longshore_nic_tx_bytes bytes\nlongshore_nic_tx_bytes_total{service=\"lb\"} 7\n",
        "# UNIT longshore_host_mem_limit_bytes bytes\nlongshore_host_mem_limit_bytes{service=\"lb\"} 8\n",
        "longshore_frontend_in_bytes_total{service=\"lb\",frontend=\"web\"} 9\n",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

#[test]
fn a_label_with_quotes_is_escaped() {
    let group = CounterGroup::new("frontend a\"b\\c", [("requests", 1)]);
    let text = exposition(&[scrape("lb", vec![group])]).unwrap();
    assert!(text.contains(r#"frontend="a\"b\\c""#), "{text}");
}

#[test]
fn a_pool_with_a_slash_in_its_name_keeps_it() {
    let group = CounterGroup::new("backend api/v1/[fd09::1]:80", [("requests", 1)]);
    let text = exposition(&[scrape("lb", vec![group])]).unwrap();
    let labels = r#"{service="lb",pool="api/v1",backend="[fd09::1]:80"}"#;
    assert!(text.contains(labels), "{text}");
}

#[test]
fn quotes_in_an_explanation_are_escaped() {
    let known = known_names();
    let helps = known.lines().filter(|line| line.starts_with("# HELP "));
    assert!(
        helps
            .clone()
            .any(|help| help.contains(r#"splice = \"never\""#))
    );
    assert!(
        helps
            .map(|help| help.replace(r#"\""#, ""))
            .all(|help| !help.contains('"'))
    );
}

#[test]
fn requests_for_something_else_are_told_so() {
    for (head, target) in [
        ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Target::Metrics),
        ("HEAD /metrics?x=1 HTTP/1.0\r\n\r\n", Target::Metrics),
        ("GET / HTTP/1.1\r\n\r\n", Target::Front),
        ("GET /metricsx HTTP/1.1\r\n\r\n", Target::Unknown),
        ("POST /metrics HTTP/1.1\r\n\r\n", Target::Refused),
        ("GET /metrics HTTP/1.1\r\n", Target::Malformed),
        ("\u{1}\r\n\r\n", Target::Malformed),
        ("", Target::Malformed),
    ] {
        assert_eq!(Target::of(head.as_bytes()), target, "{head:?}");
    }
}

#[test]
fn services_are_named_after_their_sockets_unless_told_otherwise() {
    let serve = Service::parse("/run/serve.sock").unwrap();
    assert_eq!(
        (serve.name.as_str(), serve.socket.to_str()),
        ("serve", Some("/run/serve.sock"))
    );
    let web = Service::parse("web=/run/serve.sock").unwrap();
    assert_eq!(web.name, "web");
    Service::parse("=x").unwrap_err();
    Service::parse("x=").unwrap_err();
}

/// Every name that a metric can have, with `_total` and the like.
fn known_names() -> String {
    let glossary = crate::control::Glossary::new();
    let groups = glossary.kinds().iter().map(|kind| {
        let counters = kind.counters.iter().map(|(name, _)| (*name, 1));
        let example = match kind.part {
            "port" => "wire",
            "driver" => "ls0",
            "nvme_target" => "nvme",
            "frontend" | "pool" | "worker" => &format!("{} a", kind.part),
            "backend" => "backend a/10.9.0.1:80",
            part => part,
        };
        CounterGroup::new(example, counters)
    });
    exposition(&[scrape("all", groups.collect())]).unwrap()
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana.json");
    let dashboard: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let known = known_names();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut count = 0;
    for query in queries {
        let expression = query["expr"].as_str().unwrap();
        let from = expression.find("longshore_").unwrap();
        let name = expression[from..].split('{').next().unwrap();
        assert!(known.contains(&format!("\n{name}{{")), "{name}");
        count += 1;
    }
    assert!(count > 30);
}

#[test]
fn every_kind_of_group_has_metrics_of_its_own() {
    let known = known_names();
    for kind in crate::control::Glossary::new().kinds() {
        assert!(
            known.contains(&format!("\nlongshore_{}_", kind.part)),
            "{}",
            kind.part
        );
    }
}
