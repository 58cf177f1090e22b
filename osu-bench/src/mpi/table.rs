//! The functions of an MPI library, looked up when the library is opened. One that the library
//! lacks is an error only for the benchmark that calls it.

use std::error::Error as _;
use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::entry::{Entry, Request};
use super::file_table::FileTable;
use crate::error::{Error, Result};
use crate::find::{self, LIBRARY_NAMES};

type Buffer = *mut c_void;
type ConstBuffer = *const c_void;
type Status = *mut c_void;

/// `int f(void)`.
pub type Plain = unsafe extern "C" fn() -> c_int;
/// `MPI_Init`.
pub type Init = unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char) -> c_int;
/// `MPI_Init_thread`: as `MPI_Init`, then the level required and the level given.
pub type InitThread =
    unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int;
/// `MPI_Comm_dup`.
pub type CommDup = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
/// `MPI_Comm_free`, `MPI_Win_free`, `MPI_Start`, `MPI_Request_free`.
pub type Free = unsafe extern "C" fn(*mut c_int) -> c_int;
/// `MPI_Comm_dup_with_info`: communicator, hints, copy.
pub type CommDupWithInfo = unsafe extern "C" fn(c_int, c_int, *mut c_int) -> c_int;
/// `MPI_Info_create`, `MPI_Info_free`.
pub type InfoOne = unsafe extern "C" fn(*mut c_int) -> c_int;
/// `MPI_Info_set`: hints, key, value.
pub type InfoSet = unsafe extern "C" fn(c_int, *const c_char, *const c_char) -> c_int;
/// `MPIX_Comm_create_endpoints`: parent, number, hints, handles.
pub type CreateEndpoints = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_int) -> c_int;
/// `MPI_Get_library_version`.
pub type LibraryVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
/// `MPI_Abort`.
pub type Abort = unsafe extern "C" fn(c_int, c_int) -> c_int;
/// `MPI_Comm_rank`, `MPI_Comm_size`.
pub type CommNumber = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
/// `MPI_Send`: buffer, count, datatype, destination, tag, communicator.
pub type Send = unsafe extern "C" fn(ConstBuffer, c_int, c_int, c_int, c_int, c_int) -> c_int;
/// `MPI_Recv`.
pub type Recv = unsafe extern "C" fn(Buffer, c_int, c_int, c_int, c_int, c_int, Status) -> c_int;
/// `MPI_Isend`.
pub type Isend =
    unsafe extern "C" fn(ConstBuffer, c_int, c_int, c_int, c_int, c_int, *mut Request) -> c_int;
/// `MPI_Irecv`.
pub type Irecv =
    unsafe extern "C" fn(Buffer, c_int, c_int, c_int, c_int, c_int, *mut Request) -> c_int;
/// `MPI_Wait`.
pub type Wait = unsafe extern "C" fn(*mut Request, Status) -> c_int;
/// `MPI_Psend_init`: buffer, partitions, count, datatype, destination, tag, communicator, hints, request.
pub type PsendInit = unsafe extern "C" fn(
    ConstBuffer,
    c_int,
    i64,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *mut Request,
) -> c_int;
/// `MPI_Precv_init`: as `MPI_Psend_init`.
pub type PrecvInit = unsafe extern "C" fn(
    Buffer,
    c_int,
    i64,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *mut Request,
) -> c_int;
/// `MPI_Pready`: partition, request.
pub type Pready = unsafe extern "C" fn(c_int, Request) -> c_int;
/// `MPI_Waitall`.
pub type Waitall = unsafe extern "C" fn(c_int, *mut Request, Status) -> c_int;
/// `MPI_Barrier`.
pub type Barrier = unsafe extern "C" fn(c_int) -> c_int;
/// `MPI_Bcast`: buffer, count, datatype, root, communicator.
pub type Bcast = unsafe extern "C" fn(Buffer, c_int, c_int, c_int, c_int) -> c_int;
/// `MPI_Allreduce`: send, receive, count, datatype, operation, communicator.
pub type Allreduce = unsafe extern "C" fn(ConstBuffer, Buffer, c_int, c_int, c_int, c_int) -> c_int;
/// `MPI_Reduce`: as `MPI_Allreduce` with the root before the communicator.
pub type Reduce =
    unsafe extern "C" fn(ConstBuffer, Buffer, c_int, c_int, c_int, c_int, c_int) -> c_int;
