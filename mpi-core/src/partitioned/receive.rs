//! The receiving side.

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
use crate::partitioned::waiting::{Unannounced, wait_among};
use crate::partitioned::{Holder, Partitions, Plan, WORDS, Words, vci_of};

/// Nothing is under way.
const IDLE: u8 = 0;
/// It is being started.
const STARTING: u8 = 1;
/// It was started.
const ACTIVE: u8 = 2;

/// A group's receive is complete, and its data in place.
const ARRIVED: u32 = u32::MAX;
/// A thread brings it to its place.
const PLACING: u32 = u32::MAX - 1;
/// Its receive is still to be posted.
const UNPOSTED: u32 = u32::MAX - 2;

/// A partitioned receive.
pub struct PartitionedReceive {
    holder: Holder,
    data: Partitions,
    rank: u32,
    tag: i32,
    vcis: Box<[VciId]>,
    state: AtomicU8,
    /// Whether this run's receives are posted, or never will be.
    posted: AtomicBool,
    matching: Mutex<Matching>,
    /// What was announced.
    announced: OnceLock<Announced>,
    /// The first groups, which are known to have arrived.
    here: Progress,
    /// The first error of this run.
    failed: Mutex<Option<Error>>,
}

/// What is known of the send.
enum Matching {
    /// Nothing yet.
    Open(Loan<Words>),
    /// All that is to be known.
    Found,
    /// It can't be received from.
    Failed(Error),
}

struct Announced {
    plan: Plan,
    /// Whether all of the data fits; otherwise nothing is put into the buffer.
    fits: bool,
    /// The number of each group's receive, or one of the constants above.
    groups: Box<[AtomicU32]>,
    /// Where groups arrive that end within an element with gaps.
    staging: Option<Staging>,
}

/// Memory for all data, whose parts are lent to receives.
struct Staging {
    start: *mut u8,
    len: usize,
}

// SAFETY: each part of it belongs to one group, and a group to whoever has its state.
unsafe impl Send for Staging {}
// SAFETY: as above.
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
        // SAFETY: made of such a box in `new`; nothing of it is lent any more: that of an active receive is
        // not dropped.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start, self.len)) });
    }
}

