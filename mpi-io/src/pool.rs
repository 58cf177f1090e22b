//! Threads that read and write for nonblocking calls.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use parking_lot::{Condvar, Mutex};

/// Largest number of threads, and so of concurrent system calls.
const MOST: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// A job, and whether it is short.
struct Entry {
    job: Job,
    is_short: bool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Entry>,
    idle: usize,
    ends: bool,
}

#[derive(Default)]
struct Common {
    queue: Mutex<Queue>,
    /// Number of jobs that were pushed and have not ended.
    under_way: AtomicUsize,
    more: Condvar,
}

/// The threads of a process, started when there is work.
#[derive(Default)]
pub(crate) struct Pool {
    common: Arc<Common>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    /// Queues a job for a thread; returns it if no thread can be started. Short jobs may be taken
    /// back ([`Pool::take_short`]).
    pub fn push(&self, job: Job, is_short: bool) -> Result<(), Job> {
        let mut threads = self.threads.lock();
        let mut queue = self.common.queue.lock();
        if queue.idle <= queue.jobs.len()
            && threads.len() < MOST
            && let Some(thread) = start(self.common.clone())
        {
            threads.push(thread);
        }
        if threads.is_empty() {
            return Err(job);
        }
        self.common.under_way.fetch_add(1, Ordering::Relaxed);
        queue.jobs.push_back(Entry { job, is_short });
        self.common.more.notify_one();
        Ok(())
    }

    /// Returns whether threads have work.
    pub fn is_busy(&self) -> bool {
        self.common.under_way.load(Ordering::Relaxed) > 0
    }

    /// Takes the first job, if it is short and no thread has begun it, for the caller to carry out.
    pub fn take_short(&self) -> Option<impl FnOnce() + use<>> {
        let job = {
            let mut queue = self.common.queue.try_lock()?;
            queue.jobs.front().filter(|first| first.is_short)?;
            queue.jobs.pop_front()?.job
        };
        let common = self.common.clone();
        Some(move || common.carry_out(job))
    }
}

impl Common {
    fn carry_out(&self, job: Job) {
        job();
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.common.queue.lock().ends = true;
        self.common.more.notify_all();
        for thread in self.threads.lock().drain(..) {
            // The thread has no result, and a panic would have ended the process.
            let _ = thread.join();
        }
    }
}

/// Carries out jobs until the process ends.
fn work(common: &Common) {
    let mut queue = common.queue.lock();
    loop {
        if let Some(Entry { job, .. }) = queue.jobs.pop_front() {
            drop(queue);
            common.carry_out(job);
            queue = common.queue.lock();
        } else if queue.ends {
            return;
        } else {
            queue.idle += 1;
            common.more.wait(&mut queue);
            queue.idle -= 1;
        }
    }
}

/// Starts a thread with all signals blocked: the program's threads handle them.
#[allow(unsafe_code, reason = "calls of the C library")]
fn start(common: Arc<Common>) -> Option<JoinHandle<()>> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are local variables; the first call fills `all`, the second reads it and
    // fills `before`.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = Builder::new()
        .name("weft files".into())
        .spawn(move || work(&common));
    // SAFETY: `before` was filled by the first `pthread_sigmask`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    thread.ok()
}
