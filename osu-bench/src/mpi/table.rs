//! The functions of an MPI library, looked up when the library is opened. One that the library
//! lacks is an error only for the benchmark that calls it.

use std::ffi::{c_char, c_int, c_void};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::error::{Error, Result};

/// An `MPI_Request`.
pub type Request = c_int;

type Buffer = *mut c_void;
type ConstBuffer = *const c_void;
type Status = *mut c_void;

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

    /// The function, or an error that names it.
    #[inline]
    pub fn get(&self) -> Result<F> {
        match self.function {
            Some(function) => Ok(function),
            None => Err(self.missing()),
        }
    }

    #[cold]
    fn missing(&self) -> Error {
        Error::new(format!(
            "the MPI library lacks {}, which this benchmark needs; run another benchmark or \
             choose another library with LD_LIBRARY_PATH",
            self.name
        ))
    }
}

/// `int f(void)`.
pub type Plain = unsafe extern "C" fn() -> c_int;
/// `MPI_Init`.
pub type Init = unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char) -> c_int;
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

/// The functions of the opened library; each field is the MPI function of its name.
pub struct Table {
    pub get_library_version: Entry<LibraryVersion>,
    pub init: Entry<Init>,
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
    pub barrier: Entry<Barrier>,
    pub bcast: Entry<Bcast>,
    pub allreduce: Entry<Allreduce>,
    pub reduce: Entry<Reduce>,
    pub reduce_scatter: Entry<ReduceScatter>,
    pub allgather: Entry<Exchange>,
    pub alltoall: Entry<Exchange>,
    pub gather: Entry<RootedExchange>,
    pub scatter: Entry<RootedExchange>,
}

/// The names under which the library is looked for, in this order.
const NAMES: [&str; 2] = ["libmpi.so.12", "libmpich.so.12"];

impl Table {
    /// Opens the MPI library that the loader finds (`LD_LIBRARY_PATH` first) and looks its
    /// functions up.
    pub fn open() -> Result<Self> {
        let mut tried = Vec::new();
        for name in NAMES {
            // Global, as if the program had been linked to it: plugins of the library may refer
            // to its symbols.
            // SAFETY: loading runs the library's initializers; that is what opening an MPI
            // library means, and nothing of ours is in a state that they could break.
            match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(library) => return Ok(Self::from_library(library)),
                Err(error) => tried.push(error.to_string()),
            }
        }
        Err(Error::new(format!(
            "found no MPI library of the MPICH ABI ({}); put the folder of libmpi.so.12 into \
             LD_LIBRARY_PATH",
            tried.join("; ")
        )))
    }

    fn from_library(library: Library) -> Self {
        // MPI libraries leave threads and exit handlers behind, so it is never closed.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: each field's type is the C prototype of the function named beside it.
        unsafe {
            Self {
                get_library_version: Entry::find(library, "MPI_Get_library_version"),
                init: Entry::find(library, "MPI_Init"),
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
                barrier: Entry::find(library, "MPI_Barrier"),
                bcast: Entry::find(library, "MPI_Bcast"),
                allreduce: Entry::find(library, "MPI_Allreduce"),
                reduce: Entry::find(library, "MPI_Reduce"),
                reduce_scatter: Entry::find(library, "MPI_Reduce_scatter"),
                allgather: Entry::find(library, "MPI_Allgather"),
                alltoall: Entry::find(library, "MPI_Alltoall"),
                gather: Entry::find(library, "MPI_Gather"),
                scatter: Entry::find(library, "MPI_Scatter"),
            }
        }
    }
}
