//! Parser of the command line.
//!
//! It is written by hand, since clap can't express launchers' options: long names have a single
//! dash (`-np`, `-genv`), some take two values, `:` separates the sections of an MPMD job, and the
//! first word that is not an option begins the program's command.

mod many;
pub mod syntax;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use many::JoinDraft;
pub use many::{Input, Join, Many, Universe};
pub use syntax::{quoted, split};

use crate::binding::{self, Bind};
use crate::completion;
use crate::debugger;
use crate::foreign;
use crate::hosts::{self, Host, MAX_RANKS};
use crate::label;
use crate::profile;
use crate::spawned::{OFFER, OWN, POOL, PREPUT, SPAWNED, Spawned, USED, read_used};
use syntax::{assignment, config};

/// The option that names the file with the secret of a name server.
const NAME_SERVER_SECRET: &str = "name-server-secret";

/// The action that the command line requests.
#[derive(Debug)]
pub enum Request {
    /// Print the help, or the part of it about this topic.
    Help(Option<String>),
    /// Print the version.
    Version,
    /// Print what the launcher sees of this machine, and the library's choices.
    Info,
    /// Start and finalize MPI from this library; `Info` runs it in a child process.
    Probe(OsString),
    /// Run a name server.
    NameServer(NameServer),
    /// Print a completion script.
    Completion(String),
    /// Print the outcome of `-report`.
    Report(String),
    /// Replace this program by `weft-top`, which runs the job.
    Top,
    /// Run a job.
    Run(Box<Options>),
}

/// A name server to run.
#[derive(Debug)]
pub struct NameServer {
    /// The TCP port, if not the default.
    pub port: Option<u16>,
    /// The file with the secret.
    pub secret: Option<OsString>,
}

/// A job to run.
#[derive(Debug)]
pub struct Options {
    /// The programs of the job with their numbers of ranks.
    pub sections: Vec<Section>,
    /// The pattern of the label at the start of each line of output.
    pub label: Option<OsString>,
    /// Whether to print how each rank has ended.
    pub print_codes: bool,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// Which cores the ranks may use.
    pub bind: Bind,
    /// Files for the ranks' standard output and standard error, instead of ours.
    pub files: [Option<OsString>; 2],
    /// Whether to create the folders of `files`.
    pub folders: bool,
    /// Whether the loss of a rank ends the others.
    pub cleanup: bool,
    /// The connection to the launcher of the job that spawned this one.
    pub spawned: Option<Spawned>,
    /// The name server, `HOST` or `HOST:PORT`; `None` if this launcher keeps the names.
    pub name_server: Option<String>,
    /// The file with the secret of the name server.
    pub name_server_secret: Option<OsString>,
    /// Hosts, placement and launching of agents.
    pub many: Many,
    /// Whether the job is to be shown live.
    pub top: bool,
    /// The file that rank 0 writes the timeline to.
    pub trace: Option<PathBuf>,
    /// Warnings about ignored options of other launchers, each once.
    pub notes: Vec<String>,
}

/// A program and its number of ranks.
#[derive(Debug, Clone)]
pub struct Section {
    /// Ranks to start, at least 1.
    pub count: usize,
    /// The value of `-n`.
    pub asked: Option<usize>,
    /// The hosts of `-host`.
    pub hosts: Option<Vec<Host>>,
    /// The variables that ranks inherit from the launcher.
    pub inherit: Inherit,
    /// Variables to set, in order.
    pub set: Vec<(OsString, OsString)>,
    /// The working directory; the launcher's if `None`.
    pub wdir: Option<PathBuf>,
    /// Program and arguments; never empty.
    pub command: Vec<OsString>,
}

/// The variables that ranks inherit from the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inherit {
    /// Everything.
    All,
    /// Nothing.
    None,
    /// These variables.
    List(Vec<OsString>),
}

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
    "app",
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

/// Returns the names of all options with a meaning in Weft.
pub fn names() -> Vec<&'static str> {
    let all = KNOWN.iter().chain(many::NAMES).chain(JoinDraft::NAMES);
    all.copied().collect()
}

/// An internal option; see [`Request::Probe`].
pub const PROBE: &str = "probe-library";

