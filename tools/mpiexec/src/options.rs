//! The command line.
//!
//! Read by hand: launchers' options are long ones with a single dash (`-np`, `-genv`), some take
//! two values, sections of an MPMD job are separated by `:`, and the first word that is no option
//! starts the program's own arguments. That is not what clap was made for.

mod many;
pub mod words;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

pub use many::{Input, Many, Universe};
pub use words::{quoted, split};

use crate::binding::{self, Bind};
use crate::completion;
use crate::debugger;
use crate::foreign;
use crate::hosts::{self, Host, MAX_RANKS};
use crate::label;
use crate::profile;
use crate::spawned::{OFFER, OWN, POOL, PREPUT, SPAWNED, Spawned, USED, read_used};
use words::{assignment, config};

/// The option that names the file with the secret of a name server.
const NAME_SERVER_SECRET: &str = "name-server-secret";

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Print what the launcher sees of this machine, and the library's choices.
    Info,
    /// Start MPI from this library and end it again: what `Info` runs to see the choices.
    Probe(OsString),
    /// Keep published names for jobs on any host.
    NameServer(NameServer),
    /// Print what a shell reads to complete options.
    Completion(String),
    /// Print what came of asking a job where its ranks are.
    Report(String),
    /// Run a job, shown live by a program of its own.
    Top,
    /// Run a job.
    Run(Box<Options>),
}

/// A name server to run.
#[derive(Debug)]
pub struct NameServer {
    /// The TCP port, if not the usual one.
    pub port: Option<u16>,
    /// The file with the secret.
    pub secret: Option<OsString>,
}

/// A job to run.
#[derive(Debug)]
pub struct Options {
    /// Parts of the job, each a program and how often to run it.
    pub sections: Vec<Section>,
    /// What each line of output starts with, by a pattern.
    pub label: Option<OsString>,
    /// Whether to print how each rank has ended.
    pub print_codes: bool,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// Which cores the ranks may use.
    pub bind: Bind,
    /// Files for the ranks' standard output and standard error, instead of ours.
    pub files: [Option<OsString>; 2],
    /// Whether to make the folders that they are in.
    pub folders: bool,
    /// Whether the loss of a rank ends the others.
    pub cleanup: bool,
    /// Whether a rank of another job has asked for it.
    pub spawned: Option<Spawned>,
    /// Where names are published, if not here: `HOST` or `HOST:PORT`.
    pub name_server: Option<String>,
    /// The file with the secret of the name server.
    pub name_server_secret: Option<OsString>,
    /// Which hosts, and how to start there.
    pub many: Many,
    /// Whether the job is to be shown live.
    pub top: bool,
    /// What to say about options of other launchers, each once.
    pub notes: Vec<String>,
}

/// A program and how often to run it.
#[derive(Debug, Clone)]
pub struct Section {
    /// Ranks to start, at least 1.
    pub count: usize,
    /// How many were asked for, if that was said.
    pub asked: Option<usize>,
    /// Hosts of its own.
    pub hosts: Option<Vec<Host>>,
    /// What the ranks inherit of our environment.
    pub inherit: Inherit,
    /// Variables to set, in order.
    pub set: Vec<(OsString, OsString)>,
    /// Working directory, ours if not given.
    pub wdir: Option<PathBuf>,
    /// Program and arguments, at least the program.
    pub command: Vec<OsString>,
}

/// What ranks inherit of the launcher's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inherit {
    /// Everything.
    All,
    /// Nothing.
    None,
    /// These variables.
    List(Vec<OsString>),
}

pub use crate::help::HELP;

const KNOWN: &[&str] = &[
    "n",
    "np",
    "env",
    "envall",
    "envnone",
    "envlist",
    "genv",
    "genvall",
    "genvnone",
    "genvlist",
    "wdir",
    "wd",
    "l",
    "timeout",
    "bind-to",
    "info",
    "version",
    "V",
    "h",
    "help",
    "configfile",
    "prepend-rank",
    "outfile-pattern",
    "prepend-pattern",
    "timestamp-output",
    "prepend-timestamp",
    "output",
    "tag-output",
    "output-filename",
    "print-all-exitcodes",
    "path",
    "x",
    "c",
    "dac",
    "errfile-pattern",
    "disable-auto-cleanup",
    "nameserver",
    "name-server",
    NAME_SERVER_SECRET,
    "initial-errhandler",
    "memory-alloc-kinds",
    "stats",
    "trace",
    "top",
    "valgrind",
    "check",
    "report",
    "gdb",
    "gdba",
    "completion",
];

