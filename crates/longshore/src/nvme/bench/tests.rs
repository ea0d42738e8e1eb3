use clap::Parser as _;

use super::super::options::{Command, Disk};
use super::super::transport::Transport;
use crate::disk::{self, On};

#[derive(clap::Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

fn bench(more: &[&str]) -> Result<On<Disk, disk::Bench>, clap::Error> {
    let line = "nvme bench 10.9.0.1 --nqn nqn.2024-01.org.example:disk --tap ls0 --ip 10.9.0.2/24";
    let words = line.split(' ').chain(more.iter().copied());
    Line::try_parse_from(words).map(|line| match line.command {
        Command::Bench(options) => options,
        other => panic!("{other:?}"),
    })
}

#[test]
fn nothing_is_overwritten_unless_that_is_asked_for() {
    assert!(!bench(&[]).unwrap().how.write);
    assert!(bench(&["--write"]).unwrap().how.write);
    assert!(bench(&["--write", "--read"]).is_err());
}

#[test]
fn sizes_have_suffixes_and_names_are_checked() {
    assert_eq!(
        bench(&["--io-bytes", "64K"]).unwrap().how.io_bytes,
        64 << 10
    );
    let error = bench(&["--io-bytes", "900T"]).unwrap_err().to_string();
    assert!(error.contains("is not between 1 byte and 1 GiB"), "{error}");
    for name in [
        "foo",
        "nqn.",
        "nqn.2024-13.org.example:a",
        "nqn.2024-01",
        "nqn.2024-01.:a",
        "nqn.äöü-01.org:a",
    ] {
        let line = format!("nvme bench 10.9.0.1 --kernel --nqn {name}");
        let error = Line::try_parse_from(line.split(' '))
            .err()
            .expect(name)
            .to_string();
        assert!(
            error.contains("as in nqn.2024-01.org.example:disk"),
            "{name}: {error}"
        );
    }
    for name in [
        "nqn.2014-08.org.nvmexpress.discovery",
        "nqn.2014-08.org.nvmexpress:uuid:3f0c6fb0-8f2e-4a6a-9d2c-0c6a3d0f7b11",
    ] {
        let line = format!("nvme bench 10.9.0.1 --kernel --nqn {name}");
        assert!(Line::try_parse_from(line.split(' ')).is_ok(), "{name}");
    }
}

#[test]
fn linux_tcp_needs_no_interface() {
    let parse = |more: &str| {
        let line = format!("nvme bench 10.9.0.1 --nqn nqn.2024-01.org.example:disk {more}");
        Line::try_parse_from(line.split_whitespace()).map(|line| match line.command {
            Command::Bench(options) => options.disk.peer,
            other => panic!("{other:?}"),
        })
    };
    let peer = parse("--kernel --nic /run/longshore.sock").unwrap();
    assert!(matches!(peer.transport, Transport::Linux { nic: Some(_) }));
    let peer = parse("--kernel").unwrap();
    assert!(matches!(peer.transport, Transport::Linux { nic: None }));
    for ours in [
        "--tap ls0 --ip 10.9.0.2/24",
        "--nic /run/rings --ip 10.9.0.2/24",
    ] {
        let Transport::Ours(wire) = parse(ours).unwrap().transport else {
            panic!("{ours} is not of Linux's TCP");
        };
        assert_eq!(
            (wire.tap.is_some(), wire.nic.is_some()),
            (ours.contains("tap"), ours.contains("nic"))
        );
    }
    for bad in [
        "",
        "--tap ls0",
        "--nic /run/rings",
        "--kernel --tap ls0",
        "--kernel --ip 10.9.0.2/24",
        "--kernel --loss 0.1",
        "--kernel --psk keys.txt",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
