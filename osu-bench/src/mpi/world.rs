//! `MPI_COMM_WORLD` of a running job: the calls that benchmarks make, with slices for buffers.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use super::constants::{
    BYTE, COMM_WORLD, DOUBLE, FLOAT, INFO_NULL, MAX, MAX_LIBRARY_VERSION_STRING, MIN, REQUEST_NULL,
    STATUS_IGNORE, SUM, THREAD_MULTIPLE,
};
use super::entry::Request;
use super::table::Table;
use crate::error::{Error, Result};
use crate::find::one_line;

/// The job, from `MPI_Init` to `MPI_Finalize`, seen through one communicator of all ranks.
pub struct World {
    table: &'static Table,
    communicator: c_int,
    /// This process's rank.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
}

/// Hints, as an info object.
pub(super) struct Info {
    table: &'static Table,
    pub(super) handle: c_int,
}

impl Info {
    pub(super) fn new(table: &'static Table, hints: &[(&CStr, String)]) -> Result<Self> {
        let (create, set) = (table.info_create.get()?, table.info_set.get()?);
        let mut info = Self { table, handle: 0 };
        // SAFETY: one handle is written.
        check("MPI_Info_create", unsafe { create(&mut info.handle) })?;
        for (key, value) in hints {
            let value = CString::new(value.as_str())
                .map_err(|_| Error::new(format!("the hint {value:?} has a NUL")))?;
            // SAFETY: both strings end with NUL.
            check("MPI_Info_set", unsafe {
                set(info.handle, key.as_ptr(), value.as_ptr())
            })?;
        }
        Ok(info)
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        if let Ok(free) = self.table.info_free.get() {
            // SAFETY: a handle made in `new`, not used again.
            unsafe { free(&mut self.handle) };
        }
    }
}

/// How values of all ranks are combined.
#[derive(Clone, Copy)]
pub enum Combine {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sum.
    Sum,
}

/// Turns a return code into a result. MPI's default error handler ends the job before a code is
/// ever seen, so this is for libraries that don't.
#[inline]
pub(super) fn check(function: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(failed(function, code))
    }
}

#[cold]
fn failed(function: &str, code: c_int) -> Error {
    Error::new(format!("{function} failed with code {code}"))
}

/// A length as MPI's count; lengths are bounded by the options, so this fails only for sizes of
/// 2 GiB and more.
#[inline]
pub(super) fn count(length: usize) -> Result<c_int> {
    c_int::try_from(length).map_err(|_| {
        Error::new(format!(
            "a count of {length} does not fit MPI's int; choose sizes below 2 GiB with -m"
        ))
    })
}

/// Checks that buffers have equal lengths before C code writes to them; does not panic.
#[inline]
fn require(holds: bool, what: &'static str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::new(what)) }
}

impl World {
    /// The first line of a benchmark's output.
    pub fn title(&self, name: &str) -> String {
        let library = label(self.table);
        let library = library.unwrap_or_else(|error| error.to_string());
        crate::output::title(name, &library)
    }

    /// Calls `MPI_Init`, or `MPI_Init_thread` for `MPI_THREAD_MULTIPLE` if `threads` are to
    /// communicate, and asks for rank and size.
    pub fn init(table: &'static Table, threads: bool) -> Result<Self> {
        let comm_rank = table.comm_rank.get()?;
        let comm_size = table.comm_size.get()?;
        let (mut rank, mut size) = (0, 0);
        if threads {
            let init_thread = table.init_thread.get()?;
            let mut level = 0;
            let null = ptr::null_mut();
            // SAFETY: null is allowed for the arguments (MPI-3.1, 8.7); one int is written.
            let code = unsafe { init_thread(null, ptr::null_mut(), THREAD_MULTIPLE, &mut level) };
            check("MPI_Init_thread", code)?;
            if level != THREAD_MULTIPLE {
                return Err(Error::new(format!(
                    "the MPI library gives thread level {level}, not MPI_THREAD_MULTIPLE, which \
                     this benchmark needs"
                )));
            }
        } else {
            let init = table.init.get()?;
            // SAFETY: null is allowed for both arguments (MPI-3.1, 8.7).
            check("MPI_Init", unsafe {
                init(ptr::null_mut(), ptr::null_mut())
            })?;
        }
        // SAFETY: each writes one int.
        unsafe {
            check("MPI_Comm_rank", comm_rank(COMM_WORLD, &mut rank))?;
            check("MPI_Comm_size", comm_size(COMM_WORLD, &mut size))?;
        }
        let number = |value: c_int| {
            usize::try_from(value).map_err(|_| Error::new(format!("MPI gave the number {value}")))
        };
        Ok(Self {
            table,
            communicator: COMM_WORLD,
            rank: number(rank)?,
            size: number(size)?,
        })
    }

