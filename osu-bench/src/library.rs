//! An MPI library under test: its folder, version, launcher and environment.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::find::{LIBRARY_NAMES, debian_tool, debian_usr, is_open_mpi, one_line, this_program};
use crate::loops::Loops;
use crate::{output, process};

/// Time limit for the version of a library or launcher.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// The prefix of the line of `osu-bench library` with the path of the opened file.
pub const FILE_LINE: &str = "file: ";

/// The family of a library, which determines its environment variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// MPICH over libfabric, or an unknown derivative.
    MpichOfi,
    /// MPICH over UCX only.
    MpichUcx,
    /// Intel MPI.
    Intel,
    /// Weft.
    Weft,
    /// Open MPI; its ABI differs, so the benchmarks are compiled C loops.
    OpenMpi,
}

/// A library with all that is needed to run a job.
#[derive(Clone, Debug)]
pub struct Library {
    /// The folder of `libmpi.so.12`.
    pub dir: PathBuf,
    /// The version text, on one line.
    pub version: String,
    /// The family.
    pub family: Family,
    /// The launcher.
    pub launcher: PathBuf,
    /// Whether the launcher is Intel MPI's, which binds ranks by default.
    pub launcher_binds: bool,
    /// Environment variables of its jobs.
    pub env: Vec<(String, OsString)>,
    /// The program of its jobs, if that can't be this one.
    pub loops: Option<Arc<Loops>>,
}

impl Library {
    /// Examines the library in `dir`. `launcher` overrides [`find_launcher`], and `extra` overrides
    /// environment variables that are set here.
    pub fn open(
        dir: &Path,
        launcher: Option<&Path>,
        tcp: bool,
        extra: &[(String, String)],
    ) -> Result<Self> {
        let dir = dir
            .canonicalize()
            .map_err(|error| Error::new(format!("{}: {error}", dir.display())))?;
        let is_there = |name: &&str| dir.join(name).exists();
        if !LIBRARY_NAMES.iter().any(is_there) && is_open_mpi(&dir) {
            return Self::open_mpi(dir, launcher, tcp, extra);
        }
        if !LIBRARY_NAMES.iter().any(is_there) {
            return Err(Error::new(format!(
                "{} holds neither libmpi.so.12 nor libmpich.so.12; give the folder of the \
                 library itself, usually PREFIX/lib",
                dir.display()
            )));
        }
        let launcher = match launcher {
            Some(path) => path.to_path_buf(),
            None => find_launcher(&dir)?,
        };
        let base = base_env(&dir);
        let version = ask_library(&dir, &merged(&base, extra))?;
        let mut env = base;
        let family = family(&version);
        env.extend(family_env(family, tcp));
        // A launcher of unknown kind gets Hydra's options.
        let launcher_binds =
            ask_launcher(&launcher, &env).is_ok_and(|answer| answer.contains("Intel(R) MPI"));
        let version = one_line(&version);
        Ok(Self {
            dir,
            version,
            family,
            launcher,
            launcher_binds,
            env: merged(&env, extra),
            loops: None,
        })
    }

    /// Examines Open MPI in `dir`, with its mpicc and mpiexec beside it.
    fn open_mpi(
        dir: PathBuf,
        launcher: Option<&Path>,
        tcp: bool,
        extra: &[(String, String)],
    ) -> Result<Self> {
        let given = launcher.map(Path::to_path_buf);
        let launcher = match given.or_else(|| debian_tool(&dir, "mpiexec.openmpi")) {
            Some(path) => path,
            None => find_launcher(&dir)?,
        };
        let mut env = base_env(&dir);
        env.extend(unpacked_env(&dir));
        env.extend(family_env(Family::OpenMpi, tcp));
        let env = merged(&env, extra);
        let answer = ask_launcher(&launcher, &env)?;
        let loops = Loops::compile(&dir, &env, tcp)?;
        Ok(Self {
            version: one_line(&answer),
            dir,
            family: Family::OpenMpi,
            launcher,
            launcher_binds: false,
            env,
            loops: Some(Arc::new(loops)),
        })
    }

