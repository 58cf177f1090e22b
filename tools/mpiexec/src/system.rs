//! System calls that std doesn't offer, each behind a safe function.
#![allow(unsafe_code, reason = "the one place of this program that calls libc")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use rustix::io::retry_on_intr;
use rustix::pipe::PipeFlags;
use rustix::process::{self, Resource, Rlimit, Signal, WaitOptions};

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

    /// Ends this process, as its signal would have, if one is pending.
    pub fn obey(&self) {
        if let Some(number) = self.next() {
            exit(128_i32.saturating_add(number) as u8);
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

/// A process to start.
pub struct Start<'a> {
    /// The path of its program.
    pub program: &'a Path,
    /// Its arguments, from its name on.
    pub arguments: &'a [OsString],
    /// All of its environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Its working directory; `None` for this process's.
    pub folder: Option<&'a Path>,
    /// Its standard input, output and error; `None` for this process's. None is one of this process's.
    pub streams: [Option<OwnedFd>; 3],
    /// Other descriptors that it inherits.
    pub inherit: Vec<BorrowedFd<'a>>,
    /// Its process group; `None` for this process's.
    pub group: Option<Pid>,
    /// The affinity mask; empty for no change.
    pub cpus: Vec<u64>,
    /// The memory policy.
    pub memory: Option<Policy>,
    /// The limit of open files to restore, if the launcher has raised its own.
    pub files: Option<Rlimit>,
}

/// Bytes of the stack on which a process runs until it executes its program, without the arguments: the C
/// library copies their addresses for a script that names no interpreter.
const STACK: usize = 64 << 10;

/// Starts a process that dies with this one. It gets the signal mask of before [`Signals::take`].
/// Returns its number.
pub fn start(start: Start, signals: &Signals) -> io::Result<Pid> {
    fn strings(texts: impl Iterator<Item = Vec<u8>>) -> io::Result<Vec<CString>> {
        let all: Result<_, _> = texts.map(CString::new).collect();
        Ok(all?)
    }
    fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
        let all = texts.iter().map(|text| text.as_ptr());
        all.chain([ptr::null()]).collect()
    }
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (program, folder) = (path(start.program)?, start.folder.map(path).transpose()?);
    let arguments = strings(start.arguments.iter().map(|word| word.as_bytes().to_vec()))?;
    let environment = start.environment.into_iter();
    let environment =
        strings(environment.map(|(name, value)| [name.as_bytes(), value.as_bytes()].join(&b'=')))?;
    let (arguments, environment) = (pointers(&arguments), pointers(&environment));
    let memory = start.memory.map(|policy| {
        let mut nodes: Vec<libc::c_ulong> = Vec::new();
        let bits = libc::c_ulong::BITS as usize;
        for &node in &policy.nodes {
            nodes.resize(nodes.len().max(node / bits + 1), 0);
            nodes[node / bits] |= 1 << (node % bits);
        }
        (policy.mode, nodes)
    });
    let launcher = Some(process::getpid());
    // SAFETY: the system calls get values, or addresses of data above, which this process keeps until
    // the program is executed. None takes a lock or allocates: the process shares this one's memory.
    let mut run = || unsafe {
        for (stream, fd) in (0..).zip(&start.streams) {
            if let Some(fd) = fd {
                check(libc::dup2(fd.as_raw_fd(), stream))?;
            }
        }
        if let Some(folder) = &folder {
            check(libc::chdir(folder.as_ptr()))?;
        }
        if let Some(group) = start.group {
            check(libc::setpgid(0, group))?;
        }
        process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if process::getppid() != launcher {
            // The launcher died before prctl, so no signal would ever end this process.
            exit(1);
        }
        if let Some(limit) = &start.files {
            let _ = process::setrlimit(Resource::Nofile, *limit);
        }
        if !start.cpus.is_empty() {
            let size = mem::size_of_val(&start.cpus[..]);
            // Fails if the CPUs were taken offline since; the process then runs unbound.
            libc::sched_setaffinity(0, size, start.cpus.as_ptr().cast());
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
        for fd in &start.inherit {
            check(libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0))?;
        }
        // Programs do not expect what Rust's runtime has set.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        give_quit_back();
        check(libc::sigprocmask(
            libc::SIG_SETMASK,
            &signals.before,
            ptr::null_mut(),
        ))?;
        libc::execvpe(program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
        Err(io::Error::last_os_error())
    };
    let mut child = Child {
        run: &mut run,
        error: None,
    };
    let bytes = STACK + mem::size_of_val(&arguments[..]);
    let mut stack: Vec<u128> = Vec::with_capacity(bytes / size_of::<u128>());
    // SAFETY: the child has this stack for itself. This process waits until it has executed its program
    // or ended, and until then changes nothing that the child reads.
    let pid = check(unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity()).cast();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(enter, top, flags, (&raw mut child).cast())
    })?;
    match child.error.take() {
        Some(error) => {
            wait_for(pid);
            Err(error)
        }
        None => Ok(pid),
    }
}

