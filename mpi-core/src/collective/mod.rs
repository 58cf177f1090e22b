//! Collective operations on communicators: schedules run over the process's own messages.

mod board;
mod cache;
mod call;
mod remote;
mod shelf;
pub mod started;
mod state;
mod terms;
mod words;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use netmod::{Peer, VciId};
use parking_lot::Mutex;

use crate::comm::single_copy;
use crate::comm::{Comm, Purpose};
use crate::datatype::Datatype;
use crate::error::{Class, Error, Result};
use crate::lock::Guarded;
use crate::op::{Op, PredefinedOp};
use crate::process::Process;
use crate::process::loan;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::request::RequestId;
use mpi_coll::run::{Flag, too_short};
use mpi_coll::{Choices, Port, Progress, Put, Reach, Schedule, Slots, rdma};

pub(crate) use board::Board;
pub(crate) use cache::{CommRun, Shape};
use call::Place;
pub use call::{Call, Root};
pub(crate) use remote::RemoteBoard;
use remote::Watch;
pub(crate) use shelf::Shelf;
use started::Active;
pub(crate) use state::CommState;
pub(crate) use terms::Terms;

/// A collective's message: none if its send was complete at once.
type Message = Option<RequestId>;

/// The messages and slots of one communicator, for the engine of schedules.
struct CommPort<'a> {
    process: &'a Process,
    comm: &'a Comm,
    purpose: Purpose,
    /// How often to look at a flag before doing something else.
    looks: u32,
    /// What all members must say alike.
    terms: Terms,
}

impl Port for CommPort<'_> {
    type Req = Message;

    unsafe fn isend(
        &mut self,
        buf: *const u8,
        count: usize,
        datatype: &Datatype,
        to: u32,
        tag: u32,
    ) -> Result<Message> {
        // SAFETY: as the engine promises.
        let buffer = unsafe { Buffer::typed(buf.cast_mut(), count, datatype) };
        crate::comm::send_to_member(
            self.process,
            self.comm,
            self.purpose,
            buffer,
            to,
            tag as i32,
        )
    }

    unsafe fn irecv(
        &mut self,
        buf: *mut u8,
        count: usize,
        datatype: &Datatype,
        from: u32,
        tag: u32,
    ) -> Result<Message> {
        // SAFETY: as the engine promises.
        let buffer = unsafe { Buffer::typed(buf, count, datatype) };
        crate::comm::receive_on(
            self.process,
            self.comm,
            self.purpose,
            buffer,
            from as i32,
            tag as i32,
        )
        .map(Some)
    }

    #[inline]
    fn test(&mut self, message: Message) -> Result<bool> {
        let Some(id) = message else { return Ok(true) };
        match self.process.request(id) {
            Some(request) if !request.is_done() => Ok(false),
            _ => match self.process.finish(id)?.1 {
                None => Ok(true),
                Some(error) => Err(error),
            },
        }
    }

    #[inline]
    fn test_exact(&mut self, message: Message, from: u32, len: usize) -> Result<bool> {
        let Some(id) = message else { return Ok(true) };
        match self.process.request(id) {
            Some(request) if !request.is_done() => Ok(false),
            _ => match self.process.finish(id)? {
                (_, Some(error)) => Err(error),
                (status, None) if (status.bytes as usize) < len => {
                    Err(too_short(from, status.bytes as usize, len))
                }
                (_, None) => Ok(true),
            },
        }
    }

    #[inline]
    unsafe fn put(
        &mut self,
        to: u32,
        cell: u32,
        number: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Put<Message>> {
        if let Some(board) = CommState::of(self.comm).board() {
            debug_assert_eq!(to, self.comm.rank());
            board.raise(number, self.terms);
            return Ok(Put::Done);
        }
        let Some(board) = CommState::of(self.comm).remote_board() else {
            return Err(no_slots());
        };
        let data = match len {
            0 => &[][..],
            // SAFETY: readable, as the engine promises.
            _ => unsafe { std::slice::from_raw_parts(data, len) },
        };
        board.put(self.process, self.comm, to, cell, number, data)
    }

    #[inline]
    fn is_up(&mut self, of: u32, cell: u32, number: u64, call: bool) -> Flag {
        match CommState::of(self.comm).board() {
            Some(board) => board.is_up(of, number, self.looks, call.then_some(self.terms)),
            None if self.is_up_here(cell, number) => Flag::Up,
            None => Flag::Down,
        }
    }

    fn disagreement(&mut self, of: u32, number: u64) -> Result<Error> {
        match CommState::of(self.comm).board() {
            Some(board) => board.disagree_in(of, number, self.terms),
            None => Err(no_slots()),
        }
    }

    unsafe fn direct(
        &mut self,
        of: u32,
        write: bool,
        local: *mut u8,
        len: usize,
        remote: u64,
    ) -> Result<()> {
        // SAFETY: as the engine promises.
        let copied =
            unsafe { single_copy::copy(self.process, self.comm, of, write, local, len, remote) };
        copied.map_err(|error| match error.class() {
            Class::RmaRange => Error::new(
                Class::Buffer,
                format!("a buffer of rank {of} can't be used as count and datatype say: {error}"),
            ),
            _ => error,
        })
    }

    fn own_slot(&self, number: u64) -> *mut u8 {
        self.slot(self.comm.rank(), 0, number)
    }

    #[inline]
    fn length(&self, _of: u32, cell: u32, number: u64) -> usize {
        match (
            CommState::of(self.comm).board(),
            CommState::of(self.comm).remote_board(),
        ) {
            (Some(_), _) | (None, None) => 0, // told by the terms
            (None, Some(board)) => board.length(cell, number),
        }
    }

    #[inline]
    fn slot(&self, of: u32, cell: u32, number: u64) -> *mut u8 {
        match (
            CommState::of(self.comm).board(),
            CommState::of(self.comm).remote_board(),
        ) {
            (Some(board), _) => board.slot(of, number),
            (None, Some(board)) => board.slot(cell, number),
            (None, None) => std::ptr::null_mut(),
        }
    }
}

