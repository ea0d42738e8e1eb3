use super::*;

const SMALL: &str = r#"
[frontends.web]
listen = ["10.9.0.2:80", "[fd09::2]:80"]
pool = "app"

[[frontends.web.routes]]
host = "*.example"
path = "/static/"
pool = "files"

[pools.app]
balance = "least-connections"
backends = ["10.9.0.1:8081", { address = "10.9.0.1:8082", weight = 2, proxy = "v2" }]
health = { path = "/health", status = [200, 204], interval = "500ms", rise = 1, fall = 2 }

[pools.files]
backends = ["10.9.0.1:8083"]
"#;

fn wrong(text: &str) -> String {
    Config::parse("lb.toml", text).unwrap_err().to_string()
}

/// The small file with one thing replaced.
fn with(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    SMALL.replace(from, to)
}

#[test]
fn a_file_is_understood_with_its_defaults() {
    let config = Config::parse("lb.toml", SMALL).unwrap();
    let [web] = &config.frontends[..] else {
        panic!("one frontend")
    };
    assert_eq!(web.mode, Mode::Http);
    assert_eq!(web.listen.len(), 2);
    assert_eq!(web.splice, Splice::Tunnels);
    assert_eq!(web.forwarding.via.as_deref(), Some("longshore"));
    let [app, files] = &config.pools[..] else {
        panic!("two pools")
    };
    assert_eq!(app.balance, Balance::LeastConnections);
    assert_eq!((app.backends[0].weight, app.backends[1].weight), (1, 2));
    assert_eq!(app.backends[1].proxy, Some(Proxy::V2));
    assert_eq!(app.health.interval, Duration::from_millis(500));
    assert_eq!(
        app.health.probe,
        Some(Probe::Http {
            path: "/health".to_owned(),
            host: None,
            status: vec![200, 204]
        })
    );
    assert_eq!(files.health.probe, Some(Probe::Tcp));
    assert_eq!(web.routes.find(b"a.example", b"/static/x"), Some(1));
    assert_eq!(web.routes.find(b"a.example", b"/"), Some(0));
}