    /// A group of some ranks.
    pub fn group(&self, ranks: &[usize]) -> Result<c_int> {
        let comm_group = self.table.comm_group.get()?;
        let group_incl = self.table.group_incl.get()?;
        let ranks: Vec<c_int> = ranks.iter().map(|&rank| rank as c_int).collect();
        let (mut all, mut some) = (0, 0);
        // SAFETY: each writes one handle; the ranks are as many as said.
        unsafe {
            check("MPI_Comm_group", comm_group(COMM_WORLD, &mut all))?;
            let n = count(ranks.len())?;
            check(
                "MPI_Group_incl",
                group_incl(all, n, ranks.as_ptr(), &mut some),
            )?;
        }
        self.free_group(all)?;
        Ok(some)
    }

    /// Frees a group.
    pub fn free_group(&self, mut group: c_int) -> Result<()> {
        let free = self.table.group_free.get()?;
        // SAFETY: a group of ours.
        check("MPI_Group_free", unsafe { free(&mut group) })
    }

    /// Calls `MPI_Finalize`.
    pub fn finalize(self) -> Result<()> {
        let finalize = self.table.finalize.get()?;
        // SAFETY: no request is pending; each benchmark waits for its own.
        check("MPI_Finalize", unsafe { finalize() })
    }

    /// Ends the job of all ranks with exit code 1.
    pub fn abort(&self) -> ! {
        if let Ok(abort) = self.table.abort.get() {
            // SAFETY: MPI is initialized, as `self` exists.
            unsafe { abort(COMM_WORLD, 1) };
        }
        std::process::exit(1)
    }

