//! Debuggers: the MPI Forum's process acquisition interface (MPIR 1.0), `-gdba` and `-report`.
//!
//! A debugger that starts or attaches to `mpiexec` reads these variables and stops at
//! `MPIR_Breakpoint`.
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

/// A rank's entry in the table: `MPIR_PROCDESC`.
#[repr(C)]
pub struct ProcDesc {
    host_name: *mut c_char,
    executable_name: *mut c_char,
    pid: c_int,
}

/// The table of all ranks, in the order of ranks.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_proctable: AtomicPtr<ProcDesc> = AtomicPtr::new(null_mut());
/// Number of entries in the table.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);
/// Non-zero if a debugger is attached, which sets it.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);
/// 0 at first, 1 after the start of the ranks, 2 if the job is aborted.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);
/// The reason of the abort.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_debug_abort_string: AtomicPtr<c_char> = AtomicPtr::new(null_mut());
/// Marks this process as the starter, which is not a rank itself.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);
/// Lets a debugger attach to some of the ranks only.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// A function on which debuggers set a breakpoint; called at each change of `MPIR_debug_state`.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn MPIR_Breakpoint() {
    black_box(&MPIR_debug_state);
}

const SPAWNED: i32 = 1;
const ABORTING: i32 = 2;

fn text(text: &str) -> *mut c_char {
    // Leaked: debuggers read it until this process ends.
    let text = CString::new(text.replace('\0', ""));
    text.expect("zero bytes have been removed").into_raw()
}

/// Publishes the ranks with host, program and process number. While a debugger has stopped this
/// process, ranks wait in `MPI_Init`.
pub fn started(ranks: impl Iterator<Item = (String, String, Pid)>) {
    let table: Vec<ProcDesc> = ranks
        .map(|(host, program, pid)| ProcDesc {
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

/// Publishes that the job is aborted. The first call's reason stays.
pub fn aborting(why: &str) {
    if MPIR_debug_abort_string.load(Ordering::SeqCst).is_null() {
        MPIR_debug_abort_string.store(text(why), Ordering::SeqCst);
    }
    tell(ABORTING);
}

fn tell(state: i32) {
    MPIR_debug_state.store(state, Ordering::SeqCst);
    if MPIR_being_debugged.load(Ordering::SeqCst) != 0 {
        MPIR_Breakpoint();
    }
}

/// Parses the process number of a running mpiexec.
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

/// Runs `-report PID`: sends the signal on which mpiexec collects wait reports.
pub fn report(pid: &OsString) -> Result<String, String> {
    let pid = launcher("report", pid)?;
    system::kill(pid, libc::SIGQUIT);
    Ok(format!(
        "mpiexec: asked mpiexec process {pid} where its ranks wait; it prints the answer to its own standard error\n"
    ))
}

/// Returns the command line for `-gdba PID`: a job that runs gdb for each rank on this machine.
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

/// Finds the ranks that a launcher, or its agent on this machine, has started.
fn ranks_below(launcher: Pid) -> Vec<(usize, Pid)> {
    let parent = |pid: Pid| -> Option<Pid> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // State and parent follow the program's name in parentheses.
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
