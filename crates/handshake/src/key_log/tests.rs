use std::sync::Mutex;

use super::*;

#[test]
fn a_line_is_label_random_and_secret() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let log = KeyLogLines(Arc::new(move |line: &str| {
        sink.lock().unwrap().push(line.to_owned());
    }));
    log.log("CLIENT_RANDOM", &[0, 0xab], &[0x10]);
    assert_eq!(*lines.lock().unwrap(), ["CLIENT_RANDOM 00ab 10"]);
}
