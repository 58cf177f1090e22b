//! Blocking calls that find what they wait for: a receive whose message is there, or one that had to wait as another was
//! received first, and collectives to which the other rank has come.
//!
//! Whether the other has come is a matter of time, so each call is counted by itself, some after a nap, and the
//! least counts.

use std::ffi::c_int;
use std::hint::black_box;
use std::thread;
use std::time::Duration;

use super::counted::{TAG, osu_bench_mark};
use super::page::Page;
use crate::error::{Error, Result};
use crate::mpi::constants::{COMM_WORLD, INT64, STATUS_IGNORE, SUM};
use crate::mpi::{Allreduce, Barrier, Bcast, Exchange, Recv, Reduce, RootedExchange, Table, World};

/// Their names in the table.
pub const NAMES: [&str; 11] = [
    "Recv, there",
    "Barrier, last",
    "Allreduce, last",
    "Bcast, last",
    "Reduce, last",
    "Allgather, last",
    "Alltoall, last",
    "Gather, last",
    "Scatter, last",
    "Recv, passed by",
    "Allreduce, new count",
];

/// The receives among them.
const RECV: usize = 0;
const RECV_PASSED_BY: usize = 9;
/// The allreduce of another number of elements in each call, which no plan of the communicator's is for.
const NEW_COUNT: usize = 10;
/// Elements of a buffer: more than calls of a kind.
const ELEMENTS: usize = 128;
const _: () = assert!(WARM_UP + COUNTED < ELEMENTS as u64);
/// The tag of the message that passes by.
const OTHER_TAG: c_int = TAG + 1;

/// Calls of a kind that only warm up: communicators get what makes calls quick after a few.
const WARM_UP: u64 = 64;
/// Calls of a kind that are counted.
const COUNTED: u64 = 10;
/// How long the other has to come to a call.
const NAP: Duration = Duration::from_millis(20);

/// Marks that are passed: after warming up, then for each kind one around an empty function and the counted ones.
pub const PHASES: usize = 1 + NAMES.len() * (1 + COUNTED as usize);

/// The functions, or empty ones of the same types.
#[derive(Clone, Copy)]
pub struct Calls {
    recv: Recv,
    barrier: Barrier,
    allreduce: Allreduce,
    bcast: Bcast,
    reduce: Reduce,
    allgather: Exchange,
    alltoall: Exchange,
    gather: RootedExchange,
    scatter: RootedExchange,
}

impl Calls {
    /// Those of the library.
    pub fn of(table: &Table) -> Result<Calls> {
        Ok(Calls {
            recv: table.recv.get()?,
            barrier: table.barrier.get()?,
            allreduce: table.allreduce.get()?,
            bcast: table.bcast.get()?,
            reduce: table.reduce.get()?,
            allgather: table.allgather.get()?,
            alltoall: table.alltoall.get()?,
            gather: table.gather.get()?,
            scatter: table.scatter.get()?,
        })
    }

    fn empty() -> Calls {
        Calls {
            recv: empty_recv,
            barrier: empty_barrier,
            allreduce: empty_allreduce,
            bcast: empty_bcast,
            reduce: empty_reduce,
            allgather: empty_exchange,
            alltoall: empty_exchange,
            gather: empty_rooted_exchange,
            scatter: empty_rooted_exchange,
        }
    }
}

/// Counts a call of one of them. Broadcasts and scatters come from rank 0, reductions and gathers go to rank 1, which is counted.
///
/// # Safety
/// The functions are those of their types.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn osu_bench_counted_blocking(
    calls: &Calls,
    kind: usize,
    count: c_int,
    data: &mut [i64; ELEMENTS],
) -> c_int {
    static NUMBERS: [i64; ELEMENTS] = [1; ELEMENTS];
    let (given, place) = ((&raw const NUMBERS).cast(), (&raw mut *data).cast());
    // SAFETY: the functions are those of their types (# Safety); each buffer holds `count` numbers, and one for
    // each of both ranks.
    let code = unsafe {
        match kind {
            RECV | RECV_PASSED_BY => {
                (calls.recv)(place, 1, INT64, 0, TAG, COMM_WORLD, STATUS_IGNORE)
            }
            1 => (calls.barrier)(COMM_WORLD),
            2 => (calls.allreduce)(given, place, 1, INT64, SUM, COMM_WORLD),
            3 => (calls.bcast)(place, 1, INT64, 0, COMM_WORLD),
            4 => (calls.reduce)(given, place, 1, INT64, SUM, 1, COMM_WORLD),
            5 => (calls.allgather)(given, 1, INT64, place, 1, INT64, COMM_WORLD),
            6 => (calls.alltoall)(given, 1, INT64, place, 1, INT64, COMM_WORLD),
            7 => (calls.gather)(given, 1, INT64, place, 1, INT64, 1, COMM_WORLD),
            8 => (calls.scatter)(given, 1, INT64, place, 1, INT64, 0, COMM_WORLD),
            NEW_COUNT => (calls.allreduce)(given, place, count, INT64, SUM, COMM_WORLD),
            _ => unreachable!("kinds have names"),
        }
    };
    black_box(code)
}

