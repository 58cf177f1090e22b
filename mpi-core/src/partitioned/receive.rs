//! Partitioned receives.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::comm::{Comm, Purpose, receive_by};
use crate::process::loan::Loan;
use crate::process::{Process, Vcis};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::request::{Cancelled, RequestId, Status};
use crate::{Class, Error, Result};
use netmod::VciId;
use parking_lot::Mutex;

use crate::partitioned::progress::Progress;
use crate::partitioned::send::active;
use crate::partitioned::unannounced::{Unannounced, wait_among};
use crate::partitioned::{ANNOUNCEMENT_WORDS, Announcement, Holder, Partitions, Plan, vci_of};

/// The receive is inactive.
const IDLE: u8 = 0;
/// The receive is being started.
const STARTING: u8 = 1;
/// The receive is active.
const ACTIVE: u8 = 2;

/// State of a group whose data is in the receive buffer.
const ARRIVED: u32 = u32::MAX;
/// State of a group whose data a thread is unpacking.
const PLACING: u32 = u32::MAX - 1;
/// State of a group whose receive is not posted.
const UNPOSTED: u32 = u32::MAX - 2;

/// A partitioned receive.
pub struct PartitionedReceive {
    holder: Holder,
    data: Partitions,
    rank: u32,
    tag: i32,
    vcis: Box<[VciId]>,
    state: AtomicU8,
    /// Whether the receives of this activation are posted, or will not be.
    posted: AtomicBool,
    matching: Mutex<Matching>,
    /// The announcement.
    announced: OnceLock<Announced>,
    /// The leading groups that are known to have arrived.
    arrived_prefix: Progress,
    /// The first error of this activation.
    failed: Mutex<Option<Error>>,
}

/// The state of the match with the send.
enum Matching {
    /// The announcement has not arrived.
    Open(Loan<Announcement>),
    /// The announcement has arrived.
    Found,
    /// The send cannot be received.
    Failed(Error),
}

struct Announced {
    plan: Plan,
    /// Whether all data fits the buffer; otherwise none is received.
    fits: bool,
    /// The id of each group's receive, or [`ARRIVED`], [`PLACING`] or [`UNPOSTED`].
    groups: Box<[AtomicU32]>,
    /// Buffer for groups that end within an element with gaps.
    staging: Option<Staging>,
}

/// Memory for all data, whose parts are lent to the groups' receives.
struct Staging {
    start: *mut u8,
    len: usize,
}

// SAFETY: each part belongs to one group, and is accessed only by its receive and then by the
// thread that sets the group to PLACING.
unsafe impl Send for Staging {}
// SAFETY: each part belongs to one group, and is accessed only by its receive and then by the
// thread that sets the group to PLACING.
unsafe impl Sync for Staging {}

impl Staging {
    fn new(len: usize) -> Staging {
        let memory: Box<[u8]> = vec![0; len].into();
        Staging {
            start: Box::into_raw(memory).cast(),
            len,
        }
    }

    fn at(&self, range: &Range<usize>) -> *mut u8 {
        debug_assert!(range.end <= self.len);
        self.start.wrapping_add(range.start)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: `new` made the pointer from a box of this length. No receive uses the memory:
        // `PartitionedReceive::drop` forgets the staging of an active receive.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start, self.len)) });
    }
}

impl PartitionedReceive {
    /// Creates a partitioned receive from a rank of a communicator.
    ///
    /// # Errors
    /// The process of that rank is lost, or there are too many requests.
    pub fn new(
        process: &Process,
        holder: Holder,
        data: Partitions,
        rank: u32,
        tag: i32,
    ) -> Result<Arc<PartitionedReceive>> {
        let comm: &Comm = (*holder).as_ref();
        // Fixes the VCIs, so that both sides use the same ones.
        comm.begin_use()?;
        let announcement = Loan::new(Announcement::default(), |buffer| {
            let (vci, purpose) = (comm.vci(), Purpose::Partitioned);
            receive_by(process, comm, vci, purpose, buffer, rank as i32, tag)
        })?;
        Ok(Arc::new(PartitionedReceive {
            vcis: comm.partition_vcis().into(),
            data,
            rank,
            tag,
            state: AtomicU8::new(IDLE),
            posted: AtomicBool::new(true),
            matching: Mutex::new(Matching::Open(announcement)),
            announced: OnceLock::new(),
            arrived_prefix: Progress::default(),
            failed: Mutex::default(),
            holder,
        }))
    }

