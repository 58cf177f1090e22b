//! The engine itself: overlapping runs, runs started again, errors, deadlocks.

use super::*;
use crate::Put;
use crate::Reduction;
use crate::run::Flag;
use crate::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Block, Buf, Layout, Part, Port, Progress, Team,
    allgather, allreduce, alltoall, barrier, bcast,
};
use mpi_types::error::{Class, Error, Result};

fn team(rank: usize, size: usize) -> Team<'static> {
    Team::all(rank as u32, size as u32)
}

#[test]
fn several_collectives_overlap() {
    // Each rank has all of them in execution and advances them in its own order.
    let seed = seed();
    let int = Datatype::predefined(Predefined::Int);
    let part = Part {
        count: 6,
        datatype: &int,
    };
    let op = operation(false);
    for size in [2, 5, 8, 13] {
        let operands: Vec<_> = (0..size)
            .map(|i| data(seed, i as u64, part.bytes()))
            .collect();
        let mut buffers: Vec<Vec<(Buffer, Buffer)>> = operands
            .iter()
            .map(|packed| {
                let send = Buffer::with(6, &int, packed);
                vec![(send, Buffer::of(6 * size, &int)); 12]
            })
            .collect();
        let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
        for (rank, buffers) in buffers.iter_mut().enumerate() {
            let mut list = Vec::new();
            for (tag, (send, recv)) in (0u32..).zip(buffers.iter_mut()) {
                let mut run = Run::new();
                let s = run.rebuild();
                let layout = Layout::Uniform(part);
                match tag % 4 {
                    0 => allreduce(
                        s,
                        team(rank, size),
                        Reduction::new(false, part, &op),
                        Allreduce::Halving,
                    ),
                    1 => allgather(
                        s,
                        team(rank, size),
                        Some(part),
                        layout,
                        Allgather::Bruck { radix: 2 },
                    ),
                    2 => barrier(s, team(rank, size), Barrier::Dissemination),
                    _ => {
                        let window = Alltoall::Pairwise { window: 2 };
                        alltoall(s, team(rank, size), None, layout, window);
                    }
                }
                // SAFETY: the buffers live until the runs are done, below.
                unsafe { run.start(send.ptr(), recv.ptr(), tag) }.unwrap();
                list.push(run);
            }
            runs.push(list);
        }
        let (_, results) = run_all(&mut runs, Network::Random(seed), &|_, to| to);
        assert!(results.iter().all(Result::is_ok));
        let sum = Buffer::with(6, &int, &reduced(false, operands.iter()));
        let whole = |buffer: &Buffer| buffer.0[GUARD..GUARD + 24].to_vec();
        for buffers in &buffers {
            for i in [0, 4, 8] {
                assert_eq!(whole(&buffers[i].1), whole(&sum), "size {size}");
                let all = &buffers[i + 1].1.0[GUARD..GUARD + 24 * size];
                assert_eq!(all, operands.concat(), "size {size}");
            }
        }
    }
}

#[test]
fn a_schedule_starts_again_with_other_buffers() {
    let seed = seed();
    let int = Datatype::predefined(Predefined::Int);
    let part = Part {
        count: 9,
        datatype: &int,
    };
    let size = 6;
    let op = operation(true);
    let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
    for rank in 0..size {
        let mut run = Run::new();
        let algorithm = Allreduce::RecursiveDoubling;
        allreduce(
            run.rebuild(),
            team(rank, size),
            Reduction::new(false, part, &op),
            algorithm,
        );
        runs.push(vec![run]);
    }
    for again in 0..5 {
        let operands: Vec<_> = (0..size)
            .map(|i| data(seed + again, i as u64, 36))
            .collect();
        let full = |packed: &Vec<u8>| Buffer::with(9, &int, packed);
        let mut send: Vec<Buffer> = operands.iter().map(full).collect();
        let mut recv = vec![Buffer::of(9, &int); size];
        for (rank, run) in runs.iter_mut().enumerate() {
            // SAFETY: the buffers live until the runs are done, below.
            unsafe { run[0].start(send[rank].ptr(), recv[rank].ptr(), again as u32) }.unwrap();
        }
        let (_, results) = run_all(&mut runs, Network::Random(seed + again), &|_, to| to);
        assert!(results.iter().all(Result::is_ok));
        let sum = Buffer::with(9, &int, &reduced(true, operands.iter()));
        compare(&again, &recv, &vec![sum; size]);
    }
}

