//! One rank: its process, its socket and its output.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::SystemTime;

use crate::affinity::Room;
use crate::cores::{self, Dumped};
use crate::options::Section;
use crate::output::{Outbox, Source};
use crate::program::Program;
use crate::system::{self, Ending, Pid, Setup, Signals};

/// A rank of the job.
pub struct Rank {
    /// Its process.
    pub pid: Pid,
    /// How it ended, if it did.
    pub ending: Option<Ending>,
    /// Our end of its PMI socket, until it closes the other.
    pub pmi: Option<UnixStream>,
    /// Answers that its socket had no room for.
    pub answers: Outbox,
    /// Its standard output and standard error, until they end.
    pub sources: [Option<Source>; 2],
    /// How many lines it had written to standard error when it was asked where it is.
    pub lines_before: usize,
    /// What its lines of output start with, if they are to be labelled.
    pub label: Option<Vec<u8>>,
    /// Where it was started.
    pub folder: PathBuf,
    /// When it was started.
    pub since: SystemTime,
    /// Its core file, if it has left one that was found.
    pub core: Option<PathBuf>,
}

/// What is needed to start a rank, besides its program.
pub struct Place<'a> {
    /// Its number.
    pub rank: usize,
    /// Whether its job was spawned by another.
    pub spawned: bool,
    /// Ranks in the job.
    pub size: usize,
    /// Its number among those on this machine, and how many these are.
    pub local: (usize, usize),
    /// The process group to join.
    pub group: Pid,
    /// What it gets of the machine.
    pub room: Room,
    /// What its lines of output start with, if they are to be labelled.
    pub label: Option<Vec<u8>>,
    /// Where its input comes from.
    pub stdin: Stdio,
    /// Where its output and error output go to, if not to us.
    pub files: [Option<std::fs::File>; 2],
    /// Signals that we block and it should not.
    pub signals: &'a Signals,
    /// The limit of open files that it should have, if ours differs.
    pub limit: Option<libc::rlimit>,
}

impl Rank {
    /// Starts a rank; its input comes along if it is piped.
    pub fn start(
        section: &Section,
        program: &Program,
        place: Place,
    ) -> io::Result<(Rank, Option<ChildStdin>)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;

        let variables = variables(&place, section.count, theirs.as_raw_fd());
        let [out, err] = place.files;
        let mut command = Command::new(&program.path);
        command
            .arg0(&section.command[0])
            .args(&section.command[1..])
            .env_clear()
            .envs(program.environment.iter().cloned())
            .envs(variables)
            .stdin(place.stdin)
            .stdout(out.map_or_else(Stdio::piped, Stdio::from))
            .stderr(err.map_or_else(Stdio::piped, Stdio::from))
            .process_group(place.group);
        if let Some(dir) = &section.wdir {
            command.current_dir(dir).env("PWD", dir);
        }
        let setup = Setup {
            inherit: vec![theirs.as_raw_fd()],
            cpus: place.room.cpus,
            memory: place.room.memory,
            files: place.limit,
        };
        system::prepare(&mut command, place.signals, setup);

        let folder = section.wdir.as_deref().unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
        let since = SystemTime::now();
        let mut child = command.spawn()?;
        let source = |pipe: Option<OwnedFd>| pipe.map(Source::new).transpose();
        let sources = [
            source(child.stdout.take().map(OwnedFd::from))?,
            source(child.stderr.take().map(OwnedFd::from))?,
        ];
        let rank = Rank {
            pid: Pid::try_from(child.id()).unwrap_or(0),
            ending: None,
            pmi: Some(ours),
            answers: Outbox::default(),
            sources,
            lines_before: 0,
            label: place.label,
            folder,
            since,
            core: None,
        };
        Ok((rank, child.stdin.take()))
    }

    /// It has ended: a core file of its gets its name, and the place is noted.
    pub fn note_core(&mut self, rank: usize, ending: Ending) {
        if let Ending::Signal { core: true, .. } = ending {
            self.core = cores::name(&Dumped {
                pid: self.pid,
                rank,
                folder: &self.folder,
                since: self.since,
            });
        }
    }

    /// How many lines it has written to standard error, as far as that comes to us.
    pub fn error_lines(&self) -> usize {
        self.sources[1].as_ref().map_or(0, Source::lines)
    }
}

/// The variables that tell a rank about itself. `together` ranks run its command.
fn variables(place: &Place, together: usize, socket: i32) -> [(&'static str, OsString); 10] {
    let text = |number: usize| OsString::from(number.to_string());
    [
        ("PMI_FD", OsString::from(socket.to_string())),
        ("PMI_RANK", text(place.rank)),
        ("PMI_SIZE", text(place.size)),
        ("PMI_SPAWNED", text(place.spawned.into())),
        ("MPI_LOCALNRANKS", text(place.local.1)),
        ("MPI_LOCALRANKID", text(place.local.0)),
        ("WEFT_LOCAL_SIZE", text(place.local.1)),
        ("WEFT_LOCAL_RANK", text(place.local.0)),
        ("WEFT_APP_SIZE", text(together)),
        // A rank that is bound to one core can't tell by itself whether others share it.
        ("WEFT_LOCAL_CORES", text(place.room.cores)),
    ]
}