    /// The functions themselves.
    #[inline]
    pub(super) fn table(&self) -> &'static Table {
        self.table
    }

    /// The same ranks in a communicator of their own (`MPI_Comm_dup`); all ranks must call it.
    pub fn duplicate(&self) -> Result<Self> {
        let comm_dup = self.table.comm_dup.get()?;
        let mut communicator = 0;
        // SAFETY: a valid communicator; one handle is written.
        check("MPI_Comm_dup", unsafe {
            comm_dup(self.communicator, &mut communicator)
        })?;
        Ok(Self {
            communicator,
            ..*self
        })
    }

    /// As [`World::duplicate`], with these hints, pairs of a key and a value.
    pub fn duplicate_with(&self, hints: &[(&CStr, String)]) -> Result<Self> {
        let dup = self.table.comm_dup_with_info.get()?;
        let info = Info::new(self.table, hints)?;
        let mut communicator = 0;
        // SAFETY: a valid communicator and info; one handle is written.
        check("MPI_Comm_dup_with_info", unsafe {
            dup(self.communicator, info.handle, &mut communicator)
        })?;
        Ok(Self {
            communicator,
            ..*self
        })
    }

    /// Creates `count` ranks of a new communicator in this process (an extension of Weft); all
    /// processes must call it.
    pub fn endpoints(&self, count: u16) -> Result<Vec<Self>> {
        let create = self.table.comm_create_endpoints.get()?;
        let (comm_rank, comm_size) = (self.table.comm_rank.get()?, self.table.comm_size.get()?);
        let mut handles = vec![0; usize::from(count)];
        // SAFETY: the array has room for `count` handles.
        check("MPIX_Comm_create_endpoints", unsafe {
            create(
                self.communicator,
                count.into(),
                INFO_NULL,
                handles.as_mut_ptr(),
            )
        })?;
        let world = |communicator: c_int| {
            let (mut rank, mut size) = (0, 0);
            // SAFETY: each writes one int.
            unsafe {
                check("MPI_Comm_rank", comm_rank(communicator, &mut rank))?;
                check("MPI_Comm_size", comm_size(communicator, &mut size))?;
            }
            Ok(Self {
                table: self.table,
                communicator,
                rank: rank as usize,
                size: size as usize,
            })
        };
        handles.into_iter().map(world).collect()
    }

    /// The communicator's handle.
    pub(super) fn handle(&self) -> c_int {
        self.communicator
    }

    /// The same communicator once more, for another thread.
    pub fn view(&self) -> Self {
        Self { ..*self }
    }

    /// Frees the communicator of a [`World::duplicate`]; all ranks must call it.
    pub fn free(mut self) -> Result<()> {
        let comm_free = self.table.comm_free.get()?;
        // SAFETY: `self` is used up, and benchmarks wait for their requests.
        check("MPI_Comm_free", unsafe {
            comm_free(&mut self.communicator)
        })
    }

    /// `MPI_Send` of bytes.
    #[inline]
    pub fn send(&self, data: &[u8], to: usize, tag: c_int) -> Result<()> {
        let send = self.table.send.get()?;
        let n = count(data.len())?;
        // SAFETY: the buffer is a live slice of n bytes.
        let code = unsafe {
            send(
                data.as_ptr().cast(),
                n,
                BYTE,
                to as c_int,
                tag,
                self.communicator,
            )
        };
        check("MPI_Send", code)
    }

    /// `MPI_Recv` of bytes.
    #[inline]
    pub fn recv(&self, data: &mut [u8], from: usize, tag: c_int) -> Result<()> {
        let recv = self.table.recv.get()?;
        let n = count(data.len())?;
        let buffer = data.as_mut_ptr().cast();
        // SAFETY: the buffer is a live, exclusive slice of n bytes.
        let code = unsafe {
            recv(
                buffer,
                n,
                BYTE,
                from as c_int,
                tag,
                self.communicator,
                STATUS_IGNORE,
            )
        };
        check("MPI_Recv", code)
    }

    /// `MPI_Isend` of bytes.
    ///
    /// # Safety
    /// `data` must be readable for `length` bytes and unchanged until the request is complete.
    #[inline]
    pub unsafe fn isend(
        &self,
        data: *const u8,
        length: usize,
        to: usize,
        tag: c_int,
    ) -> Result<Request> {
        let isend = self.table.isend.get()?;
        let n = count(length)?;
        let mut request = REQUEST_NULL;
        // SAFETY: the caller vouches for the buffer.
        let code = unsafe {
            isend(
                data.cast(),
                n,
                BYTE,
                to as c_int,
                tag,
                self.communicator,
                &mut request,
            )
        };
        check("MPI_Isend", code)?;
        Ok(request)
    }

    /// `MPI_Irecv` of bytes.
    ///
    /// # Safety
    /// `data` must be writable for `length` bytes and untouched until the request is complete.
    #[inline]
    pub unsafe fn irecv(
        &self,
        data: *mut u8,
        length: usize,
        from: usize,
        tag: c_int,
    ) -> Result<Request> {
        let irecv = self.table.irecv.get()?;
        let n = count(length)?;
        let mut request = REQUEST_NULL;
        // SAFETY: the caller vouches for the buffer.
        let code = unsafe {
            irecv(
                data.cast(),
                n,
                BYTE,
                from as c_int,
                tag,
                self.communicator,
                &mut request,
            )
        };
        check("MPI_Irecv", code)?;
        Ok(request)
    }

    /// `MPI_Waitall`.
    #[inline]
    pub fn waitall(&self, requests: &mut [Request]) -> Result<()> {
        let waitall = self.table.waitall.get()?;
        let n = count(requests.len())?;
        // SAFETY: an exclusive slice of n requests; each was made by `isend` or `irecv`, or is
        // the null request.
        check("MPI_Waitall", unsafe {
            waitall(n, requests.as_mut_ptr(), STATUS_IGNORE)
        })
    }

    /// `MPI_Barrier`.
    #[inline]
    pub fn barrier(&self) -> Result<()> {
        let barrier = self.table.barrier.get()?;
        // SAFETY: takes a handle only.
        check("MPI_Barrier", unsafe { barrier(self.communicator) })
    }

    /// `MPI_Bcast` of bytes.
    #[inline]
    pub fn bcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        let bcast = self.table.bcast.get()?;
        let n = count(data.len())?;
        let buffer = data.as_mut_ptr().cast();
        // SAFETY: the buffer is a live, exclusive slice of n bytes.
        check("MPI_Bcast", unsafe {
            bcast(buffer, n, BYTE, root as c_int, self.communicator)
        })
    }

    /// `MPI_Allreduce` of floats with `MPI_SUM`.
    #[inline]
    pub fn allreduce(&self, send: &[f32], receive: &mut [f32]) -> Result<()> {
        let allreduce = self.table.allreduce.get()?;
        require(
            send.len() == receive.len(),
            "allreduce: the buffers differ in length",
        )?;
        let n = count(send.len())?;
        let (from, to) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        // SAFETY: both slices hold n floats.
        check("MPI_Allreduce", unsafe {
            allreduce(from, to, n, FLOAT, SUM, self.communicator)
        })
    }

    /// `MPI_Reduce` of floats with `MPI_SUM`.
    #[inline]
    pub fn reduce(&self, send: &[f32], receive: &mut [f32], root: usize) -> Result<()> {
        let reduce = self.table.reduce.get()?;
        require(
            send.len() == receive.len(),
            "reduce: the buffers differ in length",
        )?;
        let n = count(send.len())?;
        let (from, to) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        // SAFETY: both slices hold n floats.
        let code = unsafe { reduce(from, to, n, FLOAT, SUM, root as c_int, self.communicator) };
        check("MPI_Reduce", code)
    }

    /// `MPI_Reduce_scatter` of floats with `MPI_SUM`; `counts` has one entry per rank.
    #[inline]
    pub fn reduce_scatter(
        &self,
        send: &[f32],
        receive: &mut [f32],
        counts: &[c_int],
    ) -> Result<()> {
        let reduce_scatter = self.table.reduce_scatter.get()?;
        let total: i64 = counts.iter().map(|&n| i64::from(n)).sum();
        require(
            counts.len() == self.size
                && counts.iter().all(|&n| n >= 0)
                && total == send.len() as i64
                && counts[self.rank] as usize == receive.len(),
            "reduce_scatter: counts and buffers disagree",
        )?;
        let (from, to) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        // SAFETY: the send buffer holds the sum of the counts, the receive buffer this rank's.
        let code =
            unsafe { reduce_scatter(from, to, counts.as_ptr(), FLOAT, SUM, self.communicator) };
        check("MPI_Reduce_scatter", code)
    }

    /// `MPI_Allgather` of bytes.
    #[inline]
    pub fn allgather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        let allgather = self.table.allgather.get()?;
        let whole = send.len() * self.size == receive.len();
        require(
            whole,
            "allgather: the receive buffer is not one block per rank",
        )?;
        let n = count(send.len())?;
        let (from, to) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        // SAFETY: n bytes are sent and n bytes per rank have room in the receive buffer.
        check("MPI_Allgather", unsafe {
            allgather(from, n, BYTE, to, n, BYTE, self.communicator)
        })
    }

    /// `MPI_Alltoall` of bytes, one block per rank in both buffers.
    #[inline]
    pub fn alltoall(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        let alltoall = self.table.alltoall.get()?;
        let whole = send.len() == receive.len() && send.len().is_multiple_of(self.size);
        require(whole, "alltoall: the buffers are not one block per rank")?;
        let n = count(send.len() / self.size)?;
        let (from, to) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        // SAFETY: both buffers hold n bytes per rank.
        check("MPI_Alltoall", unsafe {
            alltoall(from, n, BYTE, to, n, BYTE, self.communicator)
        })
    }

    /// `MPI_Gather` of bytes to `root`; other ranks may give an empty receive buffer.
    #[inline]
    pub fn gather(&self, send: &[u8], receive: &mut [u8], root: usize) -> Result<()> {
        let gather = self.table.gather.get()?;
        let whole = self.rank != root || send.len() * self.size == receive.len();
        require(
            whole,
            "gather: the receive buffer is not one block per rank",
        )?;
        let n = count(send.len())?;
        let (from, to) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        // SAFETY: n bytes are sent; only the root's receive buffer is written and has n per rank.
        let code = unsafe { gather(from, n, BYTE, to, n, BYTE, root as c_int, self.communicator) };
        check("MPI_Gather", code)
    }

    /// `MPI_Scatter` of bytes from `root`; other ranks may give an empty send buffer.
    #[inline]
    pub fn scatter(&self, send: &[u8], receive: &mut [u8], root: usize) -> Result<()> {
        let scatter = self.table.scatter.get()?;
        let whole = self.rank != root || receive.len() * self.size == send.len();
        require(whole, "scatter: the send buffer is not one block per rank")?;
        let n = count(receive.len())?;
        let (from, to) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        // SAFETY: only the root's send buffer is read and has n per rank; n bytes are received.
        let code = unsafe { scatter(from, n, BYTE, to, n, BYTE, root as c_int, self.communicator) };
        check("MPI_Scatter", code)
    }

    /// Combines a value of all ranks at rank 0 by `MPI_Reduce`; elsewhere the result is 0.
    pub fn combine(&self, value: f64, how: Combine) -> Result<f64> {
        let reduce = self.table.reduce.get()?;
        let mut result = 0.0_f64;
        let (from, to) = ((&raw const value).cast(), (&raw mut result).cast());
        // SAFETY: both buffers are one double.
        let code = unsafe { reduce(from, to, 1, DOUBLE, how.handle(), 0, self.communicator) };
        check("MPI_Reduce", code)?;
        Ok(result)
    }

    /// Combines a value of all ranks everywhere by `MPI_Allreduce`.
    pub fn agree(&self, value: f64, how: Combine) -> Result<f64> {
        let allreduce = self.table.allreduce.get()?;
        let mut result = 0.0_f64;
        let (from, to) = ((&raw const value).cast(), (&raw mut result).cast());
        // SAFETY: both buffers are one double.
        let code = unsafe { allreduce(from, to, 1, DOUBLE, how.handle(), self.communicator) };
        check("MPI_Allreduce", code)?;
        Ok(result)
    }
}

impl Combine {
    fn handle(self) -> c_int {
        match self {
            Self::Min => MIN,
            Self::Max => MAX,
            Self::Sum => SUM,
        }
    }
}

/// The library's own description of itself (`MPI_Get_library_version`, allowed before
/// `MPI_Init`).
pub fn library_version(table: &Table) -> Result<String> {
    let get = table.get_library_version.get()?;
    // One byte more than the standard asks for, so that the text always ends.
    let mut text = vec![0 as c_char; MAX_LIBRARY_VERSION_STRING + 1];
    let mut length = 0;
    // SAFETY: the buffer has the length that the ABI promises to be enough.
    check("MPI_Get_library_version", unsafe {
        get(text.as_mut_ptr(), &mut length)
    })?;
    // SAFETY: the last byte was never handed out as part of the text and is zero.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    Ok(text.to_string_lossy().into_owned())
}

/// What the first line of the output says of the library: its version and its file.
fn label(table: &Table) -> Result<String> {
    let version = one_line(&library_version(table)?);
    Ok(format!("{version}, {}", table.file()?.display()))
}
