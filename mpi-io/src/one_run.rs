//! Transfer of one run of a file, without regard to views, atomic mode and other ranks.

#![allow(unsafe_code, reason = "memory of the program is given to the system")]

use std::io;

use libc::iovec;

use crate::direction::Direction;
use crate::driver::Storage;
use crate::view::Run;

/// Moves memory to or from one run, until all is moved or the file ends.
///
/// # Safety
/// `start` is valid for the run's number of bytes.
pub(crate) unsafe fn move_all(
    storage: &dyn Storage,
    run: Run,
    start: *mut u8,
    direction: Direction,
) -> io::Result<u64> {
    let mut done = 0;
    while done < run.len {
        let piece = [iovec {
            iov_base: start.wrapping_add(done as usize).cast(),
            iov_len: (run.len - done) as usize,
        }];
        // SAFETY: the caller of this function guarantees `run.len` valid bytes at `start`, and
        // `done` is at most `run.len`.
        let moved = unsafe {
            match direction {
                Direction::Read => storage.read_at(&piece, run.at + done)?,
                Direction::Write => storage.write_at(&piece, run.at + done)?,
            }
        };
        if moved == 0 {
            break;
        }
        done += moved as u64;
    }
    Ok(done)
}
