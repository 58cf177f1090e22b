//! System calls that std doesn't offer, each behind a safe function.
#![allow(unsafe_code, reason = "the one place of this program that calls libc")]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::binding::{Mode, Policy};

/// A process number.
pub type Pid = i32;

/// The signals that the launcher and its agents handle themselves.
pub const HANDLED: &[i32] = &[
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTSTP,
];

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Code(i32),
    /// Killed by this signal.
    Signal {
        /// Its number.
        number: i32,
        /// Whether the kernel wrote a core dump.
        core: bool,
    },
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// A set of signals that are blocked and read from a descriptor instead.
pub struct Signals {
    descriptor: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals of `wanted`, except ignored ones (as by nohup).
    ///
    /// SIGQUIT is blocked even if it is ignored, since shells make background jobs ignore it.
    /// Processes that the launcher starts then ignore it again ([`give_quit_back`]).
    pub fn take(wanted: &[i32]) -> io::Result<Signals> {
        // SAFETY: a sigset_t is plain data that sigemptyset makes valid; the calls read and write
        // the two locals only.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut set);
            for &signal in wanted {
                if signal == libc::SIGQUIT && is_ignored(signal) {
                    libc::signal(signal, libc::SIG_DFL);
                    QUIT_WAS_IGNORED.store(true, Ordering::Relaxed);
                }
                if !is_ignored(signal) {
                    libc::sigaddset(&mut set, signal);
                }
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before))?;
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            let fd = check(libc::signalfd(-1, &set, flags))?;
            Ok(Signals {
                descriptor: OwnedFd::from_raw_fd(fd),
                before,
            })
        }
    }

    /// Returns the descriptor to be polled for reading.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Returns the next pending signal.
    pub fn next(&self) -> Option<i32> {
        // SAFETY: signalfd_siginfo is plain data, valid when zero; read gets its address and size.
        unsafe {
            let mut info: libc::signalfd_siginfo = mem::zeroed();
            let size = mem::size_of_val(&info);
            let got = libc::read(self.descriptor(), (&raw mut info).cast(), size);
            (usize::try_from(got) == Ok(size)).then_some(info.ssi_signo as i32)
        }
    }

    /// Restores the previous signal mask.
    pub fn give_back(&self) {
        // SAFETY: `before` is the set that sigprocmask gave us.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

/// Whether SIGQUIT was ignored before [`Signals::take`].
static QUIT_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Ignores SIGQUIT again if it was ignored before. Async-signal-safe, for use between fork and
/// exec.
pub fn give_quit_back() {
    if QUIT_WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGQUIT, libc::SIG_IGN) };
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: with a null new action, sigaction only fills the local.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The settings of a child process, applied between fork and exec.
pub struct Setup {
    /// The descriptors that the program inherits.
    pub inherit: Vec<RawFd>,
    /// The affinity mask; empty for no change.
    pub cpus: Vec<u64>,
    /// The memory policy.
    pub memory: Option<Policy>,
    /// The limit of open files to restore, if the launcher has raised its own.
    pub files: Option<libc::rlimit>,
}

