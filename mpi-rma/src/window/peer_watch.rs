//! Notices the end of processes whose memory windows have mapped.
//!
//! Accesses to mapped memory are loads and stores: they succeed whether the target's process lives
//! or not, and make no progress that would find its end. So a thread sleeps in `poll` on pidfds
//! until one of these processes ends. It then disables the fast path of accesses (`forget`) and
//! adds the process to the suspects, which the next access or synchronization checks. The fast
//! path needs no further checks. The failure of a process that can't be watched (an old kernel, no
//! descriptors left, another PID namespace) is found only by calls that wait.
//!
//! Invariant: the fast path is disabled before a call can know of the end, also if a call finds it
//! before the thread does: once a call has reported a loss, the next one reports it, too.

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

use mpi_core::process::suspects::SuspectedPeers;
use netmod::Peer;
use netmod_kit::process_number::pid_of;
use parking_lot::Mutex;

/// The processes that are watched.
#[derive(Default)]
pub(crate) struct Watch(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Disables the fast path of all accesses.
    forget: OnceLock<fn()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watched: Vec<Watched>,
    /// Wakes the thread; `None` until there is one.
    waker: Option<UnixStream>,
    is_over: bool,
}

struct Watched {
    peer: Peer,
    /// Its number (`process_number`).
    process: u32,
    /// Becomes readable when the process ends; `None` if it can't be watched, or once its end is known.
    fd: Option<OwnedFd>,
    is_ended: bool,
    windows: usize,
}

/// Keeps the members of a window watched until it is dropped.
pub(crate) struct Watching {
    shared: Arc<Shared>,
    peers: Vec<Peer>,
}

impl Watch {
    /// Sets the function that the watching thread calls after a process has ended.
    pub fn on_end(&self, forget: fn()) {
        let _ = self.0.forget.set(forget);
    }

    /// Notes the end of a process; disables the fast path if a window has mapped its memory.
    pub fn end(&self, peer: Peer) {
        self.0.end(peer);
    }

    /// Watches processes, given by their numbers in the job and on the node (`process_number`).
    pub fn members(
        &self,
        suspects: &Arc<SuspectedPeers>,
        members: impl Iterator<Item = (Peer, u32)>,
    ) -> Watching {
        let shared = &self.0;
        let mut state = shared.state.lock();
        let mut peers = Vec::new();
        for (peer, process) in members {
            let known = state
                .watched
                .iter_mut()
                .find(|one| one.peer == peer && one.process == process);
            match known {
                Some(known) => known.windows += 1,
                None => state.watched.push(Watched {
                    peer,
                    process,
                    fd: open(process),
                    is_ended: false,
                    windows: 1,
                }),
            }
            peers.push(peer);
        }
        if state.watched.iter().any(|one| one.fd.is_some()) {
            state.wake(shared, suspects);
        }
        Watching {
            shared: shared.clone(),
            peers,
        }
    }
}

impl Watching {
    /// Whether no member is known to have ended. To be asked after the fast path to a new window has
    /// been enabled: an end that is noted later disables it.
    pub fn is_complete(&self) -> bool {
        let state = self.shared.state.lock();
        let ended = |one: &Watched| one.is_ended && self.peers.contains(&one.peer);
        !state.watched.iter().any(ended)
    }
}

impl Shared {
    fn end(&self, peer: Peer) {
        let mut known = false;
        for one in &mut self.state.lock().watched {
            if one.peer == peer {
                // (Not closed: the program may have closed it, and use the number for a file of its
                // own.)
                std::mem::forget(one.fd.take());
                one.is_ended = true;
                known = true;
            }
        }
        if let Some(forget) = self.forget.get().filter(|_| known) {
            forget();
        }
    }
}

