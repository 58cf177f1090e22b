//! Detects the launcher from the environment.

use std::ffi::OsString;

use crate::PmiError;

/// How a process was launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// A socket to the launcher was inherited (`PMI_FD`).
    Socket {
        /// The file descriptor's number.
        fd: i32,
        /// This process's rank in its job.
        rank: u32,
        /// Processes in the job.
        size: u32,
        /// Protocol version to propose.
        version: Version,
        /// The job's name (`PMI_JOBID`), which PMI-2 needs.
        job: Option<String>,
        /// Whether there is also a PMIx server, in case the socket belongs to another launcher.
        or_pmix: bool,
    },
    /// The launcher listens on a port (`PMI_PORT`, `PMI_ID`) and sends rank and size on request.
    Port {
        /// Host and port, `host:port`.
        address: String,
        /// The id by which this process introduces itself.
        id: u32,
    },
    /// A PMIx server launched this process (`PMIX_NAMESPACE`, `PMIX_RANK`, `PMIX_SERVER_URI…`).
    Pmix,
    /// There is no launcher: rank 0 of 1.
    Alone,
}

/// The protocol over a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// PMI-1.
    One,
    /// PMI-2, or PMI-1 if the launcher lacks it.
    Two,
}

/// A value other than empty, `0`, `no`, `off` or `false` makes the process run alone.
const ALONE: &str = "WEFT_SINGLETON";

/// Selects the protocol.
const FORCED: &str = "WEFT_PMI";

const WHAT_TO_DO: &str = "Start the program with Weft's or Hydra's mpiexec (MPICH's launcher), \
     under Slurm with 'srun --mpi=pmi2' or 'srun --mpi=pmix', or with PRRTE's prterun; if it is \
     meant to run alone, as rank 0 of 1, set WEFT_SINGLETON=1";

/// Variables by which a PMIx server announces itself, by version.
const PMIX_SERVER: &[&str] = &[
    "PMIX_SERVER_URI",
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI41",
];

/// Detects how this process was launched. `variable` looks up an environment variable.
///
/// # Errors
/// Traces of an unsupported launcher are an error, never a silent singleton: each process of the
/// job would believe that it is rank 0 of 1.
pub fn detect(variable: impl Fn(&str) -> Option<OsString>) -> Result<Launch, PmiError> {
    let look = |name: &str| {
        variable(name)
            .map(|value| value.to_string_lossy().trim().to_owned())
            .filter(|value| !value.is_empty())
    };
    let off = ["0", "no", "off", "false"];
    if look(ALONE).is_some_and(|value| !off.contains(&value.as_str())) {
        return Ok(Launch::Alone);
    }
    let forced = look(FORCED).filter(|value| value != "auto");
    let (mut pmi, mut pmix) = (true, true);
    let mut version = None;
    match forced.as_deref() {
        None => {}
        Some("none") => return Ok(Launch::Alone),
        Some("pmi1") => (pmix, version) = (false, Some(Version::One)),
        Some("pmi2") => (pmix, version) = (false, Some(Version::Two)),
        Some("pmix") => pmi = false,
        Some(other) => {
            return Err(PmiError::Environment(format!(
                "{FORCED} is '{other}'; it can be auto, pmi1, pmi2, pmix or none"
            )));
        }
    }
    let server = PMIX_SERVER.iter().any(|name| look(name).is_some());
    let is_pmix = pmix && server && look("PMIX_NAMESPACE").is_some() && look("PMIX_RANK").is_some();
    if let Some(fd) = look("PMI_FD").filter(|_| pmi) {
        let job = look("PMI_JOBID");
        // Slurm, whose PMI-2 is complete, sets a job's name; others support PMI-1 at least as well.
        let usual = match &job {
            Some(_) => Version::Two,
            None => Version::One,
        };
        return socket(&fd, &look, version.unwrap_or(usual), job, is_pmix);
    }
    if let Some(address) = look("PMI_PORT").filter(|_| pmi) {
        let id = needed(&look, "PMI_ID", "PMI_PORT", &address)?;
        if address.rsplit_once(':').is_none() {
            return Err(PmiError::Environment(format!(
                "PMI_PORT is '{address}'; it must be host:port. {WHAT_TO_DO}"
            )));
        }
        return Ok(Launch::Port { address, id });
    }
    if is_pmix {
        return Ok(Launch::Pmix);
    }
    if let Some(forced) = forced {
        let missing = match forced.as_str() {
            "pmix" => "PMIX_NAMESPACE, PMIX_RANK and PMIX_SERVER_URI… are",
            _ => "PMI_FD or PMI_PORT is",
        };
        return Err(PmiError::Environment(format!(
            "{FORCED} is {forced}, but no launcher that speaks it started this process: not all \
             that it sets, {missing} there. {WHAT_TO_DO}"
        )));
    }
    match foreign(&look) {
        Some(seen) => Err(PmiError::Environment(format!(
            "this process was started by an unsupported launcher: {seen} is set, but neither \
             PMI_FD nor PMI_PORT nor all variables of a PMIx server are. {WHAT_TO_DO}"
        ))),
        None => Ok(Launch::Alone),
    }
}