/// All options that have a meaning here.
pub fn names() -> Vec<&'static str> {
    KNOWN.iter().chain(many::NAMES).copied().collect()
}

/// For ourselves only; see [`Request::Probe`].
pub const PROBE: &str = "probe-library";

/// Reads the command line; `variable` looks up our environment.
pub fn parse(
    args: &[OsString],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Request, String> {
    let mut job = Options {
        sections: Vec::new(),
        label: None,
        print_codes: false,
        timeout: None,
        bind: Bind::AUTO,
        files: [None, None],
        folders: false,
        cleanup: true,
        spawned: None,
        name_server: None,
        name_server_secret: None,
        many: Many::default(),
        top: false,
        notes: Vec::new(),
    };
    let from_file;
    let args = match args {
        [first, file, rest @ ..] if option_name(first).as_deref() == Some("configfile") => {
            from_file = [config(file)?, rest.to_vec()].concat();
            &from_file
        }
        _ => args,
    };
    if let Some(value) = variable("MPIEXEC_TIMEOUT").filter(|value| !value.is_empty()) {
        job.timeout = seconds("the variable MPIEXEC_TIMEOUT", &value)?;
    }
    let mut everywhere = Everywhere {
        inherit: Inherit::All,
        set: profile::by_environment(&variable)?,
        before: Vec::new(),
    };
    let mut drafts = Vec::new();

    let is_spawned = args.first().and_then(|first| option_name(first));
    let is_spawned = is_spawned.as_deref() == Some(SPAWNED);
    for args in args.split(|arg| arg == ":") {
        let mut draft = Draft::default();
        // Words of a spawned job may be colons, too.
        let own: Vec<OsString> = match is_spawned {
            true => args.iter().map(|arg| pmi::words::unprotect(arg)).collect(),
            false => args.to_vec(),
        };
        let mut rest = own.iter();
        while let Some(arg) = rest.next() {
            let Some(name) = option_name(arg) else {
                draft.command.push(arg.clone());
                break;
            };
            if name.is_empty() {
                break;
            }
            match option(&name, &mut rest, &mut draft, &mut everywhere, &mut job)? {
                Some(request) => return Ok(request),
                None => continue,
            }
        }
        draft.command.extend(rest.cloned());
        drafts.push(draft);
    }

    if job.name_server_secret.is_some() && job.name_server.is_none() {
        return Err(
            "option -name-server-secret has no use alone; add -nameserver HOST or -name-server"
                .to_owned(),
        );
    }
    profile::refuse_both(&everywhere.set, job.top)?;
    for (index, draft) in drafts.into_iter().enumerate() {
        job.sections.push(draft.finish(index, &everywhere)?);
    }
    let ranks = job
        .sections
        .iter()
        .try_fold(0usize, |sum, section| sum.checked_add(section.count))
        .unwrap_or(usize::MAX);
    if ranks > MAX_RANKS {
        return Err(format!(
            "{ranks} ranks are too many; start at most {MAX_RANKS}"
        ));
    }
    if job.top && everywhere.before.first().is_some_and(|word| word == "gdb") {
        return Err(
            "-gdb can't be used together with -top, since both use the terminal; leave one out"
                .to_owned(),
        );
    }
    // Its program starts us again with this variable.
    if job.top && variable(profile::TOP).is_none() {
        return Ok(Request::Top);
    }
    Ok(Request::Run(Box::new(job)))
}

struct Everywhere {
    inherit: Inherit,
    set: Vec<(OsString, OsString)>,
    /// What comes before each program.
    before: Vec<OsString>,
}

#[derive(Default)]
struct Draft {
    count: Option<usize>,
    hosts: Option<Vec<Host>>,
    inherit: Option<Inherit>,
    set: Vec<(OsString, OsString)>,
    wdir: Option<PathBuf>,
    command: Vec<OsString>,
}

impl Draft {
    fn finish(self, index: usize, everywhere: &Everywhere) -> Result<Section, String> {
        if self.command.is_empty() {
            return Err(match index {
                0 => "no program given; name it after the options".to_owned(),
                _ => format!(
                    "no program given in section {}; name it after ':'",
                    index + 1
                ),
            });
        }
        let mut set = everywhere.set.clone();
        set.extend(self.set);
        Ok(Section {
            count: self.count.unwrap_or(1),
            asked: self.count,
            hosts: self.hosts,
            inherit: self.inherit.unwrap_or_else(|| everywhere.inherit.clone()),
            set,
            wdir: self.wdir,
            command: [everywhere.before.clone(), self.command].concat(),
        })
    }
}

/// The name of an option without its dashes, empty for `--`; `None` if `arg` is none.
fn option_name(arg: &OsStr) -> Option<String> {
    let text = arg.to_string_lossy();
    let name = text.strip_prefix('-')?;
    Some(name.strip_prefix('-').unwrap_or(name).to_owned())
}

fn option<'a>(
    name: &str,
    rest: &mut impl Iterator<Item = &'a OsString>,
    draft: &mut Draft,
    everywhere: &mut Everywhere,
    job: &mut Options,
) -> Result<Option<Request>, String> {
    let mut value = |what: &str| {
        rest.next()
            .cloned()
            .ok_or_else(|| format!("option -{name} needs {what} after it"))
    };
    match name {
        "n" | "np" | "c" => draft.count = Some(count(name, &value("a number of ranks")?)?),
        "env" => draft.set.push(variable(name, &mut value)?),
        "genv" => everywhere.set.push(variable(name, &mut value)?),
        // Open MPI's: a variable of ours, or a new one.
        "x" => {
            let text = value("a variable")?;
            match assignment(&text) {
                Some(variable) => everywhere.set.push(variable),
                None => drop(variable_name(name, text)?),
            }
        }
        "envall" => draft.inherit = Some(Inherit::All),
        "envnone" => draft.inherit = Some(Inherit::None),
        "envlist" => draft.inherit = Some(list(&value("names")?)),
        "genvall" => everywhere.inherit = Inherit::All,
        "genvnone" => everywhere.inherit = Inherit::None,
        "genvlist" => everywhere.inherit = list(&value("names")?),
        "wdir" | "wd" => draft.wdir = Some(PathBuf::from(value("a directory")?)),
        "l" | "prepend-rank" | "tag-output" => {
            job.label = Some(with_time(job, label::USUAL.as_ref()))
        }
        "prepend-pattern" => {
            let pattern = pattern(name, value("a pattern")?)?;
            job.label = Some(with_time(job, &pattern));
        }
        "timestamp-output" | "prepend-timestamp" => timestamp(job),
        "output-filename" => into_folder(job, value("a folder")?.as_bytes()),
        // Newer ones of Open MPI have one option for all of this.
        "output" => {
            for what in value("'tag' or the like")?
                .as_bytes()
                .split(|byte| *byte == b',')
            {
                let folder = what.strip_prefix(b"dir=").or(what.strip_prefix(b"file="));
                match (folder, what) {
                    (Some(folder), _) => into_folder(job, folder),
                    (None, b"tag" | b"tag-detailed" | b"tag-fullname" | b"rank") => {
                        job.label = Some(with_time(job, label::USUAL.as_ref()));
                    }
                    (None, b"timestamp") => timestamp(job),
                    _ => {
                        return Err(format!(
                            "option -output takes a comma-separated list of 'tag', 'rank', 'timestamp' and \
                             'dir=FOLDER', not '{}'",
                            String::from_utf8_lossy(what)
                        ));
                    }
                }
            }
        }
        "print-all-exitcodes" => job.print_codes = true,
        "path" => {
            let mut path = value("a list of folders")?;
            if let Some(rest) = std::env::var_os("PATH") {
                path.push(":");
                path.push(rest);
            }
            draft.set.push(("PATH".into(), path));
        }
        "outfile-pattern" => job.files[0] = Some(pattern(name, value("a file name")?)?),
        "errfile-pattern" => job.files[1] = Some(pattern(name, value("a file name")?)?),
        "disable-auto-cleanup" | "dac" => job.cleanup = false,
        "initial-errhandler" => everywhere.set.push(initial_errhandler(&value("a name")?)?),
        "memory-alloc-kinds" => memory_kinds(&value("kinds of memory")?)?,
        "stats" => everywhere.set.extend(profile::stats()?),
        "check" => everywhere.set.extend(profile::check()?),
        "trace" => everywhere.set.extend(profile::trace(&value("a file")?)?),
        "top" => job.top = true,
        "gdb" => {
            everywhere.before = ["gdb", "-q", "--args"].map(OsString::from).into();
            job.label = Some(with_time(job, label::USUAL.as_ref()));
            job.many.input_for_all();
        }
        "gdba" => {
            let words = debugger::attach(&value("the process number of an mpiexec")?)?;
            return parse(&words, |_| None).map(Some);
        }
        "report" => {
            let text = debugger::report(&value("the process number of an mpiexec")?)?;
            return Ok(Some(Request::Report(text)));
        }
        "completion" => {
            let shell = value("the name of a shell")?;
            let text = completion::script(&text(&shell), &names())?;
            return Ok(Some(Request::Completion(text)));
        }
        "valgrind" => everywhere.before = profile::valgrind()?,
        "configfile" => {
            return Err("option -configfile is not the first option; put it first".into());
        }
        "timeout" => job.timeout = seconds("option -timeout", &value("a number of seconds")?)?,
        "bind-to" => {
            let how = value("'core', 'none' or the like")?;
            job.bind.to = how.to_str().and_then(binding::to).ok_or_else(|| {
                let how = how.to_string_lossy();
                format!(
                    "option -bind-to takes 'none', 'auto', 'user:LIST' or one of hwthread, core, \
                     l2cache, l3cache, numa, socket and board, with ':N' for N of them, not '{how}'"
                )
            })?;
        }
        "info" => return Ok(Some(Request::Info)),
        SPAWNED => job.spawned = Some(Spawned::read(&mut value)?),
        PREPUT => {
            let pair = (value("a key")?, value("a value")?);
            let text = |text: OsString| text.to_string_lossy().into_owned();
            if let Some(spawned) = &mut job.spawned {
                spawned.preput.push((text(pair.0), text(pair.1)));
            }
        }
        OFFER | OWN | POOL if job.spawned.is_some() => {
            let hosts = hosts::file::read("hosts", &text(&value("hosts")?))?;
            match name {
                OFFER => job.many.hosts = hosts,
                POOL => job.many.pool = hosts,
                _ => draft.hosts = Some(hosts),
            }
        }
        USED if job.spawned.is_some() => job.many.used = read_used(&text(&value("hosts")?)),
        NAME_SERVER_SECRET => job.name_server_secret = Some(value("a file")?),
        "nameserver" => job.name_server = Some(value("a host")?.to_string_lossy().into_owned()),
        "name-server" => {
            let mut server = NameServer {
                port: None,
                secret: job.name_server_secret.take(),
            };
            while let Ok(word) = value("a port") {
                if option_name(&word).as_deref() == Some(NAME_SERVER_SECRET) {
                    server.secret = Some(value("a file")?);
                    continue;
                }
                let number = word.to_str().and_then(|port| port.parse().ok());
                server.port = Some(number.ok_or(
                    "option -name-server takes a port number, or nothing, and -name-server-secret FILE",
                )?);
            }
            return Ok(Some(Request::NameServer(server)));
        }
        PROBE => return Ok(Some(Request::Probe(value("a library")?))),
        "version" | "V" => return Ok(Some(Request::Version)),
        "h" | "help" => return Ok(Some(Request::Help)),
        _ if many::option(
            name,
            &mut value,
            &mut job.many,
            &mut draft.hosts,
            &mut job.bind,
        )? => {}
        _ => {
            let Some(option) = foreign::find(name) else {
                return Err(foreign::unknown(name, &[KNOWN, many::NAMES]));
            };
            for _ in 0..option.values {
                value("a value")?;
            }
            let note = option.note();
            job.notes
                .extend(note.filter(|note| !job.notes.contains(note)));
        }
    }
    Ok(None)
}

