//! The functions of an MPI library, looked up when the library is opened. One that the library
//! lacks is an error only for the benchmark that calls it.

use std::error::Error as _;
use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::error::{Error, Result};
use crate::find::{self, LIBRARY_NAMES};

type Buf = *mut c_void;
type Data = *const c_void;
type Int = c_int;
type Ints = *mut c_int;
type Text = *const c_char;
/// An `MPI_Request`.
pub type Request = c_int;
type Requests = *mut Request;
/// An `MPI_File`, which is a pointer in this ABI.
pub type File = *mut c_void;

/// A function that the library may lack.
pub struct Entry<F> {
    name: &'static str,
    function: Option<F>,
}

impl<F: Copy> Entry<F> {
    /// Looks `name` up in `library`.
    ///
    /// # Safety
    /// `F` must be the type of the function of that name in the MPICH ABI.
    unsafe fn find(library: &Library, name: &'static str) -> Self {
        // SAFETY: the caller vouches for the type; the address stays valid because the table
        // keeps the library open for good.
        let function = unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol);
        Self { name, function }
    }

    /// Returns the name of the function.
    #[inline]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the function, or an error that names it.
    #[inline]
    pub fn get(&self) -> Result<F> {
        self.function.ok_or_else(|| Error::new(missing(self.name)))
    }
}

/// Returns the text of the error for a function that the library lacks.
#[cold]
pub(super) fn missing(name: &str) -> String {
    format!(
        "the MPI library lacks {name}, which this benchmark needs; run another benchmark or \
         choose another library with LD_LIBRARY_PATH"
    )
}

/// Defines [`Table`] by field, name and arguments of each function; all return an `int`.
macro_rules! table {
    ($($field:ident: $name:literal($($argument:ty),*);)*) => {
        /// The functions of the opened library; each field is the MPI function of its name.
        pub struct Table {
            $(pub $field: Entry<unsafe extern "C" fn($($argument),*) -> c_int>,)*
        }

        impl Table {
            fn from_library(library: &'static Library) -> Self {
                // SAFETY: each field's type is the C prototype of the function named beside it.
                unsafe { Self { $($field: Entry::find(library, $name),)* } }
            }
        }
    };
}

