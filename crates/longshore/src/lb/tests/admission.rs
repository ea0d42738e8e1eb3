//! What is taken on while memory is short.

use std::time::Duration;

use host::memory::MemoryLevel;
use sim::WorldConfig;

use super::rig::{Manner, Rig, answers, config};

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";

fn rig() -> Rig {
    let mut settings = WorldConfig::default();
    settings.nodes[0].stack.memory = 32 << 20;
    let servers = [(8081, Manner::Serves)];
    Rig::in_world(&config("", "", &[8081]), &servers, settings, 1 << 20)
}

fn counters(rig: &Rig) -> crate::lb::counters::FrontendCounters {
    *rig.balancer.frontends().next().unwrap().1
}

#[test]
fn under_pressure_connections_are_accepted() {
    let mut rig = rig();
    rig.hold_memory(MemoryLevel::Pressure);
    let clients: Vec<_> = (0..30).map(|_| rig.client(80, GET)).collect();
    rig.run_for(Duration::from_millis(5));
    for client in clients {
        assert_eq!(answers(&rig.clients[client].input)[0].status, 200);
    }
    assert_eq!(counters(&rig).memory_shortages, 1);
}

#[test]
fn without_memory_connections_are_accepted_one_after_the_other() {
    let mut rig = rig();
    rig.hold_memory(MemoryLevel::Exhausted);
    let clients: Vec<_> = (0..30).map(|_| rig.client(80, GET)).collect();
    rig.run_for(Duration::from_millis(100));
    let accepted = counters(&rig).connections;
    assert!((1..=11).contains(&accepted), "{accepted}");
    rig.release_memory();
    for client in clients {
        assert_eq!(rig.answers(client, 1)[0].status, 200);
    }
    assert_eq!(counters(&rig).requests_shed, 0);
}

#[test]
fn without_memory_a_connection_takes_the_place_of_one_that_has_ended() {
    let mut rig = rig();
    let first: Vec<_> = (0..8).map(|_| rig.client(80, GET)).collect();
    for client in &first {
        rig.answers(*client, 1);
    }
    rig.hold_memory(MemoryLevel::Exhausted);
    let others: Vec<_> = (0..8).map(|_| rig.client(80, GET)).collect();
    for client in first {
        rig.clients[client].ends = true;
    }
    rig.run_for(Duration::from_millis(5));
    for client in others {
        assert_eq!(answers(&rig.clients[client].input).len(), 1);
    }
}

#[test]
fn without_memory_requests_are_refused_but_for_those_of_clients_that_have_taken_a_response() {
    let mut rig = rig();
    let kept = rig.client(80, GET);
    rig.answers(kept, 1);
    rig.hold_memory(MemoryLevel::Exhausted);
    rig.clients[kept].out.extend_from_slice(GET.as_bytes());
    assert_eq!(rig.answers(kept, 2)[1].status, 200, "the reserves serve it");
    rig.run_for(Duration::from_secs(6));
    rig.clients[kept].out.extend_from_slice(GET.as_bytes());
    let new = rig.client(80, GET);
    assert_eq!(rig.answers(kept, 3)[2].status, 200);
    let answer = rig.answers(new, 1).remove(0);
    assert_eq!((answer.status, answer.keep_alive), (503, true));
    let text = String::from_utf8_lossy(&rig.clients[new].input);
    assert!(text.contains("\r\nRetry-After: 1\r\n"), "{text}");
    rig.release_memory();
    rig.clients[new].out.extend_from_slice(GET.as_bytes());
    assert_eq!(rig.answers(new, 2)[1].status, 200);
    assert_eq!(counters(&rig).requests_shed, 1);
}

/// It does not poll without end, and asks for no time that has passed.
fn assert_rests(rig: &mut Rig) {
    let end = rig.world.now() + Duration::from_millis(200);
    let mut steps = 0;
    rig.run(|rig| {
        steps += 1;
        steps == 10_000 || rig.world.now() >= end
    });
    let now = rig.world.now();
    assert!(now >= end, "{steps} steps");
    let due = rig.balancer.poll_timeout();
    assert!(due.is_none_or(|due| due > now));
    assert_eq!(rig.world.stack(0).memory_level(), MemoryLevel::Exhausted);
}

#[test]
fn without_memory_a_frontend_that_is_full_waits_for_a_connection_to_end() {
    let mut settings = WorldConfig::default();
    settings.nodes[0].stack.memory = 32 << 20;
    let config = config("max-connections = 1", "", &[8081]);
    let mut rig = Rig::in_world(&config, &[(8081, Manner::Serves)], settings, 1 << 20);
    let first = rig.client(80, GET);
    rig.answers(first, 1);
    let next = rig.client(80, GET);
    rig.run_for(Duration::from_millis(100));
    rig.hold_memory(MemoryLevel::Exhausted);
    assert_rests(&mut rig);
    assert!(rig.clients[next].input.is_empty());
    rig.clients[first].ends = true;
    assert_eq!(rig.answers(next, 1)[0].status, 200);
}

#[test]
fn without_memory_a_balancer_that_stops_waits_for_its_sessions() {
    let mut rig = rig();
    let first = rig.client(80, "GET /n/2000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.clients[first].pace = Some(1);
    rig.run(|rig| !rig.clients[first].input.is_empty());
    rig.hold_memory(MemoryLevel::Exhausted);
    let next = rig.client(80, GET);
    rig.run_for(Duration::from_millis(5));
    assert!(rig.clients[next].input.is_empty());
    let now = rig.world.now();
    rig.balancer.stop(now, rig.world.stack(0));
    assert_rests(&mut rig);
}