#[test]
fn a_message_that_is_too_long_is_an_error_where_it_arrives() {
    // Rank 2 expects less than the root sends, at the top of a subtree: it gets the error, all
    // come to an end, and nothing is written behind its buffer.
    let int = Datatype::predefined(Predefined::Int);
    let size = 8;
    for seed in 0..50 {
        let mut recv = vec![Buffer::of(4, &int); size];
        recv[0] = Buffer::with(4, &int, &[5; 16]);
        recv[2] = Buffer::of(2, &int);
        let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
        for (rank, recv) in recv.iter_mut().enumerate() {
            let mut run = Run::new();
            let part = Part {
                count: if rank == 2 { 2 } else { 4 },
                datatype: &int,
            };
            bcast(run.rebuild(), team(rank, size), 0, part, Bcast::Binomial);
            // SAFETY: the buffers live until the runs are done, below.
            unsafe { run.start(std::ptr::null(), recv.ptr(), 1) }.unwrap();
            runs.push(vec![run]);
        }
        let (_, results) = run_all(&mut runs, Network::Random(seed), &|_, to| to);
        for (rank, result) in results.iter().enumerate() {
            let class = result.as_ref().err().map(Error::class);
            assert_eq!(class, (rank == 2).then_some(Class::Truncate), "rank {rank}");
        }
        assert_eq!(recv[2], Buffer::with(2, &int, &[5; 8]));
        assert_eq!(recv[5], Buffer::with(4, &int, &[5; 16]));
    }
}

#[test]
#[cfg_attr(panic = "abort", ignore = "catches a panic")]
fn a_deadlock_names_the_ranks_and_messages() {
    let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
    for rank in 0..2u32 {
        let mut run = Run::new();
        let arrival = run.rebuild().recv(1 - rank, Block::bytes(Buf::Recv, 0, 4));
        assert_eq!(arrival, 0);
        // SAFETY: no message comes, so nothing is written.
        unsafe { run.start(std::ptr::null(), std::ptr::null_mut(), 3) }.unwrap();
        runs.push(vec![run]);
    }
    let stuck = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run_all(&mut runs, Network::OnePort, &|_, to| to)
    }));
    let text = *stuck.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("receiving 4 bytes from 1"), "{text}");
    assert!(text.contains("receiving 4 bytes from 0"), "{text}");
}

/// A network on which nothing can be sent.
struct Broken;

impl Port for Broken {
    type Req = ();
    unsafe fn isend(&mut self, _: *const u8, _: usize, _: &Datatype, _: u32, _: u32) -> Result<()> {
        Err(Error::new(Class::ProcFailed, "gone"))
    }
    unsafe fn irecv(&mut self, _: *mut u8, _: usize, _: &Datatype, _: u32, _: u32) -> Result<()> {
        Ok(())
    }
    fn test(&mut self, (): ()) -> Result<bool> {
        Ok(true)
    }
    unsafe fn put(&mut self, _: u32, _: u32, _: u64, _: *const u8, _: usize) -> Result<Put<()>> {
        Err(Error::new(Class::ProcFailed, "gone"))
    }
    fn is_up(&mut self, _: u32, _: u32, _: u64, _: bool) -> Flag {
        Flag::Up
    }
    fn disagreement(&mut self, _: u32, _: u64) -> Result<Error> {
        Err(Error::new(Class::ProcFailed, "gone"))
    }
    unsafe fn direct(&mut self, _: u32, _: bool, _: *mut u8, _: usize, _: u64) -> Result<()> {
        Err(Error::new(Class::ProcFailed, "gone"))
    }
    fn own_slot(&self, _: u64, _: isize) -> *mut u8 {
        std::ptr::null_mut()
    }
    fn length(&self, _: u32, _: u32, _: u64) -> Option<usize> {
        None
    }
    fn slot(&self, _: u32, _: u32, _: u64, _: isize) -> *mut u8 {
        std::ptr::null_mut()
    }
}

