use super::options::{check, check_alone, show};
use super::*;
use crate::cli::Command as Main;

const SERVE: &str = r#"
[serve]
tap = "ls0"
ip = ["10.9.0.2/24", "fd09::2/64"]
root = "/srv"
port = 8_443
plain = true
busy-poll = false
loss = 0.25
"#;

fn file(text: &str) -> File {
    File {
        name: "l.toml".to_owned(),
        text: text.to_owned(),
    }
}

fn wrong(text: &str) -> String {
    check(&file(text)).unwrap_err().to_string()
}

/// The command line `line`, in which FILE stands for a file with this text.
fn with(text: &str, line: &str) -> Result<Cli, Unusable> {
    use std::io::Write;
    let name = format!("{:?}", std::thread::current().id());
    let name = name.replace(['(', ')'], "");
    let path = std::env::temp_dir().join(format!("longshore-{}-{name}.toml", std::process::id()));
    let mut written = std::fs::File::create(&path).unwrap();
    written.write_all(text.as_bytes()).unwrap();
    let line = line.replace("FILE", path.to_str().unwrap());
    let cli = command_line(line.split(' ').map(OsString::from));
    std::fs::remove_file(&path).unwrap();
    cli
}

#[test]
fn a_file_has_what_the_command_line_would_have() {
    let Ok(Main::Serve(options)) =
        with(SERVE, "longshore serve --config FILE").map(|cli| cli.command)
    else {
        panic!("it is right")
    };
    assert_eq!(options.root, PathBuf::from("/srv"));
    assert_eq!((options.port, options.plain), (Some(8443), true));
    assert_eq!(options.wire.addresses.len(), 2);
    assert!(!options.wire.busy_poll);
    assert_eq!(options.wire.line.loss, 0.25);
}

#[test]
fn options_on_the_command_line_take_the_place_of_those_in_the_file() {
    let line = "longshore serve --ip 10.9.0.7/24 --config=FILE --port 99";
    let Ok(Main::Serve(options)) = with(SERVE, line).map(|cli| cli.command) else {
        panic!("it is right")
    };
    assert_eq!(options.port, Some(99));
    let [address] = options.wire.addresses[..] else {
        panic!("one address")
    };
    assert_eq!(address.to_string(), "10.9.0.7/24");
    assert_eq!(options.root, PathBuf::from("/srv"));
}

#[test]
fn every_service_has_its_table_and_arguments_without_a_name_have_one() {
    let text = "[metrics]\nservices = ['/run/a.sock', 'b=/run/b.sock']\n[nvme-target]\nns = 'mem:1M'\nip = '10.9.0.2/24'\ntap = 'ls0'\n\
        [nic]\nhost = 'tap:ls0'\nwire = 'mem'\ncontrol = '/run/nic.sock'\n";
    check(&file(text)).unwrap();
    let Ok(Main::Metrics(options)) =
        with(text, "longshore metrics --config FILE").map(|cli| cli.command)
    else {
        panic!("it is right")
    };
    assert_eq!(options.services.len(), 2);
    assert!(with(text, "longshore nvme target --config FILE").is_ok());
    assert!(with(text, "longshore nic --config FILE").is_ok());
    assert!(matches!(
        with(text, "longshore serve --config FILE"),
        Err(Unusable::File(_))
    ));
}