    /// Returns the library's name in the first line of the output.
    pub fn label(&self) -> String {
        format!("{}, {}", self.version, self.dir.display())
    }

    /// Returns an error for `what`, which measures features of Weft only, under another library.
    pub fn must_be_weft(&self, what: &str) -> Result<()> {
        match self.family {
            Family::Weft => Ok(()),
            _ => Err(Error::new(format!(
                "{what} measures settings that only Weft has, and the library is {}; name Weft's \
                 folder with --lib",
                self.label()
            ))),
        }
    }

    /// Returns the start of a command line: `chrt` if requested, the launcher, and binding options
    /// if `ranks` have a core each. `-n`, the program and its arguments follow.
    pub fn launch(&self, ranks: usize, threads: usize, chrt: bool) -> Command {
        let mut command = process::prioritized(&self.launcher, chrt);
        if self.family == Family::OpenMpi {
            let how = match ranks <= cores() {
                true => ["--bind-to", "core"].as_slice(),
                false => &["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"],
            };
            command.args(how);
        } else if ranks <= cores() && !self.launcher_binds {
            // Each thread gets a core, if there are enough.
            let target = match threads > 1 && ranks * threads <= cores() {
                true => format!("core:{threads}"),
                false => "core".to_owned(),
            };
            command.arg("-bind-to").arg(target);
        } else if self.family == Family::Weft {
            // It binds by default if each rank has a core, even if its threads have none.
            command.args(["-bind-to", "none"]);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A library with its name in tables.
pub struct Side {
    pub name: String,
    pub library: Library,
}

impl Side {
    /// Opens the library of `NAME=DIR` or `NAME=DIR=MPIEXEC`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = text.splitn(3, '=');
        let (Some(name), Some(dir)) = (parts.next(), parts.next()) else {
            return Err(Error::new(format!(
                "'{text}' is not NAME=DIR, as in A=/opt/mpi/lib"
            )));
        };
        let launcher = parts.next().map(PathBuf::from);
        Ok(Self {
            name: name.to_owned(),
            library: Library::open(dir.as_ref(), launcher.as_deref(), false, &[])?,
        })
    }

    /// Prints name, version and launcher.
    pub fn say(&self) {
        let launcher = self.library.launcher.display();
        output::say(&format!(
            "{}: {}, {launcher}",
            self.name, self.library.version
        ));
    }
}

/// Parses `VARIABLE=VALUE`.
pub fn variable(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Error::new(format!(
            "'{text}' is not VARIABLE=VALUE, as in FI_PROVIDER=tcp"
        ))),
    }
}

/// Returns the cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Finds the launcher for a library: the one installed with it (`DIR/../bin`), else the one beside
/// this program, else the first `mpiexec.hydra` or `mpiexec` in `PATH`.
fn find_launcher(dir: &Path) -> Result<PathBuf> {
    let mut places = Vec::new();
    if let Some(prefix) = dir.parent() {
        places.push(prefix.join("bin/mpiexec"));
    }
    if let Some(beside) = this_program()?.parent() {
        places.push(beside.join("mpiexec"));
    }
    for name in ["mpiexec.hydra", "mpiexec"] {
        let path = env::var_os("PATH").unwrap_or_default();
        places.extend(env::split_paths(&path).map(|folder| folder.join(name)));
    }
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        Error::new(format!(
            "found no launcher for {}: neither ../bin/mpiexec, nor mpiexec beside osu-bench, nor \
             mpiexec.hydra or mpiexec in PATH; name one with --launcher",
            dir.display()
        ))
    })
}

