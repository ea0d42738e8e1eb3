use nic::Features;
use nic::ring::{FunctionConfig, RegionId};
use wire::ethernet::MacAddr;

use super::rig::config;
use crate::message::{Answer, BadRequest, Extent, Refusal, Request};

fn requests() -> Vec<Request> {
    let extent = Extent {
        id: RegionId(7),
        offset: 4096,
        len: 1 << 40,
        writable: true,
    };
    vec![
        Request::SetUp(FunctionConfig {
            features: Features::NONE,
            ..config()
        }),
        Request::Identify(u64::MAX),
        Request::Features(Features::ALL),
        Request::SetUp(FunctionConfig {
            features: Features::NONE,
            queues: 3,
            packet_memory: u64::MAX,
            ..FunctionConfig::new(MacAddr::ZERO)
        }),
        Request::Register(extent),
        Request::Unregister(RegionId(u16::MAX)),
        Request::Unfinished,
    ]
}

#[test]
fn requests_arrive_as_they_were_sent() {
    for request in requests() {
        assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
    }
}

#[test]
fn another_version_is_told_from_nonsense() {
    for request in requests() {
        let mut bytes = request.to_bytes();
        let word = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
        bytes[..8].copy_from_slice(&(word + 1).to_ne_bytes());
        assert_eq!(Request::from_bytes(&bytes), Err(BadRequest::Version));
        bytes[..8].copy_from_slice(&(word ^ (1 << 40)).to_ne_bytes());
        assert_eq!(Request::from_bytes(&bytes), Err(BadRequest::Meaningless));
    }
}

#[test]
fn numbers_that_are_too_large_for_what_they_say_are_nonsense() {
    for request in requests() {
        let sent = request.to_bytes();
        for word in 1..16 {
            let mut bytes = sent;
            bytes[word * 8..][..8].copy_from_slice(&u64::MAX.to_ne_bytes());
            match Request::from_bytes(&bytes) {
                Ok(other) => assert_eq!(
                    std::mem::discriminant(&other),
                    std::mem::discriminant(&request)
                ),
                Err(error) => assert_eq!(error, BadRequest::Meaningless),
            }
        }
    }
}

#[test]
fn answers_arrive_as_they_were_sent() {
    let set_up = Answer::SetUp {
        mac: MacAddr([1, 2, 3, 4, 5, 6]),
        mtu: 9000,
    };
    let cases = [
        (set_up, Request::SetUp(config())),
        (Answer::Unfinished(77), Request::Unfinished),
        (Answer::Registered, Request::Unregister(RegionId(1))),
        (
            Answer::Identity {
                word: u64::MAX,
                words: 3,
            },
            Request::Identify(0),
        ),
        (Answer::Agreed, Request::Features(Features::NONE)),
        (
            Answer::Refused(Refusal::Features(Features::TOE)),
            Request::Features(Features::ALL),
        ),
        (
            Answer::Refused(Refusal::Version(crate::VERSION)),
            Request::Unfinished,
        ),
        (Answer::Refused(Refusal::Meaningless), Request::Unfinished),
        (Answer::Refused(Refusal::BadFile), Request::Unfinished),
    ];
    for (answer, request) in cases {
        assert_eq!(
            Answer::from_bytes(&answer.to_bytes(), &request),
            Some(answer)
        );
    }
    assert_eq!(Answer::from_bytes(&[0; 32], &Request::Unfinished), None);
}

/// The NIC of another release says which it is.
#[test]
fn a_refusal_for_the_version_names_that_of_the_nic() {
    let mut bytes = Answer::Refused(Refusal::Version(crate::VERSION)).to_bytes();
    let word = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
    bytes[..8].copy_from_slice(&(word + 41).to_ne_bytes());
    let answer = Answer::from_bytes(&bytes, &Request::Unfinished);
    let theirs = crate::VERSION + 41;
    assert_eq!(answer, Some(Answer::Refused(Refusal::Version(theirs))));
}