fn socket(
    fd: &str,
    look: &impl Fn(&str) -> Option<String>,
    version: Version,
    job: Option<String>,
    or_pmix: bool,
) -> Result<Launch, PmiError> {
    let number = fd.parse().ok().filter(|&n: &i32| n >= 0).ok_or_else(|| {
        PmiError::Environment(format!(
            "PMI_FD is '{fd}'; it must be the number of a file descriptor. {WHAT_TO_DO}"
        ))
    })?;
    let rank: u32 = needed(look, "PMI_RANK", "PMI_FD", fd)?;
    let size: u32 = needed(look, "PMI_SIZE", "PMI_FD", fd)?;
    if rank >= size {
        return Err(PmiError::Environment(format!(
            "PMI_RANK is {rank} and PMI_SIZE is {size}; the rank must be below the size. \
             {WHAT_TO_DO}"
        )));
    }
    Ok(Launch::Socket {
        fd: number,
        rank,
        size,
        version,
        job,
        or_pmix,
    })
}

fn needed(
    look: &impl Fn(&str) -> Option<String>,
    name: &str,
    because: &str,
    value: &str,
) -> Result<u32, PmiError> {
    let text = look(name).ok_or_else(|| {
        PmiError::Environment(format!(
            "{because}={value} is set but {name} is not; the launcher must set both. {WHAT_TO_DO}"
        ))
    })?;
    text.parse().map_err(|_| {
        PmiError::Environment(format!(
            "{name} is '{text}'; it must be a number from 0 up. {WHAT_TO_DO}"
        ))
    })
}

/// Returns the traces of an unsupported launcher, if there are any.
fn foreign(look: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let shown = |name: &str| look(name).map(|value| format!("{name}={value}"));
    let many = |name: &str| {
        let value = look(name)?;
        let more_than_one = value.parse::<u64>().is_ok_and(|n| n > 1);
        more_than_one.then(|| format!("{name}={value}"))
    };

    // Settings of PMIx (PMIX_MCA_…) may be in a user's profile; these variables come from a server
    // only.
    let mut pmix = ["PMIX_NAMESPACE", "PMIX_RANK"].iter().chain(PMIX_SERVER);
    if let Some(seen) = pmix.find_map(|name| shown(name)) {
        return Some(format!("{seen} (a PMIx server)"));
    }
    if let Some(seen) = many("OMPI_COMM_WORLD_SIZE") {
        return Some(format!("{seen} (Open MPI's launcher)"));
    }
    if let Some(seen) = many("PMI_SIZE") {
        return Some(format!("{seen} (a PMI launcher without its socket)"));
    }
    let rank = shown("SLURM_PROCID")?;
    // The step's own count takes precedence: `srun -n1` within a larger allocation.
    let tasks = match look("SLURM_STEP_NUM_TASKS") {
        Some(_) => many("SLURM_STEP_NUM_TASKS"),
        // A batch script is process 0 and has no step: a program that it starts directly is one
        // process.
        None if look("SLURM_PROCID")? == "0" && look("SLURM_STEP_ID").is_none() => None,
        None => many("SLURM_NTASKS").or_else(|| many("SLURM_NPROCS")),
    }?;
    Some(format!("{tasks} and {rank} (Slurm)"))
}

/// Returns the path of the library `name` that the launcher itself uses, if that is visible: client
/// and server of the same version are the most compatible. Shells and other programs may be between
/// the launcher and this process.
pub(crate) fn launchers_library(name: &str) -> Option<String> {
    let mut process = std::os::unix::process::parent_id();
    for _ in 0..4 {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let found = maps
            .lines()
            .filter_map(|line| Some(&line[line.find('/')?..]))
            .find(|path| is_library(path, name));
        if let Some(path) = found {
            return Some(path.to_owned());
        }
        // `pid (name) state parent …`; the name may contain anything.
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        process = parent.parse().ok().filter(|&pid| pid > 1)?;
    }
    None
}

