//! Tests message queues in debuggers: a small debugger stops two ranks, loads the library that the
//! process names, and lists its results; and gdb by its script.
//!
//! The interface's structures are defined here again from its document, so that a mistake in the
//! library's definitions is found.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

use libtest_mimic::Trial;
use weft_needs::GDB;

use crate::company::Company;
use crate::job::clear;
use crate::lacks;
use crate::program::{compile, programs};
use crate::room::Room;
use crate::{Result, patience, prefix, timed};

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let ways = [
        ("shm", "mpicc", "libmpi.so.12", false),
        ("tcp", "mpicc", "libmpi.so.12", true),
        ("standard", "mpicc_abi", "libmpi_abi.so.1", false),
    ];
    let trial = |(name, compiler, library, tcp)| {
        timed(format!("queues/{name}/2"), Company::Any, move || {
            own(name, compiler, library, tcp)
        })
    };
    let mut trials: Vec<Trial> = ways.into_iter().map(trial).collect();
    let left_out = lacks::any("queues/gdb/2", &[&GDB]);
    let with_gdb = timed("queues/gdb/2".to_owned(), Company::Any, gdb);
    trials.push(with_gdb.with_ignored_flag(left_out));
    trials
}

#[repr(C)]
struct Communicator {
    unique_id: c_ulong,
    local_rank: c_long,
    size: c_long,
    name: [c_char; 64],
}

#[repr(C)]
struct Operation {
    status: c_int,
    desired_local_rank: c_long,
    desired_global_rank: c_long,
    tag_wild: c_int,
    desired_tag: c_long,
    desired_length: c_long,
    system_buffer: c_int,
    buffer: c_ulong,
    actual_local_rank: c_long,
    actual_global_rank: c_long,
    actual_tag: c_long,
    actual_length: c_long,
    extra_text: [[c_char; 64]; 5],
}

/// This debugger's data of a program.
struct Image {
    symbols: HashMap<String, u64>,
    info: *mut c_void,
}

struct Process {
    memory: File,
    image: *mut Image,
    info: *mut c_void,
}

extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: malloc accepts any size.
    unsafe { libc::malloc(size) }
}

extern "C" fn free(memory: *mut c_void) {
    // SAFETY: the library frees only memory that it got from `malloc` above.
    unsafe { libc::free(memory) }
}

extern "C" fn dprints(_text: *const c_char) {}

extern "C" fn errorstring(_code: c_int) -> *mut c_char {
    c"this debugger could not".as_ptr().cast_mut()
}

extern "C" fn put_image_info(image: *mut Image, info: *mut c_void) {
    // SAFETY: the library passes the pointer to a live `Image` that this debugger gave it.
    unsafe { (*image).info = info };
}

extern "C" fn get_image_info(image: *mut Image) -> *mut c_void {
    // SAFETY: the library passes the pointer to a live `Image` that this debugger gave it.
    unsafe { (*image).info }
}

extern "C" fn put_process_info(process: *mut Process, info: *mut c_void) {
    // SAFETY: the library passes the pointer to a live `Process` that this debugger gave it.
    unsafe { (*process).info = info };
}

extern "C" fn get_process_info(process: *mut Process) -> *mut c_void {
    // SAFETY: the library passes the pointer to a live `Process` that this debugger gave it.
    unsafe { (*process).info }
}

extern "C" fn unused() -> c_int {
    1
}

extern "C" fn find_symbol(image: *mut Image, name: *mut c_char, at: *mut c_ulong) -> c_int {
    // SAFETY: the library passes a live `Image` that this debugger gave it and a string with NUL.
    let (symbols, name) = unsafe { (&(*image).symbols, CStr::from_ptr(name)) };
    let Some(found) = symbols.get(&*name.to_string_lossy()) else {
        return 1;
    };
    // SAFETY: the library passes a variable for an address.
    unsafe { *at = *found };
    0
}

extern "C" fn global_rank(_process: *mut Process) -> c_int {
    0
}

extern "C" fn get_image(process: *mut Process) -> *mut Image {
    // SAFETY: the library passes the pointer to a live `Process` that this debugger gave it.
    unsafe { (*process).image }
}