#[test]
fn the_first_error_is_returned_at_the_end_and_only_once() {
    let mut run: Run<()> = Run::new();
    barrier(run.rebuild(), team(1, 4), Barrier::Dissemination);
    // SAFETY: no buffers are used.
    unsafe { run.start(std::ptr::null(), std::ptr::null_mut(), 1) }.unwrap();
    let class = run.advance(&mut Broken).map_err(|error| error.class());
    assert_eq!(class, Err(Class::ProcFailed));
    assert!(!run.is_running());
    assert_eq!(run.advance(&mut Broken), Ok(Progress::Done));
}

#[test]
fn copies_between_types_with_gaps() {
    // Both sides with gaps, more than goes through the copy's own buffer at once.
    let pair = Datatype::predefined(Predefined::ShortInt);
    let count = 3000;
    let packed = data(1, 1, count * pair.size());
    let mut send = Buffer::with(count, &pair, &packed);
    let mut recv = Buffer::of(count, &pair);
    let three = pair.contiguous(3).unwrap();
    let mut run: Run<()> = Run::new();
    let s = run.rebuild();
    let (from, to) = (s.add_type(&pair), s.add_type(&three));
    let block = |buf, datatype, count| Block {
        buf,
        datatype,
        offset: 0,
        count,
    };
    s.copy(
        block(Buf::Send, from, count),
        block(Buf::Recv, to, count / 3),
    );
    // SAFETY: both buffers have room for the elements.
    unsafe { run.start(send.ptr(), recv.ptr(), 0) }.unwrap();
    assert_eq!(run.advance(&mut Broken), Ok(Progress::Done));
    assert_eq!(recv, Buffer::with(count, &pair, &packed));
    // Into too little room: what fits, and an error.
    let mut less = Buffer::of(count - 3, &pair);
    let s = run.rebuild();
    let (from, to) = (s.add_type(&pair), s.add_type(&three));
    s.copy(
        block(Buf::Send, from, count),
        block(Buf::Recv, to, count / 3 - 1),
    );
    // SAFETY: as above; the copy knows how much room there is.
    unsafe { run.start(send.ptr(), less.ptr(), 0) }.unwrap();
    let class = run.advance(&mut Broken).map_err(|error| error.class());
    assert_eq!(class, Err(Class::Truncate));
    assert_eq!(
        less,
        Buffer::with(count - 3, &pair, &packed[..(count - 3) * 6])
    );
}

#[test]
fn no_scratch_memory_is_an_error_before_anything_is_sent() {
    let mut run: Run<()> = Run::new();
    let s = run.rebuild();
    let room = s.scratch_bytes(1 << 60);
    s.send(1, room);
    // SAFETY: no buffers are used.
    let started = unsafe { run.start(std::ptr::null(), std::ptr::null_mut(), 1) };
    assert_eq!(started.map_err(|error| error.class()), Err(Class::NoMem));
    assert!(!run.is_running());
    assert_eq!(run.advance(&mut Broken), Ok(Progress::Done));
    // It serves for something smaller.
    barrier(run.rebuild(), team(0, 1), Barrier::Tree);
    // SAFETY: no buffers are used.
    unsafe { run.start(std::ptr::null(), std::ptr::null_mut(), 2) }.unwrap();
    assert_eq!(run.advance(&mut Broken), Ok(Progress::Done));
}
