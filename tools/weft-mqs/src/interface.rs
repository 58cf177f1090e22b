//! Types of the interface between a debugger and this library: *The MPI Message Queue Dumping
//! Interface*, version 1.0, chapters 4 to 6. Names are those of its header.

#![allow(
    non_camel_case_types,
    missing_docs,
    reason = "names of C, explained in the document"
)]

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};

pub type mqs_taddr_t = c_ulong;
pub type mqs_tword_t = c_long;

/// The version of the interface (section 5.1).
pub const MQS_INTERFACE_COMPATIBILITY: c_int = 2;

/// Result codes; those from `mqs_first_user_code` on are this library's own.
pub const MQS_OK: c_int = 0;
pub const MQS_NO_INFORMATION: c_int = 1;
pub const MQS_END_OF_LIST: c_int = 2;
pub const MQS_FIRST_USER_CODE: c_int = 100;

/// Kinds of queues.
pub const MQS_PENDING_SENDS: c_int = 0;
pub const MQS_PENDING_RECEIVES: c_int = 1;
pub const MQS_UNEXPECTED_MESSAGES: c_int = 2;

/// States of operations.
pub const MQS_ST_PENDING: c_int = 0;
pub const MQS_ST_MATCHED: c_int = 1;

/// Any rank.
pub const ANY: mqs_tword_t = -1;
/// No process of `MPI_COMM_WORLD`.
pub const MQS_INVALID_PROCESS: c_int = -1;

/// Opaque handles of the debugger for a program and a process.
pub enum mqs_image {}
pub enum mqs_process {}

/// A communicator.
#[repr(C)]
pub struct mqs_communicator {
    pub unique_id: mqs_taddr_t,
    pub local_rank: mqs_tword_t,
    pub size: mqs_tword_t,
    pub name: [c_char; 64],
}

/// A send, a receive, or an unexpected message.
#[repr(C)]
pub struct mqs_pending_operation {
    pub status: c_int,
    pub desired_local_rank: mqs_tword_t,
    pub desired_global_rank: mqs_tword_t,
    pub tag_wild: c_int,
    pub desired_tag: mqs_tword_t,
    pub desired_length: mqs_tword_t,
    pub system_buffer: c_int,
    pub buffer: mqs_taddr_t,
    pub actual_local_rank: mqs_tword_t,
    pub actual_global_rank: mqs_tword_t,
    pub actual_tag: mqs_tword_t,
    pub actual_length: mqs_tword_t,
    pub extra_text: [[c_char; 64]; 5],
}

/// Callbacks that are independent of a program.
#[repr(C)]
pub struct mqs_basic_callbacks {
    pub malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    pub free: unsafe extern "C" fn(*mut c_void),
    pub dprints: unsafe extern "C" fn(*const c_char),
    pub errorstring: unsafe extern "C" fn(c_int) -> *mut c_char,
    pub put_image_info: unsafe extern "C" fn(*mut mqs_image, *mut c_void),
    pub get_image_info: unsafe extern "C" fn(*mut mqs_image) -> *mut c_void,
    pub put_process_info: unsafe extern "C" fn(*mut mqs_process, *mut c_void),
    pub get_process_info: unsafe extern "C" fn(*mut mqs_process) -> *mut c_void,
}

/// Callbacks for a program.
#[repr(C)]
pub struct mqs_image_callbacks {
    pub get_type_sizes: *const c_void,
    pub find_function: *const c_void,
    pub find_symbol: unsafe extern "C" fn(*mut mqs_image, *mut c_char, *mut mqs_taddr_t) -> c_int,
    pub find_type: *const c_void,
    pub field_offset: *const c_void,
    pub sizeof_type: *const c_void,
}

/// Callbacks for a process.
#[repr(C)]
pub struct mqs_process_callbacks {
    pub get_global_rank: unsafe extern "C" fn(*mut mqs_process) -> c_int,
    pub get_image: unsafe extern "C" fn(*mut mqs_process) -> *mut mqs_image,
    pub fetch_data:
        unsafe extern "C" fn(*mut mqs_process, mqs_taddr_t, c_int, *mut c_void) -> c_int,
    pub target_to_host: *const c_void,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The layouts are those of a C compiler on this machine.
    #[test]
    fn structures_are_those_of_c() {
        assert_eq!(size_of::<mqs_communicator>(), 88);
        assert_eq!(offset_of!(mqs_communicator, name), 24);
        assert_eq!(size_of::<mqs_pending_operation>(), 416);
        assert_eq!(offset_of!(mqs_pending_operation, buffer), 56);
        assert_eq!(offset_of!(mqs_pending_operation, extra_text), 96);
        assert_eq!(size_of::<mqs_basic_callbacks>(), 64);
        assert_eq!(size_of::<mqs_image_callbacks>(), 48);
        assert_eq!(size_of::<mqs_process_callbacks>(), 32);
    }
}
