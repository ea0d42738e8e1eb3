//! What the program sets and asks for by `setsockopt` and `getsockopt` at level `SOL_TLS`: keys above all.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::*};

use l5p::tls::{CryptoInfo, Version};
use rustix::io::Errno;

use super::Session;
use crate::abi;
use crate::counters::{Counter, counters};
use crate::shared::{Keys, Sending};

impl Session {
    /// `setsockopt` at level [`SOL_TLS`](crate::SOL_TLS).
    ///
    /// # Errors
    /// `EINVAL` for a malformed structure or for keys of another cipher or version than before, or than the other direction's; `EBUSY` for a second set of keys before TLS 1.3, and for
    /// another limit of records while one is held open; `ENOENT` for a cipher that there is not;
    /// `ENOPROTOOPT` for an option that there is not; what sending gives when a record that was held open can't be sent.
    pub fn set_option(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        option: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        match option {
            abi::TLS_TX => self.set_transmit(fd, value),
            abi::TLS_RX => self.set_receive(fd, value),
            abi::TLS_TX_ZEROCOPY_RO => self.set_flag(&self.zerocopy, value),
            abi::TLS_TX_MAX_PAYLOAD_LEN => self.set_max_content(fd, value),
            abi::TLS_RX_EXPECT_NO_PAD => {
                let keys = self.receiving();
                let version = keys.keys.info().map(|info| info.version);
                drop(keys);
                match version {
                    Some(Version::Tls13) => self.set_flag(&self.no_padding, value),
                    _ => Err(Errno::INVAL),
                }
            }
            _ => Err(Errno::NOPROTOOPT),
        }
    }

