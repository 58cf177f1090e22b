//! Starting processes (MPI-3.1 section 10.3): the request to the launcher, and the connection
//! between the spawned processes and their parents.

use std::ffi::{CStr, OsStr, OsString, c_void};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command as Program, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::dynamic::client;
use crate::dynamic::opener::Transports;
use crate::dynamic::ports::{Port, Reach};
use crate::dynamic::socket::{Call, SealedSocket};
use crate::settings;
use mpi_comm::dynamic::{Link, meet};
use mpi_core::comm::Comm;
use mpi_core::info::Info;
use mpi_core::process::foreign::Pin;
use mpi_core::{Class, Error, Result};
use pmi::server::SPAWN_NUMBER;
use pmi::{Command, SPAWN_KEYS, Spawn, names, words};

use crate::handles::handler;
use crate::lifecycle::runtime::Runtime;

/// Key in the key-value space of spawned processes: the name of their parents' port.
const PARENT: &str = "weft-parent";

/// Info key for the initial error handler of spawned processes (MPI-4.1 section 11.8.4).
const INITIAL_ERRHANDLER: &str = "mpi_initial_errhandler";

/// Time for a new launcher to read its options. Options below some 200 KB fit into the socket's
/// buffer, so the write does not wait for it.
const READ: Duration = Duration::from_secs(30);

/// The number of the next spawned job ([`SPAWN_NUMBER`]).
static NEXT: AtomicU64 = AtomicU64::new(0);

fn failed(why: impl Into<String>) -> Error {
    Error::new(Class::Spawn, why.into())
}

/// Makes a command for up to `most` processes with the keys of its Info object (section 10.3.4).
/// The key `soft` may lower the number.
///
/// # Errors
/// `MPI_ERR_INFO_VALUE`: the value of a reserved key is invalid. `MPI_ERR_SPAWN`: the file of the
/// key `file` can't be read, or `soft` allows no number of processes up to `most`.
pub fn command(
    program: OsString,
    args: Vec<OsString>,
    most: usize,
    info: Option<&Info>,
) -> Result<Command> {
    let mut pairs: Vec<(String, OsString)> = Vec::new();
    for (key, value) in info.map(Info::pairs).unwrap_or_default() {
        // No reserved key has other characters; unknown keys are ignored.
        let Ok(key) = String::from_utf8(key.into()) else {
            continue;
        };
        pairs.push((key, OsString::from_vec(value.into())));
    }
    let file = pairs.iter().find(|pair| pair.0 == "file");
    if let Some((_, name)) = file.cloned() {
        for pair in read_file(&name)? {
            // The program's own keys take precedence over the file's.
            if !pairs.iter().any(|given| given.0 == pair.0) {
                pairs.push(pair);
            }
        }
    }
    let count = match pairs.iter().find(|pair| pair.0 == "soft") {
        None => most,
        Some((_, soft)) => soft_count(&soft.to_string_lossy(), most)?,
    };
    if let Some((key, value)) = pairs.iter().find(|pair| pair.0 == INITIAL_ERRHANDLER)
        && value.to_str().and_then(handler::named).is_none()
    {
        let why = format!(
            "the value of the key {key} is '{}'; it must be one of {}",
            value.display(),
            settings::ERRHANDLERS.join(", ")
        );
        return Err(Error::new(Class::InfoValue, why));
    }
    Ok(Command {
        program,
        args,
        count,
        info: pairs,
    })
}

/// Returns the greatest number up to `most` in the set of the key `soft`, a list of Fortran's
/// triplets (section 10.3.4).
fn soft_count(soft: &str, most: usize) -> Result<usize> {
    let wrong = || {
        let why = format!(
            "the value of the key soft is '{soft}'; it must be a list of numbers and of ranges FIRST:LAST or \
             FIRST:LAST:STEP, separated by commas"
        );
        Error::new(Class::InfoValue, why)
    };
    let mut found = 0;
    for part in soft.split(',') {
        let numbers: Option<Vec<i64>> = part.split(':').map(|n| n.trim().parse().ok()).collect();
        let (first, last, step) = match numbers.as_deref() {
            Some([one]) => (*one, *one, 1),
            Some([first, last]) => (*first, *last, 1),
            Some([first, last, step]) if *step != 0 => (*first, *last, *step),
            _ => return Err(wrong()),
        };
        found = found.max(greatest([first, last, step], most as i64));
    }
    match usize::try_from(found) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(failed(format!(
            "the value of the key soft, '{soft}', allows no number of processes from 1 to {most}"
        ))),
    }
}