fn text(value: &OsStr) -> String {
    value.to_string_lossy().into_owned()
}

/// Files for output, as Open MPI names them.
fn into_folder(job: &mut Options, folder: &[u8]) {
    let folder = folder.split(|byte| *byte == b'%');
    let folder = folder.collect::<Vec<_>>().join(&b"%%"[..]);
    job.folders = true;
    job.files = ["stdout", "stderr"].map(|one| {
        let file = format!("/rank.%r/{one}");
        Some(OsString::from_vec([&folder[..], file.as_bytes()].concat()))
    });
}

/// Puts the time before whatever lines start with.
fn timestamp(job: &mut Options) {
    let label = job.label.take().unwrap_or_default();
    job.label = Some(match label.as_bytes().starts_with(TIME) {
        true => label,
        false => timed(&label),
    });
}

/// A label's pattern, behind the time if that was asked for before.
fn with_time(job: &Options, pattern: &OsStr) -> OsString {
    match &job.label {
        Some(label) if label.as_bytes().starts_with(TIME) => timed(pattern),
        _ => pattern.to_owned(),
    }
}

/// A pattern's start that has the time before all else.
const TIME: &[u8] = b"%t ";

fn timed(pattern: &OsStr) -> OsString {
    OsString::from_vec([TIME, pattern.as_bytes()].concat())
}

