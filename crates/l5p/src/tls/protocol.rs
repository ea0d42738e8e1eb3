//! TLS in the list of protocols: its parameters as bytes, and the names of its counters, those of mlx5 and of Linux's `tls-offload.rst`
//! where they have one.

use super::{CryptoInfo, Engine, ICV_LEN};
use crate::protocols::counter_names;
use crate::{CounterName, Direction, Parameters, Protocol, Resource};

impl Protocol for Engine {
    type Parameters = CryptoInfo;
    const NAME: &'static str = "tls";
    const REPLACES: bool = true;
    const CHECK_LEN: u32 = ICV_LEN as u32;
    const COUNTERS: &'static [CounterName] = COUNTERS;

    fn create(
        parameters: &CryptoInfo,
        direction: Direction,
        _: Option<&Resource>,
    ) -> Option<Engine> {
        Some(Engine::new(parameters, direction))
    }
}

impl Parameters for CryptoInfo {
    const ENCODED_LEN: usize = CryptoInfo::ENCODED_LEN;

    fn encode(&self, bytes: &mut [u8]) {
        let mut encoded = self.to_bytes();
        bytes.copy_from_slice(&encoded);
        crate::crypto::wipe(&mut encoded);
    }

    fn decode(bytes: &[u8]) -> Option<CryptoInfo> {
        CryptoInfo::from_bytes(bytes.try_into().ok()?).ok()
    }

    fn first_index(&self) -> u64 {
        self.sequence
    }

    fn is_seekable(&self) -> bool {
        CryptoInfo::is_seekable(self)
    }
}

const COUNTERS: &[CounterName] = counter_names! {
    Event:
    TxContexts: "tx_tls_ctx", "TLS transmit contexts created.";
    TxContextsEnded: "tx_tls_del", "TLS transmit contexts destroyed.";
    TxPackets: "tx_tls_encrypted_packets", "Frames whose payload the NIC encrypted.";
    TxBytes: "tx_tls_encrypted_bytes", "Payload bytes that the NIC encrypted.";
    TxRecoveries: "tx_tls_ooo", "Sends out of sequence, after which the NIC recovered the TLS context.";
    TxSeeks: "tx_tls_aside", "Recoveries in tx_tls_ooo that read nothing back and left the context in place.";
    TxPrefixReads: "tx_tls_dump_packets", "Reads of the beginning of a TLS record for recovery.";
    TxPrefixBytes: "tx_tls_dump_bytes", "Bytes read by tx_tls_dump_packets.";
    TxPassedBytes: "tx_tls_resync_bytes", "Bytes passed through a cipher to recover its state.";
    TxVerified: "tx_tls_verified", "Retransmissions that the NIC proved equal to the first transmission.";
    TxSourceChanged: "tx_tls_source_changed", "Retransmissions that the NIC refused because their source memory had changed.";
    TxOutOfSequence: "tx_tls_drop_no_sync_data", "Packets dropped because their TLS context was at another place in the stream.";
    RxContexts: "rx_tls_ctx", "TLS receive contexts created.";
    RxContextsEnded: "rx_tls_del", "TLS receive contexts destroyed.";
    RxPackets: "rx_tls_decrypted_packets", "Packets decrypted.";
    RxBytes: "rx_tls_decrypted_bytes", "Payload bytes decrypted.";
    RxLatePackets: "rx_tls_decrypted_late_packets", "Packets decrypted that arrived late, inside a record whose header was known.";
    RxFailed: "rx_tls_err", "Packets passed up undecrypted because an authentication tag in them was wrong.";
    RxOutOfStep: "rx_tls_resync_req_pkt", "Packets searched for a TLS record header.";
    RxSearches: "rx_tls_resync_req_start", "Searches for a record header started.";
    RxRequests: "rx_tls_resync_req_end", "Searches that found a record header, which the NIC asked the host to confirm.";
    RxRequestsSkipped: "rx_tls_resync_req_skip", "Record headers found but not asked about, or whose question the stream made obsolete.";
    RxConfirmed: "rx_tls_resync_res_ok", "Answers of the host after which decryption resumed.";
    RxRefuted: "rx_tls_resync_res_retry", "Answers of the host that sent the context back to searching.";
    RxStaleAnswers: "rx_tls_resync_res_skip", "Answers of the host that came too late to matter.";
    RxLeaps: "rx_tls_resumed", "Gaps inside a record after which decryption resumed without asking the host.";
    RxLateHeaders: "rx_tls_resumed_late_header", "Searches ended without the host because the missing record header arrived.";
    RxCountedHeaders: "rx_tls_resumed_counted", "Searches ended by counting missing records of one length; a tag confirms the count.";
};
