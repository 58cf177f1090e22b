//! Functions of the program that progress calls until they are done, an extension of MPICH
//! (`MPIX_Async_start`).

use std::ffi::c_void;
use std::sync::Arc;

use mpi_core::{Class, Error, Result};
use mpi_runtime::lifecycle::runtime::{Runtime, running, runtime};
use mpi_runtime::mpix::polling::{Function, Outcome, Polling, Task};
use parking_lot::Mutex;

use crate::abi::{
    MPIR_Async_thing, MPIX_ASYNC_DONE, MPIX_ASYNC_NOPROGRESS, MPIX_Async_poll_function,
    MPIX_Async_thing, MPIX_Stream,
};

/// A function with its state. The program gets its address as an `MPIX_Async_thing`.
struct Thing {
    function: MPIX_Async_poll_function,
    state: *mut c_void,
    /// Functions that it has started during its call, called only after it has returned.
    spawned: Mutex<Vec<Task>>,
}

// SAFETY: the state is only handed to the program's function, which is called by one thread at a
// time; which one is the program's business, which gave it for that.
unsafe impl Send for Thing {}
// SAFETY: as above; the rest has a lock.
unsafe impl Sync for Thing {}

impl Function for Thing {
    fn call(&self) -> Outcome {
        let place: *const Thing = self;
        // SAFETY: the program gave the function to be called so; the address is good until it is
        // done.
        let code = unsafe { (self.function)(place.cast_mut().cast::<MPIR_Async_thing>()) };
        let spawned = std::mem::take(&mut *self.spawned.lock());
        let mut outcome = match code {
            MPIX_ASYNC_DONE => Outcome::Done,
            MPIX_ASYNC_NOPROGRESS if spawned.is_empty() => Outcome::Nothing,
            _ => Outcome::Moved,
        };
        for task in spawned {
            match running() {
                Some(runtime) => add(runtime, task),
                // After MPI_Finalize no progress call would run the task.
                None => outcome = Outcome::Done,
            }
        }
        outcome
    }
}

fn add(runtime: &Runtime, task: Task) {
    let process = &runtime.process;
    process.source::<Polling>().add(process, Arc::new(task));
}

fn task(
    runtime: &Runtime,
    function: MPIX_Async_poll_function,
    state: *mut c_void,
    stream: MPIX_Stream,
) -> Result<Task> {
    let stream = runtime.streams.get(stream)?;
    let thing = Thing {
        function,
        state,
        spawned: Mutex::default(),
    };
    Ok(Task::new(Box::new(thing), stream))
}

/// `MPIX_Async_start`: makes progress call `poll_fn` until it returns `MPIX_ASYNC_DONE`: progress
/// on the stream, or any progress for `MPIX_STREAM_NULL`.
pub unsafe fn async_start(
    poll_fn: MPIX_Async_poll_function,
    extra_state: *mut c_void,
    stream: MPIX_Stream,
) -> Result<()> {
    let runtime = runtime()?;
    add(runtime, task(runtime, poll_fn, extra_state, stream)?);
    Ok(())
}

/// Returns the function behind an address.
///
/// # Safety
/// The address is NULL, or that of a function which is not done yet.
unsafe fn thing<'a>(async_thing: MPIX_Async_thing) -> Option<&'a Thing> {
    // SAFETY: the handle is NULL or the `Thing` that the library passed to the function that is
    // running (# Safety).
    unsafe { async_thing.cast::<Thing>().cast_const().as_ref() }
}

/// `MPIX_Async_get_state`: the state that it was started with.
pub unsafe fn async_get_state(async_thing: MPIX_Async_thing) -> *mut c_void {
    // SAFETY: the program's promise.
    let thing = unsafe { thing(async_thing) };
    thing.map_or(std::ptr::null_mut(), |thing| thing.state)
}

/// `MPIX_Async_spawn`: starts a function from within another one, as [`async_start`] does, when
/// that has returned.
pub unsafe fn async_spawn(
    async_thing: MPIX_Async_thing,
    poll_fn: MPIX_Async_poll_function,
    extra_state: *mut c_void,
    stream: MPIX_Stream,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the program's promise.
    let thing = unsafe { thing(async_thing) }.ok_or_else(|| {
        let why = "async_thing is NULL; pass the argument of the poll function";
        Error::new(Class::Arg, why)
    })?;
    let task = task(runtime, poll_fn, extra_state, stream)?;
    thing.spawned.lock().push(task);
    Ok(())
}
