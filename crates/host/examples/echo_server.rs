//! Echoes what clients send, as a host of its own at the other end of a TAP interface:
//!
//! ```text
//! sudo ip tuntap add dev ls0 mode tap user $USER && sudo ip link set ls0 up
//! cargo run --release -p longshore-host --example echo_server -- ls0 10.0.0.2/24
//! sudo ip addr add 10.0.0.1/24 dev ls0
//! nc 10.0.0.2 7
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Instant;

use host::runtime::Builder;
use host::{Cidr, Event, ListenOptions, SocketError, SocketId, Stack};

const USAGE: &str = "usage: echo_server TAP ADDRESS/PREFIX [PORT]
  for instance: echo_server ls0 10.0.0.2/24";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let served = match arguments[..] {
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [tap, address] => serve(tap, address, "7"),
        [tap, address, port] => serve(tap, address, port),
        _ => Err(USAGE.into()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo_server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(tap: &str, address: &str, port: &str) -> Result<(), Box<dyn Error>> {
    let ours: Cidr = address.parse()?;
    let port = port
        .parse()
        .map_err(|_| format!("`{port}` is not a port; give a number from 1 to 65535"))?;
    // The NIC gets a thread of its own; the stack and this server run on the present one.
    let mut runtime = Builder::new([ours])?.on_tap(tap)?;
    let address = SocketAddr::new(ours.address, port);
    let listener = runtime.stack().listen(address, ListenOptions::default())?;
    let neighbour = neighbour(ours);
    println!("listening on {address}");
    println!("to reach it from this machine: ip addr add {neighbour} dev {tap}");

    // What a client has sent and we have not sent back yet.
    let mut unsent: HashMap<SocketId, Vec<u8>> = HashMap::new();
    loop {
        let now = Instant::now();
        let progress = runtime.poll(now)?;
        while let Some(event) = runtime.stack().poll_event() {
            let stack = runtime.stack();
            match event {
                // Told once, however many connections wait.
                Event::Accepted(_) => {
                    while let Some(id) = stack.accept(listener) {
                        echo(stack, now, id, unsent.entry(id).or_default());
                    }
                }
                Event::Readable(id) | Event::Writable(id) | Event::Closed(id, _) => {
                    if let Some(unsent) = unsent.get_mut(&id) {
                        echo(stack, now, id, unsent);
                    }
                }
                _ => {}
            }
        }
        // Whoever is through was closed: its id names no socket any more.
        unsent.retain(|id, _| runtime.stack().info(*id).is_some());
        if !progress {
            // Sleeps until something comes, or a timer is due.
            runtime.wait(now, None, &[])?;
        }
    }
}

/// Sends back what can be sent, and reads what has come, until either would block. An event says when to go on.
fn echo(stack: &mut Stack, now: Instant, id: SocketId, unsent: &mut Vec<u8>) {
    let ended = loop {
        let step = if unsent.is_empty() {
            let mut buffer = [0; 16 << 10];
            stack.read(now, id, &mut buffer).map(|len| {
                unsent.extend_from_slice(&buffer[..len]);
                len > 0
            })
        } else {
            stack.write(now, id, unsent).map(|len| {
                unsent.drain(..len);
                true
            })
        };
        match step {
            Ok(true) => {}
            // The client has sent its last byte, and got it back.
            Ok(false) => break "closed by the client".to_owned(),
            Err(SocketError::WouldBlock) => return,
            Err(error) => break error.to_string(),
        }
    };
    println!("a client has ended: {ended}");
    // What was written is still sent.
    let _ = stack.close(now, id);
}

/// An address that this machine may take to be on the same network.
fn neighbour(ours: Cidr) -> Cidr {
    let address = match ours.address {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address) ^ 3).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) ^ 3).into()),
    };
    Cidr::new(address, ours.prefix)
}