table! {
    get_library_version: "MPI_Get_library_version"(*mut c_char, Ints);
    init: "MPI_Init"(Ints, *mut *mut *mut c_char);
    init_thread: "MPI_Init_thread"(Ints, *mut *mut *mut c_char, Int, Ints);
    finalize: "MPI_Finalize"();
    abort: "MPI_Abort"(Int, Int);
    comm_rank: "MPI_Comm_rank"(Int, Ints);
    comm_size: "MPI_Comm_size"(Int, Ints);
    comm_dup: "MPI_Comm_dup"(Int, Ints);
    comm_dup_with_info: "MPI_Comm_dup_with_info"(Int, Int, Ints);
    comm_create_endpoints: "MPIX_Comm_create_endpoints"(Int, Int, Int, Ints);
    threadcomm_init: "MPIX_Threadcomm_init"(Int, Int, Ints);
    threadcomm_start: "MPIX_Threadcomm_start"(Int);
    threadcomm_finish: "MPIX_Threadcomm_finish"(Int);
    stream_create: "MPIX_Stream_create"(Int, Ints);
    stream_comm_create: "MPIX_Stream_comm_create"(Int, Int, Ints);
    stream_comm_multiplex: "MPIX_Stream_comm_create_multiplex"(Int, Int, *mut Int, Ints);
    stream_isend: "MPIX_Stream_isend"(Data, Int, Int, Int, Int, Int, Int, Int, Requests);
    stream_irecv: "MPIX_Stream_irecv"(Buf, Int, Int, Int, Int, Int, Int, Int, Requests);
    comm_free: "MPI_Comm_free"(Ints);
    comm_group: "MPI_Comm_group"(Int, Ints);
    cart_create: "MPI_Cart_create"(Int, Int, *const Int, *const Int, Int, Ints);
    group_incl: "MPI_Group_incl"(Int, Int, *const Int, Ints);
    group_free: "MPI_Group_free"(Ints);
    info_create: "MPI_Info_create"(Ints);
    info_set: "MPI_Info_set"(Int, Text, Text);
    info_free: "MPI_Info_free"(Ints);
    send: "MPI_Send"(Data, Int, Int, Int, Int, Int);
    recv: "MPI_Recv"(Buf, Int, Int, Int, Int, Int, Buf);
    isend: "MPI_Isend"(Data, Int, Int, Int, Int, Int, Requests);
    irecv: "MPI_Irecv"(Buf, Int, Int, Int, Int, Int, Requests);
    iprobe: "MPI_Iprobe"(Int, Int, Int, Ints, Buf);
    wait: "MPI_Wait"(Requests, Buf);
    waitall: "MPI_Waitall"(Int, Requests, Buf);
    psend_init: "MPI_Psend_init"(Data, Int, i64, Int, Int, Int, Int, Int, Requests);
    precv_init: "MPI_Precv_init"(Buf, Int, i64, Int, Int, Int, Int, Int, Requests);
    pready: "MPI_Pready"(Int, Request);
    start: "MPI_Start"(Requests);
    request_free: "MPI_Request_free"(Requests);
    barrier: "MPI_Barrier"(Int);
    allreduce: "MPI_Allreduce"(Data, Buf, Int, Int, Int, Int);
    alltoall: "MPI_Alltoall"(Data, Int, Int, Buf, Int, Int, Int);
    alltoallv: "MPI_Alltoallv"(
        Data, *const Int, *const Int, Int, Buf, *const Int, *const Int, Int, Int);
    reduce: "MPI_Reduce"(Data, Buf, Int, Int, Int, Int, Int);
    win_allocate: "MPI_Win_allocate"(isize, Int, Int, Int, Buf, Ints);
    win_create: "MPI_Win_create"(Buf, isize, Int, Int, Int, Ints);
    win_free: "MPI_Win_free"(Ints);
    win_fence: "MPI_Win_fence"(Int, Int);
    win_lock: "MPI_Win_lock"(Int, Int, Int, Int);
    win_unlock: "MPI_Win_unlock"(Int, Int);
    win_lock_all: "MPI_Win_lock_all"(Int, Int);
    win_unlock_all: "MPI_Win_unlock_all"(Int);
    win_post: "MPI_Win_post"(Int, Int, Int);
    win_start: "MPI_Win_start"(Int, Int, Int);
    win_complete: "MPI_Win_complete"(Int);
    win_wait: "MPI_Win_wait"(Int);
    win_flush: "MPI_Win_flush"(Int, Int);
    win_sync: "MPI_Win_sync"(Int);
    put: "MPI_Put"(Data, Int, Int, Int, isize, Int, Int, Int);
    get: "MPI_Get"(Buf, Int, Int, Int, isize, Int, Int, Int);
    accumulate: "MPI_Accumulate"(Data, Int, Int, Int, isize, Int, Int, Int, Int);
    get_accumulate: "MPI_Get_accumulate"(
        Data, Int, Int, Buf, Int, Int, Int, isize, Int, Int, Int, Int);
    fetch_and_op: "MPI_Fetch_and_op"(Data, Buf, Int, Int, isize, Int, Int);
    win_create_notify: "MPIX_Win_create_notify"(Int, Int);
    win_get_notify: "MPIX_Win_get_notify"(Int, Int, *mut i64);
    put_notify: "MPIX_Put_notify"(Data, Int, Int, Int, isize, Int, Int, Int, Int);
    compare_and_swap: "MPI_Compare_and_swap"(Data, Data, Buf, Int, Int, isize, Int);
    breakdown: "weft_breakdown"(Int, *mut u64);
    t_init_thread: "MPI_T_init_thread"(Int, Ints);
    t_pvar_get_index: "MPI_T_pvar_get_index"(Text, Int, Ints);
    t_pvar_session_create: "MPI_T_pvar_session_create"(*mut Buf);
    t_pvar_handle_alloc: "MPI_T_pvar_handle_alloc"(Buf, Int, Buf, *mut Buf, Ints);
    t_pvar_start: "MPI_T_pvar_start"(Buf, Buf);
    t_pvar_read: "MPI_T_pvar_read"(Buf, Buf, Buf);
    file_open: "MPI_File_open"(Int, Text, Int, Int, *mut File);
    file_close: "MPI_File_close"(*mut File);
    file_delete: "MPI_File_delete"(Text, Int);
    file_set_view: "MPI_File_set_view"(File, i64, Int, Int, Text, Int);
    file_write_at: "MPI_File_write_at"(File, i64, Buf, Int, Int, Buf);
    file_read_at: "MPI_File_read_at"(File, i64, Buf, Int, Int, Buf);
    file_write_at_all: "MPI_File_write_at_all"(File, i64, Buf, Int, Int, Buf);
    file_read_at_all: "MPI_File_read_at_all"(File, i64, Buf, Int, Int, Buf);
    file_write_shared: "MPI_File_write_shared"(File, Buf, Int, Int, Buf);
    file_iwrite_at_all: "MPI_File_iwrite_at_all"(File, i64, Buf, Int, Int, Requests);
    type_vector: "MPI_Type_vector"(Int, Int, Int, Int, Ints);
    type_commit: "MPI_Type_commit"(Ints);
    type_free: "MPI_Type_free"(Ints);
}

/// Calls a function of the table and checks its code. The block around it vouches for the
/// arguments.
macro_rules! call {
    ($table:expr, $field:ident($($argument:expr),* $(,)?)) => {{
        let entry = &$table.$field;
        let code = (entry.get()?)($($argument),*);
        $crate::mpi::world::check(entry.name(), code)
    }};
}
pub(super) use call;

/// Returns whether a library of this name is in the process already.
fn is_loaded(name: &&str) -> bool {
    // SAFETY: with RTLD_NOLOAD the loader only finds libraries that are already loaded.
    let found = unsafe { Library::open(Some(*name), RTLD_NOW | libc::RTLD_NOLOAD) };
    // The handle is kept, and so is the library.
    found.map(Library::into_raw).is_ok()
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_function_is_named() {
        let entry: Entry<unsafe extern "C" fn() -> i32> = Entry {
            name: "MPI_Barrier",
            function: None,
        };
        let error = entry.get().err().map(|error| error.to_string());
        assert!(error.is_some_and(|text| text.contains("lacks MPI_Barrier")));
    }
}