extern "C" fn fetch(process: *mut Process, at: c_ulong, size: c_int, to: *mut c_void) -> c_int {
    let size = usize::try_from(size).unwrap_or(0);
    // SAFETY: the library passes a buffer of `size` bytes and a live `Process` that this debugger
    // gave it.
    let (memory, out) = unsafe {
        let out = std::slice::from_raw_parts_mut(to.cast::<u8>(), size);
        (&(*process).memory, out)
    };
    c_int::from(memory.read_exact_at(out, at).is_err())
}

/// The debugger's callbacks, in the order of the interface.
type Table<const N: usize> = [*const c_void; N];

/// A process that is stopped until this is dropped.
struct Stopped(libc::pid_t);

impl Stopped {
    fn new(pid: libc::pid_t) -> Result<Stopped> {
        let nothing: *mut c_void = null_mut();
        let failed = |what: &str| {
            let error = std::io::Error::last_os_error();
            Err(format!("process {pid} can't be {what}: {error}"))
        };
        // SAFETY: the calls get values only.
        unsafe {
            if libc::ptrace(libc::PTRACE_ATTACH, pid, nothing, nothing) != 0 {
                return failed("attached to");
            }
            let stopped = Stopped(pid);
            if libc::waitpid(pid, null_mut(), libc::__WALL) != pid {
                return failed("waited for");
            }
            Ok(stopped)
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let nothing: *mut c_void = null_mut();
        // SAFETY: the call gets values only.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, nothing, nothing) };
    }
}

/// The library that the process names.
struct Library(*mut c_void);

impl Library {
    fn open(path: &str) -> Result<Library> {
        let name = CString::new(path).map_err(|error| error.to_string())?;
        // SAFETY: the library is Weft's and has no initializer.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(format!("{path} can't be loaded"));
        }
        Ok(Library(library))
    }

    /// Returns a function of the library.
    ///
    /// # Safety
    /// `F` is its type.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F> {
        let text = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: `self.0` is a library opened by `dlopen` above; the name ends with NUL.
        let found = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        if found.is_null() {
            return Err(format!("there is no {name}"));
        }
        // SAFETY: a function pointer has a pointer's size, and by the contract of this function `F` is
        // the function's type.
        Ok(unsafe { std::mem::transmute_copy(&found) })
    }

    /// Calls a function that takes a process and maybe a second argument.
    fn call(&self, name: &str, process: &mut Process, more: *mut c_void) -> Result<c_int> {
        // SAFETY: the interface's functions take these, and those of one argument don't look at the second.
        let function: extern "C" fn(*mut Process, *mut c_void) -> c_int =
            unsafe { self.function(name) }?;
        Ok(function(process, more))
    }

    /// Calls a function that must succeed.
    fn must(&self, name: &str, process: &mut Process, more: *mut c_void) -> Result {
        match self.call(name, process, more)? {
            0 => Ok(()),
            code => {
                // SAFETY: as the interface says.
                let text: extern "C" fn(c_int) -> *mut c_char =
                    unsafe { self.function("mqs_dll_error_string") }?;
                Err(format!("{name} gives {code}: {}", said(text(code))))
            }
        }
    }
}

fn said(text: *const c_char) -> String {
    // SAFETY: the library's texts end with NUL and stay.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
    text.unwrap_or_default().to_string_lossy().into_owned()
}