/// Returns the environment of jobs: only the library's folder in `LD_LIBRARY_PATH` (Intel MPI has
/// some libraries one level below), and traffic on the loopback interface only.
fn base_env(dir: &Path) -> Vec<(String, OsString)> {
    let mut path = dir.as_os_str().to_owned();
    if dir.join("mpi").is_dir() {
        path.push(":");
        path.push(dir.join("mpi"));
    }
    let mut env = vec![("LD_LIBRARY_PATH".to_owned(), path)];
    if dir.join("libmpi_shm_heap_proxy.so").exists() {
        // Intel MPI's launcher and library find their files below I_MPI_ROOT.
        if let Some(root) = dir.parent() {
            env.push(("I_MPI_ROOT".to_owned(), root.into()));
        }
        env.push(("FI_PROVIDER_PATH".to_owned(), dir.into()));
    }
    let with =
        |names: [&str; 4], value: &str| names.map(|name| (name.to_owned(), OsString::from(value)));
    // Open MPI runs as root only with both variables.
    if is_open_mpi(dir) {
        env.extend(with(
            [
                "OMPI_ALLOW_RUN_AS_ROOT",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                "PRTE_ALLOW_RUN_AS_ROOT",
                "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM",
            ],
            "1",
        ));
    }
    let interfaces = [
        "UCX_NET_DEVICES",
        "FI_TCP_IFACE",
        "HYDRA_IFACE",
        "I_MPI_HYDRA_IFACE",
    ];
    env.extend(with(interfaces, "lo"));
    env
}