/// `MPI_Reduce_scatter`: send, receive, counts, datatype, operation, communicator.
pub type ReduceScatter =
    unsafe extern "C" fn(ConstBuffer, Buffer, *const c_int, c_int, c_int, c_int) -> c_int;
/// `MPI_Allgather`, `MPI_Alltoall`: send, count, datatype, receive, count, datatype, communicator.
pub type Exchange =
    unsafe extern "C" fn(ConstBuffer, c_int, c_int, Buffer, c_int, c_int, c_int) -> c_int;
/// `MPI_Gather`, `MPI_Scatter`: as [`Exchange`] with the root before the communicator.
pub type RootedExchange =
    unsafe extern "C" fn(ConstBuffer, c_int, c_int, Buffer, c_int, c_int, c_int, c_int) -> c_int;

/// `MPI_Win_allocate`: size, displacement unit, info, communicator, address of the base, window.
pub type WinAllocate =
    unsafe extern "C" fn(isize, c_int, c_int, c_int, Buffer, *mut c_int) -> c_int;
/// `MPI_Win_lock_all`: assertion, window; `MPI_Win_flush`: rank, window.
pub type WinTwo = unsafe extern "C" fn(c_int, c_int) -> c_int;
/// `MPI_Win_unlock_all`, `MPI_Win_sync`.
pub type WinOne = unsafe extern "C" fn(c_int) -> c_int;
/// `MPI_Win_create`: base, size, displacement unit, info, communicator, window.
pub type WinCreate = unsafe extern "C" fn(Buffer, isize, c_int, c_int, c_int, *mut c_int) -> c_int;
/// `MPI_Win_lock`: type, rank, assertion, window.
pub type WinLock = unsafe extern "C" fn(c_int, c_int, c_int, c_int) -> c_int;
/// `MPI_Win_post`, `MPI_Win_start`: group, assertion, window.
pub type WinGroup = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
/// `MPI_Comm_group`: communicator, group.
pub type CommGroup = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
/// `MPI_Group_incl`: group, number of ranks, ranks, new group.
pub type GroupIncl = unsafe extern "C" fn(c_int, c_int, *const c_int, *mut c_int) -> c_int;
/// `MPI_Put`: origin, count, datatype, target, displacement, count, datatype, window.
pub type Put =
    unsafe extern "C" fn(ConstBuffer, c_int, c_int, c_int, isize, c_int, c_int, c_int) -> c_int;
/// `MPI_Get`: as `MPI_Put`.
pub type Get =
    unsafe extern "C" fn(Buffer, c_int, c_int, c_int, isize, c_int, c_int, c_int) -> c_int;
