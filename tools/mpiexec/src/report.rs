//! Texts of `-version` and `-info`, and descriptions of exit codes and signals.

use crate::affinity;
use crate::cgroup::{Limits, memory_limit};
use crate::system::Ending;

/// Returns the text of `-version`.
pub fn version() -> String {
    format!("mpiexec (Weft) {}\n", env!("CARGO_PKG_VERSION"))
}

/// Returns the text of `-info`.
pub fn info() -> String {
    let cores = affinity::cores();
    let list = |core: &Vec<usize>| {
        let cpus: Vec<String> = core.iter().map(usize::to_string).collect();
        cpus.join("+")
    };
    let listed: Vec<String> = cores.iter().map(list).collect();
    format!(
        "{}host:      {}\ncores:     {} available (CPUs {})\n{}binding:   up to {} ranks get \
         equal shares of the cores; with more ranks none is bound\nlaunching: on several hosts by agents \
         (-hosts); PMI-1.1 over an inherited socket (PMI_FD)\n",
        version(),
        host(),
        cores.len(),
        listed.join(" "),
        limits(),
        cores.len(),
    )
}

/// Returns the line about control groups' limits; empty if there are none.
fn limits() -> String {
    let cpus = Limits::get().cpus;
    let cpus = cpus.map(|cpus| format!("the time of {cpus:.2} CPUs"));
    let mebibytes = memory_limit().map(|bytes| format!("{} MiB of memory", bytes >> 20));
    let all: Vec<String> = [cpus, mebibytes].into_iter().flatten().collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("limits:    {} by control groups\n", all.join(", ")),
    }
}

/// Returns this machine's name.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns the advice for an exit code before `MPI_Init`; empty if there is none.
pub fn early_exit_hint(code: i32) -> &'static str {
    match code {
        // The exit code of the loader and of shells.
        127 => {
            " before it called MPI_Init: a library or command that it needs is missing; its own line \
             above names it, and `ldd PROGRAM` on that host lists all: install them there, or name \
             their folder by -genv LD_LIBRARY_PATH"
        }
        _ => "",
    }
}

/// Lists how ranks have ended, a line per range of ranks with the same end.
pub fn exit_codes(endings: impl Iterator<Item = Option<Ending>>) -> String {
    let mut groups: Vec<(usize, usize, Option<Ending>)> = Vec::new();
    for (rank, ending) in endings.enumerate() {
        match groups.last_mut() {
            Some((_, last, same)) if *same == ending => *last = rank,
            _ => groups.push((rank, rank, ending)),
        }
    }
    let line = |(first, last, ending)| {
        let how = match ending {
            Some(Ending::Code(code)) => format!("exit code {code}"),
            Some(Ending::Signal { number, .. }) => signal_name(number),
            None => "not started, or exit status unknown".to_owned(),
        };
        match first == last {
            true => format!("rank {first}: {how}"),
            false => format!("ranks {first}-{last}: {how}"),
        }
    };
    let lines: Vec<String> = groups.into_iter().map(line).collect();
    lines.join("\n")
}

/// Returns a signal's name, such as `SIGSEGV`; `signal 34` for real-time and unknown ones.
pub fn signal_name(number: i32) -> String {
    let name = match number {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSTKFLT => "SIGSTKFLT",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGIO => "SIGIO",
        libc::SIGPWR => "SIGPWR",
        libc::SIGSYS => "SIGSYS",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}

/// Returns the usual cause of a signal; empty for most.
pub fn signal_hint(number: i32) -> &'static str {
    match number {
        libc::SIGKILL => " (sent from outside: by a user, or by the kernel when memory ran out)",
        libc::SIGBUS => " (bad memory access, or /dev/shm is full)",
        libc::SIGXCPU => " (its limit of CPU time is used up)",
        libc::SIGPIPE => " (it wrote to a pipe or socket that the reader had closed)",
        _ => "",
    }
}

/// Describes the end of a rank that has lost another rank, after a rank exited without
/// `MPI_Finalize`.
pub fn after_exit_without_finalize(name: &str, text: &str) -> String {
    format!("{name} exited with code 0 without calling MPI_Finalize, and {text}")
}

/// Names the other ranks of a communicator of `ranks` ranks on which one called `MPI_Abort`.
pub fn ended_with(ranks: usize) -> String {
    match ranks {
        0 | 1 => "no other rank".to_string(),
        2 => "the other rank of its communicator".to_string(),
        more => format!("the {} other ranks of its communicator", more - 1),
    }
}