fn count(name: &str, value: &OsStr) -> Result<usize, String> {
    let text = value.to_string_lossy();
    match text.parse::<usize>() {
        Ok(0) => Err(format!("option -{name} is 0; it must be 1 or more")),
        Ok(n) => Ok(n),
        Err(_) => Err(format!(
            "option -{name} is '{text}'; it must be a whole number, 1 or more"
        )),
    }
}

fn variable_name(option: &str, name: OsString) -> Result<OsString, String> {
    let bytes = name.as_encoded_bytes();
    if bytes.is_empty() || bytes.contains(&b'=') {
        return Err(format!(
            "option -{option}: '{}' is not the name of a variable; write NAME VALUE or NAME=VALUE",
            name.to_string_lossy()
        ));
    }
    Ok(name)
}

/// A name and its value: two words, or one of the form `NAME=VALUE`.
fn variable(
    option: &str,
    value: &mut impl FnMut(&str) -> Result<OsString, String>,
) -> Result<(OsString, OsString), String> {
    let first = value("a name")?;
    match assignment(&first) {
        Some(variable) => Ok(variable),
        None => Ok((variable_name(option, first)?, value("a value")?)),
    }
}

fn list(names: &OsStr) -> Inherit {
    Inherit::List(words::parts(names).map(OsStr::to_owned).collect())
}

