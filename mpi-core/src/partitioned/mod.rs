//! Partitioned communication (MPI-4.1 chapter 4): a message whose partitions are sent as soon as
//! they are ready, each group by the thread that completes it.
//!
//! When a send is created, it announces its layout to its receive, in a context of its own:
//! *groups* of neighbouring partitions, each sent as one message with a unique tag. Only the
//! announcements are matched by the program's tags, in the order in which both sides were created.
//! Each time the receive is started, it posts a receive for each group, into its part of the
//! buffer. The receiver's partitions are only ranges of bytes, so that the two sides may have
//! different numbers of them.
//!
//! Invariant: threads that mark partitions do not contend. A partition is a bit, and each group has
//! its own words, so marking is one atomic instruction. The thread that sets the last bit of a
//! group sends it, by a VCI that it shares only with neighbouring groups if the communicator has
//! several.
//!
//! This module uses all others of the crate: its messages are ordinary ones with
//! [`Purpose::Partitioned`](crate::comm::Purpose). Receives whose sends are not announced yet
//! register as a progress source. Handles and the state of requests belong to `mpi-runtime`.

mod progress;
mod receive;
mod send;
mod unannounced;

use std::ops::Range;
use std::sync::Arc;

use crate::comm::Comm;
use crate::datatype::Datatype;
use crate::pt2pt::buffer::Buffer;
use crate::{Class, Error, Result};
use netmod::VciId;

pub use self::receive::PartitionedReceive;
pub use self::send::PartitionedSend;

/// Keeps a communicator alive.
pub type Holder = Arc<dyn AsRef<Comm> + Send + Sync>;

/// Bytes. Minimum size of a group, about, so that it is worth a message.
const GROUP: usize = 64 << 10;
/// Bytes. Maximum size of a group, unless a single partition is larger.
const LARGE_GROUP: usize = 1 << 20;
/// Number of groups per VCI, if there is much data.
const GROUPS_OF_VCI: usize = 4;
/// Maximum number of groups of a send.
const MOST_GROUPS: usize = 1024;

/// The payload of an announcement.
type Announcement = Box<[u64; ANNOUNCEMENT_WORDS]>;
const ANNOUNCEMENT_WORDS: usize = 6;
/// First word of an announcement: identifies the format.
const FORMAT: u64 = 0x5765_6674_0001;

/// A partitioned buffer: equal partitions, one after the other.
pub struct Partitions {
    /// The buffer's address as MPI means it.
    base: *mut u8,
    /// Number of partitions.
    number: usize,
    /// Number of elements per partition.
    count: usize,
    datatype: Datatype,
}

// SAFETY: the program lends the memory to the library from each start to the completion; any thread
// may access it.
unsafe impl Send for Partitions {}
// SAFETY: the fields never change, and the memory is accessed only through buffers made by
// `elements`.
unsafe impl Sync for Partitions {}

impl Partitions {
    /// Describes `number` partitions of `count` elements each at `base`. The caller has checked
    /// that the total size in bytes does not overflow.
    ///
    /// # Safety
    /// The memory meets the requirements of [`Buffer::typed`] from each start to the following
    /// completion.
    pub unsafe fn new(
        base: *mut u8,
        number: usize,
        count: usize,
        datatype: &Datatype,
    ) -> Partitions {
        Partitions {
            base,
            number,
            count,
            datatype: datatype.clone(),
        }
    }

    /// Number of partitions.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Bytes of one partition.
    fn bytes(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// Bytes of all partitions.
    fn total(&self) -> usize {
        self.number * self.bytes()
    }

    /// Makes the buffer of a range of elements.
    ///
    /// # Safety
    /// The operation is active, so that the program lends the memory, and no other buffer of this
    /// part is in use.
    unsafe fn elements(&self, range: Range<usize>) -> Buffer {
        let start = (range.start as isize).wrapping_mul(self.datatype.extent());
        // SAFETY: the caller of `new` keeps the memory valid while the operation is active, which
        // the caller of this function ensures.
        unsafe {
            Buffer::typed(
                self.base.wrapping_offset(start),
                range.len(),
                &self.datatype,
            )
        }
    }

    /// Checks the number of a partition.
    fn check(&self, partition: i64) -> Result<usize> {
        match usize::try_from(partition) {
            Ok(partition) if partition < self.number => Ok(partition),
            _ => Err(no_partition(partition, self.number)),
        }
    }
}

#[cold]
fn no_partition(partition: i64, number: usize) -> Error {
    let range = match number {
        0 => "the request has no partitions".to_string(),
        _ => format!("it must be from 0 to {}", number - 1),
    };
    Error::new(
        Class::Arg,
        format!("partition is {partition}; {range}, as given when the request was created"),
    )
}

/// The layout of a partitioned message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    /// Bytes of all groups.
    total: usize,
    /// Bytes of each group except the last.
    group: usize,
    /// Number of groups.
    groups: usize,
    /// Number of the first group, from which its tag derives.
    base: u32,
}

