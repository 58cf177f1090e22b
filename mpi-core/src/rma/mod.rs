//! One-sided communication (MPI-3.1 chapter 11): windows, transfers, synchronisation.
//!
//! All members of a window reach each other in one of three ways, so that each window has one
//! domain of atomicity:
//!
//! - *mapped*: they are on one node and its memory is shared memory that all have mapped. Transfers
//!   are copies and the processor's atomic operations.
//! - *copied*: they are on one node, but the program gave the memory. The kernel copies between
//!   address spaces; accumulates do so under a lock of the target's.
//! - *messages*: all else. Targets carry out what origins ask for while they make progress.
//!
//! In the first two ways synchronisation is by words in shared memory, and no target need enter the
//! library for an origin to go on.

mod apply;
mod control;
mod lanes;
mod message;
mod serve;
mod sync;
mod transfer;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};

use netmod::{OpenError, RemoteKey, SharedPiece};
use parking_lot::Mutex;

use crate::comm::Comm;
use crate::error::{Class, Error, Result};
use crate::group::Group;
use crate::mapping::Wishes;
use crate::process::Process;
use control::Control;
use serve::Service;
pub(crate) use serve::Windows;
use sync::Epochs;
pub use sync::FenceAssert;
pub use transfer::{Form, Origin, Target};

const PAGE: usize = 4096;

/// What memory a window is made of (`MPI_WIN_CREATE_FLAVOR`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavor {
    /// The program's (`MPI_Win_create`), at this address.
    Created(*mut u8),
    /// The library's (`MPI_Win_allocate`).
    Allocated,
    /// The library's, to be used by all members directly (`MPI_Win_allocate_shared`), of one piece
    /// or each member's on pages of its own.
    Shared {
        /// One member's memory follows the other's without a gap.
        contiguous: bool,
    },
    /// What the program attaches later (`MPI_Win_create_dynamic`).
    Dynamic,
}

/// How members reach each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Mapped,
    Copied,
    Messages,
}

/// A member's part of a window.
struct Member {
    /// Where it is there: 0 for dynamic windows, whose displacements are addresses.
    address: u64,
    size: u64,
    unit: i64,
    /// Where it is here, if it can be reached so.
    here: Option<*mut u8>,
}

/// A window.
pub struct Window {
    comm: Arc<Comm>,
    flavor: Flavor,
    base: *mut u8,
    members: Box<[Member]>,
    way: Way,
    control: Option<Control>,
    service: Option<Arc<Service>>,
    epochs: Epochs,
    /// To which targets something has been sent that no answer has confirmed.
    dirty: Box<[AtomicU8]>,
    attached: Mutex<Vec<(usize, usize)>>,
    name: Mutex<String>,
    /// What the way was chosen by: read by others, to find out whether they can.
    _probe: Box<AtomicU64>,
    /// Last, since the above is in it.
    _memory: Memory,
}

// SAFETY: the pointers are to the window's memory, which the program has lent for it (section
// 11.2.1) or which the window owns; who may change it when is for the program to settle by epochs.
unsafe impl Send for Window {}
// SAFETY: as above; everything else is atomics and locks.
unsafe impl Sync for Window {}

/// What a window owns.
#[derive(Default)]
struct Memory {
    piece: Option<Box<dyn SharedPiece>>,
    heap: Vec<Heap>,
}

/// Zeroed memory of this process alone.
struct Heap(*mut u8, Layout);

impl Heap {
    fn new(len: usize) -> Result<Heap> {
        let layout = Layout::from_size_align(len.max(1), PAGE);
        // SAFETY: the layout's size is not zero.
        let made = layout
            .ok()
            .map(|layout| Heap(unsafe { alloc_zeroed(layout) }, layout));
        made.filter(|heap| !heap.0.is_null()).ok_or_else(|| {
            Error::new(
                Class::NoMem,
                format!("{len} bytes of memory for a window are not to be had; ask for less"),
            )
        })
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: allocated with this layout, and the window that used it is gone.
            unsafe { dealloc(self.0, self.1) };
        }
    }
}

/// Where the parts of a window's piece begin: the control blocks first.
struct Parts {
    at: Vec<usize>,
    total: usize,
}

