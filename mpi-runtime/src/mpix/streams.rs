//! Streams by handle (`MPIX_Stream_create`), streams of communicators, and progress threads of
//! streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mpi_comm::creation::streams::{Stream, StreamComms};
use mpi_core::comm::ContextId;
use mpi_core::{Class, Error, Process, Result};
use parking_lot::Mutex;

use crate::handles::predefined::{MPIX_STREAM_NULL, MPIX_Stream};
use crate::handles::{HandleTable, Type};
use crate::lifecycle::progress_thread;

/// Fruitless polls before a progress thread naps.
const POLLS_BEFORE_NAP: u32 = 1000;
/// Length of a nap.
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
    /// The routes from them to the members' streams; they keep the streams alive.
    pub routes: StreamComms,
}

impl CommStreams {
    /// Creates the streams of a duplicate, whose block of contexts begins with `context`.
    pub fn duplicate_in(&self, context: ContextId) -> CommStreams {
        CommStreams {
            handles: self.handles.clone(),
            routes: self.routes.duplicate_in(context),
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
    /// Inserts a stream. Returns its handle.
    ///
    /// # Errors
    /// All handles are in use.
    pub fn insert(&self, stream: Stream) -> Result<MPIX_Stream> {
        let handle = self.objects.insert(Arc::new(stream));
        handle.ok_or_else(|| Error::new(Class::NoMem, "all 67,108,864 stream handles are in use"))
    }

    /// Returns the stream behind a handle; `None` for `MPIX_STREAM_NULL`.
    ///
    /// # Errors
    /// The handle is invalid.
    pub fn get(&self, handle: MPIX_Stream) -> Result<Option<Arc<Stream>>> {
        if handle == MPIX_STREAM_NULL {
            return Ok(None);
        }
        let stream = self.objects.get_arc(handle);
        stream.map(Some).ok_or_else(|| invalid(handle))
    }

    /// Frees a stream.
    ///
    /// # Errors
    /// The handle is invalid, or a communicator, progress thread or function still uses the stream.
    pub fn free(&self, handle: MPIX_Stream) -> Result<()> {
        let stream = self.get(handle)?.ok_or_else(|| invalid(handle))?;
        let has_thread = |one: &ProgressThread| one.stream == handle;
        let why = if self.threads.lock().iter().any(has_thread) {
            "a progress thread runs for the stream; call MPIX_Stop_progress_thread before"
        } else if Arc::strong_count(&stream) > 2 {
            // References of the table and of this function.
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
    /// The handle is invalid, the stream has a thread, or the system has no more threads.
    pub fn start_thread(&self, process: &'static Process, handle: MPIX_Stream) -> Result<()> {
        let vci = self.get(handle)?.map(|stream| stream.vci());
        let mut threads = self.threads.lock();
        if threads.iter().any(|one| one.stream == handle) {
            let why = "a progress thread runs for this stream already";
            return Err(Error::new(Class::Stream, why));
        }
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let work = move || {
            let mut fruitless = 0;
            while !ended.load(Ordering::Acquire) {
                let any = match vci {
                    Some(vci) => process.poll(vci),
                    None => process.poll_all(),
                };
                // The calls that wait for a failed operation report its error.
                fruitless = if any.unwrap_or(false) {
                    0
                } else {
                    fruitless + 1
                };
                if fruitless > POLLS_BEFORE_NAP {
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

    /// Ends the progress thread of a stream.
    ///
    /// # Errors
    /// The handle is invalid, or the stream has no thread.
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

    /// Ends all threads, and frees the streams that the program did not free.
    pub fn forget(&self) {
        self.threads.lock().drain(..).for_each(end);
        for handle in self.objects.handles() {
            self.objects.remove(handle);
        }
    }
}

fn end(thread: ProgressThread) {
    thread.end.store(true, Ordering::Release);
    // The thread has no result, and a panic would have ended the process.
    let _ = thread.thread.join();
}