/// Makes `command` apply `setup` when it starts, restore the signal mask of before
/// [`Signals::take`], and die with this process.
pub fn prepare(command: &mut Command, signals: &Signals, setup: Setup) {
    let mask = signals.before;
    let memory = setup.memory.map(|policy| {
        let mut nodes: Vec<libc::c_ulong> = Vec::new();
        let bits = libc::c_ulong::BITS as usize;
        for &node in &policy.nodes {
            nodes.resize(nodes.len().max(node / bits + 1), 0);
            nodes[node / bits] |= 1 << (node % bits);
        }
        (policy.mode, nodes)
    });
    // SAFETY: getpid can't fail.
    let launcher = unsafe { libc::getpid() };
    let prepare = move || {
        // SAFETY: the system calls get values, or addresses of data that this closure owns; none
        // takes a lock or allocates, as pre_exec requires after fork.
        unsafe {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            if libc::getppid() != launcher {
                // The launcher died before prctl, so no signal would ever end this process.
                libc::_exit(1);
            }
            if !setup.cpus.is_empty() {
                let size = mem::size_of_val(&setup.cpus[..]);
                // Fails if the CPUs were taken offline since; the process then runs unbound.
                libc::sched_setaffinity(0, size, setup.cpus.as_ptr().cast());
            }
            if let Some((mode, nodes)) = &memory {
                // set_mempolicy reads `maxnode - 1` bits.
                let bits = nodes.len() * libc::c_ulong::BITS as usize + 1;
                let how = *mode as libc::c_long;
                let done = libc::syscall(libc::SYS_set_mempolicy, how, nodes.as_ptr(), bits);
                // Containers may forbid set_mempolicy: an error only if -membind requested it.
                if done < 0 && matches!(mode, Mode::Bind | Mode::Interleave) {
                    return Err(io::Error::last_os_error());
                }
            }
            if let Some(limit) = &setup.files {
                libc::setrlimit(libc::RLIMIT_NOFILE, limit);
            }
            for fd in &setup.inherit {
                check(libc::fcntl(*fd, libc::F_SETFD, 0))?;
            }
            give_quit_back();
            check(libc::sigprocmask(libc::SIG_SETMASK, &mask, ptr::null_mut()))?;
        }
        Ok(())
    };
    // SAFETY: the closure only makes async-signal-safe system calls, takes no lock and does not
    // allocate.
    unsafe { command.pre_exec(prepare) };
}

/// Makes processes whose parents die become children of this one.
pub fn become_subreaper() {
    // SAFETY: prctl gets values only. If it fails, orphans stay unnoticed.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Reaps a child that has ended, if there is one.
pub fn reap() -> Option<(Pid, Ending)> {
    // SAFETY: waitid fills the local siginfo_t, which is plain data; the accessors read fields
    // that are valid for a child's siginfo.
    unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG;
        check(libc::waitid(libc::P_ALL, 0, &mut info, flags)).ok()?;
        let pid = info.si_pid();
        if pid == 0 {
            return None;
        }
        let status = info.si_status();
        let ending = match info.si_code {
            libc::CLD_EXITED => Ending::Code(status),
            code => Ending::Signal {
                number: status,
                core: code == libc::CLD_DUMPED,
            },
        };
        Some((pid, ending))
    }
}

