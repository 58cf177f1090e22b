//! Installs Weft below a prefix, which may be moved afterwards.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use mpi_table::Table;

use crate::features::Features;
use crate::{Result, headers, workspace};

pub const WRAPPER: &str = include_str!("../files/mpicc");
pub const FORTRAN_WRAPPER: &str = include_str!("../files/mpifort");
const PKG_CONFIG: &str = include_str!("../files/mpi.pc");
const PKG_CONFIG_ABI: &str = include_str!("../files/mpi_abi.pc");
const VARIABLES: &str = include_str!("../files/mpivars.sh");
const VALGRIND: &str = include_str!("../files/valgrind.supp");
const GDB_QUEUES: &str = include_str!("../files/gdb_queues.py");
const MODULE: &str = include_str!("../files/modulefile");

/// Packages and programs that are installed if the source tree has them.
const PROGRAMS: &[(&str, &str)] = &[
    ("mpiexec", "mpiexec"),
    ("osu-bench", "osu-bench"),
    ("weft-info", "weft-info"),
    ("weft-top", "weft-top"),
];

/// Builds and installs below `prefix`; `dev` builds fast and without optimization.
pub fn run(prefix: &Path, dev: bool, features: &Features) -> Result {
    let prefix = made(prefix)?;
    run_as(&prefix, &prefix, dev, features)
}

/// Builds and installs below `prefix` a tree that will be moved to `final_prefix`.
pub fn run_as(prefix: &Path, final_prefix: &Path, dev: bool, features: &Features) -> Result {
    let built = build(dev, features)?;
    let tree = Tree {
        prefix: made(prefix)?,
    };

    tree.copy(&built.join("libmpi.so"), "lib/libmpi.so.12", 0o755)?;
    for name in ["libmpi.so", "libmpich.so.12", "libmpich.so"] {
        tree.link("libmpi.so.12", &format!("lib/{name}"))?;
    }
    tree.copy(&built.join("libmpi_abi.so"), "lib/libmpi_abi.so.1", 0o755)?;
    tree.link("libmpi_abi.so.1", "lib/libmpi_abi.so")?;
    tree.copy(
        &built.join("libmpi_ompi.so"),
        "lib/weft/compat/libmpi.so.40",
        0o755,
    )?;
    // For programs that open this name when they run; mpiexec's ranks look here first.
    tree.link("../../libmpi.so.12", "lib/weft/compat/libmpi.so")?;
    // The same file has the symbols of Open MPI's library for C++.
    tree.link("libmpi.so.40", "lib/weft/compat/libmpi_cxx.so.40")?;
    for tool in ["libweft_profile.so", "libweft_check.so", "libweft_mqs.so"] {
        tree.copy(&built.join(tool), &format!("lib/{tool}"), 0o755)?;
    }
    let table = features.table()?;
    for (name, text) in headers::files(&table) {
        tree.write(&text, &format!("include/{name}"), 0o644)?;
    }

    tree.write(WRAPPER, "bin/mpicc", 0o755)?;
    for name in ["mpicxx", "mpic++", "mpiCC", "mpicc_abi", "mpicxx_abi"] {
        tree.link("mpicc", &format!("bin/{name}"))?;
    }
    fortran(&tree, &built)?;
    cxx(&tree, &table)?;
    for (package, program) in PROGRAMS {
        if workspace::has_package(package) {
            tree.copy(&built.join(program), &format!("bin/{program}"), 0o755)?;
        }
    }
    if tree.path("bin/mpiexec").exists() {
        tree.link("mpiexec", "bin/mpirun")?;
    }
    if tree.path("bin/weft-info").exists() {
        tree.link("weft-info", "bin/mpichversion")?;
    }

    let text = PKG_CONFIG.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    for name in ["mpi", "weft", "mpich"] {
        tree.write(&text, &format!("lib/pkgconfig/{name}.pc"), 0o644)?;
    }
    let text = PKG_CONFIG_ABI.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    tree.write(&text, "lib/pkgconfig/mpi_abi.pc", 0o644)?;
    let text = VARIABLES.replace("@PREFIX@", &final_prefix.display().to_string());
    tree.write(&text, "bin/mpivars.sh", 0o644)?;
    tree.write(VALGRIND, "share/weft/valgrind.supp", 0o644)?;
    tree.write(GDB_QUEUES, "share/weft/gdb_queues.py", 0o644)?;
    let version = env!("CARGO_PKG_VERSION");
    let text = MODULE.replace("@VERSION@", version);
    tree.write(&text, &format!("share/modulefiles/weft/{version}"), 0o644)?;
    let pages = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
    ];
    for name in pages.into_iter().chain(["LICENSE-MIT", "LICENSE-APACHE"]) {
        let source = workspace::root().join(name);
        if source.exists() {
            tree.copy(&source, &format!("share/doc/weft/{name}"), 0o644)?;
        }
    }
    // The README links to these pages.
    documents(&tree, &workspace::root(), "docs")?;
    manuals(&tree, &table)?;
    completions(&tree)?;
    println!("xtask: Weft is in {}", tree.prefix.display());
    Ok(())
}