impl CommPort<'_> {
    /// Whether a flag in this process's own memory is up.
    fn is_up_here(&self, cell: u32, number: u64) -> bool {
        let board = CommState::of(self.comm).remote_board();
        board.is_none_or(|board| board.is_up(cell, number, board.looks(self.looks)))
    }
}

#[cold]
fn tell(call: &Call<'_>, place: &Place<'_>, phases: u32) {
    if let Some(text) = call.describe(place, phases) {
        eprintln!("Weft: {text}");
    }
}

#[cold]
fn no_slots() -> Error {
    Error::new(Class::Intern, "the communicator has no slots")
}

/// Where a collective's data is.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// The send buffer, if the schedule uses one.
    pub send: *const u8,
    /// The receive buffer, if the schedule uses one.
    pub recv: *mut u8,
}

impl Buffers {
    /// For schedules without data.
    pub const NONE: Buffers = Buffers {
        send: std::ptr::null(),
        recv: std::ptr::null_mut(),
    };
}

/// Something that keeps a communicator alive.
pub type Holder = Arc<dyn AsRef<Comm> + Send + Sync>;

/// Sets which algorithms the collectives of a communicator take; none for those of the process. All
/// members must set the same.
pub fn set_comm_choices(comm: &Comm, choices: Option<Choices>) {
    CommState::of(comm).set_choices(choices);
}

/// The collectives of a process: those under way that nobody waits in, and how to do new ones.
#[derive(Default)]
pub struct Collectives {
    runs: Guarded<Vec<Active>>,
    /// Counts rounds of progress that completed one which did.
    rounds: AtomicU32,
    choices: Choices,
    /// Communicators that have slots.
    boards: Arc<AtomicUsize>,
    /// Whose loss matters to collectives that wait for flags.
    watches: Mutex<Vec<Arc<Watch>>>,
    /// Whether to tell people which algorithms are taken.
    tells: bool,
}

