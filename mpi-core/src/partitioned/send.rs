//! Partitioned sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::comm::{Comm, Purpose, send_by};
use crate::process::loan::Loan;
use crate::process::{Process, Vcis};
use crate::pt2pt::request::RequestId;
use crate::{Class, Error, Result};
use netmod::VciId;
use parking_lot::Mutex;

use crate::partitioned::progress::Progress;
use crate::partitioned::unannounced::wait_among;
use crate::partitioned::{
    Announcement, GROUP, GROUPS_OF_VCI, Holder, LARGE_GROUP, MOST_GROUPS, Partitions, Plan, TAGS,
    vci_of,
};

/// The send is inactive.
const IDLE: u8 = 0;
/// The send is being started.
const STARTING: u8 = 1;
/// The send is active.
const ACTIVE: u8 = 2;

/// Outcome of a group that is not sent.
const WAITING: u32 = u32::MAX;
/// Outcome of a group that is sent and whose memory is free.
const SENT: u32 = u32::MAX - 1;

/// A group, on cache lines of its own.
#[repr(align(64))]
struct Group {
    /// Bits of the first 64 partitions that are ready; further ones are in `more`.
    ready: AtomicU64,
    more: Box<[AtomicU64]>,
    /// Number of words that are not full.
    left: AtomicU32,
    /// The id of its send, or [`WAITING`] or [`SENT`].
    outcome: AtomicU32,
}

/// A partitioned send.
pub struct PartitionedSend {
    holder: Holder,
    data: Partitions,
    rank: u32,
    plan: Plan,
    /// Number of partitions of each group except the last.
    per_group: usize,
    vcis: Box<[VciId]>,
    state: AtomicU8,
    groups: Box<[Group]>,
    /// The leading groups that are known to be sent.
    sent_prefix: Progress,
    /// The first error of a group that could not be sent.
    failed: Mutex<Option<Error>>,
    /// The announcement, until it is sent.
    announced: Mutex<Option<Loan<Announcement>>>,
}

