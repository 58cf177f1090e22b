//! The two ranks of a count: one of them runs under callgrind.

use std::ffi::c_int;
use std::hint::black_box;
use std::path::PathBuf;

use clap::Args;

use super::counted::{
    Calls, Message, SIZE, TAG, irecv, isend, osu_bench_counted_irecv, osu_bench_counted_isend,
    osu_bench_counted_isend_wait, osu_bench_counted_wait, osu_bench_mark, wait,
};
use super::page::Page;
use super::plan::{BATCH, Part, Phase, Side, messages, phases};
use super::{blocking, window};
use crate::error::{Error, Result};
use crate::mpi::constants::REQUEST_NULL;
use crate::mpi::{Table, World};

/// The tag of acknowledgements.
pub(super) const ACK: c_int = 8;

/// Options from the parent.
#[derive(Args, Debug)]
pub struct RankOptions {
    #[arg(long, value_enum)]
    side: Side,
    #[arg(long)]
    few: u64,
    #[arg(long)]
    many: u64,
    #[arg(long)]
    page: PathBuf,
    #[arg(long)]
    multiple: bool,
}

/// Runs one rank.
pub fn run(options: &RankOptions) -> Result<()> {
    let page = Page::open(&options.page)?;
    let table = Table::open()?;
    let calls = Calls {
        isend: table.isend.get()?,
        irecv: table.irecv.get()?,
        wait: table.wait.get()?,
        waitall: table.waitall.get()?,
    };
    let blocking = blocking::Calls::of(table)?;
    let world = World::init(table, options.multiple)?;
    let phases = phases(options.few, options.many);
    let outcome = match (world.size, world.rank, options.side) {
        (2, 0, Side::Send) => count_sends(&world, &calls, &phases),
        (2, _, Side::Send) => take(&world, messages(&phases)),
        (2, 0, Side::Receive) => give(&world, &page, messages(&phases)),
        (2, _, Side::Receive) => count_receives(&calls, &page, &phases),
        (2, _, Side::Blocking) => blocking::run(&world, &page, &blocking),
        (2, _, Side::SendWindow) => window::send(&world, &calls, options.few, options.many),
        (2, _, Side::ReceiveWindow) => {
            window::receive(&world, &page, &calls, options.few, options.many)
        }
        (size, ..) => Err(Error::new(format!(
            "counting needs 2 ranks and the job has {size}"
        ))),
    };
    match outcome {
        Ok(()) => world.finalize(),
        Err(error) => {
            crate::output::complain(&format!("osu-bench: rank {}: {error}", world.rank));
            world.abort()
        }
    }
}

pub(super) fn no_error(codes: c_int) -> Result<()> {
    if codes == 0 {
        Ok(())
    } else {
        Err(Error::new(format!("MPI returned the code {codes}")))
    }
}

fn message(peer: c_int) -> Message {
    Message {
        peer,
        request: REQUEST_NULL,
        buffer: [1; SIZE],
    }
}

/// Rank 0 of a count of sends.
fn count_sends(world: &World, calls: &Calls, phases: &[Phase]) -> Result<()> {
    let mut message = message(1);
    let empty = Calls::empty();
    for (number, phase) in phases.iter().enumerate() {
        // Opaque, so that both kinds of phase run the same machine code.
        let calls = black_box(if phase.real { calls } else { &empty });
        for iteration in 1..=phase.iterations {
            // SAFETY: `message` lives on, and each start is followed by its wait before the next.
            no_error(unsafe { send_once(phase.part, calls, &mut message) })?;
            if phase.real && iteration % BATCH == 0 {
                world.recv(&mut [0; 4], 1, ACK)?;
            }
        }
        osu_bench_mark(number);
    }
    Ok(())
}

/// # Safety
/// `message` stays until the wait, which this does.
unsafe fn send_once(part: Part, calls: &Calls, message: &mut Message) -> c_int {
    // SAFETY: by the caller; one start, then one wait.
    unsafe {
        match part {
            Part::Both => osu_bench_counted_isend_wait(calls, message),
            Part::Start => osu_bench_counted_isend(calls, message) | wait(calls, message),
            Part::Wait => isend(calls, message) | osu_bench_counted_wait(calls, message),
        }
    }
}

/// Rank 1 of a count of sends: takes everything, and acknowledges each batch.
fn take(world: &World, messages: u64) -> Result<()> {
    for number in 1..=messages {
        world.recv(&mut [0; SIZE], 0, TAG)?;
        if number % BATCH == 0 {
            world.send(&[0; 4], 0, ACK)?;
        }
    }
    Ok(())
}

/// Rank 0 of a count of receives: sends when the receive is posted.
fn give(world: &World, page: &Page, messages: u64) -> Result<()> {
    for number in 1..=messages {
        page.await_posted(number);
        world.send(&[1; SIZE], 1, TAG)?;
        page.send(number);
    }
    Ok(())
}

/// Rank 1 of a count of receives: the message has been sent when it starts to wait, so the wait
/// finds it at once.
fn count_receives(calls: &Calls, page: &Page, phases: &[Phase]) -> Result<()> {
    let mut message = message(0);
    let empty = Calls::empty();
    let mut received = 0;
    for (number, phase) in phases.iter().enumerate() {
        let calls = black_box(if phase.real { calls } else { &empty });
        for _ in 0..phase.iterations {
            // SAFETY: `message` lives on and is untouched until the wait below.
            let started = unsafe {
                match phase.part {
                    Part::Wait => irecv(calls, &mut message),
                    Part::Both | Part::Start => osu_bench_counted_irecv(calls, &mut message),
                }
            };
            if phase.real {
                received += 1;
                page.post(received);
                page.await_sent(received);
            }
            // SAFETY: the request is the one just started, or null in an empty phase.
            let waited = unsafe {
                match phase.part {
                    Part::Start => wait(calls, &mut message),
                    Part::Both | Part::Wait => osu_bench_counted_wait(calls, &mut message),
                }
            };
            no_error(started | waited)?;
        }
        osu_bench_mark(number);
    }
    Ok(())
}