impl Collectives {
    /// With these algorithms, the same on all processes. `tells`: rank 0 of communicators prints the
    /// algorithm of each collective that it builds anew.
    pub fn new(choices: Choices, tells: bool) -> Collectives {
        Collectives {
            choices,
            tells,
            ..Collectives::default()
        }
    }

    /// What the builders need to know about a communicator.
    #[inline]
    fn place<'a>(
        &'a self,
        process: &Process,
        comm: &'a Comm,
        slots: Option<Slots>,
        reach: Option<(Reach, usize)>,
        own: Option<&'a Choices>,
    ) -> Place<'a> {
        Place {
            comm,
            slots,
            reach,
            choices: own.unwrap_or(&self.choices),
            nodes: match process.nodes() {
                [] => None,
                nodes => CommState::of(comm).nodes(comm, nodes),
            },
        }
    }
}

impl Collectives {
    /// The processes that collectives on a VCI wait for without having requests that say so.
    #[cold]
    fn watched_on(&self, vci: VciId) -> Vec<Peer> {
        let watches = self.watches.lock();
        let waiting = watches
            .iter()
            .filter(|watch| watch.vci == vci && watch.waits.load(Ordering::Relaxed));
        waiting
            .flat_map(|watch| watch.peers.iter().copied())
            .collect()
    }
}

