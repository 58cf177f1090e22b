//! What this rank is doing, for `mpiexec -top`: a file in the folder that `WEFT_TOP` names, mapped here and read by
//! `weft-top` (`weft-top/src/board.rs`).
//!
//! Layout, numbers as the machine has them: at 0 a magic number; at 8 rank, at 12 number of ranks, at 16 process, at 20
//! function plus 1 or 0 outside of MPI, at 24 the peer and at 28 the tag of the call (the least number: none), 32 bits
//! each; at 32 when the call began, at 40 nanoseconds in calls that have ended, at 48 calls, at 56 bytes, 64 bits each;
//! at 64 the communicator's name; at 256 the functions' names, one in each line.

use std::ffi::{OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::transmute;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use weft_pmpi::Real;

use crate::clock::nanoseconds;
use crate::names::NAMES;
use crate::pmpi::{Handle, SUCCESS};

const MAGIC: u64 = 0x3150_4f54_5446_4557;
const HEAD: usize = 256;
/// Room for a communicator's name.
const NAME: usize = 64;

/// In place of a peer or tag: the call has none. (`MPI_PROC_NULL` and wildcards have other numbers.)
pub const NOTHING: i32 = i32::MIN;

/// What a call is about.
#[derive(Clone, Copy)]
pub struct Call {
    /// The function's number.
    pub function: u32,
    /// The other rank, as the program says it.
    pub peer: i32,
    /// The tag.
    pub tag: i32,
    /// The communicator; 0: none.
    pub comm: Handle,
}

#[repr(C)]
struct Board {
    magic: AtomicU64,
    rank: AtomicU32,
    size: AtomicU32,
    pid: AtomicU32,
    function: AtomicU32,
    peer: AtomicI32,
    tag: AtomicI32,
    since: AtomicU64,
    inside: AtomicU64,
    calls: AtomicU64,
    bytes: AtomicU64,
    comm: [AtomicU8; NAME],
}

static BOARD: AtomicPtr<Board> = AtomicPtr::new(std::ptr::null_mut());
/// The communicator whose name is on the board, plus 1.
static NAMED: AtomicU64 = AtomicU64::new(0);

#[inline]
fn board() -> Option<&'static Board> {
    // SAFETY: null, or a mapping that stays.
    unsafe { BOARD.load(Ordering::Acquire).as_ref() }
}

/// Begins to keep the board, for a rank of so many.
pub fn begin(folder: &OsStr, rank: usize, size: usize) {
    match make(Path::new(folder), rank, size) {
        Ok(board) => BOARD.store(board, Ordering::Release),
        // On another host there is no such folder.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => eprintln!("Weft: rank {rank} can't tell mpiexec -top what it does: {error}"),
    }
}

fn make(folder: &Path, rank: usize, size: usize) -> io::Result<*mut Board> {
    let file = File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(folder.join(format!("rank-{rank}-{}", std::process::id())))?;
    file.write_all_at(&[0; HEAD], 0)?;
    file.write_all_at(NAMES.join("\n").as_bytes(), HEAD as u64)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, of bytes that the file has.
    let place = unsafe {
        let nowhere = std::ptr::null_mut();
        libc::mmap(nowhere, HEAD, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let place: *mut Board = place.cast();
    // SAFETY: the mapping is long enough, begins with a page, and zeroes are a good board.
    let board = unsafe { &*place };
    board.rank.store(rank as u32, Ordering::Relaxed);
    board.size.store(size as u32, Ordering::Relaxed);
    board.pid.store(std::process::id(), Ordering::Relaxed);
    board.magic.store(MAGIC, Ordering::Release);
    Ok(place)
}

/// A call begins.
#[inline]
pub fn enter(call: impl FnOnce() -> Call) {
    if let Some(board) = board() {
        show(board, call());
    }
}

#[cold]
fn show(board: &Board, call: Call) {
    board.peer.store(call.peer, Ordering::Relaxed);
    board.tag.store(call.tag, Ordering::Relaxed);
    let wanted = call.comm as u64 + 1;
    if NAMED.load(Ordering::Relaxed) != wanted {
        let name = if call.comm == 0 {
            [0; NAME]
        } else {
            name_of(call.comm)
        };
        for (place, byte) in board.comm.iter().zip(name) {
            place.store(byte, Ordering::Relaxed);
        }
        NAMED.store(wanted, Ordering::Relaxed);
    }
    board.since.store(nanoseconds(), Ordering::Relaxed);
    board.function.store(call.function + 1, Ordering::Release);
}

/// A call has ended.
#[inline]
pub fn leave(bytes: impl FnOnce() -> u64) {
    if let Some(board) = board() {
        let took = nanoseconds().saturating_sub(board.since.load(Ordering::Relaxed));
        board.function.store(0, Ordering::Relaxed);
        board.inside.fetch_add(took, Ordering::Relaxed);
        board.calls.fetch_add(1, Ordering::Relaxed);
        board.bytes.fetch_add(bytes(), Ordering::Relaxed);
    }
}

/// What the program calls a communicator, as far as there is room.
fn name_of(comm: Handle) -> [u8; NAME] {
    static REAL: Real = Real::new(c"PMPI_Comm_get_name");
    type GetName = unsafe extern "C" fn(Handle, *mut c_char, *mut c_int) -> c_int;
    /// More than the most of both ABIs.
    const ROOM: usize = 1024;
    // SAFETY: this is the function's type.
    let real = unsafe { transmute::<*mut c_void, GetName>(REAL.get()) };
    let mut text = [0_u8; ROOM];
    let mut len = 0;
    // SAFETY: the library checks the handle; the places can be written to and have the room that it wants.
    let code = unsafe { real(comm, text.as_mut_ptr().cast(), &raw mut len) };
    let mut name = [0; NAME];
    if code == SUCCESS {
        let len = usize::try_from(len).unwrap_or(0).min(NAME - 1);
        name[..len].copy_from_slice(&text[..len]);
    }
    name
}