impl Parts {
    fn new(flavor: Flavor, sizes: impl Iterator<Item = u64> + Clone) -> Option<Parts> {
        let members = sizes.clone().count();
        let mut next = Control::len(members).checked_next_multiple_of(PAGE)?;
        let mut at = Vec::with_capacity(members);
        for size in sizes {
            at.push(next);
            let size = match flavor {
                Flavor::Created(_) | Flavor::Dynamic => 0,
                Flavor::Shared { contiguous: true } => usize::try_from(size).ok()?,
                _ => usize::try_from(size).ok()?.checked_next_multiple_of(PAGE)?,
            };
            next = next
                .checked_add(size)
                .filter(|next| *next <= isize::MAX as usize)?;
        }
        Some(Parts { at, total: next })
    }
}

impl Window {
    /// Makes a window of the members of an intracommunicator; all call it. `size` is in bytes. If all
    /// have the same `wishes` for VCIs and these can be had, the window has them.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SHARED` where memory can't be shared by all members though it must,
    /// `MPI_ERR_NO_MEM` where there is not enough.
    ///
    /// # Safety
    /// The memory of a window that is [`Flavor::Created`] is valid until the window is dropped.
    pub unsafe fn new(
        process: &Process,
        comm: &Comm,
        flavor: Flavor,
        size: usize,
        unit: i32,
        wishes: &Wishes,
    ) -> Result<Window> {
        let comm = Arc::new(process.dup_comm(comm)?);
        process.agree_on_vcis(&comm, &wishes.for_window())?;
        let me = comm.rank() as usize;
        let count = comm.size() as usize;
        let probe = Box::new(AtomicU64::new(0));
        let own_base = match flavor {
            Flavor::Created(base) => base,
            _ => std::ptr::null_mut(),
        };
        let shared = matches!(flavor, Flavor::Shared { .. });
        let peers = (0..comm.size()).map(|rank| comm.local().peer(rank));
        let local = peers
            .clone()
            .all(|peer| peer == process.me() || process.is_local(peer));
        let told = process.gather_all_u64(
            &comm,
            [
                own_base.expose_provenance() as u64,
                size as u64,
                u64::from(unit as u32),
                u64::from(local || shared),
                (&raw const *probe).expose_provenance() as u64,
            ],
        )?;
        let sizes = told.iter().map(|member| member[1]);
        let parts = Parts::new(flavor, sizes).ok_or_else(|| {
            Error::new(
                Class::Size,
                "the sizes of the members' memory add up to more than can be addressed",
            )
        })?;

        let mut memory = Memory::default();
        let mut way = Way::Messages;
        if count == 1 {
            memory.heap.push(Heap::new(parts.total)?);
            way = Way::Mapped;
        } else if told.iter().all(|member| member[3] != 0) {
            let (piece, why) = match share(process, &comm, &parts)? {
                Ok(piece) => (Some(piece), None),
                Err(error) => (None, Some(error.0)),
            };
            let single_copy = local
                && matches!(flavor, Flavor::Created(_) | Flavor::Dynamic)
                && (0..count).all(|rank| can_copy(process, &comm, rank, told[rank][4]));
            let able = [u64::from(piece.is_some()), u64::from(single_copy)];
            let able = process.gather_all_u64(&comm, able)?;
            let all = |what: usize| able.iter().all(|member| member[what] != 0);
            // Nobody need find the piece any more: nothing of it is left when the processes end.
            if let Some(piece) = &piece {
                piece.settle();
            }
            way = match flavor {
                _ if !all(0) => Way::Messages,
                Flavor::Allocated | Flavor::Shared { .. } => Way::Mapped,
                _ if all(1) => Way::Copied,
                _ => Way::Messages,
            };
            if shared && way != Way::Mapped {
                let why = why.unwrap_or_else(|| "another member could not map it".to_string());
                return Err(Error::new(
                    Class::RmaShared,
                    format!(
                        "the members of the communicator can't share memory: {why}. Make a \
                         communicator of those that can by MPI_Comm_split_type with \
                         MPI_COMM_TYPE_SHARED"
                    ),
                ));
            }
            if way != Way::Messages {
                memory.piece = piece;
            }
        } else if shared {
            return Err(Error::new(
                Class::RmaShared,
                "the members of the communicator can't share memory",
            ));
        }

        let start = match (&memory.piece, memory.heap.first()) {
            (Some(piece), _) => Some(piece.as_ptr()),
            (None, heap) => heap.map(|heap| heap.0),
        };
        // SAFETY: the beginning of the piece, or of the heap's, is for control blocks; both begin
        // zeroed on a page, and are dropped after the window's other parts.
        let control = start.map(|start| unsafe { Control::at(start, count) });
        let own_memory = matches!(flavor, Flavor::Allocated | Flavor::Shared { .. });
        let base = match (own_memory, start) {
            (false, _) => own_base,
            (true, Some(start)) => start.wrapping_add(parts.at[me]),
            (true, None) => {
                let heap = Heap::new(size);
                let fine = [u64::from(heap.is_ok())];
                let fine = process.gather_all_u64(&comm, fine)?;
                let heap = heap?;
                if fine.iter().any(|member| member[0] == 0) {
                    return Err(Error::new(
                        Class::NoMem,
                        "another member has not enough memory for its part of the window",
                    ));
                }
                memory.heap.push(heap);
                memory
                    .heap
                    .last()
                    .map_or(std::ptr::null_mut(), |heap| heap.0)
            }
        };
        let member = |rank: usize| Member {
            address: told[rank][0],
            size: told[rank][1],
            unit: i64::from(told[rank][2] as u32 as i32),
            here: match (way, start) {
                (Way::Mapped, Some(start)) if own_memory => {
                    Some(start.wrapping_add(parts.at[rank]))
                }
                (Way::Mapped | Way::Copied, _) if rank == me => Some(base),
                _ => None,
            },
        };
        let members = (0..count).map(member).collect();
        let service = (way == Way::Messages).then(|| {
            let memory = (flavor != Flavor::Dynamic).then_some((base, size));
            Arc::new(Service::new(comm.clone(), memory, wishes.unordered))
        });
        if let Some(service) = &service {
            process.serve(service);
        }
        let window = Window {
            flavor,
            base,
            members,
            way,
            control,
            service,
            epochs: Epochs::new(count),
            dirty: (0..count).map(|_| AtomicU8::new(0)).collect(),
            attached: Mutex::default(),
            name: Mutex::default(),
            _probe: probe,
            _memory: memory,
            comm,
        };
        // Nobody may be asked for something before it serves, nor free its probe too early.
        process.barrier(&window.comm)?;
        Ok(window)
    }

