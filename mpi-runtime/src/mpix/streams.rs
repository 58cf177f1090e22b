//! Streams by handle (`MPIX_Stream_create`), what a communicator has of them, and threads that make progress
//! on one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mpi_comm::creation::streams::{Stream, Ways};
use mpi_core::comm::ContextId;
use mpi_core::{Class, Error, Process, Result};
use parking_lot::Mutex;

use crate::handles::predefined::{MPIX_STREAM_NULL, MPIX_Stream};
use crate::handles::{HandleTable, Type};
use crate::lifecycle::progress_thread;

/// So many fruitless polls, and a progress thread naps.
const POLLS: u32 = 1000;
/// How long it naps.
const NAP: Duration = Duration::from_micros(50);

/// The streams of a process.
pub struct Streams {
    objects: HandleTable<Stream>,
    threads: Mutex<Vec<ProgressThread>>,
}

struct ProgressThread {
    stream: MPIX_Stream,
    end: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// The streams of a communicator.
pub struct CommStreams {
    /// Their handles.
    pub handles: Vec<MPIX_Stream>,
    /// The ways from them to the others', which keep the streams.
    pub ways: Ways,
}

impl CommStreams {
    /// Makes those of a duplicate, whose block of contexts begins with `context`.
    pub fn same_in(&self, context: ContextId) -> CommStreams {
        CommStreams {
            handles: self.handles.clone(),
            ways: self.ways.same_in(context),
        }
    }
}

#[cold]
fn invalid(handle: MPIX_Stream) -> Error {
    let what = match handle {
        MPIX_STREAM_NULL => "stream is MPIX_STREAM_NULL".to_string(),
        _ => {
            format!("stream {handle:#x} does not exist; it was never created, or has been freed")
        }
    };
    Error::new(Class::Stream, what)
}

impl Default for Streams {
    fn default() -> Self {
        Streams {
            objects: HandleTable::new(Type::Stream),
            threads: Mutex::default(),
        }
    }
}

impl Streams {
    /// A handle for a stream.
    ///
    /// # Errors
    /// There are too many.
    pub fn insert(&self, stream: Stream) -> Result<MPIX_Stream> {
        let handle = self.objects.insert(Arc::new(stream));
        handle.ok_or_else(|| Error::new(Class::NoMem, "all 67,108,864 stream handles are in use"))
    }

    /// The stream behind a handle; none for `MPIX_STREAM_NULL`.
    ///
    /// # Errors
    /// It does not exist.
    pub fn get(&self, handle: MPIX_Stream) -> Result<Option<Arc<Stream>>> {
        if handle == MPIX_STREAM_NULL {
            return Ok(None);
        }
        let stream = self.objects.get_arc(handle);
        stream.map(Some).ok_or_else(|| invalid(handle))
    }

    /// Frees a stream that nothing uses any more.
    ///
    /// # Errors
    /// It does not exist, or a communicator or progress thread has it.
    pub fn free(&self, handle: MPIX_Stream) -> Result<()> {
        let stream = self.get(handle)?.ok_or_else(|| invalid(handle))?;
        let has_thread = |one: &ProgressThread| one.stream == handle;
        let why = if self.threads.lock().iter().any(has_thread) {
            "a progress thread runs for the stream; call MPIX_Stop_progress_thread before"
        } else if Arc::strong_count(&stream) > 2 {
            // The table has it, and this function.
            "a communicator or a function of MPIX_Async_start still has the stream; free or complete that before"
        } else {
            self.objects.remove(handle);
            return Ok(());
        };
        Err(Error::new(Class::Stream, why))
    }

    /// Starts a thread that makes progress on a stream, or on all VCIs for `MPIX_STREAM_NULL`.
    ///
    /// # Errors
    /// The stream does not exist, there is a thread for it, or no more can be started.
    pub fn start_thread(&self, process: &'static Process, handle: MPIX_Stream) -> Result<()> {
        let vci = self.get(handle)?.map(|stream| stream.vci());
        let mut threads = self.threads.lock();
        if threads.iter().any(|one| one.stream == handle) {
            let why = "a progress thread runs for this stream already";
            return Err(Error::new(Class::Stream, why));
        }
        let end = Arc::new(AtomicBool::new(false));
        let told = end.clone();
        let work = move || {
            let mut fruitless = 0;
            while !told.load(Ordering::Acquire) {
                let any = match vci {
                    Some(vci) => process.poll(vci),
                    None => process.poll_all(),
                };
                // Who waits for what has failed is told of it.
                fruitless = if any.unwrap_or(false) {
                    0
                } else {
                    fruitless + 1
                };
                if fruitless > POLLS {
                    std::thread::sleep(NAP);
                }
            }
        };
        let thread = progress_thread::spawn("weft stream", work).map_err(|error| {
            let why = format!("the progress thread could not be started: {error}");
            Error::new(Class::Other, why)
        })?;
        threads.push(ProgressThread {
            stream: handle,
            end,
            thread,
        });
        Ok(())
    }

    /// Ends the thread that makes progress on a stream.
    ///
    /// # Errors
    /// The stream does not exist, or there is none for it.
    pub fn stop_thread(&self, handle: MPIX_Stream) -> Result<()> {
        self.get(handle)?;
        let mut threads = self.threads.lock();
        let place = threads.iter().position(|one| one.stream == handle);
        let Some(place) = place else {
            let why =
                "no progress thread runs for this stream; MPIX_Start_progress_thread starts one";
            return Err(Error::new(Class::Stream, why));
        };
        end(threads.swap_remove(place));
        Ok(())
    }

    /// Ends all threads, and forgets streams that were not freed.
    pub fn forget(&self) {
        self.threads.lock().drain(..).for_each(end);
        for handle in self.objects.handles() {
            self.objects.remove(handle);
        }
    }
}

fn end(thread: ProgressThread) {
    thread.end.store(true, Ordering::Release);
    // It has no result, and a panic has ended the process already.
    let _ = thread.thread.join();
}
