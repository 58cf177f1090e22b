//! `MPI_COMM_WORLD` of a running job: the calls that benchmarks make, with slices for buffers.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::Barrier;

use super::constants::{
    ANY_SOURCE, BYTE, COMM_WORLD, DOUBLE, INFO_NULL, INT64, MAX, MAX_LIBRARY_VERSION_STRING, MIN,
    REQUEST_NULL, STATUS_IGNORE, SUM, THREAD_MULTIPLE,
};
use super::table::{Request, Table, call};
use crate::error::{Error, Result};
use crate::find::one_line;
use crate::together::ended;

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
        let mut info = Self { table, handle: 0 };
        // SAFETY: one handle is written.
        unsafe { call!(table, info_create(&mut info.handle)) }?;
        for (key, value) in hints {
            let value = CString::new(value.as_str())
                .map_err(|_| Error::new(format!("the hint {value:?} has a NUL")))?;
            // SAFETY: both strings end with NUL.
            unsafe { call!(table, info_set(info.handle, key.as_ptr(), value.as_ptr())) }?;
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

/// An operation on values of all ranks.
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
    match code {
        0 => Ok(()),
        _ => Err(Error::new(format!("{function} failed with code {code}"))),
    }
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

/// Ticks of each layer in [`World::breakdown`], then how often it began.
pub type Totals = [u64; 12];

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
        let null = ptr::null_mut();
        if threads {
            let mut level = 0;
            // SAFETY: null is allowed for the arguments (MPI-3.1, 8.7); one int is written.
            unsafe {
                call!(
                    table,
                    init_thread(null, ptr::null_mut(), THREAD_MULTIPLE, &mut level)
                )
            }?;
            if level != THREAD_MULTIPLE {
                return Err(Error::new(format!(
                    "the MPI library gives thread level {level}, not MPI_THREAD_MULTIPLE, which \
                     this benchmark needs"
                )));
            }
        } else {
            // SAFETY: null is allowed for both arguments (MPI-3.1, 8.7).
            unsafe { call!(table, init(null, ptr::null_mut())) }?;
        }
        Self::of(table, COMM_WORLD)
    }

    /// Asks for rank and size in a communicator.
    fn of(table: &'static Table, communicator: c_int) -> Result<Self> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: each writes one int.
        unsafe {
            call!(table, comm_rank(communicator, &mut rank))?;
            call!(table, comm_size(communicator, &mut size))?;
        }
        let number = |value: c_int| {
            usize::try_from(value).map_err(|_| Error::new(format!("MPI gave the number {value}")))
        };
        Ok(Self {
            table,
            communicator,
            rank: number(rank)?,
            size: number(size)?,
        })
    }

    /// Returns a group of some ranks.
    pub fn group(&self, ranks: &[usize]) -> Result<c_int> {
        let ranks: Vec<c_int> = ranks.iter().map(|&rank| rank as c_int).collect();
        let n = count(ranks.len())?;
        let (mut all, mut some) = (0, 0);
        // SAFETY: each writes one handle; the array holds n ranks.
        unsafe {
            call!(self.table, comm_group(COMM_WORLD, &mut all))?;
            call!(self.table, group_incl(all, n, ranks.as_ptr(), &mut some))?;
        }
        self.free_group(all)?;
        Ok(some)
    }

    /// Frees a group.
    pub fn free_group(&self, mut group: c_int) -> Result<()> {
        // SAFETY: a group of this process, not used again.
        unsafe { call!(self.table, group_free(&mut group)) }
    }

    /// Calls `MPI_Finalize`.
    pub fn finalize(self) -> Result<()> {
        // SAFETY: no request is pending; each benchmark waits for its own.
        unsafe { call!(self.table, finalize()) }
    }

    /// Ends the job of all ranks with exit code 1.
    pub fn abort(&self) -> ! {
        if let Ok(abort) = self.table.abort.get() {
            // SAFETY: MPI is initialized, as `self` exists.
            unsafe { abort(COMM_WORLD, 1) };
        }
        std::process::exit(1)
    }

    /// Returns whether the library has puts that notify their target.
    pub fn can_notify(&self) -> bool {
        self.table.put_notify.get().is_ok()
    }

    /// The functions themselves.
    #[inline]
    pub(super) fn table(&self) -> &'static Table {
        self.table
    }

    /// Duplicates the communicator (`MPI_Comm_dup`); all ranks must call it.
    pub fn duplicate(&self) -> Result<Self> {
        let mut communicator = 0;
        // SAFETY: a valid communicator; one handle is written.
        unsafe { call!(self.table, comm_dup(self.communicator, &mut communicator)) }?;
        Ok(Self {
            communicator,
            ..*self
        })
    }

    /// Duplicates the communicator with hints, pairs of a key and a value.
    pub fn duplicate_with(&self, hints: &[(&CStr, String)]) -> Result<Self> {
        let info = Info::new(self.table, hints)?;
        let (old, mut communicator) = (self.communicator, 0);
        // SAFETY: a valid communicator and info; one handle is written.
        unsafe {
            call!(
                self.table,
                comm_dup_with_info(old, info.handle, &mut communicator)
            )
        }?;
        Ok(Self {
            communicator,
            ..*self
        })
    }

    /// Creates `count` ranks of a new communicator in this process (an extension of Weft); all
    /// processes must call it.
    pub fn endpoints(&self, count: u16) -> Result<Vec<Self>> {
        let mut handles = vec![0; usize::from(count)];
        let (old, first) = (self.communicator, handles.as_mut_ptr());
        // SAFETY: the array has room for `count` handles.
        unsafe {
            call!(
                self.table,
                comm_create_endpoints(old, count.into(), INFO_NULL, first)
            )
        }?;
        let world = |communicator| Self::of(self.table, communicator);
        handles.into_iter().map(world).collect()
    }

    /// Creates a thread communicator of `threads` threads in this process, and returns each
    /// thread's duplicate of it; all processes must call it.
    pub fn threadcomm(&self, threads: u16) -> Result<Vec<Self>> {
        let (table, mut handle) = (self.table, 0);
        // SAFETY: one handle is written.
        unsafe {
            call!(
                table,
                threadcomm_init(self.communicator, threads.into(), &mut handle)
            )
        }?;
        let started = Barrier::new(threads.into());
        let own = || {
            let mut copy = 0;
            // SAFETY: each thread starts it once.
            let start = unsafe { call!(table, threadcomm_start(handle)) };
            // A thread that starts after another's finish would get the same rank.
            started.wait();
            // SAFETY: one handle is written.
            start.and_then(|()| unsafe { call!(table, comm_dup(handle, &mut copy)) })?;
            let own = Self::of(table, copy)?;
            // SAFETY: this thread has started it.
            unsafe { call!(table, threadcomm_finish(handle)) }.map(|()| own)
        };
        let each = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(own)).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            let results = joined.map(|result| result.map_err(|_| ended())?);
            results.collect::<Result<Vec<Self>>>()
        });
        let mut each = each?;
        each.sort_by_key(|own| own.rank);
        Ok(each)
    }

    /// Creates `count` streams in this process, a communicator of all of them, and one of each; all
    /// processes must call it.
    pub fn streams(&self, count: u16) -> Result<(Self, Vec<Self>)> {
        let (table, old) = (self.table, self.communicator);
        let mut streams = vec![0; usize::from(count)];
        for stream in &mut streams {
            // SAFETY: one handle is written.
            unsafe { call!(table, stream_create(INFO_NULL, stream)) }?;
        }
        let (mut all, first) = (0, streams.as_mut_ptr());
        // SAFETY: the array holds `count` streams; one handle is written.
        unsafe {
            call!(
                table,
                stream_comm_multiplex(old, count.into(), first, &mut all)
            )
        }?;
        let each = streams.iter().map(|stream| {
            let mut one = 0;
            // SAFETY: one handle is written.
            unsafe { call!(table, stream_comm_create(old, *stream, &mut one)) }?;
            Self::of(table, one)
        });
        Ok((Self::of(table, all)?, each.collect::<Result<_>>()?))
    }

    /// Returns the communicator's handle.
    pub(super) fn handle(&self) -> c_int {
        self.communicator
    }

    /// Returns the same communicator for another thread.
    pub fn view(&self) -> Self {
        Self { ..*self }
    }

    /// Frees the communicator of a [`World::duplicate`]; all ranks must call it.
    pub fn free(mut self) -> Result<()> {
        // SAFETY: `self` is used up, and benchmarks wait for their requests.
        unsafe { call!(self.table, comm_free(&mut self.communicator)) }
    }

    /// `MPI_Send` of bytes.
    #[inline]
    pub fn send(&self, data: &[u8], to: usize, tag: c_int) -> Result<()> {
        let (n, to, comm) = (count(data.len())?, to as c_int, self.communicator);
        // SAFETY: the buffer is a live slice of n bytes.
        unsafe {
            call!(
                self.table,
                send(data.as_ptr().cast(), n, BYTE, to, tag, comm)
            )
        }
    }

    /// `MPI_Recv` of bytes.
    #[inline]
    pub fn recv(&self, data: &mut [u8], from: usize, tag: c_int) -> Result<()> {
        let (n, from, comm) = (count(data.len())?, from as c_int, self.communicator);
        let buffer = data.as_mut_ptr().cast();
        // SAFETY: the buffer is a live, exclusive slice of n bytes.
        unsafe {
            call!(
                self.table,
                recv(buffer, n, BYTE, from, tag, comm, STATUS_IGNORE)
            )
        }
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
        let (n, to, comm) = (count(length)?, to as c_int, self.communicator);
        let mut request = REQUEST_NULL;
        // SAFETY: the caller keeps the buffer until the request is complete.
        unsafe {
            call!(
                self.table,
                isend(data.cast(), n, BYTE, to, tag, comm, &mut request)
            )
        }?;
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
        let (n, from, comm) = (count(length)?, from as c_int, self.communicator);
        let mut request = REQUEST_NULL;
        // SAFETY: the caller keeps the buffer until the request is complete.
        unsafe {
            call!(
                self.table,
                irecv(data.cast(), n, BYTE, from, tag, comm, &mut request)
            )
        }?;
        Ok(request)
    }

    /// `MPIX_Stream_isend` of bytes from stream `own` to the target's stream `other`.
    ///
    /// # Safety
    /// `data` must be readable for `length` bytes and unchanged until the request is complete.
    #[inline]
    pub unsafe fn stream_isend(
        &self,
        data: *const u8,
        length: usize,
        (to, tag): (usize, c_int),
        (own, other): (usize, usize),
    ) -> Result<Request> {
        let (n, to, comm) = (count(length)?, to as c_int, self.communicator);
        let (table, from, own, other) = (self.table, data.cast(), own as c_int, other as c_int);
        let mut request = REQUEST_NULL;
        // SAFETY: the caller keeps the buffer until the request is complete.
        unsafe {
            call!(
                table,
                stream_isend(from, n, BYTE, to, tag, comm, own, other, &mut request)
            )
        }?;
        Ok(request)
    }

    /// `MPIX_Stream_irecv` of bytes by stream `own` from the source's stream `other`.
    ///
    /// # Safety
    /// `data` must be writable for `length` bytes and untouched until the request is complete.
    #[inline]
    pub unsafe fn stream_irecv(
        &self,
        data: *mut u8,
        length: usize,
        (from, tag): (usize, c_int),
        (own, other): (usize, usize),
    ) -> Result<Request> {
        let (n, from, comm) = (count(length)?, from as c_int, self.communicator);
        let (table, to, own, other) = (self.table, data.cast(), own as c_int, other as c_int);
        let mut request = REQUEST_NULL;
        // SAFETY: the caller keeps the buffer until the request is complete.
        unsafe {
            call!(
                table,
                stream_irecv(to, n, BYTE, from, tag, comm, other, own, &mut request)
            )
        }?;
        Ok(request)
    }

    /// Receives a message of any rank if one with this tag is there: `MPI_Iprobe`, `MPI_Recv`.
    #[inline]
    pub fn receive_any(&self, data: &mut [u8], tag: c_int) -> Result<bool> {
        let (n, comm, mut is_there) = (count(data.len())?, self.communicator, 0);
        // SAFETY: one integer is written; the buffer is a live slice of n bytes.
        unsafe {
            call!(
                self.table,
                iprobe(ANY_SOURCE, tag, comm, &mut is_there, STATUS_IGNORE)
            )?;
            if is_there != 0 {
                let to = data.as_mut_ptr().cast();
                call!(
                    self.table,
                    recv(to, n, BYTE, ANY_SOURCE, tag, comm, STATUS_IGNORE)
                )?;
            }
        }
        Ok(is_there != 0)
    }

    /// `MPI_Allreduce` of 64-bit integers with `MPI_SUM`.
    pub fn sum(&self, values: &[i64], sums: &mut [i64]) -> Result<()> {
        let (n, comm) = (count(values.len().min(sums.len()))?, self.communicator);
        let (from, to) = (values.as_ptr().cast(), sums.as_mut_ptr().cast());
        // SAFETY: both are live slices of at least n integers.
        unsafe { call!(self.table, allreduce(from, to, n, INT64, SUM, comm)) }
    }

    /// Sends a part of bytes to each rank, and returns all that came: `MPI_Alltoall` of the lengths,
    /// `MPI_Alltoallv`.
    pub fn exchange(&self, parts: &[Vec<u8>]) -> Result<Vec<u8>> {
        let lengths = parts.iter().map(|part| count(part.len()));
        let lengths = lengths.collect::<Result<Vec<c_int>>>()?;
        let mut coming = vec![0; lengths.len()];
        let (comm, from, to) = (self.communicator, &lengths, &mut coming);
        // SAFETY: one int of each rank is read and written.
        unsafe {
            let (from, to) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
            call!(self.table, alltoall(from, 4, BYTE, to, 4, BYTE, comm))
        }?;
        let places = |lengths: &[c_int]| -> Vec<c_int> {
            let mut next = 0;
            lengths.iter().map(|n| (next, next += n).0).collect()
        };
        let data = parts.concat();
        let mut came = vec![0; coming.iter().map(|n| *n as usize).sum()];
        let (here, there) = (places(&lengths), places(&coming));
        // SAFETY: the parts lie one after the other in live buffers of the sums of their lengths.
        unsafe {
            call!(
                self.table,
                alltoallv(
                    data.as_ptr().cast(),
                    lengths.as_ptr(),
                    here.as_ptr(),
                    BYTE,
                    came.as_mut_ptr().cast(),
                    coming.as_ptr(),
                    there.as_ptr(),
                    BYTE,
                    comm
                )
            )
        }?;
        Ok(came)
    }

    /// `MPI_Waitall`.
    #[inline]
    pub fn waitall(&self, requests: &mut [Request]) -> Result<()> {
        let n = count(requests.len())?;
        // SAFETY: an exclusive slice of n requests; each was made by `isend` or `irecv`, or is
        // the null request.
        unsafe { call!(self.table, waitall(n, requests.as_mut_ptr(), STATUS_IGNORE)) }
    }

    /// `MPI_Wait`.
    #[inline]
    pub fn wait(&self, request: &mut Request) -> Result<()> {
        // SAFETY: made by `isend` or `irecv`, or the null request.
        unsafe { call!(self.table, wait(request, STATUS_IGNORE)) }
    }

    /// Begins to count this thread's time by layers of Weft; with `totals` begins and ends `spans`
    /// empty parts, and ends the counting. The library needs the feature `breakdown`.
    pub fn breakdown(&self, spans: c_int, totals: Option<&mut Totals>) -> Result<()> {
        let totals = totals.map_or(ptr::null_mut(), |totals| totals.as_mut_ptr());
        // SAFETY: NULL, or as many numbers as the library writes.
        unsafe { call!(self.table, breakdown(spans, totals)) }
    }

    /// `MPI_Barrier`.
    #[inline]
    pub fn barrier(&self) -> Result<()> {
        // SAFETY: takes a handle only.
        unsafe { call!(self.table, barrier(self.communicator)) }
    }

    /// Combines a value of all ranks at rank 0 by `MPI_Reduce`; elsewhere the result is 0.
    pub fn combine(&self, value: f64, how: Combine) -> Result<f64> {
        let (comm, mut result) = (self.communicator, 0.0_f64);
        let (from, to) = ((&raw const value).cast(), (&raw mut result).cast());
        // SAFETY: both buffers are one double.
        unsafe {
            call!(
                self.table,
                reduce(from, to, 1, DOUBLE, how.handle(), 0, comm)
            )
        }?;
        Ok(result)
    }

    /// Combines a value of all ranks everywhere by `MPI_Allreduce`.
    pub fn agree(&self, value: f64, how: Combine) -> Result<f64> {
        let (comm, mut result) = (self.communicator, 0.0_f64);
        let (from, to) = ((&raw const value).cast(), (&raw mut result).cast());
        // SAFETY: both buffers are one double.
        unsafe {
            call!(
                self.table,
                allreduce(from, to, 1, DOUBLE, how.handle(), comm)
            )
        }?;
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
    // One byte more than the standard asks for, so that the text always ends.
    let mut text = vec![0 as c_char; MAX_LIBRARY_VERSION_STRING + 1];
    let mut length = 0;
    // SAFETY: the buffer has the length that the ABI promises to be enough.
    unsafe { call!(table, get_library_version(text.as_mut_ptr(), &mut length)) }?;
    // SAFETY: the last byte was never handed out as part of the text and is zero.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    Ok(text.to_string_lossy().into_owned())
}

/// Returns the library's version and file, for the first line of the output.
fn label(table: &Table) -> Result<String> {
    let version = one_line(&library_version(table)?);
    Ok(format!("{version}, {}", table.file()?.display()))
}
