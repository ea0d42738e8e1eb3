use super::*;

#[test]
fn a_process_can_pass_its_supervisor_nothing_that_it_would_have_to_close() {
    let (supervisor, process) = link().unwrap();
    for end in process.descriptors() {
        let passed = passing::send(end, b"s", Some(process.as_fd()), SendFlags::DONTWAIT);
        assert!(matches!(passed, Err(Errno::PIPE | Errno::NOTSOCK)));
    }
    assert!(matches!(supervisor.hear(), Heard::Nothing));
    process.tell_serves();
    assert!(matches!(supervisor.hear(), Heard::Serves));
    drop(process);
    assert!(matches!(supervisor.hear(), Heard::End));
}

#[test]
fn a_process_gets_channels_and_hears_its_supervisors_end() {
    let (supervisor, process) = link().unwrap();
    assert!(matches!(process.hear(), Heard::Nothing));
    let (one, _other) = pair().unwrap();
    supervisor.give_channel(one.as_fd()).unwrap();
    assert!(matches!(process.hear(), Heard::Channel(_)));
    drop(supervisor);
    process.tell_serves();
    assert!(matches!(process.hear(), Heard::End));
}
