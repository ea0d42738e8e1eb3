//! Any PDU header is read or refused; what was read is written again byte for byte, and its parts follow each other.

use wire::nvme::{Framing, MAX_ALIGNMENT, MAX_HEADER_LEN, Pdu, Phase, Role};

/// Bytes: what was agreed on, the alignment; the rest is a header.
pub fn run(data: &[u8]) {
    let [choice, alignment, bytes @ ..] = data else {
        return;
    };
    let is = |bit: u8| choice >> bit & 1 != 0;
    let sender = if is(0) { Role::Host } else { Role::Controller };
    let framing = if is(1) {
        Framing::initializing(sender)
    } else {
        Framing {
            sender,
            phase: Phase::Established,
            header_digest: is(2),
            data_digest: is(3),
            alignment: alignment % (MAX_ALIGNMENT + 1),
            max_pdu: if is(4) { u32::MAX } else { 1 << 20 },
        }
    };
    let Ok(Some(layout)) = framing.check(bytes) else {
        return;
    };
    for end in 0..bytes.len().min(20) {
        assert!(framing.check(&bytes[..end]).is_ok());
    }
    let header_end = layout.header_len() as u32;
    assert_eq!(layout.header_digest().start, header_end);
    assert!(layout.header_digest().end <= layout.data().start);
    assert_eq!(layout.data().end, layout.data_digest().start);
    assert_eq!(layout.data_digest().end, layout.pdu_len());
    assert!(layout.pdu_len() <= framing.max_pdu);
    if bytes.len() < layout.header_len() {
        return;
    }
    if let Ok(pdu) = Pdu::parse(bytes, &framing) {
        assert_eq!(pdu.pdu_type(), layout.pdu_type);
        assert_eq!(pdu.data_len(), layout.data_len);
        let mut written = [0xee; MAX_HEADER_LEN];
        let len = pdu.emit(&framing, &mut written);
        assert_eq!(written[..len], bytes[..len]);
    }
}