/// `MPI_Accumulate`: as `MPI_Put` with the operation before the window.
pub type Accumulate = unsafe extern "C" fn(
    ConstBuffer,
    c_int,
    c_int,
    c_int,
    isize,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;
/// `MPI_Get_accumulate`: as `MPI_Accumulate` with result, count, datatype after the origin's.
pub type GetAccumulate = unsafe extern "C" fn(
    ConstBuffer,
    c_int,
    c_int,
    Buffer,
    c_int,
    c_int,
    c_int,
    isize,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;
/// `MPI_Fetch_and_op`: origin, result, datatype, target, displacement, operation, window.
pub type FetchAndOp =
    unsafe extern "C" fn(ConstBuffer, Buffer, c_int, c_int, isize, c_int, c_int) -> c_int;
/// `MPI_Compare_and_swap`: origin, compare, result, datatype, target, displacement, window.
pub type CompareAndSwap =
    unsafe extern "C" fn(ConstBuffer, ConstBuffer, Buffer, c_int, c_int, isize, c_int) -> c_int;

/// Returns whether a library of this name is in the process already.
fn is_loaded(name: &&str) -> bool {
    // SAFETY: with RTLD_NOLOAD the loader only finds libraries that are already loaded.
    let found = unsafe { Library::open(Some(*name), RTLD_NOW | libc::RTLD_NOLOAD) };
    // The handle is kept, and so is the library.
    found.map(Library::into_raw).is_ok()
}

/// The functions of the opened library; each field is the MPI function of its name.
pub struct Table {
    pub get_library_version: Entry<LibraryVersion>,
    pub init: Entry<Init>,
    pub init_thread: Entry<InitThread>,
    pub comm_dup: Entry<CommDup>,
    pub comm_dup_with_info: Entry<CommDupWithInfo>,
    pub comm_create_endpoints: Entry<CreateEndpoints>,
    pub comm_free: Entry<Free>,
    pub info_create: Entry<InfoOne>,
    pub info_set: Entry<InfoSet>,
    pub info_free: Entry<InfoOne>,
    pub finalize: Entry<Plain>,
    pub abort: Entry<Abort>,
    pub comm_rank: Entry<CommNumber>,
    pub comm_size: Entry<CommNumber>,
    pub send: Entry<Send>,
    pub recv: Entry<Recv>,
    pub isend: Entry<Isend>,
    pub irecv: Entry<Irecv>,
    pub wait: Entry<Wait>,
    pub waitall: Entry<Waitall>,
    pub psend_init: Entry<PsendInit>,
    pub precv_init: Entry<PrecvInit>,
    pub pready: Entry<Pready>,
    pub start: Entry<Free>,
    pub request_free: Entry<Free>,
    pub barrier: Entry<Barrier>,
    pub bcast: Entry<Bcast>,
    pub allreduce: Entry<Allreduce>,
    pub reduce: Entry<Reduce>,
    pub reduce_scatter: Entry<ReduceScatter>,
    pub allgather: Entry<Exchange>,
    pub alltoall: Entry<Exchange>,
    pub gather: Entry<RootedExchange>,
    pub scatter: Entry<RootedExchange>,
    pub win_allocate: Entry<WinAllocate>,
    pub win_create: Entry<WinCreate>,
    pub win_free: Entry<Free>,
    pub win_fence: Entry<WinTwo>,
    pub win_lock: Entry<WinLock>,
    pub win_unlock: Entry<WinTwo>,
    pub win_post: Entry<WinGroup>,
    pub win_start: Entry<WinGroup>,
    pub win_complete: Entry<WinOne>,
    pub win_wait: Entry<WinOne>,
    pub comm_group: Entry<CommGroup>,
    pub group_incl: Entry<GroupIncl>,
    pub group_free: Entry<Free>,
    pub get_accumulate: Entry<GetAccumulate>,
    pub win_lock_all: Entry<WinTwo>,
    pub win_unlock_all: Entry<WinOne>,
    pub win_flush: Entry<WinTwo>,
    pub win_sync: Entry<WinOne>,
    pub put: Entry<Put>,
    pub get: Entry<Get>,
    pub accumulate: Entry<Accumulate>,
    pub fetch_and_op: Entry<FetchAndOp>,
    pub compare_and_swap: Entry<CompareAndSwap>,
    pub files: FileTable,
}

impl Table {
    /// Opens the MPI library and looks its functions up; both stay for good. It is one that is in
    /// the process already (`LD_PRELOAD`), the one that [`find::beside`] names, or the one that the
    /// loader finds.
    pub fn open() -> Result<&'static Self> {
        let mut tried = Vec::new();
        let beside = match LIBRARY_NAMES.iter().any(is_loaded) {
            true => None,
            false => find::beside(),
        };
        let names: Vec<OsString> = match beside {
            Some(file) => vec![file.into()],
            None => LIBRARY_NAMES.map(OsString::from).into(),
        };
        for name in &names {
            // Global, as if the program had been linked to it: plugins of the library may refer
            // to its symbols.
            // SAFETY: loading runs the library's initializers; that is what opening an MPI
            // library means, and nothing of ours is in a state that they could break.
            match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(library) => {
                    // MPI libraries leave threads and exit handlers behind, so the library is
                    // never closed, and the table lives as long.
                    return Ok(Box::leak(Box::new(Self::from_library(Box::leak(
                        Box::new(library),
                    )))));
                }
                Err(error) => {
                    // The loader's own words are the source of libloading's error.
                    let text = error
                        .source()
                        .map_or_else(|| error.to_string(), |e| e.to_string());
                    let absent = text.starts_with(&format!("{}: cannot open", name.display()));
                    tried.push(text);
                    // One that is there but does not load must not be replaced in silence.
                    if !absent {
                        break;
                    }
                }
            }
        }
        Err(Error::new(format!(
            "could not open an MPI library of the MPICH ABI ({}); put the folder of a working \
             libmpi.so.12 into LD_LIBRARY_PATH",
            tried.join("; ")
        )))
    }

    /// The file that was opened, as the loader names it.
    pub fn file(&self) -> Result<PathBuf> {
        let address = self.init.get()? as *const c_void;
        // SAFETY: all zero is a valid Dl_info.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: dladdr writes `info` only, and takes any address.
        let found = unsafe { libc::dladdr(address, &mut info) } != 0 && !info.dli_fname.is_null();
        if !found {
            return Err(Error::new(
                "the loader does not say which file MPI_Init is in",
            ));
        }
        // SAFETY: the name is the loader's own string, kept while the library is open, that is,
        // for good.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        Ok(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
    }

    fn from_library(library: &'static Library) -> Self {
        // SAFETY: each field's type is the C prototype of the function named beside it.
        unsafe {
            Self {
                get_library_version: Entry::find(library, "MPI_Get_library_version"),
                init: Entry::find(library, "MPI_Init"),
                init_thread: Entry::find(library, "MPI_Init_thread"),
                comm_dup: Entry::find(library, "MPI_Comm_dup"),
                comm_dup_with_info: Entry::find(library, "MPI_Comm_dup_with_info"),
                comm_create_endpoints: Entry::find(library, "MPIX_Comm_create_endpoints"),
                info_create: Entry::find(library, "MPI_Info_create"),
                info_set: Entry::find(library, "MPI_Info_set"),
                info_free: Entry::find(library, "MPI_Info_free"),
                comm_free: Entry::find(library, "MPI_Comm_free"),
                finalize: Entry::find(library, "MPI_Finalize"),
                abort: Entry::find(library, "MPI_Abort"),
                comm_rank: Entry::find(library, "MPI_Comm_rank"),
                comm_size: Entry::find(library, "MPI_Comm_size"),
                send: Entry::find(library, "MPI_Send"),
                recv: Entry::find(library, "MPI_Recv"),
                isend: Entry::find(library, "MPI_Isend"),
                irecv: Entry::find(library, "MPI_Irecv"),
                wait: Entry::find(library, "MPI_Wait"),
                waitall: Entry::find(library, "MPI_Waitall"),
                psend_init: Entry::find(library, "MPI_Psend_init"),
                precv_init: Entry::find(library, "MPI_Precv_init"),
                pready: Entry::find(library, "MPI_Pready"),
                start: Entry::find(library, "MPI_Start"),
                request_free: Entry::find(library, "MPI_Request_free"),
                barrier: Entry::find(library, "MPI_Barrier"),
                bcast: Entry::find(library, "MPI_Bcast"),
                allreduce: Entry::find(library, "MPI_Allreduce"),
                reduce: Entry::find(library, "MPI_Reduce"),
                reduce_scatter: Entry::find(library, "MPI_Reduce_scatter"),
                allgather: Entry::find(library, "MPI_Allgather"),
                alltoall: Entry::find(library, "MPI_Alltoall"),
                gather: Entry::find(library, "MPI_Gather"),
                scatter: Entry::find(library, "MPI_Scatter"),
                win_allocate: Entry::find(library, "MPI_Win_allocate"),
                win_create: Entry::find(library, "MPI_Win_create"),
                win_free: Entry::find(library, "MPI_Win_free"),
                win_fence: Entry::find(library, "MPI_Win_fence"),
                win_lock: Entry::find(library, "MPI_Win_lock"),
                win_unlock: Entry::find(library, "MPI_Win_unlock"),
                win_post: Entry::find(library, "MPI_Win_post"),
                win_start: Entry::find(library, "MPI_Win_start"),
                win_complete: Entry::find(library, "MPI_Win_complete"),
                win_wait: Entry::find(library, "MPI_Win_wait"),
                comm_group: Entry::find(library, "MPI_Comm_group"),
                group_incl: Entry::find(library, "MPI_Group_incl"),
                group_free: Entry::find(library, "MPI_Group_free"),
                get_accumulate: Entry::find(library, "MPI_Get_accumulate"),
                win_lock_all: Entry::find(library, "MPI_Win_lock_all"),
                win_unlock_all: Entry::find(library, "MPI_Win_unlock_all"),
                win_flush: Entry::find(library, "MPI_Win_flush"),
                win_sync: Entry::find(library, "MPI_Win_sync"),
                put: Entry::find(library, "MPI_Put"),
                get: Entry::find(library, "MPI_Get"),
                accumulate: Entry::find(library, "MPI_Accumulate"),
                fetch_and_op: Entry::find(library, "MPI_Fetch_and_op"),
                compare_and_swap: Entry::find(library, "MPI_Compare_and_swap"),
                files: FileTable::find(library),
            }
        }
    }
}
