//! Texts of the error classes (section 8.4).

use std::ffi::c_int;

use crate::abi;

/// Returns whether headers of this ABI have a class. Open MPI's end before the classes of MPI-4.1
/// and later.
fn is_in_headers(class: c_int) -> bool {
    !cfg!(openmpi_abi) || class <= abi::MPI_ERR_VALUE_TOO_LARGE
}

/// Returns the text of an error class, beginning with its name; `None` for other numbers.
pub fn text(class: c_int) -> Option<&'static str> {
    Some(match class {
        _ if !is_in_headers(class) => return None,
        abi::MPI_SUCCESS => "MPI_SUCCESS: no error",
        abi::MPI_ERR_BUFFER => "MPI_ERR_BUFFER: a buffer's address is wrong",
        abi::MPI_ERR_COUNT => "MPI_ERR_COUNT: a count is negative or too large",
        abi::MPI_ERR_TYPE => "MPI_ERR_TYPE: a datatype is unknown, freed, or not committed",
        abi::MPI_ERR_TAG => "MPI_ERR_TAG: a tag is outside 0 to MPI_TAG_UB",
        abi::MPI_ERR_COMM => "MPI_ERR_COMM: a communicator is null, freed, or of the wrong kind",
        abi::MPI_ERR_RANK => "MPI_ERR_RANK: no process has this rank in the group",
        abi::MPI_ERR_REQUEST => "MPI_ERR_REQUEST: a request is unknown or in the wrong state",
        abi::MPI_ERR_ROOT => "MPI_ERR_ROOT: the root is not a rank of the communicator",
        abi::MPI_ERR_GROUP => "MPI_ERR_GROUP: a group is null or freed",
        abi::MPI_ERR_OP => "MPI_ERR_OP: the operation is unknown or not defined for the datatype",
        abi::MPI_ERR_TOPOLOGY => "MPI_ERR_TOPOLOGY: the communicator lacks the topology asked for",
        abi::MPI_ERR_DIMS => "MPI_ERR_DIMS: numbers of dimensions or their sizes don't fit",
        abi::MPI_ERR_ARG => "MPI_ERR_ARG: an argument is wrong",
        abi::MPI_ERR_UNKNOWN => "MPI_ERR_UNKNOWN: an unknown error",
        abi::MPI_ERR_TRUNCATE => "MPI_ERR_TRUNCATE: a message is longer than the receive buffer",
        abi::MPI_ERR_OTHER => "MPI_ERR_OTHER: an error without a class of its own",
        abi::MPI_ERR_INTERN => "MPI_ERR_INTERN: a fault inside the MPI library",
        abi::MPI_ERR_IN_STATUS => "MPI_ERR_IN_STATUS: the statuses hold the errors",
        abi::MPI_ERR_PENDING => "MPI_ERR_PENDING: the request is not complete yet",
        abi::MPI_ERR_ABI => {
            "MPI_ERR_ABI: the library's Fortran types are set and cannot be changed"
        }
        abi::MPI_ERR_KEYVAL => "MPI_ERR_KEYVAL: an attribute key is unknown or of another object",
        abi::MPI_ERR_NO_MEM => "MPI_ERR_NO_MEM: memory is exhausted",
        abi::MPI_ERR_BASE => "MPI_ERR_BASE: memory to free was not allocated by MPI_Alloc_mem",
        abi::MPI_ERR_INFO_KEY => "MPI_ERR_INFO_KEY: an info key is empty or too long",
        abi::MPI_ERR_INFO_VALUE => "MPI_ERR_INFO_VALUE: an info value is empty or too long",
        abi::MPI_ERR_INFO_NOKEY => "MPI_ERR_INFO_NOKEY: the info object lacks this key",
        abi::MPI_ERR_INFO => "MPI_ERR_INFO: an info object is unknown or freed",
        abi::MPI_ERR_SPAWN => "MPI_ERR_SPAWN: processes could not be started",
        abi::MPI_ERR_PORT => "MPI_ERR_PORT: a port name is wrong or no longer open",
        abi::MPI_ERR_SERVICE => "MPI_ERR_SERVICE: a service name is not published by this job",
        abi::MPI_ERR_NAME => "MPI_ERR_NAME: this service name is not published",
        abi::MPI_ERR_WIN => "MPI_ERR_WIN: a window is null, freed, or of the wrong kind",
        abi::MPI_ERR_SIZE => "MPI_ERR_SIZE: a window's size is negative",
        abi::MPI_ERR_DISP => "MPI_ERR_DISP: a displacement or its unit is wrong",
        abi::MPI_ERR_LOCKTYPE => "MPI_ERR_LOCKTYPE: neither MPI_LOCK_SHARED nor _EXCLUSIVE",
        abi::MPI_ERR_ASSERT => "MPI_ERR_ASSERT: assertions that don't exist or don't fit",
        abi::MPI_ERR_RMA_CONFLICT => "MPI_ERR_RMA_CONFLICT: accesses to a window conflict",
        abi::MPI_ERR_RMA_SYNC => "MPI_ERR_RMA_SYNC: a window is in the wrong epoch for this call",
        abi::MPI_ERR_RMA_RANGE => "MPI_ERR_RMA_RANGE: an access leaves the target's window",
        abi::MPI_ERR_RMA_ATTACH => "MPI_ERR_RMA_ATTACH: memory could not be attached to a window",
        abi::MPI_ERR_RMA_SHARED => "MPI_ERR_RMA_SHARED: the processes can't share memory",
        abi::MPI_ERR_RMA_FLAVOR => "MPI_ERR_RMA_FLAVOR: not possible with this flavor of window",
        abi::MPI_ERR_FILE => "MPI_ERR_FILE: a file handle is null or closed",
        abi::MPI_ERR_NOT_SAME => "MPI_ERR_NOT_SAME: processes disagree in a collective call",
        abi::MPI_ERR_AMODE => "MPI_ERR_AMODE: an access mode contradicts itself",
        abi::MPI_ERR_UNSUPPORTED_DATAREP => {
            "MPI_ERR_UNSUPPORTED_DATAREP: an unknown data representation"
        }
        abi::MPI_ERR_UNSUPPORTED_OPERATION => {
            "MPI_ERR_UNSUPPORTED_OPERATION: the file doesn't support this operation"
        }
        abi::MPI_ERR_NO_SUCH_FILE => "MPI_ERR_NO_SUCH_FILE: the file doesn't exist",
        abi::MPI_ERR_FILE_EXISTS => "MPI_ERR_FILE_EXISTS: the file exists already",
        abi::MPI_ERR_BAD_FILE => "MPI_ERR_BAD_FILE: the file's name is wrong",
        abi::MPI_ERR_ACCESS => "MPI_ERR_ACCESS: permission denied",
        abi::MPI_ERR_NO_SPACE => "MPI_ERR_NO_SPACE: no space is left on the device",
        abi::MPI_ERR_QUOTA => "MPI_ERR_QUOTA: the disk quota is used up",
        abi::MPI_ERR_READ_ONLY => "MPI_ERR_READ_ONLY: file or file system can only be read",
        abi::MPI_ERR_FILE_IN_USE => "MPI_ERR_FILE_IN_USE: some process has the file open",
        abi::MPI_ERR_DUP_DATAREP => "MPI_ERR_DUP_DATAREP: this data representation exists already",
        abi::MPI_ERR_CONVERSION => "MPI_ERR_CONVERSION: a data conversion function failed",
        abi::MPI_ERR_IO => "MPI_ERR_IO: input or output failed",
        abi::MPI_ERR_SESSION => "MPI_ERR_SESSION: a session is null or finalized",
        abi::MPI_ERR_PROC_ABORTED => "MPI_ERR_PROC_ABORTED: a process that is needed was aborted",
        abi::MPI_ERR_VALUE_TOO_LARGE => "MPI_ERR_VALUE_TOO_LARGE: a value doesn't fit its argument",
        abi::MPI_ERR_ERRHANDLER => "MPI_ERR_ERRHANDLER: an error handler is unknown or doesn't fit",
        abi::MPIX_ERR_PROC_FAILED => "MPIX_ERR_PROC_FAILED: a process is lost",
        abi::MPIX_ERR_PROC_FAILED_PENDING => {
            "MPIX_ERR_PROC_FAILED_PENDING: a process from which a receive might get its message is lost"
        }
        abi::MPIX_ERR_REVOKED => "MPIX_ERR_REVOKED: the communicator has been revoked",
        abi::MPIX_ERR_STREAM => "MPIX_ERR_STREAM: a stream is null, freed or in use",
        abi::MPI_T_ERR_MEMORY => "MPI_T_ERR_MEMORY: memory is exhausted",
        abi::MPI_T_ERR_NOT_INITIALIZED => "MPI_T_ERR_NOT_INITIALIZED: call MPI_T_init_thread first",
        abi::MPI_T_ERR_CANNOT_INIT => "MPI_T_ERR_CANNOT_INIT: the interface can't be started now",
        abi::MPI_T_ERR_INVALID_INDEX => "MPI_T_ERR_INVALID_INDEX: no variable has this index",
        abi::MPI_T_ERR_INVALID_ITEM => "MPI_T_ERR_INVALID_ITEM: no item has this index",
        abi::MPI_T_ERR_INVALID_HANDLE => "MPI_T_ERR_INVALID_HANDLE: a handle is unknown or freed",
        abi::MPI_T_ERR_OUT_OF_HANDLES => "MPI_T_ERR_OUT_OF_HANDLES: no more handles are available",
        abi::MPI_T_ERR_OUT_OF_SESSIONS => {
            "MPI_T_ERR_OUT_OF_SESSIONS: no more sessions are available"
        }
        abi::MPI_T_ERR_INVALID_SESSION => {
            "MPI_T_ERR_INVALID_SESSION: a session is unknown or freed"
        }
        abi::MPI_T_ERR_CVAR_SET_NOT_NOW => {
            "MPI_T_ERR_CVAR_SET_NOT_NOW: the variable can't be set at this moment"
        }
        abi::MPI_T_ERR_CVAR_SET_NEVER => {
            "MPI_T_ERR_CVAR_SET_NEVER: the variable can't be set any more"
        }
        abi::MPI_T_ERR_PVAR_NO_STARTSTOP => {
            "MPI_T_ERR_PVAR_NO_STARTSTOP: the variable can't be started or stopped"
        }
        abi::MPI_T_ERR_PVAR_NO_WRITE => "MPI_T_ERR_PVAR_NO_WRITE: the variable can't be written",
        abi::MPI_T_ERR_PVAR_NO_ATOMIC => {
            "MPI_T_ERR_PVAR_NO_ATOMIC: the variable can't be read and reset in one call"
        }
        abi::MPI_T_ERR_INVALID_NAME => "MPI_T_ERR_INVALID_NAME: nothing has this name",
        abi::MPI_T_ERR_INVALID => "MPI_T_ERR_INVALID: wrong use of the interface",
        abi::MPI_T_ERR_NOT_SUPPORTED => "MPI_T_ERR_NOT_SUPPORTED: this is not supported here",
        abi::MPI_T_ERR_NOT_ACCESSIBLE => "MPI_T_ERR_NOT_ACCESSIBLE: this can't be reached now",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_text_that_begins_with_its_name() {
        let mut found = 0;
        for class in 0..=200 {
            match (text(class), abi::error_name(class)) {
                (None, None) => {}
                (Some(text), Some(name)) => {
                    assert!(text.starts_with(&format!("{name}: ")), "{text}");
                    assert!(text.len() < abi::MPI_MAX_ERROR_STRING as usize);
                    found += 1;
                }
                (text, name) => panic!("{class}: {text:?} against {name:?}"),
            }
        }
        assert!(found > 70);
    }
}
