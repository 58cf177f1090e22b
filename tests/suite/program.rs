//! A test program and the comment at its head.
//!
//! The comment has lines `key: value`, and others for people:
//!
//! ```text
//! /* What this is about.
//!  * ranks: 1 2 4                 how many ranks, a run each (default 2)
//!  * variants: shm ofi            default shm, shm-2copy and tcp; see `Variant`. What names ofi or
//!  *                              hosts runs over tcp and tcp-hosts, too; all run over ofi with
//!  *                              WEFT_TEST_OFI=1.
//!  *                              Over UCX a few run by themselves, all with WEFT_TEST_UCX=1; over
//!  *                              RDMA devices likewise, all with WEFT_TEST_ALL_VERBS=1
//!  * local: attributes            what it is about, which no transport changes: runs over shm only
//!  * env: NAME=VALUE              for the ranks
//!  * launcher: -option            for our launcher
//!  * timeout: 20                  seconds
//!  * throws: yes                  exceptions pass through the library, which is built not to unwind by itself:
//!  *                              `cargo xtask test` runs it with the optimized libraries
//!  * waits: yes                   waits for most of its time, and looks how long: only others that do run at the
//!  *                              same time
//!  * alone: yes                   nothing else runs at the same time
//!  * idle: yes                    its ranks compute nothing for most of its time: runs beside as many others as
//!  *                              run without it
//!  * needs: NAME                  of the machine, a name of weft-needs
//!  * cflags: -pthread
//!  * compiler: mpicc.mpich        compiled by this instead of our mpicc, against its library
//!  * build: NAME FLAGS…           built with these flags, tests of its own named file-NAME; among the
//!  *                              flags may be `compiler=mpif90.mpich`, and `library=companion` to
//!  *                              put our libmpi, but not our libmpifort, in its library's place
//!  * with: FILE                   a source in C that belongs to it
//!  * case: NAME                   run with this argument, a test of its own; what follows is for
//!  *                              this case, what came before for all
//!  * preload: FILE.c              of tests/c/tools, comes before the library by LD_PRELOAD
//!  * exit: 3                      exit code (default 0)
//!  * stdout: text                 this is printed; without such lines nothing may be
//!  * stderr: text
//!  * ends: 1.5                    seconds to the end of the job, from the moment that the program
//!  *                              tells on stdout: "at 1700000000.123" (since 1970)
//!  */
//! ```
//!
//! In Fortran it is the comment lines, beginning with `!`, at the head of the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use weft_needs::Need;

use crate::company::Company;
use crate::job::Variant;
use crate::{Result, prefix};

/// Flags of compilers that need something.
const FLAGS: &[(&str, &Need)] = &[
    ("-fc=gfortran-11", &weft_needs::OLD_FORTRAN),
    ("-lhdf5_mpich", &weft_needs::HDF5),
];

/// A test program.
pub struct Program {
    /// Name of the source file without its ending.
    pub name: String,
    source: PathBuf,
    pub ranks: Vec<usize>,
    pub variants: Vec<Variant>,
    pub env: Vec<(String, String)>,
    pub launcher: Vec<String>,
    /// Seconds.
    pub timeout: f64,
    pub company: Company,
    needs: Vec<&'static Need>,
    pub throws: bool,
    cflags: Vec<String>,
    compiler: Option<String>,
    builds: Vec<(String, Vec<String>)>,
    companion: bool,
    with: Option<String>,
    /// At least one.
    pub cases: Vec<Case>,
    binary: OnceLock<Result<PathBuf>>,
}

/// What a program is called with, and what is expected of it.
#[derive(Clone, Default)]
pub struct Case {
    pub name: Option<String>,
    pub exit: i32,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
    /// Seconds.
    pub ends: Option<f64>,
    /// A source file of `tests/c/tools`.
    pub preload: Option<String>,
}