#[test]
fn a_process_of_the_nic_does_not_read_the_file_again() {
    let line =
        "longshore nic --config FILE --host tap:a --wire mem --control c --worker --inherited 3";
    assert!(with("[nic]\nnonsense = 1\n", line).is_ok());
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_is_expected() {
    for (text, expected) in [
        ("[serve]\nroot = 3\nip = 4\n", "l.toml:3: serve.ip = 4: "),
        (
            "[serve]\n\nprot = 80\n",
            "l.toml:3: unknown key `prot` in [serve]; use `port`",
        ),
        (
            "[serve]\nport = 70000\n",
            "l.toml:2: serve.port = 70000: 70000 is not in 0..=65535",
        ),
        (
            "[serve]\nplain = \"yes\"\n",
            "l.toml:2: serve.plain = \"yes\": use true or false",
        ),
        (
            "[serve]\nroot = [\"a\"]\n",
            "l.toml:2: serve.root = [\"a\"]: use a string or a number",
        ),
        (
            "[serve]\noffload = \"all\"\n",
            "l.toml:2: serve.offload = \"all\": use one of none, tx, rx, both",
        ),
        ("[serve]\nroot = \"a\"\nroot = \"b\"\n", "l.toml:3: "),
        (
            "[served]\n",
            "l.toml:1: unknown key `served`; use one of nic, serve, ",
        ),
        ("serve = 3\n", "l.toml:1: `serve` is no table; "),
        (
            "[nic]\ntake-over = true\n",
            "l.toml:2: unknown key `take-over` in [nic]; use --take-over on the command line",
        ),
        (
            "[serve]\nbackground = true\n",
            "l.toml:2: unknown key `background` in [serve]; ",
        ),
        (
            "[metrics]\nlog = \"/var/log/metrics\"\n",
            "l.toml:2: unknown key `log` in [metrics]; ",
        ),
        (
            "[metrics]\nservices = [\"/run/a.sock\", \"--listen=0.0.0.0:80\"]\n",
            "l.toml:2: metrics.services = [\"/run/a.sock\", \"--listen=0.0.0.0:80\"]: use a value that does not begin with a dash",
        ),
        (
            "[nic]\nworker = true\n",
            "l.toml:2: unknown key `worker` in [nic]; ",
        ),
        (
            "\n",
            "l.toml:1: no service is configured; use [nic], [serve], ",
        ),
    ] {
        let told = wrong(text);
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn options_that_are_missing_or_contradict_each_other_are_told() {
    let told = wrong("\n[serve]\nroot = \"/srv\"\ntap = \"ls0\"\n");
    assert!(
        told.starts_with("l.toml:2: [serve]: ") && told.contains("--ip <CIDR>"),
        "{told}"
    );
    let told = wrong(&format!("{SERVE}nic = \"/run/x\"\n"));
    assert!(told.contains("cannot be used with"), "{told}");
}

#[test]
fn the_load_balancer_has_options_beside_its_tables() {
    let tables = "[frontends.web]\nlisten = ['10.9.0.3:80']\npool = 'a'\n[pools.a]\nbackends = ['10.9.0.5:80']\n";
    check(&file(tables)).unwrap();
    let whole = format!("[lb]\ntap = 'ls0'\nip = '10.9.0.3/24'\n{tables}");
    check(&file(&whole)).unwrap();
    let Ok(Main::Lb(crate::lb::Options::Run(run))) =
        with(&whole, "longshore lb --config FILE").map(|cli| cli.command)
    else {
        panic!("it is right")
    };
    assert_eq!(run.wire.tap.as_deref(), Some("ls0"));
    let told = wrong(&whole.replace("ip = '10.9.0.3/24'", "ip = '10.9.0.4/24'"));
    assert!(
        told.starts_with("l.toml:5: frontends.web.listen[0]"),
        "{told}"
    );
    let told = wrong("[lb]\ntap = 'ls0'\nip = '10.9.0.3/24'\n");
    assert!(told.contains("frontends"), "{told}");
}

#[test]
fn a_file_is_judged_for_a_service_that_is_given_nothing_else() {
    let alone = |table: &str, text: &str| {
        let service = SERVICES.iter().find(|service| service.table == table);
        check_alone(&file(text), service.unwrap()).map_err(|error| error.to_string())
    };
    alone("serve", SERVE).unwrap();
    let told = alone("nic", SERVE).unwrap_err();
    assert_eq!(told, "l.toml:1: there is no table [nic]");
    let tables = "[frontends.web]\nlisten = ['10.9.0.3:80']\npool = 'a'\n[pools.a]\nbackends = ['10.9.0.5:80']\n";
    let told = alone("lb", tables).unwrap_err();
    assert!(
        told.starts_with("l.toml:1: [lb]: ") && told.contains("--ip <CIDR>"),
        "{told}"
    );
    alone(
        "lb",
        &format!("[lb]\ntap = 'ls0'\nip = '10.9.0.3/24'\n{tables}"),
    )
    .unwrap();
}

#[test]
fn what_is_shown_can_be_read_again() {
    let shown = show(&file(SERVE)).unwrap();
    for line in [
        "root = \"/srv\"",
        "port = 8_443",
        "ip = [\"10.9.0.2/24\", \"fd09::2/64\"]",
        "# send-timeout = 60",
        "# offload = \"both\"",
        "# one-thread = false",
    ] {
        assert!(
            shown.lines().any(|shown| shown == line),
            "{line} is not in\n{shown}"
        );
    }
    check(&file(&shown)).unwrap();
}

#[test]
fn options_whose_values_differ_are_named_in_whatever_order_they_are_given() {
    let line = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
    let before = line("longshore serve --tap ls0 --ip 10.9.0.2/24 --root /srv --plain");
    let changes: [(&str, &[&str]); 4] = [
        ("--root /srv --plain --ip 10.9.0.2/24 --tap ls0", &[]),
        (
            "--tap ls0 --ip 10.9.0.2/24 --root /srv --plain --port 81",
            &["--port"],
        ),
        ("--tap ls0 --ip 10.9.0.2/24 --root /srv", &["--plain"]),
        (
            "--tap ls0 --ip 10.9.0.2/24 --ip fd09::2/64 --root / --plain",
            &["--ip", "--root"],
        ),
    ];
    for (now, names) in changes {
        let mut found = changed(&before, &line(&format!("longshore serve {now}")));
        found.sort_unstable();
        assert_eq!(found, names, "{now}");
    }
}