/// Returns the greatest number of a triplet up to `most`, or 0 if none is positive.
fn greatest([first, last, step]: [i64; 3], most: i64) -> i64 {
    let [first, last, step, most] = [first, last, step, most].map(i128::from);
    // A triplet with a negative step is read in ascending order.
    let steps = (last - first) / step;
    if (last - first) * step.signum() < 0 {
        return 0;
    }
    let lowest = if step > 0 {
        first
    } else {
        first + steps * step
    };
    let (step, steps) = (step.abs(), steps.abs());
    if lowest > most {
        return 0;
    }
    let found = lowest + step * ((most - lowest) / step).min(steps);
    found.clamp(0, most) as i64
}

/// Reads keys and values from a file of lines `key = value`, with comments behind `#`.
fn read_file(name: &OsStr) -> Result<Vec<(String, OsString)>> {
    let text = std::fs::read(name).map_err(|error| {
        failed(format!(
            "the file '{}' (Info key file) can't be read: {error}",
            name.display()
        ))
    })?;
    let line = |line: &[u8]| {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        let line = line.trim_ascii();
        let pair = line.iter().position(|byte| *byte == b'=').map(|at| {
            let (key, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
            (String::from_utf8(key.into()), value.to_vec())
        });
        match pair {
            _ if line.is_empty() => None,
            Some((Ok(key), value)) if !value.contains(&0) => {
                Some(Ok((key, OsString::from_vec(value))))
            }
            _ => Some(Err(failed(format!(
                "the file '{}' (Info key file) has a line '{}'; its lines must be 'key = value'",
                name.display(),
                OsStr::from_bytes(line).display()
            )))),
        }
    };
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(line).collect()
}

/// Has the launcher start processes for a call on `comm`, and waits until they have called
/// `MPI_Init`. A port's name has up to `port_len` bytes.
///
/// # Errors
/// `MPI_ERR_SPAWN` with the launcher's reason.
pub fn spawn(
    runtime: &Runtime,
    comm: &Comm,
    commands: Vec<Command>,
    port_len: usize,
) -> Result<SealedSocket> {
    let port = Port::open_for_spawn(runtime.public_node, reach(runtime, &commands))?;
    let mut spawn = Spawn {
        commands,
        preput: vec![(PARENT.to_owned(), port.name(port_len))],
    };
    let call = Call {
        process: &runtime.process,
        comm,
    };
    if runtime.pmi.is_launched() {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        if is_launcher_ours() {
            spawn.preput.push((SPAWN_NUMBER.to_owned(), number.clone()));
        } else {
            // `command` has applied these keys. Only Weft's launcher passes them on, for
            // MPI_INFO_ENV.
            let infos = spawn.commands.iter_mut().map(|one| &mut one.info);
            infos.for_each(|info| {
                info.retain(|(key, _)| SPAWN_KEYS.iter().all(|(own, _)| key != own))
            });
        }
        runtime.pmi.spawn(&spawn).map_err(|error| {
            let names: Vec<_> = spawn
                .commands
                .iter()
                .map(|one| one.program.to_string_lossy())
                .collect();
            failed(format!(
                "'{}' can't be started: {error}",
                names.join("', '")
            ))
        })?;
        port.accept_unless(call, &mut || runtime.pmi.spawn_end(&number).ok().flatten())
    } else {
        let mut launcher = start_launcher(&spawn)?;
        let mut has_ended = false;
        port.accept_unless(call, &mut || {
            // A process may have connected just before its launcher ended, so the end is reported
            // at the next check.
            if has_ended {
                return Some(format!(
                    "the spawned job's launcher has ended, and no process of the job has reached this one at {}",
                    port.addresses_text()
                ));
            }
            has_ended = matches!(launcher.try_wait(), Ok(Some(_)));
            None
        })
    }
}

/// Returns whether Weft's mpiexec has started this process.
fn is_launcher_ours() -> bool {
    settings::raw("WEFT_APP_SIZE").is_some()
}

/// Returns the networks from which spawned processes must reach the port.
fn reach(runtime: &Runtime, commands: &[Command]) -> Reach {
    let keys = ["host", "hosts", "hostfile", "add-host", "add-hostfile"];
    let names_hosts = |one: &Command| keys.iter().any(|key| one.info(key).is_some());
    if commands.iter().any(names_hosts) {
        return Reach::Network;
    }
    // A process without a launcher starts one on its own host.
    let stays = || {
        // Hydra aborts a job that asks by PMI-2 for a key that it does not have.
        is_launcher_ours().then_some(())?;
        let network = runtime.pmi.preput(names::NETWORK).ok()??;
        Some(network == names::network()?)
    };
    match !runtime.pmi.is_launched() || stays() == Some(true) {
        true => Reach::Host,
        false => Reach::Network,
    }
}

/// Returns the path of this library.
fn own_library() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let address = own_library as *const c_void;
    // SAFETY: dladdr writes `info` only, and takes any address.
    let found = unsafe { libc::dladdr(address, &mut info) } != 0 && !info.dli_fname.is_null();
    if !found {
        return None;
    }
    // SAFETY: `dladdr` returned a NUL-terminated string that lives as long as this library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

/// Starts Weft's launcher for a program that was started without one.
fn start_launcher(spawn: &Spawn) -> Result<Child> {
    let none = || {
        failed(
            "this process was started without a launcher, and Weft's mpiexec was not found beside the library; \
             start the program by 'mpiexec -n 1'",
        )
    };
    let library = own_library().ok_or_else(none)?;
    let launcher = library
        .ancestors()
        .skip(1)
        .take(3)
        .map(|dir| dir.join("bin/mpiexec"))
        .find(|path| path.is_file())
        .ok_or_else(none)?;
    let cant = |error: std::io::Error| {
        failed(format!(
            "'{}' can't be started: {error}",
            launcher.display()
        ))
    };
    let (mut status, theirs) = UnixStream::pair().map_err(cant)?;
    let mut program = Program::new(&launcher);
    // The launcher's standard input is the socket on which it reads its options and answers.
    program.args(["-spawned-by", "0", "-1"]);
    let words = launcher_options(spawn)?;
    let child = program.stdin(Stdio::from(OwnedFd::from(theirs))).spawn();
    let mut child = child.map_err(cant)?;
    // `program` keeps the other end open, so a launcher that is gone raises no SIGPIPE here.
    status.set_write_timeout(Some(READ)).map_err(cant)?;
    let sent = status.write_all(&words::encode(words.iter().map(OsString::as_os_str)));
    let _ = status.shutdown(Shutdown::Write);
    drop(program);
    let mut word = String::new();
    // The answer is `ok` with a line for each host, or `no REASON`; a launcher that ends sends neither.
    let _ = status.read_to_string(&mut word);
    match word.strip_prefix("no ") {
        _ if word.lines().next() == Some("ok") => Ok(child),
        Some(why) => {
            let _ = child.wait();
            Err(failed(why))
        }
        None => {
            let _ = child.wait();
            let why = match sent {
                Ok(()) => "the launcher has ended before it started anything".to_owned(),
                Err(error) => format!("the launcher does not read its options: {error}"),
            };
            Err(failed(why))
        }
    }
}

/// Returns the launcher's options for the processes of `spawn`, without `-spawned-by`.
fn launcher_options(spawn: &Spawn) -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    for (key, value) in &spawn.preput {
        words.extend(["-preput", key, value].map(OsString::from));
    }
    for (number, one) in spawn.commands.iter().enumerate() {
        if number > 0 {
            words.push(":".into());
        }
        words.extend(["-n".into(), one.count.to_string().into()]);
        for (key, variable) in SPAWN_KEYS {
            if let Some(value) = one.info(key) {
                words.extend(["-env".into(), variable.into(), words::protect(value)]);
            }
        }
        for (key, value) in &one.info {
            let option = match key.as_str() {
                "wdir" | "wd" => "-wdir",
                "host" => "-host",
                "hostfile" => "-hostfile",
                INITIAL_ERRHANDLER => "-initial-errhandler",
                _ => continue,
            };
            words.extend([option.into(), words::protect(value)]);
        }
        let found = one.locate().map_err(failed)?;
        words.extend(["--".into(), words::protect(&found)]);
        words.extend(one.args.iter().map(|arg| words::protect(arg)));
    }
    Ok(words)
}

