//! Constants of the MPICH ABI (`libmpi.so.12`): handles are C `int`s.

use std::ffi::{c_int, c_void};

/// `MPI_COMM_WORLD`.
pub const COMM_WORLD: c_int = 0x4400_0000;
/// `MPI_ANY_SOURCE`.
pub const ANY_SOURCE: c_int = -2;
/// `MPI_REQUEST_NULL`.
pub const REQUEST_NULL: c_int = 0x2c00_0000;
/// `MPI_BYTE`.
pub const BYTE: c_int = 0x4c00_010d;
/// `MPI_FLOAT`.
pub const FLOAT: c_int = 0x4c00_040a;
/// `MPI_DOUBLE`.
pub const DOUBLE: c_int = 0x4c00_080b;
/// `MPI_INT64_T`.
pub const INT64: c_int = 0x4c00_083a;
/// `MPI_INFO_NULL`.
pub const INFO_NULL: c_int = 0x1c00_0000;
/// `MPI_MODE_NOCHECK`.
pub const MODE_NOCHECK: c_int = 1024;
/// `MPI_MODE_NOSUCCEED`.
pub const MODE_NOSUCCEED: c_int = 16384;
/// `MPI_LOCK_EXCLUSIVE`.
pub const LOCK_EXCLUSIVE: c_int = 234;
/// `MPI_LOCK_SHARED`.
pub const LOCK_SHARED: c_int = 235;
/// `MPI_THREAD_MULTIPLE`.
pub const THREAD_MULTIPLE: c_int = 3;
/// `MPI_T_PVAR_CLASS_COUNTER`.
pub const PVAR_CLASS_COUNTER: c_int = 246;
/// `MPI_MAX`.
pub const MAX: c_int = 0x5800_0001;
/// `MPI_MIN`.
pub const MIN: c_int = 0x5800_0002;
/// `MPI_SUM`.
pub const SUM: c_int = 0x5800_0003;
/// `MPI_BOR`.
pub const BOR: c_int = 0x5800_0008;
/// The length of the buffer that `MPI_Get_library_version` may fill.
pub const MAX_LIBRARY_VERSION_STRING: usize = 8192;
/// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
pub const STATUS_IGNORE: *mut c_void = std::ptr::without_provenance_mut(1);