/// A process before it executes its program.
struct Child<'a> {
    /// Executes the program; returns only if it can't.
    run: &'a mut dyn FnMut() -> io::Result<()>,
    error: Option<io::Error>,
}

/// Runs a [`Child`].
extern "C" fn enter(child: *mut libc::c_void) -> i32 {
    // SAFETY: `start` passes the address of its child, which it uses again when this process has ended.
    let child = unsafe { &mut *child.cast::<Child>() };
    child.error = (child.run)().err();
    exit(1)
}

/// Makes processes whose parents die become children of this one.
pub fn become_subreaper() {
    // If it fails, orphans stay unnoticed.
    let _ = process::set_child_subreaper(Some(process::getpid()));
}

/// Reaps a child that has ended, if there is one.
pub fn reap() -> Option<(Pid, Ending)> {
    let (pid, status) = process::wait(WaitOptions::NOHANG).ok()??;
    let ending = match status.exit_status() {
        Some(code) => Ending::Code(code),
        None => Ending::Signal {
            number: status.terminating_signal().unwrap_or(0),
            core: libc::WCOREDUMP(status.as_raw()),
        },
    };
    Some((pid.as_raw_pid(), ending))
}

/// Waits for the end of a child and reaps it.
pub fn wait_for(pid: Pid) {
    let _ = retry_on_intr(|| process::waitpid(process::Pid::from_raw(pid), WaitOptions::empty()));
}

/// Sends a signal to a process.
pub fn kill(pid: Pid, signal: i32) {
    if pid > 0
        && let (Some(pid), Some(signal)) =
            (process::Pid::from_raw(pid), Signal::from_named_raw(signal))
    {
        let _ = process::kill_process(pid, signal);
    }
}

/// Sends a signal to a process group.
pub fn kill_group(group: Pid, signal: i32) {
    if group > 1
        && let (Some(group), Some(signal)) = (
            process::Pid::from_raw(group),
            Signal::from_named_raw(signal),
        )
    {
        let _ = process::kill_process_group(group, signal);
    }
}

/// Stops this process, as Ctrl-Z does.
pub fn stop_self() {
    let _ = process::kill_process(process::getpid(), Signal::STOP);
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
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    Ok(rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

/// Returns whether standard input is a terminal that has this process in the foreground.
pub fn owns_terminal() -> bool {
    // A group that is invisible in this PID namespace has the number 0, which rustix does not allow.
    // SAFETY: both functions take and return numbers only.
    unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() }
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
pub fn allow_files(count: u64) -> io::Result<Option<Rlimit>> {
    // None is no limit.
    let before = process::getrlimit(Resource::Nofile);
    if before.current.is_none_or(|current| current >= count) {
        return Ok(None);
    }
    let raised = Rlimit {
        current: Some(before.maximum.map_or(count, |most| count.min(most))),
        ..before
    };
    process::setrlimit(Resource::Nofile, raised)?;
    Ok(Some(before))
}

/// Returns whether this process may have `count` open files.
pub fn allows_files(count: u64) -> bool {
    let limit = process::getrlimit(Resource::Nofile).current;
    limit.is_none_or(|limit| limit >= count)
}

/// Loads an MPI library, and calls `MPI_Init` and `MPI_Finalize`.
pub fn start_and_stop_mpi(library: &std::ffi::OsStr) -> Result<(), String> {
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
pub fn fork(name: &CStr) -> io::Result<Option<Pid>> {
    // SAFETY: this program has one thread, so no lock is held in the child, which may go on like
    // the parent.
    let pid = check(unsafe { libc::fork() })?;
    if pid != 0 {
        return Ok(Some(pid));
    }
    begin_group(name);
    Ok(None)
}

/// Moves this process to a process group of its own, and names it.
fn begin_group(name: &CStr) {
    let _ = process::setpgid(None, None);
    let _ = rustix::thread::set_name(name);
}

/// Ends a forked process without the parent's exit handlers.
pub fn exit(code: u8) -> ! {
    // SAFETY: takes a value only.
    unsafe { libc::_exit(code.into()) }
}

/// Forks a process that kills its process group when a pipe closes; see the module `guardian`. It drops
/// `own`.
///
/// Returns the process number, the other end of the pipe, and `own`.
pub fn fork_watcher<T>(own: T) -> io::Result<(Pid, OwnedFd, T)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: this program has one thread, so no lock is held in the child, which never returns.
    let pid = check(unsafe { libc::fork() })?;
    if pid != 0 {
        // Parent and child both do it, since either may run first.
        let child = process::Pid::from_raw(pid);
        let _ = process::setpgid(child, child);
        return Ok((pid, write, own));
    }
    begin_group(c"mpiexec-guard");
    // SAFETY: a sigset_t is plain data that sigfillset makes valid.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, ptr::null_mut());
    }
    drop((write, own));
    let mut byte = [0];
    while rustix::io::read(&read, &mut byte) != Ok(0) {}
    let _ = process::kill_current_process_group(Signal::KILL);
    exit(0)
}
