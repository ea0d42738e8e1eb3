//! The part of pcapng that a capture needs (draft-ietf-opsawg-pcapng): one section, one Ethernet interface with
//! nanoseconds, packets with their direction, and TLS secrets.

use std::io::{self, Write};

/// Which way a packet went, as `epb_flags` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Inbound = 1,
    Outbound = 2,
}

/// A file, and the packets that are held back from it: secrets that become known meanwhile go before them.
#[derive(Debug)]
pub(super) struct Writer<W> {
    file: Blocks<W>,
    held: Blocks<Vec<u8>>,
}

/// Blocks one after the other.
#[derive(Debug)]
struct Blocks<W> {
    output: W,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub(super) fn new(output: W) -> io::Result<Writer<W>> {
        let mut file = Blocks { output };
        file.section_header()?;
        file.interface()?;
        let held = Blocks { output: Vec::new() };
        Ok(Writer { file, held })
    }

    /// A packet that passed at `time`, in nanoseconds since 1970. It is held until [`release`](Self::release).
    pub(super) fn packet(
        &mut self,
        time: u64,
        direction: Direction,
        frame: &[u8],
    ) -> io::Result<()> {
        self.held.packet(time, direction, frame)
    }

    /// Lines of a TLS key log. They serve for the packets after them, those that are held among them.
    pub(super) fn tls_keys(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.tls_keys(lines)
    }

    /// Bytes of packets that are held.
    pub(super) fn held(&self) -> usize {
        self.held.output.len()
    }

    /// Writes what is held.
    pub(super) fn release(&mut self) -> io::Result<()> {
        self.file.output.write_all(&self.held.output)?;
        self.held.output.clear();
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.output.flush()
    }
}

impl<W: Write> Blocks<W> {
    fn packet(&mut self, time: u64, direction: Direction, frame: &[u8]) -> io::Result<()> {
        let len = frame.len() as u32;
        let body_len = 20 + padded(frame.len()) + 12;
        self.begin_block(ENHANCED_PACKET, body_len)?;
        let fields = [0, (time >> 32) as u32, time as u32, len, len];
        for field in fields {
            self.word(field)?;
        }
        self.padded_bytes(frame)?;
        self.option_header(EPB_FLAGS, 4)?;
        self.word(direction as u32)?;
        self.word(END_OF_OPTIONS)?;
        self.end_block(body_len)
    }

    fn tls_keys(&mut self, lines: &[u8]) -> io::Result<()> {
        let body_len = 8 + padded(lines.len());
        self.begin_block(DECRYPTION_SECRETS, body_len)?;
        self.word(TLS_KEY_LOG)?;
        self.word(lines.len() as u32)?;
        self.padded_bytes(lines)?;
        self.end_block(body_len)
    }

    fn section_header(&mut self) -> io::Result<()> {
        let application = concat!("longshore ", env!("CARGO_PKG_VERSION")).as_bytes();
        let body_len = 16 + 4 + padded(application.len()) + 4;
        self.begin_block(SECTION_HEADER, body_len)?;
        self.word(BYTE_ORDER_MAGIC)?;
        // Version 1.0, written as two 16-bit fields.
        self.output
            .write_all(&[1u16.to_ne_bytes(), 0u16.to_ne_bytes()].concat())?;
        self.output.write_all(&UNKNOWN_SECTION_LEN.to_ne_bytes())?;
        self.option_header(SHB_USERAPPL, application.len() as u16)?;
        self.padded_bytes(application)?;
        self.word(END_OF_OPTIONS)?;
        self.end_block(body_len)
    }

    fn interface(&mut self) -> io::Result<()> {
        let body_len = 8 + 8 + 4;
        self.begin_block(INTERFACE_DESCRIPTION, body_len)?;
        self.output
            .write_all(&[LINKTYPE_ETHERNET.to_ne_bytes(), 0u16.to_ne_bytes()].concat())?;
        self.word(NO_SNAP_LEN)?;
        self.option_header(IF_TSRESOL, 1)?;
        self.padded_bytes(&[NANOSECONDS])?;
        self.word(END_OF_OPTIONS)?;
        self.end_block(body_len)
    }

    fn begin_block(&mut self, kind: u32, body_len: usize) -> io::Result<()> {
        self.word(kind)?;
        self.word((body_len + BLOCK_OVERHEAD) as u32)
    }

    fn end_block(&mut self, body_len: usize) -> io::Result<()> {
        self.word((body_len + BLOCK_OVERHEAD) as u32)
    }

    fn option_header(&mut self, code: u16, len: u16) -> io::Result<()> {
        self.output.write_all(&code.to_ne_bytes())?;
        self.output.write_all(&len.to_ne_bytes())
    }

    fn padded_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)?;
        self.output
            .write_all(&[0; 3][..padded(bytes.len()) - bytes.len()])
    }

    #[inline]
    fn word(&mut self, word: u32) -> io::Result<()> {
        self.output.write_all(&word.to_ne_bytes())
    }
}

/// Everything is padded to 32 bits.
fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;
/// A block's type and its length, which is given twice.
const BLOCK_OVERHEAD: usize = 12;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const UNKNOWN_SECTION_LEN: i64 = -1;
const LINKTYPE_ETHERNET: u16 = 1;
const NO_SNAP_LEN: u32 = 0;
/// 10 to the power of minus this.
const NANOSECONDS: u8 = 9;
/// "TLSK".
const TLS_KEY_LOG: u32 = 0x544c_534b;

const END_OF_OPTIONS: u32 = 0;
const SHB_USERAPPL: u16 = 4;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