impl Plan {
    /// Returns the bytes of a group.
    fn range(&self, group: usize) -> Range<usize> {
        let start = (group * self.group).min(self.total);
        start..(start + self.group).min(self.total)
    }

    /// Returns the groups that a range of bytes overlaps; all groups if the range is behind the
    /// data.
    fn groups_of(&self, bytes: Range<usize>) -> Range<usize> {
        if self.total == 0 || bytes.start >= self.total {
            return 0..self.groups;
        }
        match bytes.is_empty() {
            true => 0..0,
            false => bytes.start / self.group..((bytes.end - 1) / self.group + 1).min(self.groups),
        }
    }

    /// Returns the tag of a group, which is never a tag of the program or the wildcard.
    fn tag(&self, group: usize) -> i32 {
        let number = (u64::from(self.base) + group as u64) % TAGS;
        i32::MIN + number as i32
    }

    fn to_words(self) -> Announcement {
        let number = |number: usize| number as u64;
        Box::new([
            FORMAT,
            number(self.total),
            number(self.group),
            number(self.groups),
            u64::from(self.base),
            0,
        ])
    }

    /// Parses an announcement. Returns `None` if it is malformed.
    fn from_words(words: &[u64; ANNOUNCEMENT_WORDS]) -> Option<Plan> {
        let number = |at: usize| usize::try_from(words[at]).ok();
        let plan = Plan {
            total: number(1)?,
            group: number(2)?,
            groups: number(3)?,
            base: u32::try_from(words[4]).ok()?,
        };
        let fits = match plan.total {
            0 => plan.groups <= 1,
            total => plan.group > 0 && total.div_ceil(plan.group) == plan.groups,
        };
        (words[0] == FORMAT && fits && plan.groups <= MOST_GROUPS).then_some(plan)
    }
}

/// Number of tags of groups.
const TAGS: u64 = i32::MAX as u64;

/// Returns the VCI of a group. Neighbours share a VCI.
fn vci_of(vcis: &[VciId], group: usize, groups: usize) -> VciId {
    vcis[group * vcis.len() / groups.max(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_map_partitions_to_groups() {
        let plan = Plan {
            total: 100,
            group: 30,
            groups: 4,
            base: i32::MAX as u32 - 1,
        };
        assert_eq!(plan.range(0), 0..30);
        assert_eq!(plan.range(3), 90..100);
        assert_eq!(plan.groups_of(0..30), 0..1);
        assert_eq!(plan.groups_of(29..31), 0..2);
        assert_eq!(plan.groups_of(90..100), 3..4);
        assert_eq!(plan.groups_of(0..100), 0..4);
        assert_eq!(plan.groups_of(40..40), 0..0);
        assert_eq!(plan.groups_of(90..130), 3..4);
        assert_eq!(plan.groups_of(100..130), 0..4);
        assert_eq!(plan.groups_of(270..300), 0..4);
        assert_eq!(Plan::from_words(&plan.to_words()), Some(plan));
        let tags: Vec<i32> = (0..4).map(|group| plan.tag(group)).collect();
        assert_eq!(tags, [-2, i32::MIN, i32::MIN + 1, i32::MIN + 2]);
    }

    #[test]
    fn malformed_announcements_are_refused() {
        let words = Plan {
            total: 64,
            group: 16,
            groups: 4,
            base: 0,
        }
        .to_words();
        for (at, value) in [(0, 1), (1, 65), (2, 0), (3, 3), (3, 1 << 40), (4, 1 << 32)] {
            let mut words = words.clone();
            words[at] = value;
            assert_eq!(Plan::from_words(&words), None, "{at}");
        }
    }

    #[test]
    fn neighbouring_groups_share_a_vci() {
        let vcis = [3, 5];
        let of: Vec<VciId> = (0..4).map(|group| vci_of(&vcis, group, 4)).collect();
        assert_eq!(of, [3, 3, 5, 5]);
        assert_eq!(vci_of(&[7], 0, 1), 7);
    }
}