impl Program {
    /// The programs in a folder, by name.
    pub fn all(dir: &Path) -> Result<Vec<Program>> {
        let failed = |error| format!("{}: {error}", dir.display());
        let mut sources = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path
                .extension()
                .is_some_and(|ending| ["c", "cpp", "f90", "F90"].iter().any(|one| ending == *one))
            {
                sources.push(path);
            }
        }
        sources.sort();
        let mut programs = Vec::new();
        for source in sources {
            programs.extend(Program::read(&source)?);
        }
        Ok(programs)
    }

    /// The programs that a source gives.
    fn read(source: &Path) -> Result<Vec<Program>> {
        let text =
            fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?;
        let name = source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut program = Program {
            name,
            source: source.to_owned(),
            ranks: vec![2],
            variants: vec![Variant::Shm, Variant::ShmTwoCopy, Variant::Tcp],
            env: Vec::new(),
            launcher: Vec::new(),
            timeout: 20.0,
            company: Company::Any,
            needs: Vec::new(),
            throws: false,
            cflags: Vec::new(),
            compiler: None,
            builds: Vec::new(),
            companion: false,
            with: None,
            cases: Vec::new(),
            binary: OnceLock::new(),
        };
        let mut common = Case::default();
        let comment: Vec<&str> = if program.is_fortran() {
            let lines = text.lines().map_while(|line| line.strip_prefix('!'));
            lines.collect()
        } else {
            let comment = text
                .trim_start()
                .strip_prefix("/*")
                .and_then(|rest| rest.split_once("*/"));
            comment.map_or(Vec::new(), |(comment, _)| comment.lines().collect())
        };
        if comment.is_empty() {
            return Err(format!(
                "{} does not begin with a comment",
                source.display()
            ));
        }
        for line in comment {
            let line = line.trim().trim_start_matches('*').trim_start();
            let Some((key, value)) = directive(line) else {
                continue;
            };
            program
                .apply(key, value, &mut common)
                .map_err(|error| format!("{}: {key}: {value}: {error}", source.display()))?;
        }
        if program.cases.is_empty() {
            program.cases.push(common);
        }
        // What runs over libfabric by name runs over our own sockets, too.
        let twins = [
            (Variant::Ofi, Variant::Tcp, None),
            (Variant::Hosts, Variant::TcpHosts, None),
            (Variant::Tcp, Variant::Ofi, Some("WEFT_TEST_OFI")),
            (Variant::Tcp, Variant::Ucx, Some("WEFT_TEST_UCX")),
            (Variant::Hosts, Variant::UcxHosts, Some("WEFT_TEST_UCX")),
            (Variant::Tcp, Variant::Verbs, Some("WEFT_TEST_ALL_VERBS")),
            (Variant::Tcp, Variant::OfiVerbs, Some("WEFT_TEST_ALL_VERBS")),
            (Variant::Tcp, Variant::UcxVerbs, Some("WEFT_TEST_ALL_VERBS")),
            (
                Variant::Hosts,
                Variant::VerbsHosts,
                Some("WEFT_TEST_ALL_VERBS"),
            ),
        ];
        for (one, twin, variable) in twins {
            let wanted = program.variants.contains(&one) && !program.variants.contains(&twin);
            if wanted && variable.is_none_or(|name| std::env::var_os(name).is_some()) {
                program.variants.push(twin);
            }
        }
        let builds = std::mem::take(&mut program.builds);
        if builds.is_empty() {
            return Ok(vec![program]);
        }
        Ok(builds
            .into_iter()
            .map(|(name, flags)| program.build(&name, &flags))
            .collect())
    }

    /// Returns the program as built with other flags.
    pub fn build(&self, name: &str, flags: &[String]) -> Program {
        let mut program = Program {
            name: format!("{}-{name}", self.name),
            source: self.source.clone(),
            ranks: self.ranks.clone(),
            variants: self.variants.clone(),
            env: self.env.clone(),
            timeout: self.timeout,
            company: self.company,
            needs: self.needs.clone(),
            throws: self.throws,
            launcher: self.launcher.clone(),
            cflags: self.cflags.clone(),
            compiler: self.compiler.clone(),
            builds: Vec::new(),
            companion: self.companion,
            with: self.with.clone(),
            cases: self.cases.clone(),
            binary: OnceLock::new(),
        };
        for flag in flags {
            match flag.split_once('=') {
                Some(("compiler", compiler)) => program.compiler = Some(compiler.into()),
                Some(("library", "companion")) => program.companion = true,
                _ => program.cflags.push(flag.clone()),
            }
        }
        program
    }

    /// Whether it is in Fortran.
    pub fn is_fortran(&self) -> bool {
        let ending = self.source.extension().unwrap_or_default();
        ending == "f90" || ending == "F90"
    }

    fn is_cxx(&self) -> bool {
        self.source
            .extension()
            .is_some_and(|ending| ending == "cpp")
    }

    fn apply(&mut self, key: &str, value: &str, common: &mut Case) -> Result {
        let words = value.split_whitespace();
        match key {
            "ranks" => self.ranks = words.map(number).collect::<Result<_>>()?,
            "local" if !value.is_empty() => self.variants = vec![Variant::Shm],
            "variants" => self.variants = words.map(Variant::named).collect::<Result<_>>()?,
            "env" => {
                let (name, value) = value.split_once('=').ok_or("not NAME=VALUE")?;
                self.env.push((name.into(), value.into()));
            }
            "timeout" => self.timeout = number(value)?,
            "waits" if value == "yes" => self.company = Company::Waiting,
            "idle" if value == "yes" => self.company = Company::Idle,
            "alone" if value == "yes" => self.company = Company::None,
            "needs" => {
                let need = weft_needs::ALL.iter().find(|need| need.name == value);
                self.needs.push(need.ok_or("not a name of weft-needs")?);
            }
            "throws" => self.throws = value == "yes",
            "launcher" => self.launcher.extend(words.map(String::from)),
            "cflags" => self.cflags.extend(words.map(String::from)),
            "compiler" => self.compiler = Some(value.into()),
            "with" => self.with = Some(value.into()),
            "build" => {
                let mut words = words.map(String::from);
                let name = words.next().ok_or("no name")?;
                self.builds.push((name, words.collect()));
            }
            "case" => {
                let case = Case {
                    name: Some(value.into()),
                    ..common.clone()
                };
                self.cases.push(case);
            }
            _ => {
                let case = self.cases.last_mut().unwrap_or(common);
                match key {
                    "preload" => case.preload = Some(value.into()),
                    "exit" => case.exit = number(value)?,
                    "stdout" => case.stdout.push(value.into()),
                    "stderr" => case.stderr.push(value.into()),
                    "ends" => case.ends = Some(number(value)?),
                    _ => return Err("unknown key".into()),
                }
            }
        }
        Ok(())
    }

    /// What it needs to be compiled.
    pub fn needs(&self) -> Vec<&'static Need> {
        let fortran = self.is_fortran().then_some(&weft_needs::FORTRAN);
        let cxx = self.is_cxx().then_some(&weft_needs::CXX);
        let has_flag = |(flag, _): &&(&str, _)| self.cflags.iter().any(|one| one == flag);
        let by_flag = FLAGS.iter().filter(has_flag).map(|(_, need)| *need);
        let foreign = self.is_foreign().then(|| match self.is_openmpi() {
            true => &weft_needs::OPENMPI,
            false => &weft_needs::MPICH,
        });
        let named = self.needs.iter().copied();
        let needs = fortran.into_iter().chain(cxx).chain(foreign);
        needs.chain(by_flag).chain(named).collect()
    }

    /// Whether the program was compiled against another library, in whose place ours is put.
    pub fn is_foreign(&self) -> bool {
        self.compiler.is_some()
    }

    /// Whether it was compiled against Open MPI. Our launcher knows where our library for that is.
    pub fn is_openmpi(&self) -> bool {
        let compiler = self.compiler.as_deref();
        compiler.is_some_and(|compiler| compiler.ends_with(".openmpi"))
    }

    /// What a case wants preloaded, compiled with the program.
    pub fn preloaded(&self, prefix: &Path, case: &Case) -> Result<Option<PathBuf>> {
        match &case.preload {
            Some(name) => Ok(Some(
                programs(prefix)?.join(format!("lib{}-{name}.so", self.name)),
            )),
            None => Ok(None),
        }
    }

    /// The folder with the libraries that a program of another library's gets instead.
    pub fn libraries(&self, prefix: &Path) -> Result<PathBuf> {
        if self.is_openmpi() {
            return Ok(prefix.join("lib/weft/compat"));
        }
        if !self.companion {
            return Ok(prefix.join("lib"));
        }
        let dir = programs(prefix)?.join("without-companions");
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        for name in ["libmpi.so.12", "libmpich.so.12"] {
            let target = prefix.join("lib/libmpi.so.12");
            match std::os::unix::fs::symlink(target, dir.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(format!("{}: {error}", dir.join(name).display()));
                }
                _ => {}
            }
        }
        Ok(dir)
    }

    /// The compiled program; compiles it on the first call.
    pub fn binary(&self, prefix: &Path) -> Result<&Path> {
        let binary = self.binary.get_or_init(|| self.compile(prefix));
        binary.as_deref().map_err(String::clone)
    }

    fn compile(&self, prefix: &Path) -> Result<PathBuf> {
        let binary = programs(prefix)?.join(&self.name);
        if self.is_fortran() {
            return self.compile_fortran(prefix, binary);
        }
        let mut used = headers(self.source.parent().unwrap_or(Path::new(".")))?;
        used.push(self.source.clone());
        used.extend(
            ["mpi.h", "abi/mpi.h", "mpicxx.h"].map(|name| prefix.join("include").join(name)),
        );
        let used: Vec<&PathBuf> = used.iter().collect();
        let wrapper = if self.is_cxx() { "mpicxx" } else { "mpicc" };
        let compiler = match &self.compiler {
            Some(compiler) => PathBuf::from(compiler),
            None => prefix.join("bin").join(wrapper),
        };
        for case in &self.cases {
            let Some(library) = self.preloaded(prefix, case)? else {
                continue;
            };
            let name = case.preload.as_deref().unwrap_or_default();
            compile(
                Command::new(prefix.join("bin/mpicc"))
                    .args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
                    .arg(library)
                    .arg(self.source.with_file_name("tools").join(name)),
            )?;
        }
        if newer(&binary, &used) {
            return Ok(binary);
        }
        compile(
            Command::new(compiler)
                .args(["-Wall", "-Wextra", "-Werror", "-O1", "-g"])
                .args(&self.cflags)
                .arg("-o")
                .arg(&binary)
                .arg(&self.source)
                .arg("-lm"),
        )?;
        Ok(binary)
    }

    fn compile_fortran(&self, prefix: &Path, binary: PathBuf) -> Result<PathBuf> {
        let header = self.source.with_file_name("check.inc");
        let library = prefix.join("lib/libmpifort.so.12");
        let with = self
            .with
            .as_ref()
            .map(|name| self.source.with_file_name(name));
        let mut used = vec![&self.source, &header, &library];
        used.extend(&with);
        if newer(&binary, &used) {
            return Ok(binary);
        }
        let own = |name| prefix.join("bin").join(name);
        let (fortran, c) = match &self.compiler {
            Some(compiler) if self.is_openmpi() => (compiler.into(), "mpicc.openmpi".into()),
            Some(compiler) => (compiler.into(), PathBuf::from("mpicc.mpich")),
            None => (own("mpifort"), own("mpicc")),
        };
        // Modules of programs that are compiled at the same time must not mix.
        let modules = binary.with_extension("modules");
        fs::create_dir_all(&modules).map_err(|error| format!("{}: {error}", modules.display()))?;
        let object = modules.join("with.o");
        if let Some(with) = &with {
            let mut command = Command::new(c);
            let abi = self.cflags.iter().filter(|flag| flag.starts_with("-abi="));
            command.args(abi);
            compile(command.arg("-c").arg("-o").arg(&object).arg(with))?;
        }
        let mut command = Command::new(fortran);
        command
            .args(["-O1", "-g", "-fcheck=all", "-J"])
            .arg(&modules);
        command
            .args(&self.cflags)
            .arg("-o")
            .arg(&binary)
            .arg(&self.source);
        if with.is_some() {
            command.arg(&object);
        }
        compile(&mut command)?;
        Ok(binary)
    }
}

/// Where programs that use the Weft below `prefix` are built.
pub fn programs(prefix: &Path) -> Result<PathBuf> {
    let name = prefix.display().to_string().replace('/', "%");
    let dir = prefix::target()?.join("test-programs").join(name);
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(dir)
}

/// What the programs in a folder share.
fn headers(dir: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let paths = files.flatten().map(|file| file.path());
    Ok(paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "h"))
        .collect())
}

/// Runs a compiler; the error has its messages.
pub fn compile(command: &mut Command) -> Result {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?} can't be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} ended with {}:\n{text}", output.status))
}

/// Whether `made` is newer than everything of which it is made.
fn newer(made: &Path, sources: &[&PathBuf]) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
    let Ok(made) = time(made) else { return false };
    sources
        .iter()
        .all(|source| time(source).unwrap_or_else(|_| SystemTime::now()) < made)
}

/// `key: value` of a line whose beginning looks like a key.
fn directive(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase());
    is_key.then(|| (key, value.trim()))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse()
        .map_err(|_| format!("{text:?} is no number of this kind"))
}
