//! A kernel pipe through which memory goes to a socket without a copy: the pipe refers to the
//! pages, and so does the socket's queue.
//!
//! The kernel does not report when the last byte has been read, so the memory must stay unchanged
//! until the receiver reports that it has everything.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
    vmsplice,
};

/// Capacity of a pipe, in bytes: the most that unprivileged processes may request.
const ROOM: usize = 1 << 20;

/// Bytes. With a smaller capacity a copy is faster.
const LEAST: usize = 64 << 10;

/// Both ends of a pipe and the number of bytes in it.
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: usize,
}

impl Pipe {
    /// Makes a pipe. Returns `None` if the kernel refuses descriptors or a useful capacity.
    pub fn new() -> Option<Pipe> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // If the resize is refused, the pipe keeps its capacity.
        let _ = fcntl_setpipe_size(&writer, ROOM);
        let room = fcntl_getpipe_size(&writer);
        let pipe = Pipe {
            reader,
            writer,
            held: 0,
        };
        room.is_ok_and(|room| room >= LEAST).then_some(pipe)
    }

    /// Returns the bytes in the pipe.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Puts references to as much of `memory` into the pipe as fits.
    ///
    /// # Errors
    /// The kernel cannot splice this memory.
    pub fn fill(&mut self, memory: &[u8]) -> io::Result<()> {
        let piece = IoSliceRaw::from_slice(&memory[..memory.len().min(ROOM)]);
        // SAFETY: the memory is readable during the call; the kernel only reads it, and keeps its
        // pages.
        match unsafe { vmsplice(&self.writer, &[piece], SpliceFlags::NONBLOCK) }? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            taken => self.held += taken,
        }
        Ok(())
    }

    /// Sends the content as far as the socket has space. `more`: further data follows immediately.
    /// Returns the number of bytes sent.
    ///
    /// # Errors
    /// Those of `send`, including `WouldBlock`.
    pub fn send(&mut self, to: &TcpStream, more: bool) -> io::Result<usize> {
        let mut flags = SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, more);
        let gone = quietly(self.held, || {
            Ok(splice(&self.reader, None, to, None, self.held, flags)?)
        })?;
        self.held -= gone;
        Ok(gone)
    }
}

/// Runs `act`, which sends up to `all` bytes, without the SIGPIPE of a broken connection, which
/// `splice` has no flag to suppress.
fn quietly(all: usize, act: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    // SAFETY: zero is valid for all fields, and sets are written before they are read. The mask is
    // this thread's and is restored below; SIGPIPE goes to the thread that caused it.
    unsafe {
        let mut pipe: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut before);
        let was_blocked = libc::sigismember(&before, libc::SIGPIPE) == 1;
        // A program that blocks the signal itself may have one pending, which stays.
        let mut waiting: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut waiting);
        if was_blocked {
            libc::sigpending(&mut waiting);
        }
        let result = act();
        // If the connection breaks after the first bytes, their number is the result.
        let is_whole = matches!(result, Ok(gone) if gone == all);
        if !is_whole && libc::sigismember(&waiting, libc::SIGPIPE) != 1 {
            let now: libc::timespec = std::mem::zeroed();
            libc::sigtimedwait(&pipe, std::ptr::null_mut(), &now);
        }
        if !was_blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn connection() -> [TcpStream; 2] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        one.set_nonblocking(true).unwrap();
        [one, other]
    }

    #[test]
    fn memory_goes_through_in_order() {
        let [from, mut to] = connection();
        let mut pipe = Pipe::new().unwrap();
        // Start and end within a page, and more than the pipe's capacity.
        let memory: Vec<u8> = (0..ROOM + 70_001).map(|at| (at % 251) as u8).collect();
        let mut rest = &memory[3..];
        let wanted = rest.len();
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; wanted];
            to.read_exact(&mut got).map(|()| got)
        });
        while !rest.is_empty() {
            if pipe.held() == 0 {
                pipe.fill(rest).unwrap();
            }
            match pipe.send(&from, false) {
                Ok(gone) => rest = &rest[gone..],
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert!(reader.join().unwrap().unwrap() == memory[3..]);
        assert_eq!(pipe.held(), 0);
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        // SAFETY: a new, inaccessible mapping of this length, which is only passed to the kernel.
        let nothing = unsafe {
            let none = std::ptr::null_mut();
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let place = libc::mmap(none, 1 << 16, libc::PROT_NONE, flags, -1, 0);
            assert!(place != libc::MAP_FAILED);
            std::slice::from_raw_parts(place.cast::<u8>(), 1 << 16)
        };
        let mut pipe = Pipe::new().unwrap();
        let error = pipe.fill(nothing).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        assert_eq!(pipe.held(), 0);
    }

    /// Rust's runtime ignores SIGPIPE, programs in C end by it: so a handler counts.
    #[test]
    fn a_broken_connection_sends_no_signal() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static SIGNALS: AtomicU32 = AtomicU32::new(0);
        extern "C" fn count(_: libc::c_int) {
            SIGNALS.fetch_add(1, Ordering::Relaxed);
        }
        let set = |to: libc::sighandler_t| {
            // SAFETY: the handler only counts; the previous one is restored below.
            unsafe { libc::signal(libc::SIGPIPE, to) }
        };
        let before = set(count as *const () as libc::sighandler_t);
        let [from, to] = connection();
        drop(to);
        let mut pipe = Pipe::new().unwrap();
        let memory = vec![1; 1 << 16];
        let error = loop {
            pipe.fill(&memory).unwrap();
            match pipe.send(&from, false) {
                Ok(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)),
            "{error}"
        );
        let again = pipe.send(&from, false).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(libc::EPIPE));
        assert_eq!(SIGNALS.load(Ordering::Relaxed), 0);
        // Without the mask the signal arrives, so the test can fail.
        let quiet = quietly(2, || {
            // SAFETY: the signal goes to this thread; a handler is installed.
            unsafe { libc::raise(libc::SIGPIPE) };
            Ok(1)
        });
        assert_eq!(quiet.unwrap(), 1);
        assert_eq!(SIGNALS.load(Ordering::Relaxed), 0);
        // SAFETY: the signal goes to this thread; a handler is installed.
        unsafe { libc::raise(libc::SIGPIPE) };
        assert_eq!(SIGNALS.load(Ordering::Relaxed), 1);

        // A program that blocks the signal later finds none of ours, and still finds its own.
        let block = |how| {
            // SAFETY: the set is written before it is read; the mask is this thread's.
            unsafe {
                let mut pipe: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut pipe);
                libc::sigaddset(&mut pipe, libc::SIGPIPE);
                libc::pthread_sigmask(how, &pipe, std::ptr::null_mut());
            }
        };
        for (own, counted) in [(false, 1), (true, 2)] {
            block(libc::SIG_BLOCK);
            if own {
                // SAFETY: the signal goes to this thread, which blocks it: it stays pending.
                unsafe { libc::raise(libc::SIGPIPE) };
            }
            pipe.send(&from, false).unwrap_err();
            block(libc::SIG_UNBLOCK);
            assert_eq!(SIGNALS.load(Ordering::Relaxed), counted);
        }
        set(before);
    }
}