    fn comm(&self) -> &Comm {
        (*self.holder).as_ref()
    }

    /// Returns the communicator's owner, for errors.
    pub fn owner(&self) -> u32 {
        self.comm().owner()
    }

    /// Whether the receive is inactive. It still is while another thread starts it.
    pub fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) != ACTIVE
    }

    /// Starts the receive.
    ///
    /// # Errors
    /// [`Class::Request`] if the receive is active; errors of posting the groups' receives.
    pub fn start(self: &Arc<Self>, process: &Process) -> Result<()> {
        self.state
            .compare_exchange(IDLE, STARTING, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| active())?;
        if let Some(announced) = self.announced.get() {
            for group in &announced.groups {
                group.store(UNPOSTED, Ordering::Relaxed);
            }
        }
        self.arrived_prefix.begin();
        // Release: a thread that still checks the previous activation sees the reset groups.
        self.posted.store(false, Ordering::Release);
        self.state.store(ACTIVE, Ordering::Release);
        if !self.post(process)? {
            Unannounced::add(process, self);
        }
        Ok(())
    }

    /// Posts the receives of all groups once the send is announced. Returns whether that is done.
    pub(crate) fn post(&self, process: &Process) -> Result<bool> {
        if self.posted.load(Ordering::Acquire) {
            return Ok(true);
        }
        // The thread that holds the lock posts them.
        let Some(mut matching) = self.matching.try_lock() else {
            return Ok(false);
        };
        if self.posted.load(Ordering::Acquire) {
            return Ok(true);
        }
        if let Matching::Open(loan) = &*matching {
            if !loan.is_done(process) {
                return Ok(false);
            }
            if let Matching::Open(loan) = std::mem::replace(&mut *matching, Matching::Found) {
                let (words, error) = loan.take(process)?;
                if let Some(why) = self.note(&words, error) {
                    *matching = Matching::Failed(why);
                }
            }
        }
        match (&*matching, self.announced.get()) {
            (Matching::Failed(why), _) => {
                self.failed.lock().get_or_insert(why.clone());
            }
            (_, Some(announced)) => self.post_groups(process, announced)?,
            (_, None) => {}
        }
        self.posted.store(true, Ordering::Release);
        process.notify();
        Ok(true)
    }

    /// Processes the announcement. Returns an error if the send cannot be received.
    fn note(&self, words: &[u64; ANNOUNCEMENT_WORDS], error: Option<Error>) -> Option<Error> {
        if error.is_some() {
            return error;
        }
        let Some(plan) = Plan::from_words(words) else {
            let why = format!(
                "rank {} announced a partitioned send in an unknown format; run the same Weft on all ranks",
                self.rank
            );
            return Some(Error::new(Class::Other, why));
        };
        let datatype = &self.data.datatype;
        let fits = plan.total <= self.data.total();
        let size = datatype.size().max(1);
        // Contiguous elements can be received in parts.
        let whole = datatype.is_contiguous() || (plan.group % size == 0 && plan.total % size == 0);
        let _ = self.announced.set(Announced {
            plan,
            fits,
            groups: (0..plan.groups).map(|_| AtomicU32::new(UNPOSTED)).collect(),
            staging: (fits && !whole).then(|| Staging::new(plan.total)),
        });
        None
    }

    fn post_groups(&self, process: &Process, announced: &Announced) -> Result<()> {
        let Announced { plan, groups, .. } = announced;
        for (number, group) in groups.iter().enumerate() {
            if group.load(Ordering::Relaxed) != UNPOSTED {
                continue; // posted by an earlier attempt that failed later
            }
            let buffer = self.place(announced, number);
            let id = receive_by(
                process,
                self.comm(),
                vci_of(&self.vcis, number, plan.groups),
                Purpose::Partitioned,
                buffer,
                self.rank as i32,
                plan.tag(number),
            )?;
            group.store(id.index(), Ordering::Release);
        }
        if !announced.fits {
            self.failed
                .lock()
                .get_or_insert_with(|| self.truncation(plan));
        }
        Ok(())
    }

    #[cold]
    fn truncation(&self, plan: &Plan) -> Error {
        Error::new(
            Class::Truncate,
            format!(
                "the partitioned send of rank {} with tag {} has {} bytes, and this receive has {}; partitions \
                 times count must describe at least as much data as the send has",
                self.rank,
                self.tag,
                plan.total,
                self.data.total()
            ),
        )
    }

    /// Returns the buffer of a group's receive.
    fn place(&self, announced: &Announced, number: usize) -> Buffer {
        // An empty buffer truncates the data, so that the sender completes.
        if !announced.fits {
            return Buffer::EMPTY;
        }
        let range = announced.plan.range(number);
        let datatype = &self.data.datatype;
        // SAFETY: the receive is active, and each group has its own part of the buffer or the
        // staging memory.
        unsafe {
            if let Some(staging) = &announced.staging {
                return Buffer::bytes(staging.at(&range), range.len());
            }
            if datatype.is_contiguous() {
                let first = self.data.base.wrapping_offset(datatype.true_lb());
                return Buffer::bytes(first.wrapping_add(range.start), range.len());
            }
            let size = datatype.size();
            self.data.elements(range.start / size..range.end / size)
        }
    }

    /// Whether a group has arrived. Unpacks its data if it was staged.
    #[inline]
    fn arrived(&self, process: &Process, announced: &Announced, number: usize) -> Result<bool> {
        let group = &announced.groups[number];
        let state = group.load(Ordering::Acquire);
        let Some(id) = RequestId::from_index(state) else {
            return Ok(state == ARRIVED);
        };
        let done = |id| process.request(id).is_some_and(|request| request.is_done());
        // If another thread has completed the group, the id may belong to another request.
        if !done(id)
            || group
                .compare_exchange(state, PLACING, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return Ok(false);
        }
        // Another thread may have completed the activation in which the id was read, and started
        // the next one, in which this group got the same id again.
        if !done(id) {
            group.store(state, Ordering::Release);
            return Ok(false);
        }
        let (status, error) = process.finish(id)?;
        let range = announced.plan.range(number);
        match error {
            None if status.bytes as usize == range.len() => {
                if let Some(staging) = &announced.staging {
                    // SAFETY: the group is PLACING and its receive complete, so only this thread
                    // accesses its part of the staging memory.
                    let data =
                        unsafe { std::slice::from_raw_parts(staging.at(&range), range.len()) };
                    let whole = 0..self.data.number * self.data.count;
                    // SAFETY: the receive is active; only the bytes of this group are written, and
                    // only by this thread.
                    unsafe { self.data.elements(whole) }.write(range.start, data);
                }
            }
            // The truncation of all groups was reported when they were posted.
            _ if !announced.fits && error.as_ref().is_none_or(is_truncation) => {}
            error => {
                let mut failed = self.failed.lock();
                failed.get_or_insert(error.unwrap_or_else(|| self.too_short(&range, status.bytes)));
            }
        }
        group.store(ARRIVED, Ordering::Release);
        Ok(true)
    }

    #[cold]
    fn too_short(&self, range: &Range<usize>, bytes: u64) -> Error {
        Error::new(
            Class::Other,
            format!(
                "internal error: a group of the partitioned send of rank {} has {bytes} bytes, not {}",
                self.rank,
                range.len()
            ),
        )
    }

    /// Whether a partition has arrived (MPI-4.1 section 4.2.2). Polls once if not. True for an
    /// inactive receive.
    ///
    /// # Errors
    /// [`Class::Arg`] for an invalid partition.
    pub fn has_arrived(&self, process: &Process, partition: i64) -> Result<bool> {
        let partition = self.data.check(partition)?;
        if self.look(process, partition)? {
            return Ok(true);
        }
        let vci = match self.announced.get() {
            Some(announced) => {
                let first = announced.plan.groups_of(self.bytes_of(partition)).start;
                vci_of(&self.vcis, first, announced.plan.groups)
            }
            None => self.comm().vci(),
        };
        process.poll(vci)?;
        let here = self.look(process, partition)?;
        if !here {
            process.yield_after_test();
        }
        Ok(here)
    }

    fn bytes_of(&self, partition: usize) -> Range<usize> {
        let bytes = self.data.bytes();
        partition * bytes..(partition + 1) * bytes
    }

    fn look(&self, process: &Process, partition: usize) -> Result<bool> {
        if self.is_idle() {
            return Ok(true);
        }
        if !self.post(process)? {
            return Ok(false);
        }
        let Some(announced) = self.announced.get() else {
            return Ok(true); // the completion reports the failure
        };
        let groups = match announced.fits {
            true => announced.plan.groups_of(self.bytes_of(partition)),
            false => 0..announced.plan.groups,
        };
        for number in groups {
            if !self.arrived(process, announced, number)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the receive is complete or inactive.
    ///
    /// # Errors
    /// If a request does not exist.
    pub fn is_complete(&self, process: &Process) -> Result<bool> {
        if self.is_idle() {
            return Ok(true);
        }
        if !self.post(process)? {
            return Ok(false);
        }
        let Some(announced) = self.announced.get() else {
            return Ok(true);
        };
        let mut result = Ok(());
        let all_here = self
            .arrived_prefix
            .advance(announced.groups.len(), |number| {
                let arrived = self.arrived(process, announced, number);
                arrived.unwrap_or_else(|error| {
                    result = Err(error);
                    false
                })
            });
        result.map(|()| all_here)
    }

    /// Adds the VCIs that the receive waits on.
    pub fn add_vcis(&self, vcis: &mut Vcis) {
        vcis.add(self.comm().vci());
        self.vcis.iter().for_each(|vci| vcis.add(*vci));
    }

    /// Waits until the receive is complete.
    ///
    /// # Errors
    /// Errors of making progress.
    pub fn wait(&self, process: &Process) -> Result<()> {
        wait_among(process, &self.vcis, || {
            Ok(self.is_complete(process)?.then_some(()))
        })
    }

    /// Returns the status of a complete receive.
    pub fn status(&self) -> Status {
        match self.is_idle() {
            true => Status::EMPTY,
            false => Status {
                source: self.rank as i32,
                tag: self.tag,
                bytes: self.announced.get().map_or(0, |known| known.plan.total) as u64,
                cancelled: Cancelled::No,
            },
        }
    }

    /// Makes a complete receive inactive, and returns its status and error. Has no effect on a
    /// pending receive, which another thread may have started since the caller's check.
    ///
    /// # Errors
    /// Errors of [`PartitionedReceive::is_complete`].
    pub fn take(&self, process: &Process) -> Result<(Status, Option<Error>)> {
        if self.is_idle() || !self.is_complete(process)? {
            return Ok((Status::EMPTY, None));
        }
        let status = self.status();
        let error = self.failed.lock().take();
        self.state.store(IDLE, Ordering::Release);
        Ok((status, error))
    }

    /// Releases the receive. A pending announcement is still received, so that later ones match
    /// their own receives.
    ///
    /// # Errors
    /// [`Class::Request`] if the receive is active.
    pub fn release(&self) -> Result<()> {
        match self.is_idle() {
            true => Ok(()),
            false => Err(active()),
        }
    }
}

impl Drop for PartitionedReceive {
    fn drop(&mut self) {
        // Receives of an active operation may still write the staging memory, which therefore
        // leaks.
        if !self.is_idle()
            && let Some(announced) = self.announced.get_mut()
        {
            std::mem::forget(announced.staging.take());
        }
    }
}

fn is_truncation(error: &Error) -> bool {
    error.class() == Class::Truncate
}
