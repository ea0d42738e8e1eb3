use std::os::unix::net::UnixStream;

use super::*;

#[test]
fn root_and_ones_own_user_are_trusted_and_others_are_not() {
    assert_eq!(judge(0, 1000), Ok(()));
    assert_eq!(judge(1000, 1000), Ok(()));
    let stranger = Untrusted::User {
        uid: 1001,
        own: 1000,
    };
    assert_eq!(judge(1001, 1000), Err(stranger));
    let of_root = Untrusted::User { uid: 1000, own: 0 };
    assert_eq!(judge(1000, 0), Err(of_root));
}

#[test]
fn a_user_whom_the_namespace_does_not_know_is_not_trusted_even_by_one_of_the_same_number() {
    assert_eq!(judge(65534, 1000), Err(Untrusted::Unknown));
    assert_eq!(judge(65534, 65534), Err(Untrusted::Unknown));
}

#[test]
fn the_process_behind_a_socket_is_asked_of_the_kernel() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    assert_eq!(uid(&ours), Ok(geteuid().as_raw()));
    assert_eq!(check(&ours), Ok(()));
}
