//! What an error of the system is to a host (NVM Express Base 2.0c, Figures 94 to 98).

use l5p::nvme::target::Operation;
use rustix::io::Errno;
use wire::nvme::command::Status;

/// The status of an operation that ended with this error.
pub(super) fn status(operation: &Operation, error: Errno) -> Status {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Status::CAPACITY_EXCEEDED.do_not_retry(),
        Errno::ROFS | Errno::PERM | Errno::ACCESS | Errno::BADF => {
            Status::WRITE_PROTECTED.do_not_retry()
        }
        Errno::OPNOTSUPP | Errno::INVAL => Status::INVALID_FIELD.do_not_retry(),
        // The kernel had no memory, or was interrupted: it may go well next time.
        Errno::NOMEM | Errno::AGAIN | Errno::INTR | Errno::BUSY | Errno::CANCELED => {
            Status::INTERRUPTED
        }
        Errno::NODEV | Errno::NXIO => Status::INTERNAL_ERROR,
        _ => medium(operation),
    }
}

/// The status of an operation that the medium failed.
pub(super) fn medium(operation: &Operation) -> Status {
    match operation {
        Operation::Read { .. } | Operation::Compare { .. } => Status::UNRECOVERED_READ_ERROR,
        _ => Status::WRITE_FAULT,
    }
}
