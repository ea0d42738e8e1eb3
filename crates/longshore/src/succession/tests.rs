//! What fits, and what is said.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::line::Line;
use super::words::Word;
use super::{Claim, VERSION};

fn claim() -> Claim {
    Claim {
        version: VERSION,
        service: "serve".to_owned(),
        tap: "ls0".to_owned(),
        queues: 2,
        packets_only: false,
    }
}

#[test]
fn what_does_not_fit_is_named() {
    assert!(claim().check(&claim()).is_ok());
    let refusals = [
        (
            Claim {
                version: 2,
                ..claim()
            },
            "by version 1 of the protocol, the new process takes over by version 2",
        ),
        (
            Claim {
                service: "lb".to_owned(),
                ..claim()
            },
            "it is `longshore serve`, not `longshore lb`",
        ),
        (
            Claim {
                tap: "ls1".to_owned(),
                ..claim()
            },
            "its interface is ls0, not ls1",
        ),
        (
            Claim {
                queues: 1,
                ..claim()
            },
            "it has 2 queues of ls0, not 1; take over with as many --cores",
        ),
        (
            Claim {
                packets_only: true,
                ..claim()
            },
            "impairs its link",
        ),
    ];
    for (other, said) in refusals {
        let refused = claim().check(&other).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn a_claim_of_a_later_version_is_understood_as_far_as_its_version() {
    let later = r#"{"version":7,"service":{"name":"serve"}}"#;
    let claim: Claim = serde_json::from_str(later).unwrap();
    assert_eq!(claim.version, 7);
}

#[test]
fn lines_come_with_their_descriptors_and_an_end_is_told_from_silence() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (passed, _) = UnixStream::pair().unwrap();
    let (mut ours, mut theirs) = (Line::new(ours).unwrap(), Line::new(theirs).unwrap());
    assert_eq!(theirs.try_hear::<Word>().unwrap(), None);
    ours.say(&Word::Ready, &[std::os::fd::AsFd::as_fd(&passed)])
        .unwrap();
    ours.say(&Word::Ended, &[]).unwrap();
    assert_eq!(
        theirs.hear::<Word>(Duration::from_secs(1)).unwrap(),
        Word::Ready
    );
    assert_eq!(theirs.take_descriptors().len(), 1);
    assert_eq!(theirs.try_hear::<Word>().unwrap(), Some(Word::Ended));
    drop(ours);
    assert!(theirs.try_hear::<Word>().is_err());
}
