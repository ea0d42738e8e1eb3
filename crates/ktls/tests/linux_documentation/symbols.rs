//! The C library that runs: which of its functions could get past the library.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol, SymbolKind};

use crate::Case;

pub const CASES: &[Case] = &[(
    "no function of the C library that takes a descriptor and data gets past the library",
    every_way_is_seen,
)];

/// What the names of such functions have in them.
const SUSPICIOUS: &str = "read write send recv splice dprintf aio_ lio_ getmsg getpmsg putmsg putpmsg fdopen syscall \
    copy_file symbols_fd connect attach dup2 dup3 fcntl poll select";

/// Functions with such names that are harmless, by why that is.
const HARMLESS: &[(&str, &str)] = &[
    (
        "for files with places: ESPIPE on a socket",
        "pread pread64 __pread64 __pread_chk __pread64_chk preadv preadv64 pwrite pwrite64 \
         __pwrite64 pwritev pwritev64 copy_file_range readahead __libc_pread __libc_pwrite \
         __pread64_nocancel",
    ),
    ("between pipes only: EINVAL or EBADF", "vmsplice"),
    (
        "not there in Linux: ENOSYS",
        "getmsg getpmsg putmsg putpmsg fattach",
    ),
    (
        "the dynamic linker gives them to parts of the C library only (GLIBC_PRIVATE)",
        "__recv __read_nocancel __write_nocancel __sendmmsg __libc_fcntl64 __fcntl64_nocancel \
         __nss_readline __res_context_send",
    ),
    (
        "of streams, which a TLS socket has none of",
        "fread fread_unlocked __fread_chk __fread_unlocked_chk fwrite fwrite_unlocked __freading \
         __freadable __fwriting __fwritable _IO_fread _IO_fwrite _IO_file_read _IO_file_write \
         _IO_do_write _IO_wdo_write _IO_str_init_readonly",
    ),
    (
        "for directories, links and messages of queues",
        "fdopendir readdir readdir64 readdir_r readdir64_r readlink readlinkat __readlink_chk \
         __readlinkat_chk fts_read fts64_read mq_send mq_timedsend",
    ),
    (
        "on sockets of their own",
        "res_send res_nsend __res_send __res_nsend svc_sendreply svc_getreq_poll \
         __rpc_thread_svc_pollfd __rpc_thread_svc_max_pollfd",
    ),
    (
        "no data",
        "aio_cancel aio_cancel64 aio_error aio_error64 aio_fsync aio_fsync64 aio_init aio_return \
         aio_return64 aio_suspend aio_suspend64 pidfd_send_signal tcsendbreak \
         posix_spawn_file_actions_adddup2 process_vm_readv process_vm_writev epoll_create \
         epoll_create1",
    ),
];

fn every_way_is_seen() {
    let (libc, ours) = (library_of(c"gnu_get_libc_version"), library_of(c"recvmmsg"));
    assert!(ours.ends_with("libktls.so"), "{ours}");
    let image = std::fs::read(&libc).expect("the C library's file");
    let file: ElfFile64 = ElfFile64::parse(&*image).expect("an ELF file");
    let functions = file.dynamic_symbols().filter(|symbol| {
        symbol.is_definition() && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown)
    });
    let names: BTreeSet<&str> = functions.filter_map(|symbol| symbol.name().ok()).collect();
    assert!(names.contains("pwritev64v2"), "{libc} has no symbols");
    let is_suspicious = |name: &str| SUSPICIOUS.split(' ').any(|part| name.contains(part));
    let is_harmless = |name: &str| {
        let mut known = HARMLESS.iter().flat_map(|(_, names)| names.split(' '));
        known.any(|known| known == name)
    };
    let unseen: Vec<_> = names
        .into_iter()
        .filter(|name| is_suspicious(&name.replace("thread", "")))
        .filter(|name| !is_harmless(name))
        .filter(|name| library_of(&CString::new(*name).unwrap()) != ours)
        .collect();
    assert!(
        unseen.is_empty(),
        "go past the library, or are to be listed as harmless: {unseen:?}"
    );
}

/// The file of the library that a function comes from.
fn library_of(function: &CStr) -> String {
    // SAFETY: C strings, and room for the answer.
    unsafe {
        let at = libc::dlsym(libc::RTLD_DEFAULT, function.as_ptr());
        let mut info: libc::Dl_info = std::mem::zeroed();
        if at.is_null() || libc::dladdr(at, &mut info) == 0 {
            return String::new();
        }
        CStr::from_ptr(info.dli_fname)
            .to_string_lossy()
            .into_owned()
    }
}
