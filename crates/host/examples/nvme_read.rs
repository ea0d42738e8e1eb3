//! Reads the first blocks of an NVMe/TCP namespace to standard output. The NIC writes the data to where it belongs, and checks its digest.
//!
//! ```text
//! sudo ip tuntap add dev ls0 mode tap user $USER && sudo ip link set ls0 up
//! sudo ip addr add 10.0.0.1/24 dev ls0
//! cargo run --release -p longshore-host --example nvme_read -- ls0 10.0.0.2/24 10.0.0.1:4420 nqn.2024-01.org.example:disk 2048 > blocks
//! ```

use std::error::Error;
use std::io::{Write, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use host::Cidr;
use host::nic::ring::Slice;
use host::nvme::Digests;
use host::nvme::initiator::{Access, Blocks, Config, Event, Initiator, Io, Options};
use host::runtime::{Builder, Runtime};
use host::wire::nvme::Nqn;

const USAGE: &str = "usage: nvme_read TAP ADDRESS/PREFIX TARGET:PORT NQN BLOCKS
  for instance: nvme_read ls0 10.0.0.2/24 10.0.0.1:4420 nqn.2024-01.org.example:disk 2048 > blocks";

/// Who we are to the target.
const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6c6f6e67-7368-4f72-8000-6578616d706c";
const HOST_ID: [u8; 16] = 0x6c6f6e6773684f7280006578616d706c_u128.to_be_bytes();

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let read = match arguments[..] {
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [tap, ours, target, nqn, blocks] => read(tap, ours, target, nqn, blocks),
        _ => Err(USAGE.into()),
    };
    match read {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nvme_read: {error}");
            ExitCode::FAILURE
        }
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn read(tap: &str, ours: &str, target: &str, nqn: &str, blocks: &str) -> Outcome<()> {
    let address: Cidr = ours.parse()?;
    let mut left: u64 = blocks.parse()?;
    let config = Config {
        digests: Digests {
            header: false,
            data: true,
        },
        ..Config::new(Nqn::new(nqn)?, Nqn::new(HOST_NQN)?, HOST_ID)
    };
    let mut runtime = Builder::new([address])?.on_tap(tap)?;
    let mut initiator = Initiator::new(Instant::now(), config, Options::new(target.parse()?));
    run_until(&mut runtime, &mut initiator, |it| {
        match it.poll_event()? {
            Event::Ready => Some(Ok(())),
            Event::Ended(Some(failure)) => Some(Err(failure)),
            _ => None,
        }
    })??;

    let namespaces = initiator.controller().namespaces();
    let found = namespaces.iter().find(|namespace| namespace.is_usable());
    let namespace = *found.ok_or("the target has no namespace to read from")?;
    let block = namespace.block_size();
    let most = initiator.controller().limits().max_transfer.min(1 << 20) / block;
    // Memory that the NIC may write to. One read at a time uses all of it again.
    let memory = Arc::new(runtime.stack().allocate_region((most * block) as usize)?);
    let region = runtime.stack().register(memory.clone(), "blocks")?;
    let mut bytes = vec![0; (most * block) as usize];
    let mut start = 0;
    while left > 0 {
        let count = u64::from(most).min(left) as u32;
        let len = count * block;
        let blocks = Blocks { start, count };
        let io = Io::Read { blocks, fua: false };
        let nsid = namespace.nsid;
        let slice = Slice {
            region,
            offset: 0,
            len,
        };
        initiator.submit(Access { nsid, io }, &[slice])?;
        let done = Initiator::poll_completion;
        let completion = run_until(&mut runtime, &mut initiator, done)?;
        if !completion.status.is_success() {
            return Err(format!("blocks from {start} on: {}", completion.status).into());
        }
        memory.read(0, &mut bytes[..len as usize]);
        stdout().write_all(&bytes[..len as usize])?;
        (start, left) = (start + u64::from(count), left - u64::from(count));
    }
    let mut counters = runtime.stack().counters();
    let placed = counters.find(|(name, _)| *name == "NvmeTcpRxBytesPlaced");
    drop(counters);
    eprintln!("the NIC has placed {} bytes", placed.map_or(0, |it| it.1));

    initiator.shutdown(Instant::now());
    run_until(&mut runtime, &mut initiator, |it| {
        match it.poll_event()? {
            Event::Ended(_) => Some(()),
            _ => None,
        }
    })?;
    Ok(runtime.shutdown(Instant::now())?)
}

/// Runs stack and initiator until `done` gives something.
fn run_until<T>(
    runtime: &mut Runtime,
    initiator: &mut Initiator,
    mut done: impl FnMut(&mut Initiator) -> Option<T>,
) -> Outcome<T> {
    loop {
        let now = Instant::now();
        let mut progress = runtime.poll(now)?;
        while let Some(event) = runtime.stack().poll_event() {
            progress |= initiator.handle_event(now, runtime.stack(), &event);
        }
        progress |= initiator.poll(now, runtime.stack());
        if let Some(result) = done(initiator) {
            return Ok(result);
        }
        if !progress {
            runtime.wait(now, initiator.poll_timeout(), &[])?;
        }
    }
}
