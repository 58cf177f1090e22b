//! How debuggers find the ranks: the process acquisition interface of the MPI Forum (MPIR 1.0). A debugger that starts
//! or attaches to `mpiexec` reads these variables and stops at `MPIR_Breakpoint`. And what `-gdba` and `-report` do with
//! a job that runs.
#![allow(
    unsafe_code,
    non_upper_case_globals,
    non_snake_case,
    reason = "names that debuggers look for"
)]

use std::ffi::{CString, OsString, c_char, c_int};
use std::fs;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::system::{self, Pid};

/// A rank, as debuggers read it.
#[repr(C)]
pub struct Described {
    host_name: *mut c_char,
    executable_name: *mut c_char,
    pid: c_int,
}

/// All ranks in their order.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_proctable: AtomicPtr<Described> = AtomicPtr::new(null_mut());
/// How many there are.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);
/// A debugger sets it.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);
/// 0: nothing has happened, 1: ranks were started, 2: the job is aborted.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);
/// Why it is aborted.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_debug_abort_string: AtomicPtr<c_char> = AtomicPtr::new(null_mut());
/// There is no rank in this process.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);
/// Ranks that nobody attaches to go on.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// Debuggers stop here when something has happened.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn MPIR_Breakpoint() {
    black_box(&MPIR_debug_state);
}

const SPAWNED: i32 = 1;
const ABORTING: i32 = 2;

fn text(text: &str) -> *mut c_char {
    // It is there until this process ends.
    CString::new(text).unwrap_or_default().into_raw()
}

/// All ranks run: host, program and process of each. They wait in `MPI_Init` as long as a debugger has stopped this
/// process.
pub fn started(ranks: impl Iterator<Item = (String, String, Pid)>) {
    let table: Vec<Described> = ranks
        .map(|(host, program, pid)| Described {
            host_name: text(&host),
            executable_name: text(&program),
            pid,
        })
        .collect();
    let size = c_int::try_from(table.len()).unwrap_or(c_int::MAX);
    let table = Box::leak(table.into_boxed_slice());
    MPIR_proctable.store(table.as_mut_ptr(), Ordering::SeqCst);
    MPIR_proctable_size.store(size, Ordering::SeqCst);
    tell(SPAWNED);
}

/// The job ends before its time.
pub fn aborting(why: &str) {
    MPIR_debug_abort_string.store(text(why), Ordering::SeqCst);
    tell(ABORTING);
}

fn tell(state: i32) {
    MPIR_debug_state.store(state, Ordering::SeqCst);
    if MPIR_being_debugged.load(Ordering::SeqCst) != 0 {
        MPIR_Breakpoint();
    }
}

/// The process of a running mpiexec, from its number as text.
fn launcher(option: &str, pid: &OsString) -> Result<Pid, String> {
    let pid = pid.to_string_lossy();
    let number: Option<Pid> = pid.parse().ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| {
        format!("option -{option} takes the process number of a running mpiexec, not '{pid}'")
    })?;
    let program = fs::read_link(format!("/proc/{number}/exe"))
        .map_err(|error| format!("option -{option}: process {number} can't be read: {error}"))?;
    match program.file_name() {
        Some(name) if name.to_string_lossy().starts_with("mpiexec") => Ok(number),
        _ => Err(format!(
            "option -{option}: process {number} is {}, not an mpiexec",
            program.display()
        )),
    }
}

/// `-report PID`: has the ranks of a job say where they are.
pub fn report(pid: &OsString) -> Result<String, String> {
    let pid = launcher("report", pid)?;
    system::kill(pid, libc::SIGQUIT);
    Ok(format!(
        "mpiexec: asked mpiexec process {pid} where its ranks wait; it prints the answer to its own standard error\n"
    ))
}

/// `-gdba PID`: what starts gdb for each rank of a job on this machine.
pub fn attach(pid: &OsString) -> Result<Vec<OsString>, String> {
    let pid = launcher("gdba", pid)?;
    let ranks = ranks_below(pid);
    if ranks.is_empty() {
        return Err(format!(
            "option -gdba: process {pid} has no ranks on this machine"
        ));
    }
    let mut words: Vec<OsString> = ["-l", "-s", "all"].map(OsString::from).into();
    for (index, (_, rank)) in ranks.iter().enumerate() {
        if index > 0 {
            words.push(":".into());
        }
        words.extend(["-n", "1", "gdb", "-q", "-p"].map(OsString::from));
        words.push(rank.to_string().into());
    }
    Ok(words)
}

/// Ranks and their processes that a launcher has started, or an agent of its on this machine.
fn ranks_below(launcher: Pid) -> Vec<(usize, Pid)> {
    let parent = |pid: Pid| -> Option<Pid> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name in brackets: state and parent.
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let program = |pid: Pid| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = program(launcher);
    let is_agent = |pid: Pid| program(pid) == own && parent(pid) == Some(launcher);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ranks: Vec<(usize, Pid)> = processes
        .filter_map(|entry| {
            let pid: Pid = entry.file_name().to_str()?.parse().ok()?;
            let parent = parent(pid)?;
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let variable = environment
                .split(|byte| *byte == 0)
                .find_map(|one| one.strip_prefix(b"PMI_RANK="))?;
            let rank = std::str::from_utf8(variable).ok()?.parse().ok()?;
            (parent == launcher || is_agent(parent)).then_some((rank, pid))
        })
        .collect();
    ranks.sort_unstable();
    ranks
}