fn text_of(text: &[c_char; 64]) -> String {
    let bytes: Vec<u8> = text.iter().map(|one| *one as u8).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(64);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Lists the library's results for a process as lines. Addresses in `buffers` are shown by name.
fn listed(pid: libc::pid_t, library: &str, buffers: &[(u64, &str)]) -> Result<Vec<String>> {
    let _stopped = Stopped::new(pid)?;
    let memory = format!("/proc/{pid}/mem");
    let memory = File::open(&memory).map_err(|error| format!("{memory}: {error}"))?;
    let mut image = Image {
        symbols: symbols(pid, library)?,
        info: null_mut(),
    };
    let mut name = [0; 4096];
    let place = image
        .symbols
        .get("MPIR_dll_name")
        .ok_or("no MPIR_dll_name")?;
    let unread = |error| format!("MPIR_dll_name can't be read: {error}");
    memory.read_exact_at(&mut name, *place).map_err(unread)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    let path = String::from_utf8_lossy(&name[..end]).into_owned();
    if !path.starts_with(&*prefix::get()?.to_string_lossy()) {
        return Err(format!("MPIR_dll_name is '{path}'"));
    }
    let mut process = Process {
        memory,
        image: &raw mut image,
        info: null_mut(),
    };
    let process = &mut process;
    let lib = Library::open(&path)?;
    let unused = unused as *const c_void;
    let basic: Table<8> = [
        malloc as *const c_void,
        free as *const c_void,
        dprints as *const c_void,
        errorstring as *const c_void,
        put_image_info as *const c_void,
        get_image_info as *const c_void,
        put_process_info as *const c_void,
        get_process_info as *const c_void,
    ];
    let of_image: Table<6> = [
        unused,
        unused,
        find_symbol as *const c_void,
        unused,
        unused,
        unused,
    ];
    let of_process: Table<4> = [
        global_rank as *const c_void,
        get_image as *const c_void,
        fetch as *const c_void,
        unused,
    ];
    // SAFETY: functions of the interface by their types.
    unsafe {
        let setup: extern "C" fn(*const Table<8>) = lib.function("mqs_setup_basic_callbacks")?;
        setup(&raw const basic);
        let version: extern "C" fn() -> c_int = lib.function("mqs_version_compatibility")?;
        let width: extern "C" fn() -> c_int = lib.function("mqs_dll_taddr_width")?;
        let who: extern "C" fn() -> *mut c_char = lib.function("mqs_version_string")?;
        let (version, width, who) = (version(), width(), said(who()));
        if version != 2 || width != 8 || !who.starts_with("Weft ") {
            return Err(format!("version {version}, width {width}, '{who}'"));
        }
        let setup: extern "C" fn(*mut Image, *const Table<6>) -> c_int =
            lib.function("mqs_setup_image")?;
        let has: extern "C" fn(*mut Image, *mut *mut c_char) -> c_int =
            lib.function("mqs_image_has_queues")?;
        let mut complaint: *mut c_char = null_mut();
        let codes = (
            setup(process.image, &raw const of_image),
            has(process.image, &raw mut complaint),
        );
        if codes != (0, 0) {
            return Err(format!("the image: {codes:?}, '{}'", said(complaint)));
        }
    }
    let table = (&raw const of_process).cast_mut().cast();
    lib.must("mqs_setup_process", process, table)?;
    let mut complaint: *mut c_char = null_mut();
    let code = lib.call(
        "mqs_process_has_queues",
        process,
        (&raw mut complaint).cast(),
    )?;
    if code != 0 {
        return Err(format!("no queues: {code}, '{}'", said(complaint)));
    }
    // Before the list of communicators is set up, queries fail.
    let early = lib.call("mqs_setup_operation_iterator", process, null_mut())?;
    if early < 100 {
        return Err(format!("a queue without a communicator: {early}"));
    }
    lib.must("mqs_update_communicator_list", process, null_mut())?;
    let mut lines = Vec::new();
    let mut more = lib.call("mqs_setup_communicator_iterator", process, null_mut())?;
    while more == 0 {
        communicator(&lib, process, buffers, &mut lines)?;
        more = lib.call("mqs_next_communicator", process, null_mut())?;
    }
    if more != 2 {
        return Err(format!("the communicators end with {more}"));
    }
    // SAFETY: as the interface says: what was put down, once.
    unsafe {
        let destroy: extern "C" fn(*mut c_void) = lib.function("mqs_destroy_process_info")?;
        destroy(process.info);
        let destroy: extern "C" fn(*mut c_void) = lib.function("mqs_destroy_image_info")?;
        destroy(image.info);
    }
    Ok(lines)
}

fn communicator(
    lib: &Library,
    process: &mut Process,
    buffers: &[(u64, &str)],
    lines: &mut Vec<String>,
) -> Result {
    // SAFETY: numbers and texts: zeroes are a good value.
    let mut comm: Communicator = unsafe { std::mem::zeroed() };
    lib.must("mqs_get_communicator", process, (&raw mut comm).cast())?;
    let mut members = vec![-7 as c_int; usize::try_from(comm.size).unwrap_or(0)];
    lib.must("mqs_get_comm_group", process, members.as_mut_ptr().cast())?;
    let name = text_of(&comm.name);
    lines.push(format!(
        "{name}: rank {} of {}, {members:?}, {}",
        comm.local_rank,
        comm.size,
        if comm.unique_id == 0 {
            "0"
        } else {
            "a context"
        }
    ));
    for (which, what) in ["send", "receive", "message"].into_iter().enumerate() {
        // SAFETY: the interface's function by its type.
        let setup: extern "C" fn(*mut Process, c_int) -> c_int =
            unsafe { lib.function("mqs_setup_operation_iterator") }?;
        let code = setup(process, which as c_int);
        if code != 0 {
            return Err(format!("queue {which} of {name}: {code}"));
        }
        // SAFETY: numbers and texts: zeroes are a good value.
        let mut one: Operation = unsafe { std::mem::zeroed() };
        while lib.call("mqs_next_operation", process, (&raw mut one).cast())? == 0 {
            let known = buffers.iter().find(|(at, _)| *at == one.buffer);
            let buffer = match (known, one.system_buffer, one.buffer) {
                (Some((_, name)), 0, _) => name,
                (None, 1, at) if at != 0 => "system",
                (None, 0, 0) => "elsewhere",
                _ => "lost",
            };
            let tag = match one.tag_wild {
                0 => one.desired_tag.to_string(),
                _ => "any".to_owned(),
            };
            lines.push(format!(
                "{name}: {what} status {} rank {}/{} tag {tag} {} bytes in {buffer}, really {}/{} {} bytes",
                one.status,
                one.desired_local_rank,
                one.desired_global_rank,
                one.desired_length,
                one.actual_local_rank,
                one.actual_global_rank,
                one.actual_length,
            ));
            let notes: Vec<String> = one.extra_text.iter().map(text_of).collect();
            lines.extend(notes.into_iter().filter(|note| !note.is_empty()));
        }
    }
    Ok(())
}

/// Returns the symbols that a library in a process exports, with their addresses.
fn symbols(pid: libc::pid_t, library: &str) -> Result<HashMap<String, u64>> {
    let maps =
        fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| error.to_string())?;
    let line = maps.lines().find(|line| line.ends_with(library));
    let line = line.ok_or_else(|| format!("{library} is not in process {pid}"))?;
    let base = u64::from_str_radix(line.split('-').next().unwrap_or_default(), 16);
    let base = base.map_err(|error| error.to_string())?;
    let path = &line[line.find('/').unwrap_or(0)..];
    let listed = Command::new("nm").args(["-D", path]).output();
    let listed = listed.map_err(|error| format!("nm can't be run: {error}"))?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let symbols = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (place, _, name) = (words.next()?, words.next()?, words.next()?);
        Some((name.to_owned(), base + u64::from_str_radix(place, 16).ok()?))
    });
    Ok(symbols.collect())
}