    /// Ends the window; all members call it (`MPI_Win_free`). Drop it afterwards.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` within an epoch.
    pub fn free(&self, process: &Process) -> Result<()> {
        self.check_free()?;
        if let Some(service) = &self.service {
            // What this process has under way must be complete at its targets.
            self.flush_dirty(process)?;
            process.barrier(&self.comm)?;
            process.wait_until(self.comm.vci(), || {
                for lane in service.lanes.iter().skip(1) {
                    process.poll(lane.vci)?;
                }
                Ok(service.is_idle().then_some(()))
            })?;
            process.end_service(service);
        }
        // Invariant: memory goes only after all are done with it.
        process.barrier(&self.comm)
    }

    /// Whether it may be freed now.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` within an epoch.
    pub fn check_free(&self) -> Result<()> {
        self.epochs.check_free()
    }

    /// The processes of the window (`MPI_Win_get_group`).
    ///
    /// # Errors
    /// `MPI_ERR_COMM` if it has endpoints.
    pub fn group(&self) -> Result<&Group> {
        self.comm.check_groups()?;
        Ok(self.comm.local())
    }

    /// Of hints about VCIs, those that are in force.
    pub fn vci_hints(&self, wishes: &Wishes) -> Vec<(&'static str, String)> {
        self.comm.vci_hints(wishes)
    }

    /// What kind of memory it is made of.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Where this process's memory begins; NULL for a dynamic window.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// How many members it has.
    pub fn size(&self) -> u32 {
        self.comm.size()
    }

    /// A member's memory in bytes and its unit of displacement.
    pub fn extent_of(&self, rank: u32) -> (u64, i64) {
        let member = &self.members[rank as usize];
        (member.size, member.unit)
    }

    /// Where a member's memory is here (`MPI_Win_shared_query`); without a rank, that of the first
    /// that has some. `None` for windows that are not shared.
    pub fn shared_query(&self, rank: Option<u32>) -> Option<(*mut u8, u64, i64)> {
        if !matches!(self.flavor, Flavor::Shared { .. }) {
            return None;
        }
        let member = match rank {
            Some(rank) => self.members.get(rank as usize)?,
            None => {
                let some = self.members.iter().find(|member| member.size > 0);
                some.or(self.members.first())?
            }
        };
        Some((member.here?, member.size, member.unit))
    }