/// Runs one rank; rank 1 is counted.
pub fn run(world: &World, page: &Page, calls: &Calls) -> Result<()> {
    let empty = Calls::empty();
    let mut number = 0;
    let mut mark = 0;
    let mut end_phase = || {
        osu_bench_mark(mark);
        mark += 1;
    };
    for counted in [false, true] {
        for kind in 0..NAMES.len() {
            let receives = kind == RECV || kind == RECV_PASSED_BY;
            if counted && world.rank == 1 {
                call(black_box(&empty), kind, 1)?;
                end_phase();
            }
            let turns = if counted {
                WARM_UP..WARM_UP + COUNTED
            } else {
                0..WARM_UP
            };
            for turn in turns {
                let count = turn as c_int + 1;
                number += 1;
                if world.rank == 0 {
                    if receives {
                        world.send(&[1; 8], 1, TAG)?;
                    }
                    if kind == RECV_PASSED_BY {
                        world.send(&[1; 8], 1, OTHER_TAG)?;
                    }
                    page.send(number);
                    if receives {
                        page.await_posted(number);
                    } else {
                        call(calls, kind, count)?;
                    }
                } else {
                    page.await_sent(number);
                    if counted {
                        thread::sleep(NAP);
                    }
                    if kind == RECV_PASSED_BY {
                        world.recv(&mut [0; 8], 0, OTHER_TAG)?;
                    }
                    call(black_box(calls), kind, count)?;
                    page.post(number);
                    if counted {
                        end_phase();
                    }
                }
            }
        }
        if !counted && world.rank == 1 {
            end_phase();
        }
    }
    Ok(())
}

fn call(calls: &Calls, kind: usize, count: c_int) -> Result<()> {
    let mut data = [0; ELEMENTS];
    // SAFETY: MPI is up, and both ranks make the same calls.
    match unsafe { osu_bench_counted_blocking(calls, kind, count, &mut data) } {
        0 => Ok(()),
        code => Err(Error::new(format!("MPI returned the code {code}"))),
    }
}

/// Instructions of each kind, from what was collected up to the marks.
pub fn counts(collected: &[u64]) -> Option<Vec<f64>> {
    let kinds = collected.get(1..)?.chunks_exact(1 + COUNTED as usize);
    let least = |kind: &[u64]| Some(kind[1..].iter().min()?.checked_sub(kind[0])? as f64);
    let counts: Vec<f64> = kinds.map(least).collect::<Option<_>>()?;
    (counts.len() == NAMES.len()).then_some(counts)
}

unsafe extern "C" fn empty_recv(
    _: *mut std::ffi::c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
    _: *mut std::ffi::c_void,
) -> c_int {
    0
}

unsafe extern "C" fn empty_barrier(_: c_int) -> c_int {
    0
}

unsafe extern "C" fn empty_allreduce(
    _: *const std::ffi::c_void,
    _: *mut std::ffi::c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
) -> c_int {
    0
}

unsafe extern "C" fn empty_bcast(
    _: *mut std::ffi::c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
) -> c_int {
    0
}

unsafe extern "C" fn empty_reduce(
    _: *const std::ffi::c_void,
    _: *mut std::ffi::c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
) -> c_int {
    0
}

unsafe extern "C" fn empty_exchange(
    _: *const std::ffi::c_void,
    _: c_int,
    _: c_int,
    _: *mut std::ffi::c_void,
    _: c_int,
    _: c_int,
    _: c_int,
) -> c_int {
    0
}

unsafe extern "C" fn empty_rooted_exchange(
    _: *const std::ffi::c_void,
    _: c_int,
    _: c_int,
    _: *mut std::ffi::c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_each_kind_counts() {
        let mut collected = vec![0; PHASES];
        for kind in 0..NAMES.len() {
            let at = 1 + kind * (1 + COUNTED as usize);
            collected[at] = 10;
            for (place, value) in collected[at + 1..]
                .iter_mut()
                .take(COUNTED as usize)
                .enumerate()
            {
                *value = 110 + 100 * kind as u64 + if place == 3 { 0 } else { 5000 };
            }
        }
        let expected = (1..=NAMES.len()).map(|kind| 100.0 * kind as f64);
        assert_eq!(counts(&collected), Some(expected.collect()));
        assert_eq!(counts(&[]), None);
    }
}