/// Runs a collective to its end.
///
/// # Safety
/// The buffers are valid for what the schedule that `build` makes reads and writes.
pub unsafe fn collective(
    process: &Process,
    comm: &Comm,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<()> {
    // SAFETY: as for this function.
    unsafe {
        collective_for(
            process,
            comm,
            Purpose::Collective,
            comm.next_collective(),
            buffers,
            build,
        )
    }
}

/// As [`Process::collective`], with messages of another purpose and a tag of the caller's.
///
/// # Safety
/// As for [`Process::collective`].
pub unsafe fn collective_for(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    tag: u32,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<()> {
    let mut kept = CommState::of(comm).take_run(None);
    kept.remember(None);
    kept.terms = Terms::default();
    build(kept.run.rebuild());
    // SAFETY: as for this function.
    unsafe { run(process, comm, purpose, tag, buffers, kept) }
}

/// Runs a schedule to its end, and keeps it.
///
/// # Safety
/// As for [`Process::collective`].
#[inline]
unsafe fn run(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    tag: u32,
    buffers: Buffers,
    mut kept: Box<CommRun>,
) -> Result<()> {
    let (run, terms) = (&mut kept.run, kept.terms);
    let phases = run.schedule().phases();
    let board = CommState::of(comm).board().filter(|_| !terms.is_none());
    let mut remote = None;
    if let Some(board) = board {
        board.check()?;
        board.say(tag, terms);
        run.set_number(board.take(phases));
    } else if phases > 0
        && let Some(board) = CommState::of(comm).remote_board()
    {
        let meets = run.schedule().meets();
        if !board.allows(phases, meets) {
            meet(process, comm, board)?;
        }
        run.set_number(board.take(phases, meets));
        board.watch.waits.store(true, Ordering::Relaxed);
        remote = Some(board);
    }
    // SAFETY: as for this function; the run is over when this returns: complete, or its messages ended one by
    // one. (Should ending them fail, which takes a VCI that is not open, the run keeps its scratch memory.)
    unsafe { run.start(buffers.send, buffers.recv, tag)? };
    let mut port = CommPort {
        process,
        comm,
        purpose,
        looks: process.looks(),
        terms,
    };
    let mut vain = 0;
    // Invariant: with a member lost the schedule goes no step on, lest others take what is
    // missing for the result.
    let oversubscribed = process.is_oversubscribed();
    let advance = || match process.loss_among(|peer| comm.has_member(peer)) {
        Some(error) => Err(error),
        None => loop {
            if run.advance(&mut port)? == Progress::Done {
                return Ok(Some(()));
            }
            let Some(board) = board else { return Ok(None) };
            board.doubt(tag, terms, &mut vain)?;
            let lingers = |(ranks, number)| board.linger(ranks, number);
            if !oversubscribed || !run.awaited().is_some_and(lingers) {
                return Ok(None);
            }
        },
    };
    let result = match phases {
        0 => {
            let result = process.wait_despite_loss(comm.vci(), advance);
            match board {
                // Whose data came has said what it is, which messages don't.
                Some(board) => result.and_then(|()| board.compare(tag, terms)),
                None => result,
            }
        }
        _ => process.wait_for_stores(comm.vci(), advance),
    };
    if let Some(board) = remote {
        board.watch.waits.store(false, Ordering::Relaxed);
        if result.is_err() {
            board.keep();
        }
    }
    if kept.run.is_running() {
        process.wait_despite_loss(
            comm.vci(),
            || Ok(give_up(process, &mut kept)?.then_some(())),
        )?;
    }
    CommState::of(comm).give_run(kept);
    result
}

/// Ends the messages of a collective that can't be carried on, so that its buffers are the caller's. Returns
/// whether all are ended; some others must take note of first.
#[cold]
fn give_up(process: &Process, kept: &mut CommRun) -> Result<bool> {
    let mut result = Ok(());
    let over = kept.run.give_up(|message| {
        let Some(id) = message else { return true };
        loan::try_end(process, id).unwrap_or_else(|error| {
            result = Err(error);
            false
        })
    });
    result.map(|()| over)
}

/// A barrier between broadcasts, before slots are used again.
#[cold]
fn meet(process: &Process, comm: &Comm, board: &RemoteBoard) -> Result<()> {
    let shape = Some(Shape::PACE);
    let mut kept = CommState::of(comm).take_run(shape.as_ref());
    if !kept.fits(&Shape::PACE) {
        kept.remember(shape.as_ref());
        kept.terms = Terms::default();
        let schedule = kept.run.rebuild();
        rdma::barrier(schedule, board.reach, rdma::Signals::Dissemination);
    }
    // SAFETY: a barrier uses no buffers.
    unsafe { run(process, comm, Purpose::Collective, 0, Buffers::NONE, kept) }
}

/// Carries out a collective call.
///
/// # Safety
/// The buffers are valid for what the call reads and writes by its arguments.
pub unsafe fn call(
    process: &Process,
    comm: &Comm,
    buffers: Buffers,
    call: &Call<'_>,
) -> Result<()> {
    if CommState::of(comm).is_time_for_board(comm) {
        make_boards(process, comm)?;
    }
    // SAFETY: as for this function.
    unsafe { call_with(process, comm, buffers, call, true) }
}

/// Gives a communicator the slots for which it is time.
#[cold]
fn make_boards(process: &Process, comm: &Comm) -> Result<()> {
    if !process.is_threaded() {
        // SAFETY: below MPI_THREAD_MULTIPLE the program's calls don't overlap (section 12.4.3), and no
        // thread of the library's own makes progress then.
        unsafe { CommState::of(comm).set_alone() };
    }
    if !CommState::of(comm).has_tried_board() {
        let board = Board::new(process, comm)?;
        let remote = match board {
            Some(_) => None,
            None => RemoteBoard::new(process, comm)?,
        };
        CommState::of(comm).set_remote_board(remote);
        CommState::of(comm).set_board(board);
    }
    if CommState::of(comm).is_time_for_shelf() {
        let shelf = match CommState::of(comm).board() {
            Some(board) => Shelf::new(process, comm, board)?,
            None => None,
        };
        CommState::of(comm).set_shelf(shelf);
    }
    Ok(())
}

/// Carries out a collective call, with slots or without.
///
/// # Safety
/// As for [`Process::call`].
#[inline]
unsafe fn call_with(
    process: &Process,
    comm: &Comm,
    buffers: Buffers,
    call: &Call<'_>,
    by_slots: bool,
) -> Result<()> {
    let (slots, reach) = match by_slots {
        true => (
            CommState::of(comm).board().map(|board| board.slots),
            CommState::of(comm)
                .remote_board()
                .map(|board| (board.reach, board.quick)),
        ),
        false => (None, None),
    };
    // With and without differ; those that are kept are what calls of programs come to.
    let shape = call.shape().filter(|_| {
        by_slots
            || (CommState::of(comm).board().is_none()
                && CommState::of(comm).remote_board().is_none())
    });
    let mut kept = CommState::of(comm).take_run(shape.as_ref());
    if !shape.as_ref().is_some_and(|shape| kept.fits(shape)) {
        kept.remember(shape.as_ref());
        let own = CommState::of(comm).choices();
        let place =
            process
                .source::<Collectives>()
                .place(process, comm, slots, reach, own.as_deref());
        call.build(&place, kept.run.rebuild());
        kept.terms = match by_slots {
            true => CommState::of(comm).terms(call, kept.run.schedule().phases()),
            false => Terms::default(),
        };
        if process.source::<Collectives>().tells && comm.rank() == 0 {
            tell(call, &place, kept.run.schedule().phases());
        }
    }
    let tag = comm.next_collective();
    // SAFETY: as for this function.
    unsafe { run(process, comm, Purpose::Collective, tag, buffers, kept) }
}

/// Which algorithms collectives take.
pub fn choices(process: &Process) -> &Choices {
    &process.source::<Collectives>().choices
}

/// Waits until all members of a communicator have called it (section 5.3).
pub fn barrier(process: &Process, comm: &Comm) -> Result<()> {
    // SAFETY: a barrier has no data.
    unsafe { call(process, comm, Buffers::NONE, &Call::Barrier) }
}

/// Sends `data` of member 0 of an intracommunicator to all.
pub fn broadcast_u64(process: &Process, comm: &Comm, data: &mut [u64]) -> Result<()> {
    let bytes = Datatype::predefined(crate::datatype::Predefined::Byte);
    let part = mpi_coll::Part {
        count: size_of_val(data),
        datatype: &bytes,
    };
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: data.as_mut_ptr().cast(),
    };
    // SAFETY: the call reads or writes the bytes of `data`, which is borrowed exclusively.
    unsafe {
        call_with(
            process,
            comm,
            buffers,
            &Call::Bcast {
                root: Root::Rank(0),
                part,
            },
            false,
        )
    }
}

/// Replaces each number by the greatest of all members of an intracommunicator.
pub fn greatest_u64(process: &Process, comm: &Comm, data: &mut [u64]) -> Result<()> {
    static MAX: LazyLock<Op> = LazyLock::new(|| Op::predefined(PredefinedOp::Max));
    let word = Datatype::predefined(crate::datatype::Predefined::Uint64T);
    let part = mpi_coll::Part {
        count: data.len(),
        datatype: &word,
    };
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: data.as_mut_ptr().cast(),
    };
    let call = Call::Allreduce {
        in_place: true,
        part,
        op: &MAX,
    };
    // SAFETY: the call reads and writes `data`, which is borrowed exclusively.
    unsafe { self::call(process, comm, buffers, &call) }
}

/// Collects what each member of an intracommunicator contributes, by rank.
pub fn gather_all_u64<const N: usize>(
    process: &Process,
    comm: &Comm,
    own: [u64; N],
) -> Result<Vec<[u64; N]>> {
    let mut all = vec![[0; N]; comm.size() as usize];
    let slot = all
        .get_mut(comm.rank() as usize)
        .ok_or_else(|| Error::new(Class::Intern, "rank beyond the communicator's size"))?;
    *slot = own;
    let bytes = Datatype::predefined(crate::datatype::Predefined::Byte);
    let part = mpi_coll::Part {
        count: size_of::<[u64; N]>(),
        datatype: &bytes,
    };
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: all.as_mut_ptr().cast(),
    };
    let recv = mpi_coll::Layout::Uniform(part);
    // SAFETY: the call reads and writes `size` blocks of `all`, which lives until the end.
    unsafe {
        call_with(
            process,
            comm,
            buffers,
            &Call::Allgather { send: None, recv },
            false,
        )?
    };
    Ok(all)
}