/// A job of two ranks that wait in a fixed state.
struct Job {
    launcher: Child,
    /// Process and buffer addresses of each rank.
    ranks: Vec<(libc::pid_t, Vec<u64>)>,
    _room: Room,
}

impl Job {
    fn start(name: &str, compiler: &str, tcp: bool) -> Result<Job> {
        let prefix = prefix::get()?;
        let binary: PathBuf = programs(prefix)?.join(format!("queues-{name}"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/queues.c");
        let mut build = Command::new(prefix.join("bin").join(compiler));
        compile(build.arg("-g").arg("-o").arg(&binary).arg(source))?;
        let room = Room::new()?;
        let mut command = room.command(&prefix.join("bin/mpiexec"));
        clear(&mut command);
        if tcp {
            command.args(["-genv", "WEFT_SHM", "0", "-genv", "WEFT_NETMOD", "tcp"]);
        }
        let limit = patience(60.0).as_secs().to_string();
        command.args(["-timeout", &limit, "-n", "2"]).arg(&binary);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut launcher = command
            .spawn()
            .map_err(|error| format!("mpiexec: {error}"))?;
        let out = launcher.stdout.take().ok_or("no output")?;
        let mut job = Job {
            launcher,
            ranks: Vec::new(),
            _room: room,
        };
        let mut lines: Vec<String> = BufReader::new(out).lines().take(2).flatten().collect();
        lines.sort();
        for line in lines {
            let mut words = line.split(' ').skip(1);
            let pid = words.next().and_then(|word| word.parse().ok());
            let buffers =
                words.map_while(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
            job.ranks
                .push((pid.ok_or("no process")?, buffers.collect()));
        }
        match job.ranks.len() {
            2 => Ok(job),
            _ => Err("the ranks did not come so far".to_owned()),
        }
    }

    fn buffers(&self, rank: usize) -> Vec<(u64, &'static str)> {
        let names = ["exact", "any", "sync", "whole", "rows"];
        self.ranks[rank].1.iter().copied().zip(names).collect()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: `kill` gets values only; the child was not waited for, so its id is its own.
        unsafe { libc::kill(self.launcher.id() as libc::pid_t, libc::SIGTERM) };
        let _ = self.launcher.wait();
    }
}

const RANK_0: &[&str] = &[
    "MPI_COMM_WORLD: rank 0 of 2, [0, 1], 0",
    "MPI_COMM_SELF: rank 0 of 1, [0], a context",
    "solver: rank 0 of 2, [0, 1], a context",
    "solver: send status 0 rank 1/1 tag 9 4194304 bytes in whole, really 1/1 4194304 bytes",
    "waits for its receive",
    "solver: receive status 0 rank 1/1 tag 77 160 bytes in exact, really 1/1 0 bytes",
    "solver: message status 0 rank 1/1 tag 31 100 bytes in system, really 1/1 100 bytes",
    "reversed: rank 1 of 2, [1, 0], a context",
    "reversed: send status 0 rank 0/1 tag 5 12 bytes in sync, really 0/1 12 bytes",
    "waits for its receive",
    "synchronous",
    "communicator 0x84000002: rank 0 of 1, [0], a context",
    "communicator 0x84000002: receive status 0 rank -1/-1 tag any 8 bytes in any, really -1/-1 0 bytes",
];

const RANK_1: &[&str] = &[
    "MPI_COMM_WORLD: rank 1 of 2, [0, 1], 0",
    "MPI_COMM_WORLD: receive status 0 rank 0/0 tag 12 32 bytes in rows, really 0/0 0 bytes",
    "1 elements of a datatype with gaps",
    "MPI_COMM_SELF: rank 0 of 1, [1], a context",
    "solver: rank 1 of 2, [0, 1], a context",
    "solver: message status 0 rank 0/0 tag 9 4194304 bytes in elsewhere, really 0/0 4194304 bytes",
    "its data waits at the sender",
    "reversed: rank 0 of 2, [1, 0], a context",
    "reversed: message status 0 rank 1/0 tag 5 12 bytes in system, really 1/0 12 bytes",
    "communicator 0x84000002: rank 0 of 1, [1], a context",
];

fn own(name: &str, compiler: &str, library: &str, tcp: bool) -> Result {
    let job = Job::start(name, compiler, tcp)?;
    for (rank, expected) in [RANK_0, RANK_1].into_iter().enumerate() {
        let lines = listed(job.ranks[rank].0, library, &job.buffers(rank))?;
        if lines != expected {
            return Err(format!("rank {rank} has\n{}", lines.join("\n")));
        }
    }
    Ok(())
}

fn gdb() -> Result {
    let job = Job::start("gdb", "mpicc", false)?;
    let script = prefix::get()?.join("share/weft/gdb_queues.py");
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-p", &job.ranks[0].0.to_string(), "-x"]);
    command.arg(&script).args(["-ex", "mpi-queues"]);
    command.env("DEBUGINFOD_URLS", "");
    let output = command.output().map_err(|error| format!("gdb: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "\nMPI_COMM_SELF: rank 0 of 1\n",
        "\nsolver: rank 0 of 2\n  send to rank 1, tag 9, 4194304 bytes at ",
        "  receive from rank 1, tag 77, 160 bytes at ",
        "  unexpected message from rank 1, tag 31, 100 bytes at ",
        "  send to rank 0 (1 of all), tag 5, 12 bytes at ",
        "  receive from any rank, any tag, 8 bytes at ",
    ] {
        if !text.contains(expected) {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("no '{expected}' in:\n{text}\n{errors}"));
        }
    }
    Ok(())
}
