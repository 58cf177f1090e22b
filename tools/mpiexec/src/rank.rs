//! One rank: its process, its socket and its output.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::SystemTime;

use crate::affinity::CpuShare;
use crate::core_files::{self, Dumped};
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
    /// The launcher's end of its PMI socket, until the rank closes the other.
    pub pmi: Option<UnixStream>,
    /// Answers that did not fit into its socket's buffer.
    pub answers: Outbox,
    /// Its standard output and standard error, until they end.
    pub sources: [Option<Source>; 2],
    /// Lines on its standard error before it was asked for a wait report.
    pub lines_before: usize,
    /// The label of its lines of output.
    pub label: Option<Vec<u8>>,
    /// Its working directory at its start.
    pub folder: PathBuf,
    /// The time of its start.
    pub since: SystemTime,
    /// Its core file, if one was found.
    pub core: Option<PathBuf>,
}

/// The properties of a rank to start, besides its program.
pub struct RankSpec<'a> {
    /// Its rank in the job.
    pub rank: usize,
    /// Whether `MPI_Comm_spawn` started its job.
    pub spawned: bool,
    /// Ranks in the job.
    pub size: usize,
    /// Its rank among the ranks of this machine, and their number.
    pub local: (usize, usize),
    /// The process group to join.
    pub group: Pid,
    /// Its CPUs and memory policy.
    pub share: CpuShare,
    /// The label of its lines of output.
    pub label: Option<Vec<u8>>,
    /// Its standard input.
    pub stdin: Stdio,
    /// Files for its standard output and error, instead of pipes to the launcher.
    pub files: [Option<std::fs::File>; 2],
    /// Signals that the launcher blocks and the rank must not.
    pub signals: &'a Signals,
    /// The limit of open files to restore, if the launcher has raised its own.
    pub limit: Option<libc::rlimit>,
}

impl Rank {
    /// Starts a rank. Returns also its standard input, if that is a pipe.
    pub fn start(
        section: &Section,
        program: &Program,
        spec: RankSpec,
    ) -> io::Result<(Rank, Option<ChildStdin>)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;

        let variables = variables(&spec, section.count, theirs.as_raw_fd());
        let [out, err] = spec.files;
        let mut command = Command::new(&program.path);
        command
            .arg0(&section.command[0])
            .args(&section.command[1..])
            .env_clear()
            .envs(program.environment.iter().cloned())
            .envs(variables)
            .stdin(spec.stdin)
            .stdout(out.map_or_else(Stdio::piped, Stdio::from))
            .stderr(err.map_or_else(Stdio::piped, Stdio::from))
            .process_group(spec.group);
        if let Some(dir) = &section.wdir {
            command.current_dir(dir).env("PWD", dir);
        }
        let setup = Setup {
            inherit: vec![theirs.as_raw_fd()],
            cpus: spec.share.cpus,
            memory: spec.share.memory,
            files: spec.limit,
        };
        system::prepare(&mut command, spec.signals, setup);

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
            label: spec.label,
            folder,
            since,
            core: None,
        };
        Ok((rank, child.stdin.take()))
    }

    /// Renames and notes the core file of a rank that has ended.
    pub fn note_core(&mut self, rank: usize, ending: Ending) {
        if let Ending::Signal { core: true, .. } = ending {
            self.core = core_files::rename(&Dumped {
                pid: self.pid,
                rank,
                folder: &self.folder,
                since: self.since,
            });
        }
    }

    /// Returns the number of lines on its standard error; 0 if that is a file.
    pub fn error_lines(&self) -> usize {
        self.sources[1].as_ref().map_or(0, Source::lines)
    }
}

/// Returns the variables of a rank. `together` is the number of ranks in its section.
fn variables(spec: &RankSpec, together: usize, socket: i32) -> [(&'static str, OsString); 10] {
    let text = |number: usize| OsString::from(number.to_string());
    [
        ("PMI_FD", OsString::from(socket.to_string())),
        ("PMI_RANK", text(spec.rank)),
        ("PMI_SIZE", text(spec.size)),
        ("PMI_SPAWNED", text(spec.spawned.into())),
        ("MPI_LOCALNRANKS", text(spec.local.1)),
        ("MPI_LOCALRANKID", text(spec.local.0)),
        ("WEFT_LOCAL_SIZE", text(spec.local.1)),
        ("WEFT_LOCAL_RANK", text(spec.local.0)),
        ("WEFT_APP_SIZE", text(together)),
        // From its own affinity a rank can't see whether other ranks share its cores.
        ("WEFT_LOCAL_CORES", text(spec.share.cores)),
    ]
}