/// The variable by which the library learns the initial error handler.
pub const INITIAL_ERRHANDLER: &str = "WEFT_INITIAL_ERRHANDLER";

/// The same with the handler that `-initial-errhandler` names (MPI-4.1 section 11.5).
fn initial_errhandler(name: &OsStr) -> Result<(OsString, OsString), String> {
    let text = name.to_string_lossy();
    match text.as_ref() {
        "mpi_errors_are_fatal" | "mpi_errors_abort" | "mpi_errors_return" => {
            Ok((INITIAL_ERRHANDLER.into(), name.to_owned()))
        }
        _ => Err(format!(
            "option -initial-errhandler takes 'mpi_errors_are_fatal', 'mpi_errors_abort' or \
             'mpi_errors_return', not '{text}'"
        )),
    }
}

/// Checks a request for kinds of memory (MPI-4.1 section 11.4.3): names, narrowed by words behind colons. The
/// library tells all kinds that it supports whatever is asked for, so it need not know.
fn memory_kinds(list: &OsStr) -> Result<(), String> {
    let text = list.to_string_lossy();
    let is_word = |word: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        !word.is_empty() && word.bytes().all(good)
    };
    // Nothing stands for no kinds.
    if text.is_empty() || text.split([',', ':']).all(is_word) {
        return Ok(());
    }
    Err(format!(
        "option -memory-alloc-kinds takes a list such as 'system,mpi:alloc_mem', not '{text}'"
    ))
}

fn seconds(what: &str, value: &OsStr) -> Result<Option<Duration>, String> {
    let text = value.to_string_lossy();
    let number = text.trim().parse::<f64>().ok().filter(|s| *s >= 0.0);
    // The clock can't count to more than this, which is three thousand years.
    match number.map(|s| Duration::try_from_secs_f64(s.min(1e11))) {
        Some(Ok(limit)) => Ok(Some(limit).filter(|limit| !limit.is_zero())),
        _ => Err(format!(
            "{what} is '{text}'; it must be a number of seconds, 0 or more"
        )),
    }
}

/// A pattern of file names or labels, of which `%r`, `%h` and Hydra's `%g` and `%p` are understood.
fn pattern(option: &str, text: OsString) -> Result<OsString, String> {
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        if *byte == b'%' && !rest.next().is_some_and(|byte| b"rhgpt%".contains(byte)) {
            return Err(format!(
                "option -{option}: '{}' has an unknown % sequence; use %r, %h, %g, %p, %t and %%",
                text.display()
            ));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