impl State {
    /// Makes the thread read the list again; starts the thread if there is none.
    fn wake(&mut self, shared: &Arc<Shared>, suspects: &Arc<SuspectedPeers>) {
        if self.waker.is_none() {
            let Ok((waker, wakeups)) = UnixStream::pair() else {
                return;
            };
            let (shared, suspects) = (shared.clone(), suspects.clone());
            if start(move || watch(&shared, &suspects, &wakeups)).is_none() {
                return;
            }
            self.waker = Some(waker);
        }
        if let Some(waker) = &mut self.waker {
            let _ = waker.write_all(&[0]);
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        for peer in &self.peers {
            for one in state.watched.iter_mut().filter(|one| one.peer == *peer) {
                one.windows = one.windows.saturating_sub(1);
            }
        }
        state.watched.retain(|one| one.windows > 0);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_over = true;
        // The thread sees the end of its stream.
        state.waker = None;
    }
}

/// Starts a thread with all signals blocked, so that the program's own threads get them.
fn start(run: impl FnOnce() + Send + 'static) -> Option<()> {
    const STACK: usize = 128 << 10;
    let named = std::thread::Builder::new().name("weft-watch".into());
    // SAFETY: both signal sets are locals, filled before they are read. The new thread inherits the
    // full mask; this thread's own mask is restored.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = named.stack_size(STACK).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started.ok().map(drop)
    }
}

fn open(process: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid_of(process)?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Sleeps until a process ends or the list changes; ends with the watch.
fn watch(shared: &Shared, suspects: &SuspectedPeers, mut wakeups: &UnixStream) {
    let poll = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        let mut polled = vec![poll(wakeups.as_raw_fd())];
        {
            let state = shared.state.lock();
            if state.is_over {
                return;
            }
            let open = state.watched.iter().filter_map(|one| one.fd.as_ref());
            polled.extend(open.map(|fd| poll(fd.as_raw_fd())));
        }
        // SAFETY: the pointer and length are those of `polled`. A descriptor that was closed
        // meanwhile may belong to another file by now, which makes this a spurious wakeup: the list
        // is checked below.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        if ready < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return;
        }
        if polled[0].revents != 0 && !matches!(wakeups.read(&mut [0; 64]), Ok(1..)) {
            return;
        }
        let is_ready = |one: &Watched| {
            let fd = one.fd.as_ref().map(AsRawFd::as_raw_fd);
            let mut polled = polled[1..].iter();
            fd.is_some_and(|fd| polled.any(|it| it.fd == fd && it.revents != 0))
        };
        let ended: Vec<Peer> = {
            let state = shared.state.lock();
            let ready = state.watched.iter().filter(|one| is_ready(one));
            ready.map(|one| one.peer).collect()
        };
        for peer in ended {
            shared.end(peer);
            suspects.raise(peer);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    static CALLS: AtomicU32 = AtomicU32::new(0);
    static LATE: AtomicU32 = AtomicU32::new(0);
    static SUSPECTS: OnceLock<Arc<SuspectedPeers>> = OnceLock::new();

    fn forget() {
        let known = SUSPECTS.get().is_some_and(|suspects| suspects.any());
        LATE.fetch_add(u32::from(known), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
    }

    fn sleeper() -> std::process::Child {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn only_the_end_of_a_present_member_is_noticed() {
        let watch = Watch::default();
        let suspects = SUSPECTS.get_or_init(Arc::default);
        watch.on_end(forget);
        let [mut former, mut member] = [sleeper(), sleeper()];
        let first = watch.members(suspects, [(1, former.id()), (2, member.id())].into_iter());
        let second = watch.members(suspects, [(2, member.id())].into_iter());
        assert_eq!(watch.0.state.lock().watched.len(), 2);
        drop(first);
        former.kill().unwrap();
        former.wait().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(CALLS.load(Ordering::Relaxed), 0);
        assert!(second.is_complete());
        member.kill().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while CALLS.load(Ordering::Relaxed) == 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
        assert_eq!(
            LATE.load(Ordering::Relaxed),
            0,
            "calls could know of the end before"
        );
        assert!(!second.is_complete());
        member.wait().unwrap();
        drop(second);
        assert!(watch.0.state.lock().watched.is_empty());
    }

    #[test]
    fn an_end_that_others_find_is_known_at_once() {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let (watch, suspects) = (Watch::default(), Arc::default());
        watch.on_end(|| {
            CALLS.fetch_add(1, Ordering::Relaxed);
        });
        let mut member = sleeper();
        // The second one can't be watched.
        let members = [(2, member.id()), (3, u32::MAX)];
        let watching = watch.members(&suspects, members.into_iter());
        watch.end(1);
        assert!(watching.is_complete() && CALLS.load(Ordering::Relaxed) == 0);
        watch.end(3);
        assert!(!watching.is_complete() && CALLS.load(Ordering::Relaxed) == 1);
        watch.end(2);
        assert_eq!(CALLS.load(Ordering::Relaxed), 2);
        member.kill().unwrap();
        member.wait().unwrap();
    }
}
