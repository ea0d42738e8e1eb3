use crate::*;
#[test]
fn sizes() {
    use std::mem::size_of as s;
    println!("conn {} snd {} rcv {} board {} rtt {} rack {} cong {} recov {} timers {} stats {} settings {} neg {} ts {} ranges {} tuning {}",
    s::<Connection>(), s::<send::Sender>(), s::<recv::Receiver>(), s::<sack::Scoreboard>(), s::<rtt::Rtt>(), s::<rack::Rack>(), s::<congestion::Congestion>(), s::<recovery::Recovery>(), s::<timer::Timers>(), s::<tcb::Stats>(), s::<settings::Settings>(), s::<options::Negotiated>(), s::<options::TimestampClock>(), s::<ranges::Ranges>(), s::<tcb::Pending>());
}
