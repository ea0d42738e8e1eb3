//! The driver in `drivers/example`, which is written from `docs/device.md` and the C header alone, is a host as any other.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use wire::checksum::Sum;
use wire::ethernet::MacAddr;

use super::life::{Host, Process, hosts};
use super::rig::path;

/// A program in C that runs until this is dropped.
struct Program {
    child: Child,
    binary: PathBuf,
}

impl Program {
    /// `None` where there is no C compiler.
    fn compile_and_start(source: &str, arguments: &[&str]) -> Option<Program> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let binary = path();
        let compiled = Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-o"])
            .args([&binary, &source])
            .output();
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(error) => {
                eprintln!("skipped: no C compiler ({error})");
                return None;
            }
        };
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{said}");
        let child = Command::new(&binary)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was compiled");
        Some(Program { child, binary })
    }

    /// So many lines of what it says.
    fn lines(&mut self, count: usize) -> Vec<String> {
        let said = self.child.stdout.take().expect("a pipe");
        let lines = BufReader::new(said).lines().take(count);
        lines.collect::<Result<_, _>>().expect("text")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.binary);
    }
}

const ADDRESS: [u8; 4] = [10, 0, 0, 2];
const PEER: [u8; 4] = [10, 0, 0, 1];

/// An ARP packet (RFC 826).
fn arp(operation: u8, from: (MacAddr, [u8; 4]), to: (MacAddr, [u8; 4])) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
    for (mac, address) in [from, to] {
        packet.extend_from_slice(&mac.0);
        packet.extend_from_slice(&address);
    }
    packet
}

/// An ICMP echo packet (RFC 792) with so many bytes of data.
fn echo(kind: u8, from: [u8; 4], to: [u8; 4], data: usize) -> Vec<u8> {
    let mut icmp = vec![kind, 0, 0, 0, 0, 7, 0, 1];
    icmp.extend((0..data).map(|n| n as u8));
    let sum = Sum::of(&icmp).finish().to_be_bytes();
    icmp[2..4].copy_from_slice(&sum);
    let [high, low] = (20 + icmp.len() as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, 1, 0, 0];
    packet.extend_from_slice(&from);
    packet.extend_from_slice(&to);
    packet.extend_from_slice(&icmp);
    packet
}

#[test]
#[cfg_attr(miri, ignore = "runs a compiler")]
fn the_example_answers_arp_and_ping() {
    let hosts = hosts();
    let _process = Process::start(&hosts, 1500);
    let (socket, mac) = (hosts[0].0.to_str().expect("text"), hosts[0].1);
    let source = "../../drivers/example/echo.c";
    let Some(mut program) = Program::compile_and_start(source, &[socket, "10.0.0.2"]) else {
        return;
    };
    let said = program.lines(2);
    assert!(said[0].ends_with("MTU 1500"), "{said:?}");
    assert_eq!(said[1], format!("10.0.0.2 is at {mac}"));

    let mut peer = Host::connect(&hosts[1].0).expect("a NIC");
    let own = (hosts[1].1, PEER);
    let question = arp(1, own, (MacAddr::ZERO, ADDRESS));
    peer.send_as(MacAddr::BROADCAST, 0x0806, &question);
    assert_eq!(peer.receive(), Some(arp(2, (mac, ADDRESS), own)));
    // More than its rings have slots.
    for n in 0..200 {
        peer.refill();
        let data = 7 * n;
        peer.send_as(mac, 0x0800, &echo(8, PEER, ADDRESS, data));
        assert_eq!(peer.receive(), Some(echo(0, ADDRESS, PEER, data)), "{n}");
    }
}
