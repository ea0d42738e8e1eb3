use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

/// The key of the verification suite (Microsoft, "Verifying the RSS hash calculation").
pub(super) const KEY: RssKey = RssKey([
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
]);

fn flow(src: (&str, u16), dst: (&str, u16)) -> FlowKey {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    FlowKey {
        src: (address(src.0), src.1),
        dst: (address(dst.0), dst.1),
    }
}

/// The definition, bit by bit.
fn by_bits(RssKey(key): &RssKey, input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| u32::from(bytes[at / 8] >> (7 - at % 8) & 1);
    let window = |from: usize| (from..from + 32).fold(0, |word, at| word << 1 | bit(key, at));
    let set = (0..8 * input.len()).filter(|at| bit(input, *at) == 1);
    set.fold(0, |hash, at| hash ^ window(at))
}

#[test]
fn hashes_are_those_of_the_verification_suite() {
    let toeplitz = Toeplitz::new(&KEY);
    // Source, destination; the hash of the addresses, and that with ports.
    for (src, dst, addresses, ports) in [
        (
            ("66.9.149.187", 2794),
            ("161.142.100.80", 1766),
            0x323e_8fc2,
            0x51cc_c178,
        ),
        (
            ("199.92.111.2", 14230),
            ("65.69.140.83", 4739),
            0xd718_262a,
            0xc626_b0ea,
        ),
        (
            ("24.19.198.95", 12898),
            ("12.22.207.184", 38024),
            0xd2d0_a5de,
            0x5c2b_394a,
        ),
        (
            ("38.27.205.30", 48228),
            ("209.142.163.6", 2217),
            0x8298_9176,
            0xafc7_327f,
        ),
        (
            ("153.39.163.191", 44251),
            ("202.188.127.2", 1303),
            0x5d18_09c5,
            0x10e8_28a2,
        ),
        (
            ("3ffe:2501:200:1fff::7", 2794),
            ("3ffe:2501:200:3::1", 1766),
            0x2cc1_8cd5,
            0x4020_7d3d,
        ),
        (
            ("3ffe:501:8::260:97ff:fe40:efab", 14230),
            ("ff02::1", 4739),
            0x0f0c_461c,
            0xdde5_1bbf,
        ),
        (
            ("3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251),
            ("fe80::200:f8ff:fe21:67cf", 38024),
            0x4b61_e985,
            0x02d1_feef,
        ),
    ] {
        let flow = flow(src, dst);
        assert_eq!(toeplitz.of_addresses(&flow), addresses, "{flow}");
        assert_eq!(toeplitz.of_ports(&flow), ports, "{flow}");
    }
}

proptest! {
    #[test]
    fn tables_give_what_the_definition_gives(
        key in proptest::array::uniform(any::<u8>()),
        src in any::<[u8; 16]>(),
        dst in any::<[u8; 16]>(),
        ports in any::<[u16; 2]>(),
        is_ipv6: bool,
    ) {
        let address = |octets: [u8; 16]| match is_ipv6 {
            true => (IpAddr::from(octets), octets.to_vec()),
            false => {
                let four = [octets[0], octets[1], octets[2], octets[3]];
                (IpAddr::from(four), four.to_vec())
            }
        };
        let ((src, mut input), (dst, rest)) = (address(src), address(dst));
        input.extend(rest);
        let flow = FlowKey { src: (src, ports[0]), dst: (dst, ports[1]) };
        let key = RssKey(key);
        let toeplitz = Toeplitz::new(&key);
        prop_assert_eq!(toeplitz.of_addresses(&flow), by_bits(&key, &input));
        input.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        prop_assert_eq!(toeplitz.of_ports(&flow), by_bits(&key, &input));
    }
}
