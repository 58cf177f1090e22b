//! Collectives of small messages must not allocate once a run has grown to its size.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

use mpi_core::Result;
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::op::{Op, PredefinedOp};
use mpi_sched::run::Flag;
use mpi_sched::{
    Allreduce, Barrier, Bcast, Part, Port, Progress, Put, Reduction, Run, Slots, Team, allreduce,
    barrier, bcast, slots,
};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls are passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: this function has the contract of `System::alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: this function has the contract of `System::dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Plays all peers: sends are dropped, receives complete at once, flags are up.
struct Obliging {
    slot: [u64; 512],
}

impl Port for Obliging {
    type Req = ();
    unsafe fn isend(&mut self, _: *const u8, _: usize, _: &Datatype, _: u32, _: u32) -> Result<()> {
        Ok(())
    }
    unsafe fn irecv(&mut self, _: *mut u8, _: usize, _: &Datatype, _: u32, _: u32) -> Result<()> {
        Ok(())
    }
    fn test(&mut self, (): ()) -> Result<bool> {
        Ok(true)
    }
    unsafe fn put(&mut self, _: u32, _: u32, _: u64, _: *const u8, _: usize) -> Result<Put<()>> {
        Ok(Put::Done)
    }
    fn is_up(&mut self, _: u32, _: u32, _: u64, _: bool) -> Flag {
        Flag::Up
    }

    fn disagreement(&mut self, _: u32, _: u64) -> mpi_core::Result<mpi_core::Error> {
        unreachable!("all agree")
    }
    unsafe fn direct(&mut self, _: u32, _: bool, _: *mut u8, _: usize, _: u64) -> Result<()> {
        Ok(())
    }
    fn own_slot(&self, _: u64, offset: isize) -> *mut u8 {
        self.slot
            .as_ptr()
            .cast_mut()
            .cast::<u8>()
            .wrapping_offset(offset)
    }
    fn length(&self, _: u32, _: u32, _: u64) -> Option<usize> {
        None
    }
    fn slot(&self, _: u32, _: u32, _: u64, offset: isize) -> *mut u8 {
        self.own_slot(0, offset)
    }
}

#[test]
fn small_collectives_do_not_allocate() {
    let int = Datatype::predefined(Predefined::Int);
    let part = Part {
        count: 2,
        datatype: &int,
    };
    let op = Op::predefined(PredefinedOp::Sum);
    let mut run = Run::new();
    let mut port = Obliging { slot: [0; 512] };
    let mut seen = VecDeque::new();
    for _ in 0..3 {
        let before = COUNT.get();
        for rank in 0..13 {
            let team = Team::all(rank, 13);
            let view = Slots {
                rank,
                size: 13,
                room: 1024,
                depth: 4,
                direct: mpi_sched::slots::Direct::Possible,
                is_nonblocking: false,
                crowded: false,
            };
            let (send, mut recv) = ([1i32; 2], [0i32; 2]);
            for kind in 0..6 {
                let schedule = run.rebuild();
                match kind {
                    0 => barrier(schedule, team, Barrier::Dissemination),
                    1 => bcast(schedule, team, 3, part, Bcast::Binomial),
                    2 => slots::barrier(schedule, view),
                    3 => slots::bcast(schedule, view, 3, part),
                    4 => slots::allreduce(schedule, view, Reduction::new(false, part, &op)),
                    _ => {
                        let algorithm = Allreduce::RecursiveDoubling;
                        allreduce(schedule, team, Reduction::new(false, part, &op), algorithm);
                    }
                }
                // SAFETY: two integers on both sides, alive until the run is done.
                unsafe { run.start(send.as_ptr().cast(), recv.as_mut_ptr().cast(), 0) }.unwrap();
                assert_eq!(run.advance(&mut port), Ok(Progress::Done));
            }
        }
        seen.push_back(COUNT.get() - before);
    }
    assert!(seen[0] > 0, "the counter counts nothing");
    assert_eq!((seen[1], seen[2]), (0, 0));
}
