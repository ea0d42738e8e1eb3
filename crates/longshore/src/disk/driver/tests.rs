use clap::Parser;

use super::*;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    wire: Wire,
}

#[test]
fn a_server_that_is_silent_is_probed_after_the_time_that_was_given_or_a_minute() {
    let words = "disk --tap ls0 --ip 10.9.0.2/24";
    for (more, seconds) in [("", 60), (" --tcp-keep-alive 5", 5)] {
        let line = CommandLine::parse_from(format!("{words}{more}").split(' '));
        assert_eq!(line.wire.kept_alive().tcp.tcp_keep_alive, Some(seconds));
    }
}
