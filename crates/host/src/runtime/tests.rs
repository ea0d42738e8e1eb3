pub(crate) mod remote;

use std::time::{Duration, Instant};

use port::memory::{End, LinkConfig, link};

use super::*;
use crate::{Event, ListenOptions, SocketError, SocketId};

fn runtime(end: End, host: u8, config: RuntimeConfig) -> Runtime {
    let address = format!("10.0.0.{host}/24").parse().unwrap();
    let mut builder = Builder::new([address]).unwrap();
    builder.runtime = config;
    builder.on_port(end).unwrap()
}

fn pair(config: RuntimeConfig) -> (Runtime, Runtime) {
    let (a, b) = link(LinkConfig {
        eventfd: true,
        ..LinkConfig::for_mtu(1500)
    });
    (runtime(a, 1, config), runtime(b, 2, config))
}

/// Runs until `done` says so, sleeping whenever there is nothing to do.
fn run_until(runtime: &mut Runtime, mut done: impl FnMut(&mut Stack, Option<&Event>) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let now = Instant::now();
        assert!(
            now < deadline,
            "nothing happens any more: a wake-up was lost"
        );
        let mut progress = runtime.poll(now).unwrap();
        while let Some(event) = runtime.stack().poll_event() {
            progress = true;
            if done(runtime.stack(), Some(&event)) {
                return;
            }
        }
        if done(runtime.stack(), None) {
            return;
        }
        if !progress {
            runtime.wait(now, Some(deadline), &[]).unwrap();
        }
    }
}

/// Reads exactly one byte, waiting for it.
fn read_byte(runtime: &mut Runtime, id: SocketId) -> u8 {
    let mut byte = [0];
    run_until(runtime, |stack, _| {
        match stack.read(Instant::now(), id, &mut byte) {
            Ok(1) => true,
            Ok(_) => panic!("the stream ended"),
            Err(SocketError::WouldBlock) => false,
            Err(error) => panic!("{error}"),
        }
    });
    byte[0]
}

/// Echoes bytes until the peer closes.
fn echo(mut runtime: Runtime) {
    let address = "10.0.0.2:7".parse().unwrap();
    runtime
        .stack()
        .listen(address, ListenOptions::default())
        .unwrap();
    let mut accepted = None;
    run_until(&mut runtime, |stack, event| {
        if let Some(Event::Accepted(listener)) = event {
            accepted = stack.accept(*listener);
        }
        accepted.is_some()
    });
    let id = accepted.unwrap();
    run_until(&mut runtime, |stack, _| {
        let mut bytes = [0; 64];
        match stack.read(Instant::now(), id, &mut bytes) {
            Ok(0) => true,
            Ok(len) => {
                assert_eq!(stack.write(Instant::now(), id, &bytes[..len]), Ok(len));
                false
            }
            Err(SocketError::WouldBlock) => false,
            Err(error) => panic!("{error}"),
        }
    });
    runtime.stack().close(Instant::now(), id).unwrap();
    runtime.shutdown(Instant::now()).unwrap();
}

fn connect(runtime: &mut Runtime) -> SocketId {
    let id = runtime
        .stack()
        .connect(Instant::now(), "10.0.0.2:7".parse().unwrap())
        .unwrap();
    run_until(runtime, |_, event| match event {
        Some(Event::Closed(_, reason)) => panic!("{reason}"),
        event => event == Some(&Event::Connected(id)),
    });
    id
}

/// CPU time of this thread so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The pauses end at every point of the other side's way to sleep, so that a wake-up that can be lost is.
fn ping_pong_with_pauses(config: RuntimeConfig) {
    let (mut client, server) = pair(config);
    let server = std::thread::spawn(move || echo(server));
    let id = connect(&mut client);
    for round in 0..2000u32 {
        let pause = Duration::from_nanos(u64::from(round * 7919 % 120_000));
        let until = Instant::now() + pause;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        assert_eq!(
            client.stack().write(Instant::now(), id, &[round as u8]),
            Ok(1)
        );
        assert_eq!(read_byte(&mut client, id), round as u8);
    }
    client.stack().close(Instant::now(), id).unwrap();
    run_until(&mut client, |stack, _| stack.sockets().next().is_none());
    server.join().unwrap();
}

#[test]
fn no_wake_up_is_lost_between_two_threads() {
    ping_pong_with_pauses(RuntimeConfig {
        spin: Duration::from_micros(5),
        ..RuntimeConfig::default()
    });
}

#[test]
fn no_wake_up_is_lost_on_one_thread() {
    ping_pong_with_pauses(RuntimeConfig {
        own_thread: false,
        spin: Duration::from_micros(5),
        ..RuntimeConfig::default()
    });
}

#[test]
fn an_idle_pair_costs_next_to_nothing() {
    let (mut client, server) = pair(RuntimeConfig::default());
    let server = std::thread::spawn(move || echo(server));
    let id = connect(&mut client);
    // Well below a millisecond on a quiet machine; on a busy one a second may be spoiled, but not each.
    let most = Duration::from_millis(20);
    let quiet = (0..5).any(|_| {
        let (host, device) = idle_for_a_second(&mut client);
        host < most && device < most
    });
    assert!(quiet, "an idle second costs more than {most:?} each time");
    client.stack().close(Instant::now(), id).unwrap();
    run_until(&mut client, |stack, _| stack.sockets().next().is_none());
    server.join().unwrap();
}

/// Processor time of host and NIC in an idle second.
fn idle_for_a_second(client: &mut Runtime) -> (Duration, Duration) {
    let host_before = cpu_time();
    let device_before = client.with_device(|_| cpu_time()).unwrap();
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let now = Instant::now();
        if !client.poll(now).unwrap() {
            client.wait(now, Some(end), &[]).unwrap();
        }
    }
    let device = client.with_device(|_| cpu_time()).unwrap() - device_before;
    (cpu_time() - host_before, device)
}

#[test]
fn a_bell_from_another_thread_ends_a_wait() {
    let (mut client, _server) = pair(RuntimeConfig::default());
    let bell = client.doorbell();
    let ringer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        bell.ring();
    });
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(50) {
        let now = Instant::now();
        client.poll(now).unwrap();
        client
            .wait(now, Some(began + Duration::from_secs(10)), &[])
            .unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    ringer.join().unwrap();
}

#[test]
fn counters_are_read_from_the_device_while_it_runs() {
    let (mut client, _server) = pair(RuntimeConfig::default());
    let names = client
        .with_device(|device| device.nic.counters().iter().count())
        .unwrap();
    assert!(names > 10);
    client.shutdown(Instant::now()).unwrap();
}

#[test]
fn settings_that_no_function_can_have_are_refused() {
    let (end, _other) = link(LinkConfig::for_mtu(1500));
    let mut builder = Builder::new(["10.0.0.1/24".parse().unwrap()]).unwrap();
    builder.function.send_entries = 1000;
    let refused = builder.on_port(end).err().expect("no power of two");
    assert!(matches!(refused, BuildError::Function(_)), "{refused}");
}

#[test]
fn a_program_that_starts_again_has_its_ethernet_address_and_other_secrets() {
    let [first, second] = [(); 2].map(|()| {
        let addresses = ["10.0.0.1/24", "fd00::1/64"].map(|it| it.parse().unwrap());
        Builder::new(addresses).unwrap()
    });
    assert_eq!(first.function.mac, second.function.mac);
    assert_ne!(first.stack.secret, second.stack.secret);
    assert_ne!(first.nic.secret, second.nic.secret);
    assert_ne!(first.nic.secret, first.stack.secret);
}