impl PartitionedReceive {
    /// Makes one from a rank of a communicator.
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
        // The other side must not find other VCIs when it makes its half.
        comm.begin_use()?;
        let announcement = Loan::new(Words::default(), |buffer| {
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
            here: Progress::default(),
            failed: Mutex::default(),
            holder,
        }))
    }

    fn comm(&self) -> &Comm {
        (*self.holder).as_ref()
    }

    /// The communicator's owner, for errors.
    pub fn owner(&self) -> u32 {
        self.comm().owner()
    }

    /// Whether nothing is under way. While another thread starts it, nothing is yet.
    pub fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) != ACTIVE
    }

    /// Starts it.
    ///
    /// # Errors
    /// [`Class::Request`] if it is active; those of posting receives.
    pub fn start(self: &Arc<Self>, process: &Process) -> Result<()> {
        self.state
            .compare_exchange(IDLE, STARTING, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| active())?;
        if let Some(announced) = self.announced.get() {
            for group in &announced.groups {
                group.store(UNPOSTED, Ordering::Relaxed);
            }
        }
        self.here.begin();
        // Release: another thread that still looks at the run before may find it, and then finds the rest.
        self.posted.store(false, Ordering::Release);
        self.state.store(ACTIVE, Ordering::Release);
        if !self.post(process)? {
            Unannounced::add(process, self);
        }
        Ok(())
    }

    /// Posts the receives of its groups if its send was announced and they are not posted yet. Returns whether
    /// nothing of that is left to be done.
    pub(crate) fn post(&self, process: &Process) -> Result<bool> {
        if self.posted.load(Ordering::Acquire) {
            return Ok(true);
        }
        // Another thread is at it.
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

    /// Takes note of what the sender has announced; why that can't be received.
    fn note(&self, words: &[u64; WORDS], error: Option<Error>) -> Option<Error> {
        if error.is_some() {
            return error;
        }
        let Some(plan) = Plan::from_words(words) else {
            let why = format!(
                "rank {} announced a partitioned send of a form that is not known",
                self.rank
            );
            return Some(Error::new(Class::Other, why));
        };
        let datatype = &self.data.datatype;
        let fits = plan.total <= self.data.total();
        let size = datatype.size().max(1);
        // Elements in one piece can be received in parts.
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
                continue; // what was left of an attempt that failed
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

    /// Where a group's data goes.
    fn place(&self, announced: &Announced, number: usize) -> Buffer {
        // What does not fit is dropped, so that the sender is not left waiting.
        if !announced.fits {
            return Buffer::EMPTY;
        }
        let range = announced.plan.range(number);
        let datatype = &self.data.datatype;
        // SAFETY: each group has a part of the memory of its own, which is lent until the receive is complete.
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

    /// Whether a group is here; brings it to its place.
    #[inline]
    fn arrived(&self, process: &Process, announced: &Announced, number: usize) -> Result<bool> {
        let group = &announced.groups[number];
        let state = group.load(Ordering::Acquire);
        let Some(id) = RequestId::from_index(state) else {
            return Ok(state == ARRIVED);
        };
        let done = |id| process.request(id).is_some_and(|request| request.is_done());
        // If another thread was faster the number may be another request's.
        if !done(id)
            || group
                .compare_exchange(state, PLACING, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return Ok(false);
        }
        // Another thread may have completed the run in which the number was read, and started the next one, in which this
        // group has got the same number again.
        if !done(id) {
            group.store(state, Ordering::Release);
            return Ok(false);
        }
        let (status, error) = process.finish(id)?;
        let range = announced.plan.range(number);
        match error {
            None if status.bytes as usize == range.len() => {
                if let Some(staging) = &announced.staging {
                    // SAFETY: the receive is complete, so this part of the memory is the library's.
                    let data =
                        unsafe { std::slice::from_raw_parts(staging.at(&range), range.len()) };
                    let whole = 0..self.data.number * self.data.count;
                    // SAFETY: only the bytes of this group are written, which nobody else has.
                    unsafe { self.data.elements(whole) }.write(range.start, data);
                }
            }
            // The error for too much data was raised before.
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
                "{bytes} bytes came of a partitioned send of rank {} where {} were announced",
                self.rank,
                range.len()
            ),
        )
    }

    /// Whether a partition is here (MPI-4.1 section 4.2.2), after a look for what has come if it is not. Of an
    /// inactive receive all are.
    ///
    /// # Errors
    /// [`Class::Arg`] for one that there is not.
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
            return Ok(true); // failed, which the completion tells
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

    /// Whether all has arrived, or nothing is under way.
    ///
    /// # Errors
    /// A request is not there.
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
        let all_here = self.here.go_on(announced.groups.len(), |number| {
            let arrived = self.arrived(process, announced, number);
            arrived.unwrap_or_else(|error| {
                result = Err(error);
                false
            })
        });
        result.map(|()| all_here)
    }

    /// The VCIs that it waits on.
    pub fn add_vcis(&self, vcis: &mut Vcis) {
        vcis.add(self.comm().vci());
        self.vcis.iter().for_each(|vci| vcis.add(*vci));
    }

    /// Waits until it is complete.
    ///
    /// # Errors
    /// Those of making progress.
    pub fn wait(&self, process: &Process) -> Result<()> {
        wait_among(process, &self.vcis, || {
            Ok(self.is_complete(process)?.then_some(()))
        })
    }

    /// The status of a complete one.
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

    /// Takes note that it is complete: it is idle then. Returns its status and error. One that is not complete, since
    /// another thread has started it after it was found idle, stays as it is.
    ///
    /// # Errors
    /// Those of [`PartitionedReceive::is_complete`].
    pub fn take(&self, process: &Process) -> Result<(Status, Option<Error>)> {
        if self.is_idle() || !self.is_complete(process)? {
            return Ok((Status::EMPTY, None));
        }
        let status = self.status();
        let error = self.failed.lock().take();
        self.state.store(IDLE, Ordering::Release);
        Ok((status, error))
    }

    /// The program lets go of it. An announcement that has not come is still received, so that those of
    /// others match what they are for.
    ///
    /// # Errors
    /// [`Class::Request`] if it is active.
    pub fn let_go(&self) -> Result<()> {
        match self.is_idle() {
            true => Ok(()),
            false => Err(active()),
        }
    }
}

impl Drop for PartitionedReceive {
    fn drop(&mut self) {
        // Receives of one that is dropped while it is active may still be written to.
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