/// Returns whether a file is the library `name`, perhaps followed by further numbers.
fn is_library(path: &str, name: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    let rest = file.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Launch, String> {
        detect(|name| {
            let found = variables.iter().find(|v| v.0 == name)?;
            Some(OsString::from(found.1))
        })
        .map_err(|e| e.to_string())
    }

    #[test]
    fn finds_the_launcher() {
        assert_eq!(with(&[]), Ok(Launch::Alone));
        let socket = [("PMI_FD", "7"), ("PMI_RANK", "1"), ("PMI_SIZE", "4")];
        assert_eq!(
            with(&socket),
            Ok(Launch::Socket {
                fd: 7,
                rank: 1,
                size: 4,
                version: Version::One,
                job: None,
                or_pmix: false,
            })
        );
        let of_slurm = [&socket[..], &[("PMI_JOBID", "3.0")]].concat();
        let of_slurm = with(&of_slurm).unwrap();
        assert!(
            matches!(&of_slurm, Launch::Socket { version: Version::Two, job: Some(job), .. } if job == "3.0")
        );
        let pmix = [
            ("PMIX_NAMESPACE", "a@1"),
            ("PMIX_RANK", "0"),
            ("PMIX_SERVER_URI41", "a;tcp4://127.0.0.1:1"),
        ];
        assert_eq!(with(&pmix), Ok(Launch::Pmix));
        let both = [&socket[..], &pmix].concat();
        assert!(matches!(
            with(&both),
            Ok(Launch::Socket { or_pmix: true, .. })
        ));
        let forced = [&both[..], &[("WEFT_PMI", "pmix")]].concat();
        assert_eq!(with(&forced), Ok(Launch::Pmix));
        let forced = [&both[..], &[("WEFT_PMI", "none")]].concat();
        assert_eq!(with(&forced), Ok(Launch::Alone));
        assert_eq!(
            with(&[("PMI_PORT", "n1:99"), ("PMI_ID", "3")]),
            Ok(Launch::Port {
                address: "n1:99".into(),
                id: 3
            })
        );
        let alone = [("PMI_FD", "7"), ("WEFT_SINGLETON", "1")];
        assert_eq!(with(&alone), Ok(Launch::Alone));
    }

    #[test]
    fn libraries_are_known_by_their_names() {
        for (path, is) in [
            ("/usr/lib/libpmix.so.2", true),
            ("/usr/lib/libpmix.so.2.6.2", true),
            ("/usr/lib/libpmix.so.20", false),
            ("/usr/lib/libpmix.so.2 (deleted)", false),
            ("/usr/lib/xlibpmix.so.2", false),
            ("", false),
        ] {
            assert_eq!(is_library(path, "libpmix.so.2"), is, "{path}");
        }
    }

    #[test]
    fn harmless_traces_leave_a_singleton() {
        for variables in [
            &[("PMIX_MCA_gds", "hash")][..],
            &[("OMPI_COMM_WORLD_SIZE", "1")],
            &[("SLURM_NTASKS", "8")],
            &[("SLURM_NTASKS", "1"), ("SLURM_PROCID", "0")],
            &[("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")],
            &[
                ("SLURM_NTASKS", "8"),
                ("SLURM_PROCID", "0"),
                ("SLURM_STEP_NUM_TASKS", "1"),
            ],
            &[("PMI_FD", "")],
        ] {
            assert_eq!(with(variables), Ok(Launch::Alone), "{variables:?}");
        }
    }

    #[test]
    fn launchers_without_pmi_are_named() {
        for (variables, seen) in [
            (
                &[("SLURM_NTASKS", "8"), ("SLURM_PROCID", "3")][..],
                "SLURM_NTASKS=8 and SLURM_PROCID=3",
            ),
            (
                &[
                    ("SLURM_NTASKS", "8"),
                    ("SLURM_PROCID", "0"),
                    ("SLURM_STEP_ID", "0"),
                ],
                "SLURM_NTASKS=8 and SLURM_PROCID=0",
            ),
            (&[("PMIX_RANK", "0")], "PMIX_RANK=0"),
            (&[("OMPI_COMM_WORLD_SIZE", "2")], "OMPI_COMM_WORLD_SIZE=2"),
            (&[("PMI_SIZE", "2")], "PMI_SIZE=2"),
        ] {
            let error = with(variables).unwrap_err();
            assert!(error.contains(seen), "{error}");
            assert!(error.contains("srun --mpi=pmi2"), "{error}");
        }
    }

    #[test]
    fn contradictions_are_named() {
        for (variables, part) in [
            (&[("PMI_FD", "x")][..], "PMI_FD is 'x'"),
            (&[("PMI_FD", "-1")], "PMI_FD is '-1'"),
            (&[("PMI_FD", "7")], "PMI_RANK is not"),
            (
                &[("PMI_FD", "7"), ("PMI_RANK", "4"), ("PMI_SIZE", "4")],
                "PMI_RANK is 4 and PMI_SIZE is 4",
            ),
            (&[("PMI_PORT", "n1:99")], "PMI_ID is not"),
            (&[("PMI_PORT", "99"), ("PMI_ID", "0")], "PMI_PORT is '99'"),
            (&[("WEFT_PMI", "pmi3")], "WEFT_PMI is 'pmi3'"),
            (&[("WEFT_PMI", "pmi2")], "PMI_FD or PMI_PORT is"),
            (
                &[("WEFT_PMI", "pmix"), ("PMIX_RANK", "0")],
                "PMIX_NAMESPACE, PMIX_RANK and",
            ),
        ] {
            let error = with(variables).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