/// Waits for the end of a child and reaps it.
pub fn wait_for(pid: Pid) {
    // SAFETY: with a null status, takes values only.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Sends a signal to a process.
pub fn kill(pid: Pid, signal: i32) {
    if pid > 0 {
        // SAFETY: the call gets values only.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Sends a signal to a process group.
pub fn kill_group(group: Pid, signal: i32) {
    if group > 1 {
        // SAFETY: the call gets values only.
        unsafe { libc::kill(-group, signal) };
    }
}

/// Stops this process, as Ctrl-Z does.
pub fn stop_self() {
    // SAFETY: the call gets values only.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Waits until an entry is ready, for at most `timeout` milliseconds (-1: without limit).
pub fn poll(entries: &mut [libc::pollfd], timeout: i32) {
    // SAFETY: pointer and length describe the slice. An interruption leaves `revents` as they
    // were, zero, which reads as nothing being ready.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout) };
}

/// Writes to a descriptor, unbuffered.
pub fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe `bytes`.
    let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Reads from a descriptor, unbuffered.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe `buffer`.
    let got = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Makes a descriptor non-blocking.
pub fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: takes values only, and the descriptor is borrowed.
    unsafe {
        let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
        check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
    }
    Ok(())
}

/// Returns whether standard input is a terminal that has this process in the foreground.
pub fn owns_terminal() -> bool {
    // SAFETY: both calls get values only.
    unsafe { libc::tcgetpgrp(0) == libc::getpgrp() }
}

/// Returns the affinity mask of this process.
pub fn allowed_cpus() -> Vec<u64> {
    let mut words = 16;
    while words <= 16_384 {
        let mut mask = vec![0u64; words];
        // SAFETY: pointer and size describe the vector.
        let got = unsafe {
            libc::sched_getaffinity(0, mem::size_of_val(&mask[..]), mask.as_mut_ptr().cast())
        };
        if got >= 0 {
            return mask;
        }
        // The kernel's mask is longer.
        words *= 2;
    }
    Vec::new()
}

/// Raises the limit of open files to `count`. Returns the previous limit if it was changed.
pub fn allow_files(count: u64) -> io::Result<Option<libc::rlimit>> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit fills the local `limit`.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    if limit.rlim_cur >= count {
        return Ok(None);
    }
    let before = limit;
    limit.rlim_cur = count.min(limit.rlim_max);
    // SAFETY: setrlimit reads the local `limit`.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    Ok(Some(before))
}

/// Loads an MPI library, and calls `MPI_Init` and `MPI_Finalize`.
pub fn start_and_stop_mpi(library: &std::ffi::OsStr) -> Result<(), String> {
    use std::os::unix::ffi::OsStrExt;
    let shown = library.to_string_lossy();
    let path = std::ffi::CString::new(library.as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: `path` is a C string; the constructors of an MPI library have no preconditions.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(format!("the library {shown} can't be opened"));
    }
    let find = |name: &std::ffi::CStr| {
        // SAFETY: `handle` is a loaded library, checked above; `name` is a C string.
        let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
        match symbol.is_null() {
            false => Ok(symbol),
            true => Err(format!(
                "the library {shown} has no {}",
                name.to_string_lossy()
            )),
        }
    };
    let (init, finalize) = (find(c"MPI_Init")?, find(c"MPI_Finalize")?);
    // SAFETY: the MPI standard gives the functions these types, and allows null for both arguments
    // of MPI_Init.
    let codes = unsafe {
        type Init = unsafe extern "C" fn(*mut i32, *mut *mut *mut libc::c_char) -> i32;
        type Finalize = unsafe extern "C" fn() -> i32;
        let init = mem::transmute::<*mut libc::c_void, Init>(init);
        let finalize = mem::transmute::<*mut libc::c_void, Finalize>(finalize);
        [init(ptr::null_mut(), ptr::null_mut()), finalize()]
    };
    match codes {
        [0, 0] => Ok(()),
        _ => Err(format!("MPI_Init and MPI_Finalize returned {codes:?}")),
    }
}

/// Sets close-on-exec on an inherited descriptor.
pub fn keep(fd: RawFd) {
    // SAFETY: takes values only; a descriptor that does not exist is an error that changes nothing.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// Shuts down an inherited socket, so that its other end reads the end of the stream.
pub fn hang_up(fd: RawFd) {
    // SAFETY: shutdown gets values only; on other descriptors it fails and changes nothing.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// Forks this process, which has one thread. The child has a process group of its own and the name
/// `name`. Returns the child's process number, and `None` in the child.
pub fn fork(name: &std::ffi::CStr) -> io::Result<Option<Pid>> {
    // SAFETY: this program has one thread, so no lock is held in the child, which may go on like
    // the parent. The other calls get values and a C string.
    unsafe {
        let pid = check(libc::fork())?;
        if pid != 0 {
            return Ok(Some(pid));
        }
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
    }
    Ok(None)
}

/// Ends a forked process without the parent's exit handlers.
pub fn exit(code: u8) -> ! {
    // SAFETY: takes a value only.
    unsafe { libc::_exit(code.into()) }
}

/// Forks a process that kills its process group when a pipe closes; see the module `guardian`.
///
/// Returns the process number and the other end of the pipe.
pub fn fork_watcher() -> io::Result<(Pid, OwnedFd)> {
    let mut ends = [0i32; 2];
    // SAFETY: pipe2 fills the array of two.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: pipe2 has just opened both descriptors, and nothing else owns them.
    let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    // SAFETY: this program has one thread, so no lock is held in the child; the child makes system
    // calls on values and locals only, and never returns.
    unsafe {
        let pid = check(libc::fork())?;
        if pid != 0 {
            // Parent and child both do it, since either may run first.
            libc::setpgid(pid, pid);
            return Ok((pid, write));
        }
        libc::setpgid(0, 0);
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, c"mpiexec-guard".as_ptr());
        libc::close(ends[1]);
        let mut byte = 0u8;
        while libc::read(read.as_raw_fd(), (&raw mut byte).cast(), 1) != 0 {}
        libc::kill(0, libc::SIGKILL);
        libc::_exit(0)
    }
}
