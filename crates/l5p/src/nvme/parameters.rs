//! What an engine needs to know of one direction of an NVMe/TCP connection.

/// Who sends the PDUs of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The initiator: capsules with commands, H2CData.
    Host,
    /// The target: capsules with completions, C2HData, R2T.
    Controller,
}

/// One direction of a connection, once its ICReq and ICResp have been exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Who sends the PDUs.
    pub sender: Role,
    /// PDU headers are followed by a digest (NVMe/TCP 1.0 §3.3.1.1).
    pub header_digest: bool,
    /// PDU data are followed by a digest (NVMe/TCP 1.0 §3.3.1.2).
    pub data_digest: bool,
    /// Longest PDU in bytes that this side takes for one.
    pub max_pdu: u32,
    /// Tags below it can be placed: CIDs towards a host, transfer tags towards a controller.
    pub commands: u16,
}