/// Parses the command line. `variable` returns variables of the environment.
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
        trace: None,
        notes: Vec::new(),
    };
    let from_file = sections_of_file(args)?;
    let args = from_file.as_deref().unwrap_or(args);
    if let Some(value) = variable("MPIEXEC_TIMEOUT").filter(|value| !value.is_empty()) {
        job.timeout = seconds("the variable MPIEXEC_TIMEOUT", &value)?;
    }
    let mut everywhere = Everywhere {
        inherit: Inherit::All,
        set: profile::by_environment(&variable)?,
        before: Vec::new(),
        join: JoinDraft::default(),
    };
    let mut drafts = Vec::new();

    let is_spawned = args
        .first()
        .and_then(|first| option_name(first))
        .is_some_and(|(name, _)| name == SPAWNED);
    for args in args.split(|arg| arg == ":") {
        let mut draft = Draft::default();
        // Arguments of a spawned job that are ":" are protected.
        let own: Vec<OsString> = match is_spawned {
            true => args.iter().map(|arg| pmi::words::unprotect(arg)).collect(),
            false => args.to_vec(),
        };
        let mut rest = own.iter();
        while let Some(arg) = rest.next() {
            let Some((name, attached)) = option_name(arg) else {
                draft.command.push(arg.clone());
                break;
            };
            if name.is_empty() {
                break;
            }
            let mut words = Words {
                attached: attached.as_ref(),
                rest: &mut rest,
            };
            match option(&name, &mut words, &mut draft, &mut everywhere, &mut job)? {
                Some(request) => return Ok(request),
                None if words.attached.is_none() => continue,
                None => {
                    return Err(format!(
                        "option -{name} takes no value; leave out what follows '='"
                    ));
                }
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
    let trace = everywhere.set.iter().rfind(|set| set.0 == profile::TRACE);
    job.trace = trace.map(|(_, path)| PathBuf::from(path));
    let many = &job.many;
    let has_hosts = !many.hosts.is_empty()
        || many.rankfile.is_some()
        || many.bootstrap.is_some()
        || many.skip_this
        || drafts.iter().any(|draft| draft.hosts.is_some());
    job.many.join = std::mem::take(&mut everywhere.join).finish(has_hosts)?;
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
    let info = variable("WEFT_INFO").filter(|value| !value.is_empty());
    let is_off = |value: &OsString| ["0", "off", "no", "false"].iter().any(|off| value == off);
    job.many.report_bindings |= info.is_some_and(|value| !is_off(&value));
    // weft-top sets this variable when it starts mpiexec again.
    if job.top && variable(profile::TOP).is_none() {
        return Ok(Request::Top);
    }
    Ok(Request::Run(Box::new(job)))
}

struct Everywhere {
    inherit: Inherit,
    set: Vec<(OsString, OsString)>,
    /// The command before each program, such as gdb or valgrind.
    before: Vec<OsString>,
    join: JoinDraft,
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

/// Returns an option's name without dashes, empty for `--`, and the value that `=` attaches to it.
/// Returns `None` for other arguments.
fn option_name(arg: &OsStr) -> Option<(String, Option<OsString>)> {
    let name = arg.as_bytes().strip_prefix(b"-")?;
    let name = name.strip_prefix(b"-").unwrap_or(name);
    let mut parts = name.splitn(2, |byte| *byte == b'=');
    let name = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    Some((
        name,
        parts
            .next()
            .map(|value| OsStr::from_bytes(value).to_owned()),
    ))
}

/// Returns the command line that a file describes, if the first option names one.
fn sections_of_file(args: &[OsString]) -> Result<Option<Vec<OsString>>, String> {
    let Some((first, rest)) = args.split_first() else {
        return Ok(None);
    };
    match (option_name(first), rest) {
        (Some((name, Some(file))), rest) if FILES_OF_SECTIONS.contains(&name.as_str()) => {
            Ok(Some([config(&name, &file)?, rest.to_vec()].concat()))
        }
        (Some((name, None)), [file, rest @ ..]) if FILES_OF_SECTIONS.contains(&name.as_str()) => {
            Ok(Some([config(&name, file)?, rest.to_vec()].concat()))
        }
        _ => Ok(None),
    }
}

/// Hydra's and Open MPI's options for a file with a section per line.
const FILES_OF_SECTIONS: [&str; 2] = ["configfile", "app"];

/// The words that may be values of an option.
struct Words<'a, 'b> {
    /// The value that is attached to the option by `=`, until it is taken.
    attached: Option<&'b OsString>,
    /// The words after the option.
    rest: &'b mut std::slice::Iter<'a, OsString>,
}

impl Words<'_, '_> {
    fn next(&mut self) -> Option<&OsString> {
        self.attached.take().or_else(|| self.rest.next())
    }

    /// Returns the next word if it is attached to the option, or is `fit` to be its value.
    fn next_if(&mut self, fit: impl FnOnce(&OsStr) -> bool) -> Option<&OsString> {
        let next = self.attached.or(self.rest.as_slice().first())?;
        match self.attached.is_some() || fit(next) {
            true => self.next(),
            false => None,
        }
    }
}

fn option(
    name: &str,
    words: &mut Words,
    draft: &mut Draft,
    everywhere: &mut Everywhere,
    job: &mut Options,
) -> Result<Option<Request>, String> {
    // These options may be without a value.
    match name {
        "trace" => {
            let file = words.next_if(|word| word.as_bytes().ends_with(b".json"));
            let file = file.map_or(profile::TRACE_FILE.as_ref(), |file| file.as_os_str());
            let preloaded = std::env::var_os("LD_PRELOAD");
            everywhere.set.extend(profile::trace(file, preloaded)?);
            return Ok(None);
        }
        "h" | "help" => return Ok(Some(Request::Help(words.next().map(|word| text(word))))),
        _ => {}
    }
    let mut value = |what: &str| {
        words
            .next()
            .cloned()
            .ok_or_else(|| format!("option -{name} needs {what} after it"))
    };
    match name {
        "n" | "np" | "c" => draft.count = Some(count(name, &value("a number of ranks")?)?),
        "env" => draft.set.push(variable(name, &mut value)?),
        "genv" => everywhere.set.push(variable(name, &mut value)?),
        // Open MPI's: NAME=VALUE, or NAME, which ranks inherit by default.
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
        // The collective option of newer versions of Open MPI.
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
        "configfile" | "app" => {
            return Err(format!(
                "option -{name} is not the first option; put it first"
            ));
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
                match option_name(&word) {
                    Some((name, attached)) if name == NAME_SERVER_SECRET => {
                        let file = attached.map_or_else(|| value("a file"), Ok);
                        server.secret = Some(file?);
                        continue;
                    }
                    _ => {}
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
        _ if everywhere.join.option(name, &mut value)? => {}
        _ if many::option(
            name,
            &mut value,
            &mut job.many,
            &mut draft.hosts,
            &mut job.bind,
        )? => {}
        _ => {
            let Some(option) = foreign::find(name) else {
                let unknown = || foreign::unknown(name, &[KNOWN, many::NAMES, JoinDraft::NAMES]);
                return Err(foreign::refused(name).unwrap_or_else(unknown));
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

/// Sends output to files named as by Open MPI: `FOLDER/rank.N/stdout`.
fn into_folder(job: &mut Options, folder: &[u8]) {
    let folder = folder.split(|byte| *byte == b'%');
    let folder = folder.collect::<Vec<_>>().join(&b"%%"[..]);
    job.folders = true;
    job.files = ["stdout", "stderr"].map(|one| {
        let file = format!("/rank.%r/{one}");
        Some(OsString::from_vec([&folder[..], file.as_bytes()].concat()))
    });
}

/// Puts the time before the label of lines.
fn timestamp(job: &mut Options) {
    let label = job.label.take().unwrap_or_default();
    job.label = Some(match label.as_bytes().starts_with(TIME) {
        true => label,
        false => timed(&label),
    });
}

/// Returns a label's pattern, after the time if an earlier option requested it.
fn with_time(job: &Options, pattern: &OsStr) -> OsString {
    match &job.label {
        Some(label) if label.as_bytes().starts_with(TIME) => timed(pattern),
        _ => pattern.to_owned(),
    }
}

/// The start of a label's pattern that begins with the time.
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

/// Takes a variable: two arguments, or one of the form `NAME=VALUE`.
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
    Inherit::List(syntax::parts(names).map(OsStr::to_owned).collect())
}

/// The variable that carries the initial error handler to the library.
pub const INITIAL_ERRHANDLER: &str = "WEFT_INITIAL_ERRHANDLER";

/// Returns the variable for the value of `-initial-errhandler` (MPI-4.1 section 11.5).
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

/// Checks the value of `-memory-alloc-kinds` (MPI-4.1 section 11.4.3): kinds with restrictors after
/// colons. The library always provides all kinds that it supports, so the value is not passed on.
fn memory_kinds(list: &OsStr) -> Result<(), String> {
    let text = list.to_string_lossy();
    let is_word = |word: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        !word.is_empty() && word.bytes().all(good)
    };
    // An empty list is valid.
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
    // Instant overflows beyond some limit; 1e11 seconds are three thousand years.
    match number.map(|s| Duration::try_from_secs_f64(s.min(1e11))) {
        Some(Ok(limit)) => Ok(Some(limit).filter(|limit| !limit.is_zero())),
        _ => Err(format!(
            "{what} is '{text}'; it must be a number of seconds, 0 or more"
        )),
    }
}

/// Checks the `%` sequences of a pattern for file names or labels.
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