    /// `getsockopt` at level [`SOL_TLS`](crate::SOL_TLS): writes the value and answers its length.
    ///
    /// # Errors
    /// `EBUSY` for keys that were not set; `EINVAL` when there is no room, or for an option of receiving in TLS 1.3 where that is not done; `ENOPROTOOPT`.
    pub fn option(&self, option: i32, value: &mut [u8]) -> Result<usize, Errno> {
        let keys = match option {
            abi::TLS_TX => self.sending().keys.told(),
            abi::TLS_RX => self.receiving().keys.told(),
            abi::TLS_TX_ZEROCOPY_RO => return tell_flag(&self.zerocopy, value),
            abi::TLS_TX_MAX_PAYLOAD_LEN => {
                let most = (self.sending().max_content() as u16).to_ne_bytes();
                let room = value.get_mut(..most.len()).ok_or(Errno::INVAL)?;
                room.copy_from_slice(&most);
                return Ok(most.len());
            }
            abi::TLS_RX_EXPECT_NO_PAD => {
                let keys = self.receiving().keys.info();
                return match keys.map(|info| info.version) {
                    Some(Version::Tls13) => tell_flag(&self.no_padding, value),
                    _ => Err(Errno::INVAL),
                };
            }
            _ => return Err(Errno::NOPROTOOPT),
        };
        let info = keys.ok_or(Errno::BUSY)?;
        let (bytes, len) = abi::emit(&info);
        if value.len() == 4 {
            // Version and cipher alone.
            value.copy_from_slice(&bytes[..4]);
            return Ok(4);
        }
        if value.len() != len {
            return Err(Errno::INVAL);
        }
        value.copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn set_flag(&self, flag: &AtomicI32, value: &[u8]) -> Result<(), Errno> {
        let bytes: [u8; 4] = value.try_into().map_err(|_| Errno::INVAL)?;
        match i32::from_ne_bytes(bytes) {
            on @ (0 | 1) => {
                flag.store(on, Relaxed);
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// `TLS_TX_MAX_PAYLOAD_LEN`: as the peer's `record_size_limit` (RFC 8449), of which a byte is for the type in TLS 1.3.
    fn set_max_content(self: &Arc<Self>, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        const LEAST_LIMIT: u16 = 64;
        let most = u16::from_ne_bytes(value.try_into().map_err(|_| Errno::INVAL)?);
        let mut sending = self.sending();
        let least = LEAST_LIMIT - u16::from(sending.keys.is_tls13);
        if most < least || usize::from(most) > l5p::tls::MAX_PLAINTEXT {
            return Err(Errno::INVAL);
        }
        if sending.is_held {
            self.seal_rest(fd, &mut sending)?;
        }
        if sending.open > 0 {
            return Err(Errno::BUSY);
        }
        sending.limit = most;
        drop(sending);
        self.send_later(fd);
        Ok(())
    }

    fn set_transmit(self: &Arc<Self>, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        let info = abi::parse(value)?;
        let other = self.receiving().keys.info();
        let mut sending = self.sending();
        let first = !sending.keys.are_set;
        if !first {
            // What is held open goes under the old keys.
            self.seal_rest(fd, &mut sending)?;
            if sending.device.owes_keys {
                self.settle(fd, &mut sending)?;
            }
        }
        let taken = fits(&sending.keys, other, &info);
        if taken.is_ok() {
            self.take_sending_keys(&mut sending, &info);
        }
        let (ok, failed) = (Counter::TlsTxRekeyOk, Counter::TlsTxRekeyError);
        count_keys(&taken, first, ok, failed);
        if first && taken.is_ok() {
            self.offload_sending(fd, &mut sending);
        }
        drop(sending);
        self.send_later(fd);
        taken?;
        self.shared.sends.store(true, Relaxed);
        Ok(())
    }

    fn take_sending_keys(&self, sending: &mut Sending, info: &CryptoInfo) {
        if sending.device.agreement.is_with_device() {
            sending.device.replace(&sending.keys);
            // Once all that was made under the old ones is in the socket.
            sending.device.owes_keys = true;
        }
        sending.keys.set(info);
    }

    fn set_receive(self: &Arc<Self>, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        let info = abi::parse(value)?;
        let other = self.sending().keys.info();
        let mut receiving = self.receiving();
        let first = !receiving.keys.are_set;
        let taken = fits(&receiving.keys, other, &info);
        let (ok, failed) = (Counter::TlsRxRekeyOk, Counter::TlsRxRekeyError);
        count_keys(&taken, first, ok, failed);
        taken?;
        receiving.set_keys(&info);
        // Whatever the NIC says: what is in the socket from here on is no content of the caller's.
        self.shared.receives.store(true, Relaxed);
        self.is_called_by(fd);
        let offloaded = self.offload_receiving(fd, &mut receiving, first);
        let mut tells_late = std::mem::take(&mut receiving.wants_keys);
        if first && let Ok(bytes @ 2..) = crate::socket::low_water(fd) {
            // What the program has said of bytes is meant of content from here on.
            self.set_low_water(bytes);
            tells_late = true;
        }
        if tells_late {
            crate::socket::set_low_water(fd, 1);
        }
        offloaded
    }
}

fn tell_flag(flag: &AtomicI32, value: &mut [u8]) -> Result<usize, Errno> {
    let bytes = flag.load(Relaxed).to_ne_bytes();
    let room = value.get_mut(..bytes.len()).ok_or(Errno::INVAL)?;
    room.copy_from_slice(&bytes);
    Ok(bytes.len())
}

/// Whether a direction can take keys in the place of those that it has, beside those of the `other` direction: both have one version and one cipher.
fn fits(keys: &Keys, other: Option<CryptoInfo>, info: &CryptoInfo) -> Result<(), Errno> {
    let own = keys.info();
    if own
        .as_ref()
        .is_some_and(|own| own.version != Version::Tls13)
    {
        return Err(Errno::BUSY);
    }
    let is_another =
        |set: CryptoInfo| (set.version, set.algorithm) != (info.version, info.algorithm);
    match own.into_iter().chain(other).any(is_another) {
        true => Err(Errno::INVAL),
        false => Ok(()),
    }
}

fn count_keys(taken: &Result<(), Errno>, first: bool, ok: Counter, failed: Counter) {
    match (taken, first) {
        (Ok(()), false) => counters().add(ok, 1),
        (Err(_), false) => counters().add(failed, 1),
        (_, true) => {}
    }
}