/// Installs the pages and pictures of a folder and its subfolders.
fn documents(tree: &Tree, root: &Path, folder: &str) -> Result {
    let dir = root.join(folder);
    let failed = |error| format!("{}: {error}", dir.display());
    for entry in fs::read_dir(&dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{folder}/{name}");
        if path.is_dir() {
            documents(tree, root, &name)?;
        } else if path
            .extension()
            .is_some_and(|ending| ending == "md" || ending == "svg")
        {
            tree.copy(&path, &format!("share/doc/weft/{name}"), 0o644)?;
        }
    }
    Ok(())
}

/// Installs a manual page for each function of MPI and for the programs.
fn manuals(tree: &Tree, table: &Table) -> Result {
    for (name, text) in mpi_table::man::pages(table) {
        tree.write(&text, &format!("share/man/man3/{name}"), 0o644)?;
    }
    for (page, names) in [
        (
            "mpicc.1",
            &[
                "mpicc",
                "mpicxx",
                "mpic++",
                "mpiCC",
                "mpicc_abi",
                "mpicxx_abi",
            ][..],
        ),
        (
            "mpifort.1",
            &["mpifort", "mpif90", "mpif77", "mpif08", "mpifort_abi"],
        ),
        ("mpiexec.1", &["mpiexec", "mpirun"]),
        ("weft-info.1", &["weft-info", "mpichversion"]),
        ("weft-top.1", &["weft-top"]),
        ("osu-bench.1", &["osu-bench"]),
    ] {
        let source = workspace::root().join("docs").join(page);
        for name in names {
            tree.copy(&source, &format!("share/man/man1/{name}.1"), 0o644)?;
        }
    }
    Ok(())
}

/// Installs the shells' completions of mpiexec's options.
fn completions(tree: &Tree) -> Result {
    let program = tree.path("bin/mpiexec");
    if !program.exists() {
        return Ok(());
    }
    for (shell, files) in [
        (
            "bash",
            &[
                "bash-completion/completions/mpiexec",
                "bash-completion/completions/mpirun",
            ][..],
        ),
        ("zsh", &["zsh/site-functions/_mpiexec"]),
        ("fish", &["fish/vendor_completions.d/mpiexec.fish"]),
    ] {
        let output = Command::new(&program)
            .args(["-completion", shell])
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        for file in files {
            tree.write(&text, &format!("share/{file}"), 0o644)?;
        }
    }
    Ok(())
}