    /// Adds memory to a dynamic window (`MPI_Win_attach`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` for a window that is not dynamic, `MPI_ERR_RMA_ATTACH` for memory that
    /// overlaps with what is attached.
    ///
    /// # Safety
    /// The memory is valid until it is detached or the window freed.
    pub unsafe fn attach(&self, base: *mut u8, size: usize) -> Result<()> {
        self.check_dynamic("MPI_Win_attach")?;
        let start = base.expose_provenance();
        let mut attached = self.attached.lock();
        let overlaps = |&(other, len): &(usize, usize)| start < other + len && other < start + size;
        if let Some((other, len)) = attached.iter().copied().find(overlaps) {
            return Err(Error::new(
                Class::RmaAttach,
                format!(
                    "{size} bytes at {base:p} overlap with {len} bytes at {other:#x}, which are \
                     attached already; detach them first"
                ),
            ));
        }
        attached.push((start, size));
        if let Some(service) = &self.service {
            service.attach(start, size);
        }
        Ok(())
    }

    /// Takes memory that was attached away (`MPI_Win_detach`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` for a window that is not dynamic, `MPI_ERR_RMA_ATTACH` for an address
    /// at which nothing was attached.
    pub fn detach(&self, base: *const u8) -> Result<()> {
        self.check_dynamic("MPI_Win_detach")?;
        let start = base.addr();
        let mut attached = self.attached.lock();
        let before = attached.len();
        attached.retain(|stretch| stretch.0 != start);
        if attached.len() == before {
            return Err(Error::new(
                Class::RmaAttach,
                format!("nothing is attached at {base:p}; give the address that was attached"),
            ));
        }
        if let Some(service) = &self.service {
            service.detach(start);
        }
        Ok(())
    }

    /// Whether all from `low` to `high` lies in one stretch that was attached here.
    fn has_attached(&self, low: i64, high: i64) -> bool {
        let (low, high) = (low as usize, high as usize);
        let within = |&(start, len): &(usize, usize)| start <= low && high <= start + len;
        low <= high && self.attached.lock().iter().any(within)
    }

    fn check_dynamic(&self, function: &str) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            return Ok(());
        }
        Err(Error::new(
            Class::RmaFlavor,
            format!("{function} is for windows made by MPI_Win_create_dynamic only"),
        ))
    }

    /// Its name (`MPI_Win_get_name`).
    pub fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// Gives it a name.
    pub fn set_name(&self, new: &str) {
        new.clone_into(&mut self.name.lock());
    }

    /// The part of the window that messages serve.
    fn service(&self) -> Result<&Arc<Service>> {
        let lacks = || Error::new(Class::Intern, "the window is not served by messages");
        self.service.as_ref().ok_or_else(lacks)
    }

    fn control(&self) -> Result<&Control> {
        let lacks = || Error::new(Class::Intern, "the window has no control blocks");
        self.control.as_ref().ok_or_else(lacks)
    }
}

/// Makes and maps a piece with all parts: the first member makes it, the others open it. Takes the
/// memory for this member's part. Without a piece, gives the reason; others may have one.
fn share(
    process: &Process,
    comm: &Comm,
    parts: &Parts,
) -> Result<std::result::Result<Box<dyn SharedPiece>, OpenError>> {
    let me = comm.rank() as usize;
    let Some(shared) = process.windows.memory.get() else {
        // Nobody has, since all were set up alike; but who waits for a key must get one.
        process.broadcast_u64(comm, &mut [0; 4])?;
        return Ok(Err(OpenError("this process has no shared memory".into())));
    };
    let mut made = None;
    let mut key = [0; 4];
    if me == 0 {
        let create = || {
            let piece = shared.create(parts.total)?;
            piece.reserve(0, parts.at[0])?;
            Ok(piece)
        };
        let piece: Result<_, OpenError> = create();
        if let Ok(piece) = &piece {
            let RemoteKey { address, words } = piece.key();
            key = [1, address, words[0], words[1]];
        }
        made = Some(piece);
    }
    process.broadcast_u64(comm, &mut key)?;
    let opened = match made {
        Some(made) => made,
        None if key[0] == 0 => Err(OpenError("its first member could not make it".into())),
        None => {
            let key = RemoteKey {
                address: key[1],
                words: [key[2], key[3]],
            };
            shared.open(&key, parts.total)
        }
    };
    Ok(opened.and_then(|piece| {
        let end = parts.at.get(me + 1).copied().unwrap_or(parts.total);
        piece.reserve(parts.at[me], end - parts.at[me])?;
        Ok(piece)
    }))
}

/// Whether a member's memory can be copied directly: tried by a read of its probe.
fn can_copy(process: &Process, comm: &Comm, rank: usize, probe: u64) -> bool {
    let mut word = [1u8; 8];
    rank == comm.rank() as usize
        // SAFETY: the word is ours, and all members keep their probes until the window is freed.
        || unsafe {
            transfer::copy(process, comm, rank as u32, false, word.as_mut_ptr(), 8, probe).is_ok()
        } && word == [0; 8]
}
