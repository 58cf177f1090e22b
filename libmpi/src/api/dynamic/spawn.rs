//! Starting processes (MPI-3.1 section 10.3) and publishing names (section 10.4.4).

use std::ffi::{OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;

use mpi_comm::dynamic::broadcast_result;
use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_runtime::dynamic::spawn;
use mpi_runtime::handles::infos;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::settings::text;
use pmi::Command;

use crate::abi::{MPI_COMM_NULL, MPI_Comm, MPI_Info, MPI_MAX_PORT_NAME, MPI_SUCCESS};
use crate::api::dynamic::{connect_groups, group_and_root, string};
use crate::args::{Array, Late, Out, OutText};
use crate::raise::class_code;

/// A word for the launcher, byte for byte.
///
/// # Safety
/// `text` is a string or NULL.
unsafe fn word(text: *const c_char, name: &str) -> Result<OsString> {
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    let word = unsafe { string(text, name)? };
    Ok(OsString::from_vec(text::bytes(&word)))
}

/// The arguments of a command, an array that ends with NULL. `MPI_ARGV_NULL` is NULL: none.
///
/// # Safety
/// `argv` is such an array of strings, or NULL.
unsafe fn arguments(argv: *const *mut c_char) -> Result<Vec<OsString>> {
    let mut args = Vec::new();
    if argv.is_null() {
        return Ok(args);
    }
    loop {
        // SAFETY: the array goes on until NULL, which has not come yet.
        let arg = unsafe { argv.add(args.len()).read() };
        if arg.is_null() {
            return Ok(args);
        }
        // SAFETY: a string, by the caller's contract.
        args.push(unsafe { word(arg, "argv")? });
    }
}

/// A command, and the greatest number of processes that the program asks for.
type Wanted = (Command, usize);

/// Returns one command of the root.
///
/// # Safety
/// `command` is a string or NULL; `argv` is an array of strings that ends with NULL, or NULL.
unsafe fn one_command(
    command: *const c_char,
    argv: *const *mut c_char,
    maxprocs: c_int,
    Late(info, call): Late<MPI_Info>,
) -> Result<Wanted> {
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    let program = unsafe { word(command, "command")? };
    if program.is_empty() {
        return Err(Error::new(Class::Arg, "command is empty; name a program"));
    }
    // SAFETY: `argv` is NULL or ends with NULL, and its strings end in NUL (strings, chapter of the
    // module `api`).
    let args = unsafe { arguments(argv)? };
    let most = usize::try_from(maxprocs).ok().filter(|most| *most > 0);
    let most = most.ok_or_else(|| {
        let why = format!("maxprocs is {maxprocs}; it must be 1 or more");
        Error::new(Class::Arg, why)
    })?;
    let command = spawn::command(program, args, most, infos::hints(info, call)?)?;
    Ok((command, most))
}

/// Implements `MPI_Comm_spawn` and `MPI_Comm_spawn_multiple`. `commands` is called at the root.
unsafe fn start(
    runtime: &Runtime,
    root: c_int,
    comm: MPI_Comm,
    intercomm: Out<MPI_Comm>,
    errcodes: *mut c_int,
    commands: impl FnOnce() -> Result<Vec<Wanted>>,
) -> Result<()> {
    let (parent, root) = group_and_root(runtime, comm, root)?;
    // A program that ignores the error gets the null handle.
    intercomm.set(MPI_COMM_NULL);
    let is_root = root == parent.comm.rank();
    let (commands, failed) = match is_root.then(commands) {
        Some(Ok(commands)) => (Some(commands), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    // Per command the number of processes wanted, and the maximum.
    let counts = match (&commands, failed) {
        (Some(commands), _) => {
            let counts = commands.iter().flat_map(|(one, most)| [one.count, *most]);
            Some(Ok(counts.flat_map(usize::to_ne_bytes).collect()))
        }
        (None, Some(error)) => Some(Err(error)),
        (None, None) => None,
    };
    let counts = broadcast_result(&runtime.process, &parent.comm, root, counts)?;
    let (counts, _) = counts.as_chunks::<{ size_of::<usize>() }>();
    let counts: Vec<usize> = counts.iter().map(|it| usize::from_ne_bytes(*it)).collect();
    let socket = commands.map(|commands| {
        let commands = commands.into_iter().map(|one| one.0).collect();
        spawn::spawn(runtime, &parent.comm, commands, MPI_MAX_PORT_NAME as usize)
    });
    let result = connect_groups(runtime, &parent, root, true, socket, intercomm);
    if !errcodes.is_null() {
        let (counts, _) = counts.as_chunks::<2>();
        let mut place = errcodes;
        for [count, most] in counts {
            for number in 0..*most {
                let code = match result.is_ok() && number < *count {
                    true => MPI_SUCCESS,
                    false => class_code(Class::Spawn),
                };
                // SAFETY: room for as many codes as all commands ask for at the most, by the
                // caller's contract.
                unsafe { place.write(code) };
                place = place.wrapping_add(1);
            }
        }
    }
    result
}

/// `MPI_Comm_spawn` (section 10.3.2). The first four arguments matter at the root only.
pub unsafe fn comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: Late<MPI_Info>,
    root: c_int,
    comm: MPI_Comm,
    intercomm: Out<MPI_Comm>,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the strings end in NUL, and `argv` with NULL (strings, chapter of the module `api`).
    let commands = || unsafe { Ok(vec![one_command(command, argv, maxprocs, info)?]) };
    // SAFETY: `array_of_errcodes` is ignored, or has room for a code of each process (arrays,
    // chapter of the module `api`).
    unsafe { start(runtime, root, comm, intercomm, array_of_errcodes, commands) }
}

/// `MPI_Comm_spawn_multiple` (section 10.3.3). The first five arguments matter at the root only.
pub unsafe fn comm_spawn_multiple(
    programs: Array<*mut c_char>,
    array_of_argv: *mut *mut *mut c_char,
    counts: Array<c_int>,
    infos: Array<MPI_Info>,
    root: c_int,
    comm: MPI_Comm,
    intercomm: Out<MPI_Comm>,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    let runtime = runtime()?;
    let commands = || {
        let count = programs.length();
        if count < 1 {
            let why = format!("count is {count}; it must be 1 or more");
            return Err(Error::new(Class::Arg, why));
        }
        let call = infos.call();
        let (programs, counts, infos) = (programs.list()?, counts.list()?, infos.list()?);
        let one = |at: usize| {
            let argv = match array_of_argv.is_null() {
                true => std::ptr::null_mut(),
                // SAFETY: the array has `count` elements, by the caller's contract.
                false => unsafe { array_of_argv.add(at).read() },
            };
            // SAFETY: the strings end in NUL, and `argv` with NULL (strings, chapter of the module
            // `api`).
            unsafe { one_command(programs[at], argv, counts[at], Late(infos[at], call)) }
        };
        (0..programs.len()).map(one).collect()
    };
    // SAFETY: `array_of_errcodes` is ignored, or has room for a code of each process (arrays,
    // chapter of the module `api`).
    unsafe { start(runtime, root, comm, intercomm, array_of_errcodes, commands) }
}

fn published(class: Class, what: &str, error: &pmi::PmiError) -> Error {
    Error::new(class, format!("{what}: {error}"))
}

/// A service name of the program's.
///
/// # Safety
/// `name` is a string or NULL.
unsafe fn service(name: *const c_char) -> Result<String> {
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    let name = unsafe { string(name, "service_name")? };
    match name.is_empty() {
        true => Err(Error::new(
            Class::Arg,
            "service_name is empty; pass at least one character",
        )),
        false => Ok(name),
    }
}

/// `MPI_Publish_name` (section 10.4.4), among the jobs of the launcher or of its name server.
pub unsafe fn publish_name(
    service_name: *const c_char,
    _: Option<&Info>,
    port_name: *const c_char,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    let (name, port) = unsafe { (service(service_name)?, string(port_name, "port_name")?) };
    if port.is_empty() || text::bytes(&port).len() >= MPI_MAX_PORT_NAME as usize {
        let why = "port_name is empty or longer than MPI_MAX_PORT_NAME allows";
        return Err(Error::new(Class::Port, why));
    }
    let what = format!("'{name}' can't be published");
    let result = runtime.pmi.publish(&name, &port);
    result.map_err(|error| published(Class::Service, &what, &error))
}

/// `MPI_Unpublish_name` (section 10.4.4).
pub unsafe fn unpublish_name(
    service_name: *const c_char,
    _: Option<&Info>,
    port_name: *const c_char,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    let name = unsafe {
        string(port_name, "port_name")?;
        service(service_name)?
    };
    let what = format!("'{name}' can't be unpublished");
    let result = runtime.pmi.unpublish(&name);
    result.map_err(|error| published(Class::Service, &what, &error))
}

/// `MPI_Lookup_name` (section 10.4.4).
pub unsafe fn lookup_name(
    service_name: *const c_char,
    _: Option<&Info>,
    port_name: OutText<MPI_MAX_PORT_NAME>,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    let name = unsafe { service(service_name)? };
    port_name.demand()?;
    let what = format!("'{name}' can't be looked up");
    let port = runtime.pmi.lookup(&name);
    let port = port.map_err(|error| published(Class::Name, &what, &error))?;
    let port = port.ok_or_else(|| {
        Error::new(
            Class::Name,
            format!(
                "nobody has published '{name}'; jobs of several mpiexec find each other's names by a name server \
                 (mpiexec -name-server, -nameserver HOST)"
            ),
        )
    })?;
    port_name.write(&text::bytes(&port)).map(drop)
}