#[test]
fn errors_name_file_key_value_and_remedy() {
    for (from, to, parts) in [
        (
            "\"10.9.0.2:80\"",
            "\"10.9.0.2\"",
            &["frontends.web.listen[0]", "\"10.9.0.2\"", "port"][..],
        ),
        (
            "pool = \"app\"",
            "pool = \"ap\"",
            &["frontends.web.pool", "\"ap\"", "app, files"],
        ),
        (
            "pool = \"files\"",
            "pool = \"file\"",
            &["frontends.web.routes[0].pool", "file"],
        ),
        (
            "\"*.example\"",
            "\"a.*.example\"",
            &["frontends.web.routes[0].host", "a.*.example"],
        ),
        (
            "\"/static/\"",
            "\"static\"",
            &["frontends.web.routes[0].path", "\"static\""],
        ),
        (
            "weight = 2",
            "weight = 0",
            &["pools.app.backends[1].weight", "0", "1 to 1000"],
        ),
        (
            "10.9.0.1:8082",
            "10.9.0.1:8081",
            &["pools.app.backends[1].address", "already"],
        ),
        (
            "10.9.0.1:8082",
            "localhost:8081",
            &["pools.app.backends[1].address", "localhost"],
        ),
        ("rise = 1", "rise = 0", &["pools.app.health.rise", "0"]),
        ("[200, 204]", "[99]", &["pools.app.health.status", "99"]),
        (
            "\"/health\"",
            "\"health\"",
            &["pools.app.health.path", "health"],
        ),
        (
            "\"[fd09::2]:80\"",
            "\"10.9.0.2:80\"",
            &["frontends.web.listen[1]", "already"],
        ),
        (
            "\"[fd09::2]:80\"",
            "\"[fd09::2]:80\", \"[fd09:0::2]:80\"",
            &["frontends.web.listen[2]", "already"],
        ),
        (
            "pool = \"app\"",
            "pool = \"app\"\nmode = \"tcp\"",
            &["frontends.web.routes", "TCP"],
        ),
    ] {
        let error = wrong(&with(from, to));
        for part in ["lb.toml"].iter().chain(parts) {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }
}

#[test]
fn errors_are_one_line_that_begins_with_file_and_line() {
    for (from, to, begins) in [
        (
            "\"10.9.0.2:80\"",
            "\"10.9.0.2\"",
            "lb.toml:3: frontends.web.listen[0] = \"10.9.0.2\": ",
        ),
        (
            "pool = \"files\"",
            "pool = \"file\"",
            "lb.toml:9: frontends.web.routes[0].pool = \"file\": no [pools.file]; use one of app, files",
        ),
        (
            "weight = 2",
            "weight = 0",
            "lb.toml:13: pools.app.backends[1].weight = 0: use a number from 1 to 1000",
        ),
        (
            "rise = 1",
            "rise = 0",
            "lb.toml:14: pools.app.health.rise = 0: ",
        ),
        (
            "interval",
            "intervall",
            "lb.toml:14: unknown key `intervall`; use one of `check`, ",
        ),
        (
            "\"500ms\"",
            "\"500\"",
            "lb.toml:14: wrong value \"500\"; use a time like \"250ms\", ",
        ),
        (
            "least-connections",
            "least",
            "lb.toml:12: unknown value `least`; use one of `round-robin`, ",
        ),
        ("[pools.app]", "[pools.app", "lb.toml:11: `[pools.app`: "),
        (
            "[pools.files]",
            "[pools.app]",
            "lb.toml:16: `[pools.app]`: duplicate key",
        ),
        ("pool = \"app\"\n", "pool =\n", "lb.toml:4: "),
        (
            "[\"10.9.0.2:80\", \"[fd09::2]:80\"]",
            "\"10.9.0.2:80\"",
            "lb.toml:3: wrong type: string \"10.9.0.2:80\"; use an array, ",
        ),
        (
            "listen = [\"10.9.0.2:80\", \"[fd09::2]:80\"]\n",
            "",
            "lb.toml:2: `[frontends.web]`: missing key `listen`",
        ),
    ] {
        let error = wrong(&with(from, to));
        assert!(error.starts_with(begins), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn an_address_that_the_stack_does_not_have_is_named_with_its_line() {
    let config = Config::parse("lb.toml", SMALL).unwrap();
    let has = ["10.9.0.2".parse().unwrap()];
    let error = config.check_addresses(|ip| has.contains(&ip)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "lb.toml:3: frontends.web.listen[1] = \"[fd09::2]:80\": not an address of this stack; add --ip fd09::2/64"
    );
    assert!(config.check_addresses(|_| true).is_ok());
}

#[test]
fn tls_wants_certificates_and_no_splices() {
    let secure = |more: &str| {
        with(
            "pool = \"app\"\n",
            &format!("pool = \"app\"\ntls = true\n{more}"),
        )
    };
    let config = Config::parse("lb.toml", &secure("")).unwrap();
    assert!(config.frontends[0].tls);
    assert_eq!(config.frontends[0].splice, Splice::Never);
    config.check_tls(true).unwrap();
    let told = config.check_tls(false).unwrap_err().to_string();
    assert!(
        told.starts_with("lb.toml:5: frontends.web.tls = true: give a certificate"),
        "{told}"
    );
    let told = wrong(&secure("splice = \"tunnels\""));
    assert!(
        told.starts_with("lb.toml:6: frontends.web.splice"),
        "{told}"
    );
    let plain = Config::parse("lb.toml", &format!("[lb]\ncert = 'a'\n{SMALL}")).unwrap();
    plain.check_tls(false).unwrap();
    let told = plain.check_tls(true).unwrap_err().to_string();
    assert!(told.starts_with("lb.toml:2: lb.cert"), "{told}");
}

#[test]
fn tls_to_backends_wants_to_know_whom_to_trust() {
    let pool = |keys: &str| {
        format!(
            "[frontends.web]\nlisten = [\"10.9.0.2:80\"]\npool = \"app\"\n[pools.app]\n\
             backends = [\"10.9.0.1:8081\", {{ address = \"10.9.0.1:8082\", tls = false }}]\n{keys}\n"
        )
    };
    for (keys, key, remedy) in [
        ("tls = true", "tls", "give `ca`"),
        ("ca = \"a.pem\"", "ca", "set tls = true"),
        ("sni = \"a\"", "sni", "set tls = true"),
        (
            "tls = true\nverify = false\nca = \"a.pem\"",
            "verify",
            "remove it",
        ),
        ("tls = true\nca = \"/absent.pem\"", "ca", "it can't be read"),
        (
            "tls = true\nca = \"/dev/null\"",
            "ca",
            "it is no regular file",
        ),
        (
            "tls = true\nca = \"Cargo.toml\"",
            "ca",
            "there is no certificate in it",
        ),
        (
            "tls = true\nverify = false\nsni = \"10.9.0.1\"",
            "sni",
            "use a name",
        ),
    ] {
        let told = wrong(&pool(keys));
        let key = format!("pools.app.{key} = ");
        assert!(told.contains(&key) && told.contains(remedy), "{told}");
    }
    let config = Config::parse("lb.toml", &pool("tls = true\nverify = false")).unwrap();
    let [first, second] = &config.pools[0].backends[..] else {
        panic!("two backends")
    };
    assert!(first.tls.is_some() && second.tls.is_none());
    assert!(config.pools[0].has_tls());
}

#[test]
fn keys_that_mean_nothing_for_a_tcp_frontend_are_refused() {
    let tcp = |key: &str| {
        format!(
            "[frontends.bytes]\nmode = \"tcp\"\nlisten = [\"10.9.0.2:80\"]\npool = \"app\"\n{key}\n\
             [pools.app]\nbackends = [\"10.9.0.1:8081\"]\n"
        )
    };
    for key in [
        "max-head = 2048",
        "idle-time = \"5s\"",
        "request-head-time = \"5s\"",
        "http2 = true",
    ] {
        let name = key.split(' ').next().unwrap();
        assert!(wrong(&tcp(key)).contains(&format!("frontends.bytes.{name}")));
    }
    let introduced = tcp("request-head-time = \"5s\"\naccept-proxy = true");
    assert!(Config::parse("lb.toml", &introduced).is_ok());
}

#[test]
fn http2_is_for_clients_in_tls_that_are_not_searched() {
    let http = |keys: &str| {
        format!(
            "[frontends.web]\nlisten = [\"10.9.0.2:80\"]\npool = \"app\"\n{keys}\n\
             [pools.app]\nbackends = [\"10.9.0.1:8081\"]\n"
        )
    };
    for (keys, is_on) in [
        ("", false),
        ("tls = true", true),
        ("tls = true\nhttp2 = false", false),
    ] {
        let config = Config::parse("lb.toml", &http(keys)).unwrap();
        assert_eq!(config.frontends[0].http2, is_on, "{keys}");
    }
    assert!(wrong(&http("http2 = true")).contains("frontends.web.http2"));
}

#[test]
fn unknown_keys_and_wrong_types_are_told_with_their_line() {
    for (from, to, parts) in [
        (
            "interval",
            "intervall",
            &["unknown key `intervall`", "`interval`", "14"][..],
        ),
        ("\"500ms\"", "\"500\"", &["\"500\"", "250ms", "14"]),
        ("\"500ms\"", "500", &["500", "250ms", "14"]),
        (
            "least-connections",
            "least",
            &["`least`", "`least-connections`", "12"],
        ),
        ("weight = 2", "wait = 2", &["unknown key `wait`", "13"]),
        ("[pools.app]", "[pools.app", &["11"]),
    ] {
        let error = wrong(&with(from, to));
        for part in ["lb.toml"].iter().chain(parts) {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }
}

#[test]
fn the_example_of_the_help_is_right() {
    use crate::lb::options::{EXAMPLE_FILE, EXAMPLES};
    Config::parse("example", EXAMPLE_FILE).unwrap();
    for line in EXAMPLE_FILE.lines() {
        assert!(EXAMPLES.contains(line), "{line}");
    }
}

#[test]
fn every_key_is_documented() {
    let page = include_str!("../../../../../docs/commands/lb.md");
    for key in [
        "shutdown-time",
        "listen",
        "mode",
        "http2",
        "pool",
        "routes",
        "accept-proxy",
        "max-connections",
        "x-forwarded",
        "trust-forwarded",
        "via",
        "splice",
        "max-head",
        "request-head-time",
        "idle-time",
        "tunnel-time",
        "backends",
        "balance",
        "hash-header",
        "retries",
        "connect-time",
        "response-time",
        "reuse",
        "idle-connections",
        "queue",
        "queue-time",
        "health",
    ] {
        assert!(page.contains(&format!("`{key}`")), "{key}");
    }
}
