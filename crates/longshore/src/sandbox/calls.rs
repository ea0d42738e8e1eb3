//! The system calls of each kind of process.

use anyhow::Result;
use libc::*;

/// Which system calls are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Moves frames, and maps memory that others pass: no file is opened, and no socket but netlink's.
    Worker,
    /// Answers programs at the control socket and looks at their sockets.
    Control,
    /// Looks at what hosts on rings pass: no socket is made but pairs.
    Gate,
    /// A server on a stack of ours: opens files for reading, and connects to a NIC in another process.
    Server,
}

/// A system call that is allowed if all of the arguments are as said.
pub(super) struct Allowed<'a>(pub(super) i64, pub(super) &'a [Argument]);

/// A condition for the lower 32 bits of an argument, which is named by its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    /// It is this.
    Is(u8, u64),
    /// None of these bits are set.
    Lacks(u8, u64),
    /// All of these bits are set.
    Has(u8, u64),
}
use Argument::{Has, Is, Lacks};

impl Profile {
    /// Shows what is allowed to a process whose number is `pid`.
    pub(super) fn for_each(
        self,
        pid: i32,
        mut show: impl FnMut(Allowed<'_>) -> Result<()>,
    ) -> Result<()> {
        let (calls, sockets, requests) = match self {
            Profile::Worker => (WORKER, NETLINK, REQUESTS_OF_INTERFACES),
            Profile::Control => (CONTROL, NETLINK, REQUESTS_OF_SOCKETS),
            Profile::Gate => (&[] as &[i64], &[] as &[_], &[] as &[Ioctl]),
            Profile::Server => (SERVER, UNIX, &[] as &[Ioctl]),
        };
        for call in EVERY.iter().chain(OF_THE_ARCHITECTURE).chain(calls) {
            show(Allowed(*call, &[]))?;
        }
        for (call, arguments) in CONDITIONAL.iter().chain(sockets) {
            show(Allowed(*call, arguments))?;
        }
        for request in REQUESTS.iter().chain(requests) {
            show(Allowed(SYS_ioctl, &[Is(1, u64::from(*request as u32))]))?;
        }
        if self == Profile::Server {
            let changes = (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC) as u64;
            show(Allowed(SYS_openat, &[Lacks(2, changes)]))?;
        } else {
            // What some C libraries make of `fstat`.
            show(Allowed(SYS_newfstatat, &[Has(3, AT_EMPTY_PATH as u64)]))?;
        }
        // A panic that aborts. To other processes there are no signals.
        show(Allowed(SYS_tgkill, &[Is(0, pid as u64)]))
    }
}

/// Memory, descriptors that are open already, threads, time, and the end.
const EVERY: &[i64] = &[
    SYS_accept4,
    SYS_brk,
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_clone3,
    SYS_close,
    SYS_dup,
    SYS_dup3,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_exit,
    SYS_exit_group,
    SYS_fdatasync,
    SYS_fstat,
    SYS_fstatfs,
    SYS_fsync,
    SYS_futex,
    SYS_getcpu,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getpeername,
    SYS_getpid,
    SYS_getrandom,
    SYS_getrusage,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_gettid,
    SYS_getuid,
    SYS_lseek,
    SYS_madvise,
    SYS_membarrier,
    SYS_mlock,
    SYS_mremap,
    SYS_munlock,
    SYS_munmap,
    SYS_nanosleep,
    SYS_ppoll,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_read,
    SYS_readv,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_restart_syscall,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sched_getaffinity,
    SYS_sched_yield,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_set_robust_list,
    SYS_setsockopt,
    SYS_shutdown,
    SYS_sigaltstack,
    SYS_write,
    SYS_writev,
];

#[cfg(target_arch = "x86_64")]
const OF_THE_ARCHITECTURE: &[i64] = &[SYS_accept, SYS_epoll_wait, SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const OF_THE_ARCHITECTURE: &[i64] = &[SYS_accept];

/// The worker's state grows and shrinks, and what others pass is sealed.
const WORKER: &[i64] = &[
    SYS_connect,
    SYS_fallocate,
    SYS_ftruncate,
    SYS_memfd_create,
    SYS_msync,
];

/// The control process keeps no state.
const CONTROL: &[i64] = &[SYS_connect];

/// Files below a directory, a store that is open already, rings of a NIC that was started again, and a control socket that comes from another process.
const SERVER: &[i64] = &[
    SYS_connect,
    SYS_fallocate,
    SYS_ftruncate,
    SYS_getdents64,
    SYS_io_uring_enter,
    SYS_listen,
    SYS_memfd_create,
    SYS_newfstatat,
    SYS_openat2,
    SYS_pidfd_open,
    SYS_readlinkat,
    SYS_statx,
    SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    SYS_unlink,
];

/// Allowed to every process, under conditions.
const CONDITIONAL: &[(i64, &[Argument])] = &[
    // Threads, no processes.
    (SYS_clone, &[Has(0, CLONE_THREAD as u64)]),
    // No command that has the kernel send signals, to any process of the same user.
    (SYS_fcntl, &[Is(1, F_DUPFD_CLOEXEC as u64)]),
    (SYS_fcntl, &[Is(1, F_GETFD as u64)]),
    (SYS_fcntl, &[Is(1, F_SETFD as u64)]),
    (SYS_fcntl, &[Is(1, F_GETFL as u64)]),
    (
        SYS_fcntl,
        &[Is(1, F_SETFL as u64), Lacks(2, O_ASYNC as u64)],
    ),
    (SYS_fcntl, &[Is(1, F_ADD_SEALS as u64)]),
    (SYS_fcntl, &[Is(1, F_GET_SEALS as u64)]),
    // No memory that is run.
    (SYS_mmap, &[Lacks(2, PROT_EXEC as u64)]),
    (SYS_mprotect, &[Lacks(2, PROT_EXEC as u64)]),
    // Threads' names.
    (SYS_prctl, &[Is(0, PR_SET_NAME as u64)]),
    // Limits are asked for only, and its own.
    (SYS_prlimit64, &[Is(0, 0), Is(2, 0)]),
    // Without a capability a thread can only give its own priority away.
    (SYS_setpriority, &[Is(0, PRIO_PROCESS as u64), Is(1, 0)]),
    // A thread's own processors.
    (SYS_sched_setaffinity, &[Is(0, 0)]),
    (SYS_socketpair, STREAMS),
];

/// Unix sockets of streams and sequences of packets. A socket for datagrams, of a pair too, sends to any path.
const STREAMS: &[Argument] = &[
    Is(0, AF_UNIX as u64),
    Has(1, SOCK_STREAM as u64),
    Lacks(1, SOCK_DGRAM as u64),
];
const _: () = assert!(SOCK_STREAM == 1 && SOCK_DGRAM == 2 && SOCK_SEQPACKET == 5);

const NETLINK: &[(i64, &[Argument])] = &[
    (
        SYS_socket,
        &[Is(0, AF_NETLINK as u64), Is(2, NETLINK_ROUTE as u64)],
    ),
    (
        SYS_socket,
        &[Is(0, AF_NETLINK as u64), Is(2, NETLINK_SOCK_DIAG as u64)],
    ),
];

const UNIX: &[(i64, &[Argument])] = &[(SYS_socket, STREAMS)];

/// What is asked of any descriptor.
const REQUESTS: &[Ioctl] = &[FIONREAD, FIONBIO, FIOCLEX, TCGETS];

/// What is asked of interfaces.
const REQUESTS_OF_INTERFACES: &[Ioctl] = &[SIOCGIFINDEX, SIOCGIFMTU, SIOCGIFFLAGS, SIOCGIFHWADDR];

/// What is asked of others' sockets: unsent bytes.
const REQUESTS_OF_SOCKETS: &[Ioctl] = &[TIOCOUTQ];
