//! Partitioned communication (MPI-4.1 chapter 4): a message whose parts are sent as soon as they are ready,
//! by whichever thread has finished them.
//!
//! When a send is made it tells its receive, by a message of a context of its own, how it will come: in
//! *groups* of neighbouring partitions, each of which is a message with a tag that no other has. These
//! announcements alone are matched by the program's tags, in the order in which both sides were made. From then on
//! the receive posts a receive for each group, into its place, when it is started; the partitions of the
//! receiving side are nothing but ranges of bytes, so the numbers on both sides have nothing to do with each other.
//!
//! Invariant: threads that mark partitions don't meet. A partition is a bit, and groups of up to 64 have a word of
//! their own, so marking is one atomic instruction; the thread that sets the last bit of a group sends it, by a
//! VCI that groups far from it don't use, if the communicator has several.
//!
//! This room stands above all others of the crate: its messages are ordinary ones, which go in a context of their own
//! ([`Purpose::Partitioned`](crate::comm::Purpose)). Receives whose sends have not been announced yet register with the
//! process as a source of progress. Handles, and which requests are active, belong to `mpi-runtime`.

mod progress;
mod receive;
mod send;
mod waiting;

use std::ops::Range;
use std::sync::Arc;

use crate::comm::Comm;
use crate::datatype::Datatype;
use crate::pt2pt::buffer::Buffer;
use crate::{Class, Error, Result};
use netmod::VciId;

pub use self::receive::PartitionedReceive;
pub use self::send::PartitionedSend;

/// Something that keeps a communicator alive.
pub type Holder = Arc<dyn AsRef<Comm> + Send + Sync>;

/// Bytes of a group at least, about: as much as makes a message worth its while.
const GROUP: usize = 64 << 10;
/// The most, unless a partition alone has more.
const LARGE_GROUP: usize = 1 << 20;
/// Groups of a VCI, if there is much data.
const GROUPS_OF_VCI: usize = 4;
/// The most groups of a send.
const MOST_GROUPS: usize = 1024;

/// The words of an announcement.
type Words = Box<[u64; WORDS]>;
const WORDS: usize = 6;
/// The first of them: what follows is understood.
const FORM: u64 = 0x5765_6674_0001;

/// A partitioned buffer: equal partitions, one behind the other.
pub struct Partitions {
    /// The buffer's address as MPI means it.
    base: *mut u8,
    /// How many partitions.
    number: usize,
    /// Elements of each.
    count: usize,
    datatype: Datatype,
}

// SAFETY: the memory is lent to the library from each start to the completion; which thread touches it makes no
// difference.
unsafe impl Send for Partitions {}
// SAFETY: as above; nothing here changes.
unsafe impl Sync for Partitions {}

impl Partitions {
    /// `number` partitions of `count` elements each at `base`. That all of it can be counted in bytes has been
    /// checked.
    ///
    /// # Safety
    /// The memory is as a [`Buffer`] asks, from each start to the completion that follows.
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

    /// How many there are.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Bytes of one.
    fn bytes(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// Bytes of all.
    fn total(&self) -> usize {
        self.number * self.bytes()
    }

    /// A range of elements.
    ///
    /// # Safety
    /// The program has lent the memory, and nobody else gets this part of it.
    unsafe fn elements(&self, range: Range<usize>) -> Buffer {
        let start = (range.start as isize).wrapping_mul(self.datatype.extent());
        // SAFETY: the caller's promise, and that to `new`.
        unsafe {
            Buffer::typed(
                self.base.wrapping_offset(start),
                range.len(),
                &self.datatype,
            )
        }
    }

    /// The error for a partition that there is not.
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
        0 => "the request has none".to_string(),
        _ => format!("it must be from 0 to {}", number - 1),
    };
    Error::new(
        Class::Arg,
        format!("partition is {partition}; {range}, as said when the request was made"),
    )
}

/// How the data comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    /// Bytes of all of it.
    total: usize,
    /// Bytes of each group but perhaps the last.
    group: usize,
    /// How many groups.
    groups: usize,
    /// The tag of the first.
    base: u32,
}

impl Plan {
    /// The bytes of a group.
    fn range(&self, group: usize) -> Range<usize> {
        let start = (group * self.group).min(self.total);
        start..(start + self.group).min(self.total)
    }

    /// The groups that a range of bytes lies in. Of bytes behind all data: all of them.
    fn groups_of(&self, bytes: Range<usize>) -> Range<usize> {
        if self.total == 0 || bytes.start >= self.total {
            return 0..self.groups;
        }
        match bytes.is_empty() {
            true => 0..0,
            false => bytes.start / self.group..((bytes.end - 1) / self.group + 1).min(self.groups),
        }
    }

    /// The tag of a group: none that a program can give, nor the wildcard.
    fn tag(&self, group: usize) -> i32 {
        let number = (u64::from(self.base) + group as u64) % TAGS;
        i32::MIN + number as i32
    }

    fn to_words(self) -> Words {
        let number = |number: usize| number as u64;
        Box::new([
            FORM,
            number(self.total),
            number(self.group),
            number(self.groups),
            u64::from(self.base),
            0,
        ])
    }

    /// From an announcement; none if it is not one.
    fn from_words(words: &[u64; WORDS]) -> Option<Plan> {
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
        (words[0] == FORM && fits && plan.groups <= MOST_GROUPS).then_some(plan)
    }
}

/// Tags of groups.
const TAGS: u64 = i32::MAX as u64;

/// The VCI of a group: neighbours share one.
fn vci_of(vcis: &[VciId], group: usize, groups: usize) -> VciId {
    vcis[group * vcis.len() / groups.max(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_say_which_groups_a_partition_lies_in() {
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
    fn what_is_no_announcement_is_refused() {
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