/// Connects spawned processes with their parents by [`meet`].
///
/// # Errors
/// The parents can't be reached.
pub fn connect_with_parents(runtime: &Runtime) -> Result<(Comm, Vec<Pin>)> {
    let world = &runtime.world.comm;
    let mut socket = (world.rank() == 0).then(|| {
        let name = runtime.pmi.preput(PARENT);
        let name = name.map_err(|error| failed(error.to_string()))?;
        let name = name.ok_or_else(|| {
            failed(
                "this process was started by MPI_Comm_spawn of another MPI library and can't be connected with \
                 its parents; use the same library in both programs",
            )
        })?;
        // The parents are in MPI_Comm_spawn and answer immediately.
        let call = Call {
            process: &runtime.process,
            comm: world,
        };
        client::connect(call, &name, runtime.public_node, client::time_to_accept(None)?)
    });
    let link = socket.as_mut().map(|socket| match socket {
        Ok(socket) => Ok(socket as &mut dyn Link),
        Err(error) => Err(error.clone()),
    });
    let opener = Transports {
        node: runtime.public_node,
    };
    meet(&runtime.process, world, 0, false, link, &opener)
}

/// Makes the communicator that `MPI_Comm_get_parent` returns.
///
/// # Errors
/// The parents can't be reached.
pub fn find_parents(runtime: &Runtime) -> Result<()> {
    if !runtime.pmi.spawned() {
        return Ok(());
    }
    let (comm, _pins) = connect_with_parents(runtime)?;
    comm.set_name("MPI_COMM_PARENT");
    let world: &Arc<_> = &runtime.world;
    let handle = runtime.add_comm(comm, Some(world))?;
    *runtime.dynamic.parent.lock() = Some(handle);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from the program and from its file need not be UTF-8.
    #[test]
    fn values_of_keys_are_bytes() {
        let dir = std::env::temp_dir().join(format!("weft-spawn-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join(OsStr::from_bytes(b"keys\xff"));
        std::fs::write(&file, b"wdir = /a\xfe # \xe9\n\npath=/b\xfd\r\nhost = h\n").unwrap();
        let info = Info::new();
        info.set("file", file.as_os_str().as_bytes()).unwrap();
        info.set("path", b"/own\xff").unwrap();
        info.set(b"\xff", b"nobody's").unwrap();
        let made = |info: &Info| command("p".into(), Vec::new(), 1, Some(info));
        let found = made(&info).unwrap();
        let os = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let expected = [
            ("file", file.clone().into_os_string()),
            ("path", os(b"/own\xff")),
            ("wdir", os(b"/a\xfe")),
            ("host", os(b"h")),
        ];
        assert_eq!(
            found.info,
            expected.map(|(key, value)| (key.to_owned(), value))
        );
        std::fs::write(&file, b"wdir\xff = /\n").unwrap();
        let why = made(&info).unwrap_err();
        assert_eq!(why.class(), Class::Spawn);
        assert!(why.to_string().contains("has a line 'wdir"), "{why}");
        std::fs::remove_dir_all(&dir).unwrap();
        info.set("mpi_initial_errhandler", b"\xff").unwrap();
        info.delete("file").unwrap();
        assert_eq!(made(&info).unwrap_err().class(), Class::InfoValue);
    }

    #[test]
    fn soft_asks_for_the_greatest_number_that_it_allows() {
        let count = |soft: &str, most| soft_count(soft, most).map_err(|error| error.class());
        for (soft, most, expected) in [
            ("1", 3, 1),
            ("0:1", 3, 1),
            ("2:10:2", 3, 2),
            ("2:10:2", 9, 8),
            ("1,3", 3, 3),
            ("3,1", 2, 1),
            ("3:1:-1", 2, 2),
            ("9:2:-3", 8, 6),
            ("-4:100", 7, 7),
            ("4:1", 5, 5),
            (" 2 : 4 ", 3, 3),
            ("-9223372036854775808:9223372036854775807", 5, 5),
            (
                "9223372036854775807:-9223372036854775808:-9223372036854775808",
                5,
                0,
            ),
        ] {
            let expected = match (soft, expected) {
                // The set is empty.
                ("4:1", _) | (_, 0) => Err(Class::Spawn),
                (_, count) => Ok(count),
            };
            assert_eq!(count(soft, most), expected, "{soft} of {most}");
        }
        assert_eq!(count("5:9", 3), Err(Class::Spawn));
        assert_eq!(count("-3:0", 3), Err(Class::Spawn));
        for soft in ["", "a", "1:", "1:2:0", "1:2:3:4", "1,,2", "1;2"] {
            assert_eq!(count(soft, 3), Err(Class::InfoValue), "{soft}");
        }
    }

    /// Compares with a search over all numbers.
    #[test]
    fn the_greatest_of_a_triplet_is_found() {
        for first in -6..7_i64 {
            for last in -6..7_i64 {
                for step in [-4, -3, -1, 1, 2, 5_i64] {
                    for most in 1..8_i64 {
                        let mut all = Vec::new();
                        let mut at = first;
                        while (last - at) * step.signum() >= 0 {
                            all.push(at);
                            at += step;
                        }
                        let fits = all.into_iter().filter(|at| (0..=most).contains(at));
                        let expected = fits.max().unwrap_or(0);
                        let found = greatest([first, last, step], most);
                        assert_eq!(found, expected, "{first}:{last}:{step}, {most}");
                    }
                }
            }
        }
    }
}
