use super::rig::*;
use crate::WireCapabilities;
use crate::ring::SendFlags;
use wire::SeqNum;
#[test]
fn speed() {
    for tso in [false, true] {
        for enc in [false, true] {
            for mutable in [false, true] {
                let mut rig = Rig::new(WireCapabilities { tso, checksum: tso });
                let sizes = vec![16384; 8];
                let stream = Stream::new(&rig, SUITES[3], SeqNum(0), &sizes);
                let crypto = stream.crypto.clone();
                let mut out = vec![0u8; 66_000];
                let mut bytes = 0u64;
                let mut frames = 0u64;
                rig.create(SeqNum(0), &crypto);
                let slices = stream.slices(&rig, SeqNum(0), stream.end(), 16406);
                let half = slices.len() / 2;
                let split: u32 = slices[..half].iter().map(|s| s.len).sum();
                let mut seq = SeqNum(0);
                let start = cpu();
                for _ in 0..1000 {
                    for part in [&slices[..half], &slices[half..]] {
                        let len: u32 = part.iter().map(|s| s.len).sum();
                        let f = if mutable {
                            SendFlags::MUTABLE_SOURCE
                        } else {
                            SendFlags::NONE
                        };
                        rig.send(seq, 1448, enc.then_some(CONTEXT), f, part);
                        seq += len;
                    }
                    let _ = rig.host.queues[0].publish();
                    while let Some((len, _)) = rig.nic.poll_transmit(rig.now, &mut out) {
                        bytes += len as u64;
                        frames += 1;
                    }
                    rig.nic.flush(rig.now);
                }
                let t = std::time::Duration::from_nanos(cpu() - start);
                let e = rig.errors();
                println!(
                    "tso {tso} enc {enc} mutable {mutable}: {:.2} GB/s, {:.0} ns/frame, {frames} frames {split} {:?}",
                    bytes as f64 / t.as_secs_f64() / 1e9,
                    t.as_nanos() as f64 / frames as f64,
                    e.first()
                );
            }
        }
    }
}

fn cpu() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}