impl PartitionedSend {
    /// Creates a partitioned send to a rank of a communicator, and sends its announcement.
    ///
    /// # Errors
    /// The process of that rank is lost, or there are too many requests.
    pub fn new(
        process: &Process,
        holder: Holder,
        data: Partitions,
        rank: u32,
        tag: i32,
    ) -> Result<Arc<PartitionedSend>> {
        let comm: &Comm = (*holder).as_ref();
        // Fixes the VCIs, so that both sides use the same ones.
        comm.begin_use()?;
        let vcis: Box<[VciId]> = comm.partition_vcis().into();
        let per_group = per_group(data.number, data.bytes(), vcis.len());
        let groups = data.number.div_ceil(per_group);
        let plan = Plan {
            total: data.total(),
            group: per_group * data.bytes(),
            groups,
            base: comm.next_groups(groups as u32, TAGS as u32),
        };
        let words = per_group.div_ceil(64);
        let group = |_| Group {
            ready: AtomicU64::new(0),
            more: (1..words).map(|_| AtomicU64::new(0)).collect(),
            left: AtomicU32::new(0),
            outcome: AtomicU32::new(SENT),
        };
        let announced = Loan::send(plan.to_words(), |buffer| {
            let vci = comm.vci();
            send_by(process, comm, vci, Purpose::Partitioned, buffer, rank, tag)
        })?;
        Ok(Arc::new(PartitionedSend {
            rank,
            plan,
            per_group,
            vcis,
            state: AtomicU8::new(IDLE),
            groups: (0..plan.groups).map(group).collect(),
            sent_prefix: Progress::default(),
            failed: Mutex::default(),
            announced: Mutex::new(announced),
            data,
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

    /// Whether the send is inactive. It still is while another thread starts it.
    pub fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) != ACTIVE
    }

    /// Number of partitions of group `group`.
    fn size_of(&self, group: usize) -> usize {
        let first = group * self.per_group;
        self.per_group.min(self.data.number - first)
    }

    /// Starts the send with no partition ready.
    ///
    /// # Errors
    /// [`Class::Request`] if the send is active.
    pub fn start(&self) -> Result<()> {
        self.state
            .compare_exchange(IDLE, STARTING, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| active())?;
        for (number, group) in self.groups.iter().enumerate() {
            let size = self.size_of(number);
            group.ready.store(0, Ordering::Relaxed);
            for word in &group.more {
                word.store(0, Ordering::Relaxed);
            }
            group
                .left
                .store(size.div_ceil(64) as u32, Ordering::Relaxed);
            group.outcome.store(WAITING, Ordering::Relaxed);
        }
        self.sent_prefix.begin();
        self.state.store(ACTIVE, Ordering::Release);
        Ok(())
    }

    /// Marks partitions `first` to `last` ready. Any thread may call it (MPI-4.1 section 4.2.1).
    ///
    /// # Errors
    /// [`Class::Arg`] for an invalid partition or one that is ready already; [`Class::Request`] if
    /// the send is inactive. Partitions before the erroneous one stay marked.
    #[inline]
    pub fn ready(&self, process: &Process, first: i64, last: i64) -> Result<()> {
        let first = self.data.check(first)?;
        let last = self.data.check(last)?;
        if self.state.load(Ordering::Acquire) != ACTIVE {
            return Err(inactive());
        }
        (first..=last).try_for_each(|partition| self.mark(process, partition))
    }

    #[inline]
    fn mark(&self, process: &Process, partition: usize) -> Result<()> {
        let number = partition / self.per_group;
        let within = partition % self.per_group;
        let group = &self.groups[number];
        let word = match within / 64 {
            0 => &group.ready,
            more => &group.more[more - 1],
        };
        let bit = 1u64 << (within % 64);
        // Release: the thread that sends sees the data. Acquire: this thread may be the one.
        let before = word.fetch_or(bit, Ordering::AcqRel);
        if before & bit != 0 {
            return Err(twice(partition));
        }
        let size = self.size_of(number);
        let in_word = (size - within / 64 * 64).min(64);
        let full = u64::MAX >> (64 - in_word);
        if before | bit == full && (size <= 64 || group.left.fetch_sub(1, Ordering::AcqRel) == 1) {
            self.send(process, number);
        }
        Ok(())
    }

    /// Sends a group whose partitions are all ready.
    fn send(&self, process: &Process, number: usize) {
        let first = number * self.per_group;
        let elements = first * self.data.count..(first + self.size_of(number)) * self.data.count;
        // SAFETY: the program has marked the partitions ready, and does not access them until the
        // send is complete; each group is sent once per activation.
        let buffer = unsafe { self.data.elements(elements) };
        let sent = send_by(
            process,
            self.comm(),
            vci_of(&self.vcis, number, self.plan.groups),
            Purpose::Partitioned,
            buffer,
            self.rank,
            self.plan.tag(number),
        );
        let outcome = match sent {
            Ok(started) => started.map_or(SENT, RequestId::index),
            Err(error) => {
                self.failed.lock().get_or_insert(error);
                SENT
            }
        };
        self.groups[number]
            .outcome
            .store(outcome, Ordering::Release);
        process.notify();
    }

    /// Whether all groups are sent, or the send is inactive.
    pub fn is_complete(&self, process: &Process) -> bool {
        if self.is_idle() {
            return true;
        }
        self.sent_prefix.advance(self.groups.len(), |number| {
            let group = &self.groups[number];
            let outcome = group.outcome.load(Ordering::Acquire);
            match RequestId::from_index(outcome) {
                Some(id) => process.request(id).is_none_or(|request| request.is_done()),
                None => outcome == SENT,
            }
        })
    }

    /// Adds the VCIs that the send waits on.
    pub fn add_vcis(&self, vcis: &mut Vcis) {
        self.vcis.iter().for_each(|vci| vcis.add(*vci));
    }

    /// Waits until the send is complete, for which other threads must mark the remaining
    /// partitions.
    ///
    /// # Errors
    /// Errors of making progress.
    pub fn wait(&self, process: &Process) -> Result<()> {
        wait_among(process, &self.vcis, || {
            Ok(self.is_complete(process).then_some(()))
        })
    }

    /// Makes a complete send inactive, and returns its error. Has no effect on a pending send,
    /// which another thread may have started since the caller's check.
    ///
    /// # Errors
    /// If a request does not exist.
    pub fn take(&self, process: &Process) -> Result<Option<Error>> {
        if self.is_idle() || !self.is_complete(process) {
            return Ok(None);
        }
        let mut error = self.failed.lock().take();
        for group in &self.groups {
            let outcome = group.outcome.swap(SENT, Ordering::AcqRel);
            if let Some(id) = RequestId::from_index(outcome) {
                error = error.or(process.finish(id)?.1);
            }
        }
        self.forget_announcement(process)?;
        self.state.store(IDLE, Ordering::Release);
        Ok(error)
    }

    fn forget_announcement(&self, process: &Process) -> Result<()> {
        let mut announced = self.announced.lock();
        if announced.as_ref().is_some_and(|loan| loan.is_done(process))
            && let Some(loan) = announced.take()
        {
            loan.take(process)?;
        }
        Ok(())
    }

    /// Releases the send. A pending announcement is sent without it.
    ///
    /// # Errors
    /// [`Class::Request`] if the send is active.
    pub fn release(&self, process: &Process) -> Result<()> {
        if !self.is_idle() {
            return Err(active());
        }
        self.forget_announcement(process)
    }
}

/// Number of partitions that make a group.
fn per_group(number: usize, bytes: usize, vcis: usize) -> usize {
    if bytes == 0 {
        return number.max(1); // one empty message
    }
    // Groups grow with the data: each VCI has a few, one of which is filled while others are sent.
    let group = (number * bytes / (GROUPS_OF_VCI * vcis.max(1))).clamp(GROUP, LARGE_GROUP);
    let by_size = group / bytes;
    // Each VCI gets some groups, but small ones are not worth a message.
    let by_vcis = number.div_ceil(vcis.max(1));
    let least = number.div_ceil(MOST_GROUPS);
    by_size.min(by_vcis).max(least).max(1)
}

#[cold]
pub(crate) fn active() -> Error {
    Error::new(
        Class::Request,
        "the partitioned request is active; complete it (MPI_Wait, MPI_Test) first",
    )
}

#[cold]
pub(crate) fn inactive() -> Error {
    Error::new(
        Class::Request,
        "the partitioned request is not active; call MPI_Start before partitions are marked ready",
    )
}

#[cold]
fn twice(partition: usize) -> Error {
    Error::new(
        Class::Arg,
        format!("partition {partition} is already marked ready; mark it once after each MPI_Start"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_worth_a_message_and_keep_all_vcis_busy() {
        assert_eq!(per_group(64, 4096, 1), 16);
        assert_eq!(per_group(64, 4096, 8), 8);
        assert_eq!(per_group(64, 8, 1), 64);
        assert_eq!(per_group(4, 1 << 20, 2), 1);
        assert_eq!(per_group(64, 64 << 10, 2), 8);
        assert_eq!(per_group(1024, 64 << 10, 1), 16);
        assert_eq!(per_group(1 << 20, 1 << 20, 1), 1024);
        assert_eq!(per_group(0, 8, 1), 1);
        assert_eq!(per_group(10, 0, 1), 10);
    }
}
