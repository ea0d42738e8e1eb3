//! The XDP program that gives each packet of an interface to the socket of its queue, by bpf(2).

use std::ffi::c_long;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An attached program. It is detached when this is dropped.
#[derive(Debug)]
pub(super) struct Program {
    _sockets: OwnedFd,
    _link: OwnedFd,
}

impl Program {
    /// Attaches it to an interface, with the socket of each queue by its number.
    pub(super) fn attach<'a>(
        interface: u32,
        sockets: impl ExactSizeIterator<Item = BorrowedFd<'a>>,
    ) -> io::Result<Program> {
        let map = create_map(sockets.len() as u32)?;
        for (queue, socket) in sockets.enumerate() {
            update_map(&map, queue as u32, socket)?;
        }
        let program = load(&map)?;
        // The driver's own mode, or before Linux's stack where the driver has none, or not for this interface as it is.
        let link =
            create_link(&program, interface, 0).or_else(|error| match error.raw_os_error() {
                Some(libc::EBUSY | libc::EEXIST | libc::EPERM) => Err(error),
                _ => create_link(&program, interface, XDP_FLAGS_SKB_MODE),
            })?;
        Ok(Program {
            _sockets: map,
            _link: link,
        })
    }
}

/// An instruction, as in linux/bpf.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// `bpf_redirect_map(sockets, rx_queue_index, XDP_PASS)`.
fn instructions(map: &OwnedFd) -> [Instruction; 6] {
    let instruction = |code, registers, offset, immediate| Instruction {
        code,
        registers,
        offset,
        immediate,
    };
    [
        // r2 = context (r1)->rx_queue_index
        instruction(0x61, 0x12, 16, 0),
        // r1 = the map, in two instructions
        instruction(0x18, 0x11, 0, map.as_raw_fd()),
        instruction(0, 0, 0, 0),
        // r3 = XDP_PASS
        instruction(0xb7, 0x03, 0, 2),
        // call bpf_redirect_map
        instruction(0x85, 0, 0, 51),
        // exit
        instruction(0x95, 0, 0, 0),
    ]
}

/// `union bpf_attr` as far as it is used here; each member's fields are a prefix of it.
#[repr(C, align(8))]
union Attributes {
    map: MapAttributes,
    element: ElementAttributes,
    program: ProgramAttributes,
    link: LinkAttributes,
    bytes: [u8; 128],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ElementAttributes {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ProgramAttributes {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct LinkAttributes {
    program: u32,
    interface: u32,
    attach_kind: u32,
    flags: u32,
}

fn create_map(entries: u32) -> io::Result<OwnedFd> {
    let mut attributes = blank();
    attributes.map = MapAttributes {
        kind: BPF_MAP_TYPE_XSKMAP,
        key_bytes: 4,
        value_bytes: 4,
        entries,
    };
    // SAFETY: the attributes name no memory.
    unsafe { descriptor(BPF_MAP_CREATE, &mut attributes) }
}

fn update_map(map: &OwnedFd, key: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = socket.as_raw_fd() as u32;
    let mut attributes = blank();
    attributes.element = ElementAttributes {
        map: map.as_raw_fd() as u32,
        _pad: 0,
        key: (&raw const key) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: key and value live as long as the call, which reads the four bytes that the map has for each.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

fn load(map: &OwnedFd) -> io::Result<OwnedFd> {
    let code = instructions(map);
    let mut attributes = blank();
    attributes.program = ProgramAttributes {
        kind: BPF_PROG_TYPE_XDP,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
    };
    // SAFETY: the code and the name live as long as the call, which reads that many instructions and a C string.
    unsafe { descriptor(BPF_PROG_LOAD, &mut attributes) }
}

fn create_link(program: &OwnedFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut attributes = blank();
    attributes.link = LinkAttributes {
        program: program.as_raw_fd() as u32,
        interface,
        attach_kind: BPF_XDP,
        flags,
    };
    // SAFETY: the attributes name no memory.
    unsafe { descriptor(BPF_LINK_CREATE, &mut attributes) }
}

fn blank() -> Attributes {
    // SAFETY: made of integers.
    unsafe { zeroed() }
}

/// # Safety
/// What the attributes of this command point to must be valid for it.
unsafe fn descriptor(command: c_long, attributes: &mut Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: these commands give a descriptor without another owner; it is close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// # Safety
/// What the attributes of this command point to must be valid for it.
unsafe fn bpf(command: c_long, attributes: &mut Attributes) -> io::Result<c_long> {
    let len = size_of::<Attributes>();
    // SAFETY: the kernel reads and writes at most `len` bytes of the attributes; the rest is the caller's promise.
    let returned = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, len) };
    match returned {
        0.. => Ok(returned),
        _ => Err(io::Error::last_os_error()),
    }
}

const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;

// linux/bpf.h
const BPF_MAP_CREATE: c_long = 0;
const BPF_MAP_UPDATE_ELEM: c_long = 2;
const BPF_PROG_LOAD: c_long = 5;
const BPF_LINK_CREATE: c_long = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