/// Returns the variables for Debian's Open MPI in unpacked, not installed packages.
fn unpacked_env(dir: &Path) -> Vec<(String, OsString)> {
    let Some(usr) = debian_usr(dir).filter(|usr| *usr != Path::new("/usr")) else {
        return Vec::new();
    };
    let root = usr.parent().unwrap_or(usr);
    let libraries = dir.ancestors().nth(2).unwrap_or(dir);
    let mut path = libraries.as_os_str().to_owned();
    path.push(":");
    path.push(dir);
    let folders = [
        ("OPAL_PREFIX", usr.into()),
        ("OPAL_LIBDIR", libraries.into()),
        ("OPAL_DATADIR", usr.join("share").into()),
        ("OPAL_PKGDATADIR", usr.join("share/openmpi").into()),
        ("OPAL_PKGLIBDIR", dir.join("openmpi3").into()),
        ("OPAL_SYSCONFDIR", root.join("etc/openmpi").into()),
        ("LD_LIBRARY_PATH", path),
    ];
    folders.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns the variables for shared memory, or for TCP between ranks of this machine.
fn family_env(family: Family, tcp: bool) -> Vec<(String, OsString)> {
    let pairs: &[(&str, &str)] = match (family, tcp) {
        (Family::Intel, false) => &[("I_MPI_FABRICS", "shm")],
        (Family::Intel, true) => &[
            ("I_MPI_FABRICS", "ofi"),
            ("FI_PROVIDER", "tcp"),
            // Otherwise collectives would still use shared memory.
            ("I_MPI_COLL_INTRANODE", "pt2pt"),
        ],
        (_, false) => &[],
        (Family::MpichUcx, true) => &[("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "tcp,self")],
        (Family::MpichOfi, true) => &[
            ("MPIR_CVAR_NOLOCAL", "1"),
            ("MPIR_CVAR_CH4_NETMOD", "ofi"),
            ("FI_PROVIDER", "tcp"),
        ],
        (Family::Weft, true) => &[("WEFT_SHM", "0")],
        (Family::OpenMpi, true) => &[
            ("OMPI_MCA_pml", "ob1"),
            ("OMPI_MCA_btl", "self,tcp"),
            ("OMPI_MCA_btl_tcp_if_include", "lo"),
            // Otherwise collectives would still use shared memory.
            ("OMPI_MCA_coll", "^sm,xhc,han,acoll"),
        ],
    };
    pairs
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.into()))
        .collect()
}

/// Returns `base` overridden by `extra`.
fn merged(base: &[(String, OsString)], extra: &[(String, String)]) -> Vec<(String, OsString)> {
    let is_kept = |(name, _): &&(String, OsString)| !extra.iter().any(|(other, _)| other == name);
    let kept = base.iter().filter(is_kept).cloned();
    kept.chain(
        extra
            .iter()
            .map(|(name, value)| (name.clone(), value.into())),
    )
    .collect()
}

/// Returns the family of a version text.
fn family(version: &str) -> Family {
    if version.contains("Weft") {
        Family::Weft
    } else if version.contains("Intel(R) MPI") {
        Family::Intel
    } else if version.contains("ch4:ucx") && !version.contains("ofi") {
        Family::MpichUcx
    } else {
        Family::MpichOfi
    }
}

/// Reads the library's version in a child process, and checks that the loader opens the file in
/// `dir`, since the comparison would be wrong with another one.
fn ask_library(dir: &Path, env: &[(String, OsString)]) -> Result<String> {
    let mut command = Command::new(this_program()?);
    command
        .arg("library")
        .envs(env.iter().map(|(name, value)| (name, value)));
    let what = format!("the library in {}", dir.display());
    let answer = process::successful(&mut command, VERSION_LIMIT, &what)?;
    let parts = answer
        .strip_prefix(FILE_LINE)
        .and_then(|rest| rest.split_once('\n'));
    let (file, version) = parts.ok_or_else(|| {
        Error::new("internal error: 'osu-bench library' did not print the file that it opened")
    })?;
    let opened = Path::new(file).canonicalize();
    let is_opened = |name: &&str| {
        let ours = dir.join(name).canonicalize();
        opened
            .as_ref()
            .is_ok_and(|opened| ours.is_ok_and(|ours| ours == *opened))
    };
    if !LIBRARY_NAMES.iter().any(is_opened) {
        return Err(Error::new(format!(
            "the loader takes {file} instead of the library in {}; look at LD_LIBRARY_PATH in \
             --env and at LD_PRELOAD",
            dir.display()
        )));
    }
    Ok(version.to_owned())
}

/// Returns what a launcher prints about itself.
fn ask_launcher(launcher: &Path, env: &[(String, OsString)]) -> Result<String> {
    let mut command = Command::new(launcher);
    command
        .arg("--version")
        .envs(env.iter().map(|(name, value)| (name, value)));
    process::run(&mut command, VERSION_LIMIT).map(|answer| answer.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_names() {
        let mpich = "MPICH Version:\t4.0.2\nMPICH Release date:\tx\nMPICH Device:\tch4:ucx\n";
        assert_eq!(family(mpich), Family::MpichUcx);
        assert_eq!(one_line(mpich), "MPICH 4.0.2 (ch4:ucx)");
        let both = mpich.replace("ch4:ucx", "ch4:ucx ofi");
        assert_eq!(family(&both), Family::MpichOfi);
        let intel = "Intel(R) MPI Library 2021.18 for Linux* OS\n";
        assert_eq!(family(intel), Family::Intel);
        assert_eq!(
            one_line(intel),
            "Intel(R) MPI Library 2021.18 for Linux* OS"
        );
        assert_eq!(family("Weft 0.1.0, an MPICH relative"), Family::Weft);
        assert_eq!(one_line(""), "");
    }

    #[test]
    fn given_variables_win() {
        let base = [("A".to_owned(), "1".into()), ("B".to_owned(), "2".into())];
        let env = merged(&base, &[("B".to_owned(), "3".to_owned())]);
        let expected = [("A", "1"), ("B", "3")];
        let expected = expected.map(|(name, value)| (name.to_owned(), OsString::from(value)));
        assert_eq!(env, expected);
    }

    #[test]
    fn tcp_leaves_no_shared_memory() {
        let intel = family_env(Family::Intel, true);
        assert!(intel.contains(&("I_MPI_FABRICS".to_owned(), "ofi".into())));
        assert!(family_env(Family::MpichOfi, false).is_empty());
        let weft = family_env(Family::Weft, true);
        assert_eq!(weft, [("WEFT_SHM".to_owned(), "0".into())]);
    }
}