/// Makes a folder and returns its absolute path.
pub fn made(path: &Path) -> Result<PathBuf> {
    fs::create_dir_all(path)
        .and_then(|()| fs::canonicalize(path))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Installs the Fortran bindings. Modules are compiled for gfortran if it is installed; for other
/// compilers `mpifort` compiles them at first use.
fn fortran(tree: &Tree, built: &Path) -> Result {
    tree.copy(&built.join("libmpifort.so"), "lib/libmpifort.so.12", 0o755)?;
    for name in ["libmpifort.so", "libmpichfort.so.12", "libmpichfort.so"] {
        tree.link("libmpifort.so.12", &format!("lib/{name}"))?;
    }
    tree.write(FORTRAN_WRAPPER, "bin/mpifort", 0o755)?;
    for name in ["mpif90", "mpif77", "mpif08", "mpifort_abi"] {
        tree.link("mpifort", &format!("bin/{name}"))?;
    }
    let standard = "libmpifort_abi.so";
    tree.copy(&built.join(standard), "lib/libmpifort_abi.so.1", 0o755)?;
    tree.link("libmpifort_abi.so.1", &format!("lib/{standard}"))?;
    // One library has all bindings; the other names that programs link by are links to it.
    let own = "lib/weft/compat/libmpi_mpifh.so.40";
    tree.copy(&built.join("libmpifort_ompi.so"), own, 0o755)?;
    for module in ["usempif08", "usempi_ignore_tkr"] {
        let name = format!("lib/weft/compat/libmpi_{module}.so.40");
        tree.link("libmpi_mpifh.so.40", &name)?;
    }
    if is_there("gfortran") {
        for name in ["mpifort", "mpifort_abi"] {
            workspace::run(
                Command::new(tree.path(&format!("bin/{name}"))).args(["-fc=gfortran", "-modules"]),
                "compiling the Fortran modules for gfortran",
            )?;
        }
    }
    Ok(())
}

/// Installs the header of MPI-2.2's C++ bindings, and their library if a C++ compiler is installed.
fn cxx(tree: &Tree, table: &Table) -> Result {
    let root = workspace::root();
    tree.copy(&root.join("include/mpicxx.h"), "include/mpicxx.h", 0o644)?;
    let compiler = std::env::var("WEFT_CXX").unwrap_or_else(|_| "c++".to_owned());
    if !is_there(&compiler) {
        println!(
            "xtask: {compiler} is not installed: made no library for the C++ bindings of MPI-2.2"
        );
        return Ok(());
    }
    let work = workspace::target()?.join(format!("mpicxx-{}", std::process::id()));
    let built = compile_cxx(tree, table, &root, &compiler, &work);
    let removed = fs::remove_dir_all(&work);
    built?;
    removed.map_err(|error| format!("{}: {error}", work.display()))?;
    for name in ["libmpicxx.so", "libmpichcxx.so.12", "libmpichcxx.so"] {
        tree.link("libmpicxx.so.12", &format!("lib/{name}"))?;
    }
    Ok(())
}

fn compile_cxx(tree: &Tree, table: &Table, root: &Path, compiler: &str, work: &Path) -> Result {
    let failed = |error: io::Error| format!("{}: {error}", work.display());
    fs::create_dir_all(work).map_err(failed)?;
    fs::write(work.join("missing.h"), table.missing_header()).map_err(failed)?;
    let folder = root.join("mpicxx");
    let mut sources: Vec<PathBuf> = fs::read_dir(&folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    sources.retain(|path| path.extension().is_some_and(|ending| ending == "cpp"));
    sources.sort();
    let read = |path: &PathBuf| {
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let by_hand = sources.iter().map(read).collect::<Result<String>>()?;
    let header = read(&root.join("include/mpicxx.h"))?;
    let generated = work.join("generated.cpp");
    fs::write(&generated, table.cxx(&header, &by_hand)).map_err(failed)?;
    sources.push(generated);

    let library = work.join("libmpicxx.so.12");
    workspace::run(
        Command::new(compiler)
            .args(["-std=c++11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared"])
            .arg("-Wl,-soname,libmpicxx.so.12,-rpath,$ORIGIN,-z,relro")
            .arg("-I")
            .arg(work)
            .arg("-I")
            .arg(&folder)
            .arg("-I")
            .arg(tree.path("include"))
            .arg("-o")
            .arg(&library)
            .args(sources)
            .arg("-L")
            .arg(tree.path("lib"))
            .arg("-lmpi"),
        "compiling the library for the C++ bindings of MPI-2.2",
    )?;
    tree.copy(&library, "lib/libmpicxx.so.12", 0o755)
}

/// Returns whether a compiler can be started.
fn is_there(compiler: &str) -> bool {
    Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Variable for the children of a run that has built the workspace: the development build is up to
/// date.
pub const BUILT: &str = "WEFT_TEST_BUILT";

/// Whether this process has built the workspace.
static IS_BUILT: AtomicBool = AtomicBool::new(false);

/// Notes that the development build is up to date, so that this process skips it from now on.
pub fn note_built() {
    IS_BUILT.store(true, Ordering::Relaxed);
}

/// Returns whether the development build of the workspace is up to date.
pub fn is_built() -> bool {
    IS_BUILT.load(Ordering::Relaxed) || std::env::var_os(BUILT).is_some()
}

/// Builds the installed packages and returns the folder of the results.
pub fn build(dev: bool, features: &Features) -> Result<PathBuf> {
    if dev && is_built() && !features.no_default_features {
        return Ok(workspace::target()?.join("debug"));
    }
    let mut command = workspace::cargo();
    command.args(["build", "--package", "libmpi", "--package", "libmpi-abi"]);
    command.args(["--package", "libmpi-ompi", "--package", "libmpifort-ompi"]);
    command.args(["--package", "mpifort", "--package", "libmpifort-abi"]);
    command.args(["--package", "weft-profile"]);
    command.args(["--package", "weft-check", "--package", "weft-mqs"]);
    for (package, _) in PROGRAMS {
        if workspace::has_package(package) {
            command.args(["--package", package]);
        } else {
            println!("xtask: {package} is not part of this source tree and is left out");
        }
    }
    features.pass(&mut command);
    if !dev {
        command.arg("--release");
    }
    let target = features.target()?;
    command.env("CARGO_TARGET_DIR", &target);
    workspace::run(&mut command, "building")?;
    Ok(target.join(if dev { "debug" } else { "release" }))
}

/// The tree below a prefix. Files are renamed into place, so running programs keep their older
/// library.
pub struct Tree {
    pub prefix: PathBuf,
}

impl Tree {
    fn path(&self, name: &str) -> PathBuf {
        self.prefix.join(name)
    }

    fn place(&self, name: &str, make: impl FnOnce(&Path) -> io::Result<()>) -> Result {
        let path = self.path(name);
        let aside = path.with_extension(format!("new-{}", std::process::id()));
        let done = || -> io::Result<()> {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            make(&aside)?;
            fs::rename(&aside, &path)
        };
        done().map_err(|error| {
            // The first error is reported.
            let _ = fs::remove_file(&aside);
            format!("{}: {error}", path.display())
        })
    }

    pub fn copy(&self, source: &Path, name: &str, mode: u32) -> Result {
        if !source.exists() {
            return Err(format!(
                "{} does not exist and can't be installed",
                source.display()
            ));
        }
        self.place(name, |path| {
            fs::copy(source, path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
        })
    }

    pub fn write(&self, text: &str, name: &str, mode: u32) -> Result {
        // An unchanged file keeps its time, by which make and mpifort find outdated results.
        let path = self.path(name);
        let same_mode = fs::symlink_metadata(&path)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o777 == mode);
        if same_mode && fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        self.place(name, |path| {
            fs::write(path, text)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
        })
    }

    pub fn link(&self, target: &str, name: &str) -> Result {
        self.place(name, |path| symlink(target, path))
    }
}
