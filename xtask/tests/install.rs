//! An installed Weft can be used by hand, with pkg-config and with CMake, wherever it lies.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(300);

/// A program that can be run without a launcher and without starting MPI.
const PROGRAM: &str = "#include <mpi.h>\n\
    #include <stdio.h>\n\
    int main(void) {\n\
        int version, subversion;\n\
        MPI_Get_version(&version, &subversion);\n\
        printf(\"%d.%d\\n\", version, subversion);\n\
        return 0;\n\
    }\n";

/// A folder that is removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name} {}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The installation that all tests copy; its name has no blank, as build systems dislike them.
fn installed() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
        let _ = fs::remove_dir_all(&prefix);
        let mut install = Command::new(env!("CARGO_BIN_EXE_xtask"));
        run(install.args(["install", "--dev", "--prefix"]).arg(&prefix));
        prefix
    })
}

/// What a command prints; panics when it fails or takes too long.
fn run(command: &mut Command) -> String {
    let (success, text) = attempt(command);
    assert!(success, "{command:?}:\n{text}");
    text
}

fn attempt(command: &mut Command) -> (bool, String) {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "log-{}-{:?}",
        std::process::id(),
        thread::current().id()
    ));
    let file = fs::File::create(&log).expect("a log");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("a log"))
        .stderr(file)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} ran longer than {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let text = fs::read_to_string(&log).expect("a log");
    let _ = fs::remove_file(&log);
    (status.success(), text)
}

fn mpicc() -> PathBuf {
    installed().join("bin/mpicc")
}

#[test]
fn everything_is_in_its_place() {
    let prefix = installed();
    for name in [
        "lib/libmpi.so",
        "lib/libmpi.so.12",
        "lib/libmpich.so",
        "lib/libmpich.so.12",
        "lib/libmpifort.so",
        "lib/libmpifort.so.12",
        "lib/libmpichfort.so.12",
        "lib/libmpicxx.so",
        "lib/libmpicxx.so.12",
        "lib/libmpichcxx.so.12",
        "include/mpi.h",
        "include/mpicxx.h",
        "include/mpif.h",
        "include/mpi.f90",
        "include/mpi_f08.f90",
        "include/abi/mpif.h",
        "include/abi/mpi_f08.f90",
        "lib/libmpifort_abi.so.1",
        "bin/mpifort",
        "bin/mpifort_abi",
        "bin/mpif90",
        "bin/mpif77",
        "bin/mpicc",
        "bin/mpicxx",
        "bin/mpiCC",
        "bin/mpif08",
        "bin/mpichversion",
        "bin/mpivars.sh",
        "lib/pkgconfig/mpi.pc",
        "lib/pkgconfig/mpich.pc",
        "lib/pkgconfig/weft.pc",
        "share/doc/weft/LICENSE-MIT",
    ] {
        assert!(prefix.join(name).exists(), "{name} is missing");
    }
    let target = fs::read_link(prefix.join("lib/libmpich.so.12")).expect("a link");
    assert_eq!(target, Path::new("libmpi.so.12"));
}

#[test]
fn mpicc_compiles_and_links() {
    let dir = Dir::new("mpicc");
    let source = dir.0.join("a program.c");
    fs::write(&source, PROGRAM).expect("a source");
    let program = dir.0.join("program");
    run(Command::new(mpicc()).arg("-o").arg(&program).arg(&source));
    assert_eq!(run(&mut Command::new(&program)), "5.0\n");

    // In two steps, and as C++.
    let object = dir.0.join("object.o");
    run(Command::new(mpicc())
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(&object));
    run(Command::new(mpicc()).arg(&object).arg("-o").arg(&program));
    assert_eq!(run(&mut Command::new(&program)), "5.0\n");
    let mpicxx = installed().join("bin/mpicxx");
    run(Command::new(mpicxx)
        .args(["-x", "c++"])
        .arg(&source)
        .args(["-x", "none", "-o"])
        .arg(&program));
    assert_eq!(run(&mut Command::new(&program)), "5.0\n");

    // A mistake is the compiler's to report.
    fs::write(
        &source,
        "#include <mpi.h>\nint main(void) { return MPI_Nothing(; }\n",
    )
    .expect("a source");
    let (success, text) = attempt(Command::new(mpicc()).arg("-c").arg(&source));
    assert!(!success && text.contains("error"), "{text}");
}

#[test]
fn mpicc_works_from_a_link_and_after_a_move() {
    let dir = Dir::new("moved");
    let source = dir.0.join("program.c");
    fs::write(&source, PROGRAM).expect("a source");
    let program = dir.0.join("program");

    let link = dir.0.join("mpicc");
    symlink(mpicc(), &link).expect("a link");
    run(Command::new(&link).arg("-o").arg(&program).arg(&source));
    assert_eq!(run(&mut Command::new(&program)), "5.0\n");

    let moved = dir.0.join("elsewhere");
    run(Command::new("cp").arg("-a").arg(installed()).arg(&moved));
    let there = moved.join("bin/mpicc");
    let shown = run(Command::new(&there).arg("-show"));
    assert!(shown.contains("elsewhere/lib"), "{shown}");
    run(Command::new(&there).arg("-o").arg(&program).arg(&source));
    assert_eq!(run(&mut Command::new(&program)), "5.0\n");
}

#[test]
fn mpicc_tells_what_it_does() {
    let prefix = installed().display();
    let show = |options: &[&str]| run(Command::new(mpicc()).args(options));
    let compile = format!("-I{prefix}/include");
    let link = format!("-L{prefix}/lib -Wl,-rpath,{prefix}/lib -lmpi");
    for (options, expected) in [
        (vec!["-show"], format!("cc {compile} {link}\n")),
        (vec!["-show", "-c", "a.c"], format!("cc -c a.c {compile}\n")),
        (
            vec!["-show", "a.c", "-O2"],
            format!("cc a.c -O2 {compile} {link}\n"),
        ),
        (vec!["-compile_info"], format!("cc {compile}\n")),
        (vec!["-link_info"], format!("cc {compile} {link}\n")),
        (
            vec!["-cc=clang", "-show"],
            format!("clang {compile} {link}\n"),
        ),
    ] {
        assert_eq!(show(&options), expected, "{options:?}");
    }
    let text = run(Command::new(mpicc())
        .arg("-show")
        .env("WEFT_CC", "gcc -m64"));
    assert_eq!(text, format!("gcc -m64 {compile} {link}\n"));
    for variable in ["MPICH_CC", "OMPI_CC", "I_MPI_CC"] {
        let text = run(Command::new(mpicc()).arg("--showme").env(variable, "tcc"));
        assert_eq!(text, format!("tcc {compile} {link}\n"));
    }
    for (part, expected) in [
        ("compile", compile.clone()),
        ("link", link.clone()),
        ("incdirs", format!("{prefix}/include")),
        ("libdirs", format!("{prefix}/lib")),
        ("libs", "mpi".to_owned()),
        ("command", "cc".to_owned()),
    ] {
        assert_eq!(
            show(&[&format!("--showme:{part}")]),
            format!("{expected}\n")
        );
    }
    assert!(show(&["--showme:version"]).contains("Weft"));
    let profiled = show(&["-profile=trace", "-show", "a.c"]);
    assert!(profiled.ends_with(" -ltrace -lmpi\n"), "{profiled}");
    for (option, word) in [
        ("--showme:nothing", "incdirs"),
        ("-static_mpi", "shared library only"),
        ("-config=/nowhere", "can't be read"),
    ] {
        let (success, text) = attempt(Command::new(mpicc()).args([option, "a.c"]));
        assert!(!success && text.contains(word), "{option}: {text}");
    }
    let dir = Dir::new("mpicc config");
    fs::write(dir.0.join("mine"), "CC='gcc -pipe'\n").expect("a file");
    let text = run(Command::new(mpicc())
        .args(["-config=mine", "-show", "-c", "a.c"])
        .current_dir(&dir.0));
    assert_eq!(text, format!("gcc -pipe -c a.c {compile}\n"));
    let echoed = run(Command::new(mpicc()).args(["-echo", "-E", "-x", "c", "/dev/null"]));
    assert!(echoed.starts_with("cc -E -x c /dev/null"), "{echoed}");
    // Questions to the compiler are no programs to link.
    assert!(run(Command::new(mpicc()).arg("-v")).contains("version"));
    assert!(show(&["-help"]).contains("WEFT_CC"));
}

#[test]
fn pkg_config_finds_it() {
    let dir = Dir::new("pkg-config");
    let source = dir.0.join("program.c");
    fs::write(&source, PROGRAM).expect("a source");
    for name in ["mpi", "mpich", "weft"] {
        let flags = run(Command::new("pkg-config")
            .args(["--cflags", "--libs", name])
            .env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig")));
        let program = dir.0.join(name);
        run(Command::new("cc")
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .args(flags.split_whitespace()));
        assert_eq!(run(&mut Command::new(&program)), "5.0\n");
    }
}

#[test]
fn cmake_finds_it() {
    let table = mpi_table::Table::load().expect("a good table");
    let starts = |name: &str| table.functions.present().any(|one| one.name == name);
    let has_mpiexec = installed().join("bin/mpiexec").exists();
    if !(starts("MPI_Init") && starts("MPI_Finalize") && has_mpiexec) {
        // CMake searches around mpiexec and tries a program that starts MPI.
        println!("left out: mpiexec or MPI_Init is not part of this source tree");
        return;
    }
    let dir = Dir::new("cmake");
    let project = "cmake_minimum_required(VERSION 3.12)\n\
         project(use_mpi C CXX)\n\
         find_package(MPI 3.1 REQUIRED COMPONENTS C CXX)\n\
         message(STATUS \"headers: ${MPI_C_INCLUDE_DIRS}\")\n\
         message(STATUS \"libraries: ${MPI_C_LIBRARIES}\")\n\
         add_executable(in_c program.c)\n\
         target_link_libraries(in_c MPI::MPI_C)\n\
         add_executable(in_cxx program.cpp)\n\
         target_link_libraries(in_cxx MPI::MPI_CXX)\n";
    for (name, text) in [
        ("CMakeLists.txt", project),
        ("program.c", PROGRAM),
        ("program.cpp", PROGRAM),
    ] {
        fs::write(dir.0.join(name), text).expect("a project");
    }
    let path = format!(
        "{}:{}",
        installed().join("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let build = dir.0.join("build");
    let text = run(Command::new("cmake")
        .arg("-S")
        .arg(&dir.0)
        .arg("-B")
        .arg(&build)
        .env("PATH", &path));
    let header = format!("headers: {}", installed().join("include").display());
    let library = installed().join("lib/libmpi.so").display().to_string();
    assert!(text.contains(&header) && text.contains(&library), "{text}");
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["in_c", "in_cxx"] {
        assert_eq!(run(&mut Command::new(build.join(program))), "5.0\n");
    }
}

#[test]
fn a_shell_is_set_up() {
    let dir = Dir::new("shell");
    let prefix = dir.0.join("moved");
    run(Command::new("cp").arg("-a").arg(installed()).arg(&prefix));
    let told = |shell: &str, prefix: &Path| {
        let script = format!(
            ". '{}' && command -v mpicc && echo $LD_LIBRARY_PATH && echo $WEFT_ROOT",
            prefix.join("bin/mpivars.sh").display()
        );
        run(Command::new(shell)
            .args(["-euc", &script])
            .env_remove("LD_LIBRARY_PATH"))
    };
    let expected = |prefix: &Path| {
        let prefix = prefix.display();
        format!("{prefix}/bin/mpicc\n{prefix}/lib\n{prefix}\n")
    };
    assert_eq!(told("bash", &prefix), expected(&prefix));
    // Other shells don't tell where the file lies.
    assert_eq!(told("sh", installed()), expected(installed()));
}

#[test]
fn the_module_can_be_loaded() {
    let found = [
        "/usr/bin/modulecmd",
        "/usr/lib/x86_64-linux-gnu/modulecmd.tcl",
    ]
    .into_iter()
    .find(|path| Path::new(path).exists());
    if !weft_needs::MODULES.met() {
        return;
    }
    let modulecmd = found.unwrap();
    let dir = Dir::new("module");
    let prefix = dir.0.join("moved");
    run(Command::new("cp").arg("-a").arg(installed()).arg(&prefix));
    let text = run(Command::new(modulecmd)
        .args(["sh", "load", "weft"])
        .env("MODULEPATH", prefix.join("share/modulefiles"))
        .env_remove("LD_LIBRARY_PATH"));
    let root = format!("{}", prefix.display()).replace(' ', "\\ ");
    for expected in [
        format!("WEFT_ROOT={root}"),
        format!("LD_LIBRARY_PATH={root}/lib"),
        format!("PATH={root}/bin:"),
    ] {
        assert!(text.contains(&expected), "{expected}:\n{text}");
    }
}

/// The packages; made once.
fn packed() -> &'static Path {
    static PACKED: OnceLock<PathBuf> = OnceLock::new();
    PACKED.get_or_init(|| {
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dist");
        let _ = fs::remove_dir_all(&to);
        let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask"));
        run(dist.args(["dist", "--dev", "--to"]).arg(&to));
        to
    })
}

/// The one file in the folder of packages that ends so.
fn package(ending: &str) -> PathBuf {
    let entries = fs::read_dir(packed()).expect("a folder");
    let mut found = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(ending));
    let package = found.next().expect("a package");
    assert!(found.next().is_none(), "several packages *{ending}");
    package
}

/// Compiles a program with what is installed at `bin`, and runs it there.
fn try_out(bin: &Path, dir: &Path) {
    let source = dir.join("program.c");
    fs::write(&source, PROGRAM).expect("a source");
    let program = dir.join("program");
    run(Command::new(bin.join("mpicc"))
        .arg("-o")
        .arg(&program)
        .arg(&source));
    assert_eq!(run(&mut Command::new(&program)), "5.0\n");
    let mpiexec = bin.join("mpiexec");
    if mpiexec.exists() {
        let text = run(Command::new(mpiexec)
            .args(["-timeout", "30", "-n", "2"])
            .arg(&program));
        assert_eq!(text, "5.0\n5.0\n");
    }
}

#[test]
fn the_archive_works_where_it_is_unpacked() {
    let dir = Dir::new("archive");
    run(Command::new("tar")
        .arg("-xf")
        .arg(package(".tar.gz"))
        .arg("-C")
        .arg(&dir.0));
    let top = dir.0.join(format!("weft-{}", env!("CARGO_PKG_VERSION")));
    try_out(&top.join("bin"), &dir.0);
}

#[test]
fn pip_installs_the_wheel_and_removes_it() {
    if !weft_needs::PYTHON.met() {
        return;
    }
    let dir = Dir::new("wheel");
    // A path with a blank would become the program's in pip's own scripts.
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("venv-{}", std::process::id()));
    let _venv = Dir(venv.clone());
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    let pip = || {
        let mut command = Command::new(venv.join("bin/python"));
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        command
    };
    let wheel = package(".whl");
    run(pip().args(["install", "--no-index"]).arg(&wheel));
    try_out(&venv.join("bin"), &dir.0);
    let text = run(Command::new(venv.join("bin/weft-info")).arg("--no-start"));
    assert!(
        text.contains(&format!("prefix: {}", venv.display())),
        "{text}"
    );

    run(pip().args(["uninstall", "--yes", "weft"]));
    for name in [
        "bin/mpiexec",
        "bin/mpicc",
        "lib/libmpi.so.12",
        "include/mpi.h",
    ] {
        assert!(!venv.join(name).exists(), "{name} is left");
    }
}

#[test]
fn the_debian_package_installs_and_goes() {
    let has_dpkg = Command::new("dpkg-deb").arg("--version").output().is_ok();
    if !has_dpkg || run(Command::new("id").arg("-u")) != "0\n" {
        println!("left out: needs dpkg, and root");
        return;
    }
    let dir = Dir::new("debian");
    let root = dir.0.join("root");
    let admin = root.join("var/lib/dpkg");
    for name in ["info", "updates", "alternatives"] {
        fs::create_dir_all(admin.join(name)).expect("a folder");
    }
    for name in ["usr/bin", "etc/alternatives", "var/log"] {
        fs::create_dir_all(root.join(name)).expect("a folder");
    }
    fs::write(admin.join("status"), "").expect("a file");
    let dpkg = || {
        // Debian's other packages are not in this tree; scripts run without a change of root.
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", root.display()))
            .args(["--force-depends", "--force-script-chrootless"]);
        command
    };
    run(dpkg().arg("--install").arg(package(".deb")));
    let prefix = root.join("usr/lib/weft");
    try_out(&prefix.join("bin"), &dir.0);

    let points_to = |link: &str, target: &str| {
        let link = root.join(link);
        let found = fs::read_link(&link).unwrap_or_else(|error| panic!("{link:?}: {error}"));
        assert_eq!(found, Path::new(target));
    };
    points_to("usr/bin/mpicc", "/etc/alternatives/mpi");
    points_to("etc/alternatives/mpi", "/usr/lib/weft/bin/mpicc");
    points_to("etc/alternatives/mpicxx", "/usr/lib/weft/bin/mpicxx");
    points_to("etc/alternatives/mpirun", "/usr/lib/weft/bin/mpirun");
    points_to("etc/alternatives/mpiexec", "/usr/lib/weft/bin/mpiexec");

    run(dpkg().args(["--remove", "weft"]));
    for name in ["usr/bin/mpicc", "etc/alternatives/mpi", "usr/lib/weft"] {
        let left = fs::symlink_metadata(root.join(name)).is_ok();
        assert!(!left, "{name} was left behind");
    }
}

/// The same in Fortran.
const FORTRAN: &str = "program p\n\
    use mpi_f08\n\
    implicit none\n\
    integer :: version, subversion\n\
    call MPI_Get_version(version, subversion)\n\
    print '(i0,a,i0)', version, '.', subversion\n\
    if (MPI_COMM_WORLD == MPI_COMM_NULL) stop 1\n\
    end program\n";

fn has_gfortran() -> bool {
    let there = Command::new("gfortran").arg("--version").output().is_ok();
    if !there {
        println!("left out: there is no gfortran");
    }
    there
}

#[test]
fn mpifort_compiles_and_links() {
    if !has_gfortran() {
        return;
    }
    let dir = Dir::new("mpifort");
    let source = dir.0.join("a program.f90");
    fs::write(&source, FORTRAN).expect("a source");
    let old = dir.0.join("old.f");
    let text = "      PROGRAM OLD\n      INCLUDE 'mpif.h'\n      INTEGER V, S, IERROR\n      \
                CALL MPI_GET_VERSION(V, S, IERROR)\n      PRINT '(I0,A,I0)', V, '.', S\n      END\n";
    fs::write(&old, text).expect("a source");
    let program = dir.0.join("program");
    let build = |wrapper: &Path, source: &Path| {
        let mut command = Command::new(wrapper);
        run(command.arg("-o").arg(&program).arg(source));
        assert_eq!(run(&mut Command::new(&program)), "5.0\n");
    };
    for name in ["mpifort", "mpif90", "mpif77", "mpif08", "mpifort_abi"] {
        build(&installed().join("bin").join(name), &source);
    }
    build(&installed().join("bin/mpif77"), &old);
    build(&installed().join("bin/mpifort_abi"), &old);

    // Fortran's library knows handles of Weft's library only.
    let stranger = dir.0.join("stranger.c");
    let text = "#include <string.h>\nint PMPI_Get_library_version(char *text, int *length) {\n\
                strcpy(text, \"Stranger 1.0\");\n*length = 12;\nreturn 0;\n}\n";
    fs::write(&stranger, text).expect("a source");
    let library = dir.0.join("stranger.so");
    run(Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&stranger));
    // A preloaded library's path must have no blanks.
    let mut command = Command::new(&program);
    command
        .env("LD_LIBRARY_PATH", &dir.0)
        .env("LD_PRELOAD", "stranger.so");
    let (success, text) = attempt(&mut command);
    let told = text.contains("libmpifort_abi.so.1") && text.contains("Stranger 1.0");
    assert!(!success && told, "{text}");

    // After a move, and for a compiler that is new, where the installation can't be written.
    let moved = dir.0.join("elsewhere");
    run(Command::new("cp").arg("-a").arg(installed()).arg(&moved));
    fs::remove_dir_all(moved.join("include/weft")).expect("the modules");
    fs::write(moved.join("include/weft"), "not a folder").expect("a file in the way");
    let cache = dir.0.join("cache");
    let mut command = Command::new(moved.join("bin/mpifort"));
    command.env("XDG_CACHE_HOME", &cache);
    run(command.arg("-o").arg(&program).arg(&source));
    assert_eq!(run(&mut Command::new(&program)), "5.0\n");
    assert!(cache.join("weft").exists());

    // Without a compiler.
    let (success, text) = attempt(
        Command::new(installed().join("bin/mpifort")).args(["-fc=no-such-compiler", "-modules"]),
    );
    assert!(!success && text.contains("no-such-compiler"), "{text}");
    let shown = run(Command::new(installed().join("bin/mpifort")).arg("-show"));
    assert!(
        shown.starts_with("gfortran ") && shown.ends_with("-lmpifort -lmpi\n"),
        "{shown}"
    );
    let parts = run(Command::new(installed().join("bin/mpifort"))
        .arg("--showme:link")
        .env("OMPI_FC", "gfortran"));
    assert!(
        parts.contains("-lweftmodules ") && parts.ends_with("-lmpifort -lmpi\n"),
        "{parts}"
    );
}

#[test]
fn cmake_finds_fortran() {
    if !has_gfortran() {
        return;
    }
    let dir = Dir::new("cmake fortran");
    fs::write(
        dir.0.join("CMakeLists.txt"),
        "cmake_minimum_required(VERSION 3.12)\n\
         project(use_mpi C Fortran)\n\
         find_package(MPI 3.1 REQUIRED COMPONENTS Fortran)\n\
         message(STATUS \"module mpi_f08: ${MPI_Fortran_HAVE_F08_MODULE}\")\n\
         add_executable(program program.f90)\n\
         target_link_libraries(program MPI::MPI_Fortran)\n",
    )
    .expect("a project");
    fs::write(dir.0.join("program.f90"), FORTRAN).expect("a source");
    let bin = installed().join("bin").display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let build = dir.0.join("build");
    let mut command = Command::new("cmake");
    command.arg("-S").arg(&dir.0).arg("-B").arg(&build);
    let text = run(command.env("PATH", &path));
    assert!(text.contains("module mpi_f08: TRUE"), "{text}");
    run(Command::new("cmake").arg("--build").arg(&build));
    assert_eq!(run(&mut Command::new(build.join("program"))), "5.0\n");
}

/// Every routine has all names that compilers give it, and nothing else is exported.
#[test]
fn fortran_library_has_all_names() {
    let table = mpi_table::Table::load().expect("a good table");
    has_all_names(&table, "libmpifort.so.12", "libmpi.so.12");
    let table = table.for_standard_fortran();
    has_all_names(&table, "libmpifort_abi.so.1", "libmpi_abi.so.1");
}

fn has_all_names(table: &mpi_table::Table, name: &str, needs: &str) {
    let library = installed().join("lib").join(name);
    let text = run(Command::new("nm")
        .args(["--dynamic", "--defined-only"])
        .arg(&library));
    let mut found: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    found.sort_unstable();
    let aliases = table.fortran_aliases();
    assert!(aliases.len() > 2500, "{}", aliases.len());
    for (alias, target) in &aliases {
        for name in [alias, target] {
            let there = found.binary_search(&name.as_str()).is_ok();
            assert!(there, "{name} is missing");
        }
    }
    for routine in mpi_table::fortran::routines(table) {
        // Large counts are in `mpi_f08` alone, under the generic names.
        if routine.is_large() {
            continue;
        }
        let name = routine.function.name.to_lowercase();
        for prefix in ["", "p"] {
            let lower = format!("{prefix}{name}");
            for name in [
                lower.clone(),
                format!("{lower}_"),
                format!("{lower}__"),
                lower.to_uppercase(),
            ] {
                let there = found.binary_search(&name.as_str()).is_ok();
                assert!(there, "{name} is missing");
            }
        }
    }
    for name in &found {
        let ours = [
            "mpi",
            "pmpi",
            "MPI_",
            "PMPI_",
            "weft_",
            "__mpi_",
            "MPIR_F08_",
        ];
        assert!(ours.iter().any(|start| name.starts_with(start)), "{name}");
    }
    let text = run(Command::new("readelf").arg("-d").arg(&library));
    for part in [name, needs, "$ORIGIN"].map(|part| format!("[{part}]")) {
        assert!(text.contains(&part), "{part} is missing:\n{text}");
    }
    assert!(!text.contains("gfortran"), "{text}");
}

/// Debian's MPICH, a library of the same ABI that the loader would find first.
const MPICH: &str = "/usr/lib/x86_64-linux-gnu";

#[test]
fn weft_info_tells_what_is_installed() {
    let bin = installed().join("bin");
    let text = run(&mut Command::new(bin.join("mpichversion")));
    assert!(text.contains("MPI standard: "), "{text}");

    let mut info = Command::new(bin.join("weft-info"));
    let text = run(info.env("WEFT_SPIN", "77").env_remove("WEFT_YIELD"));
    for part in ["libmpi_abi.so.1", "library:   ", "\n* WEFT_SPIN ", " 77\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    let text = run(info.args(["--json", "--no-start"]));
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(found["standard"][0], 5);
    let variables = found["variables"].as_array().expect("a list");
    let variable = |name: &str| variables.iter().find(|variable| variable["name"] == name);
    let set = variable("WEFT_SPIN").expect("a variable");
    assert_eq!(
        (&set["value"], &set["origin"]),
        (&"77".into(), &"environment".into())
    );
    let unset = variable("WEFT_YIELD").expect("a variable");
    assert_eq!(unset["origin"], "default");
    assert!(unset["value"].is_null(), "{unset}");
    assert!(variables.len() > 30, "{}", variables.len());
}

#[test]
fn weft_info_says_what_it_lacks() {
    let dir = Dir::new("weft-info");
    let mut info = Command::new(installed().join("bin/weft-info"));
    let (success, text) = attempt(info.arg("--prefix").arg(&dir.0));
    assert!(!success);
    assert!(
        text.contains("libmpi.so.12 is not there; name the prefix"),
        "{text}"
    );
}

#[test]
fn osu_bench_measures_the_library_beside_it() {
    let bin = installed().join("bin");
    let library = installed().join("lib/libmpi.so.12");
    let osu_bench = || {
        let mut command = Command::new(bin.join("osu-bench"));
        command.env_remove("LD_LIBRARY_PATH");
        command
    };
    let text = run(osu_bench().arg("library"));
    let file = format!("file: {}\n", library.display());
    assert!(text.starts_with(&file) && text.contains("Weft"), "{text}");

    let mut job = Command::new(bin.join("mpiexec"));
    job.args(["-timeout", "60", "-n", "2"])
        .arg(bin.join("osu-bench"))
        .args(["latency", "-m", "8:8", "-i", "10", "-x", "1", "-c"]);
    let text = run(job.env_remove("LD_LIBRARY_PATH"));
    let first = text.lines().next().unwrap_or_default();
    assert!(first.contains(&format!("{}", library.display())), "{text}");
    assert!(text.contains("Pass"), "{text}");

    // Studies start their own jobs, with the library and the launcher beside them.
    let dir = Dir::new("studies");
    let study = |name: &str| {
        let mut command = osu_bench();
        command
            .args([name, "-t", "1", "--repeat", "1", "--budget", "5", "-o"])
            .arg(dir.0.join("picture.svg"));
        command
    };
    for name in ["vci-rate", "stencil", "ebms", "bspmm", "vci-ablation"] {
        let text = run(&mut study(name));
        let first = text.lines().next().unwrap_or_default();
        let named = format!("{}", library.parent().expect("a folder").display());
        assert!(first.starts_with(&format!("# {name}")), "{text}");
        assert!(first.contains("Weft") && first.contains(&named), "{text}");
    }

    if !Path::new(MPICH).join("libmpich.so.12").exists() {
        println!("left out: Debian's MPICH is not installed");
        return;
    }
    let text = run(osu_bench().arg("library").env("LD_LIBRARY_PATH", MPICH));
    assert!(text.contains("MPICH"), "LD_LIBRARY_PATH counts: {text}");
    for name in ["vci-ablation", "tune"] {
        let mut command = osu_bench();
        command.args([name, "--lib", MPICH]);
        match name {
            "tune" => command.args(["-n", "2"]).arg(dir.0.join("table")),
            _ => command.arg("-o").arg(dir.0.join("picture.svg")),
        };
        let (success, text) = attempt(&mut command);
        assert!(!success && text.contains("only Weft has"), "{name}: {text}");
    }
}

/// Studies give each rank as many cores as it has threads where there are enough.
#[test]
fn ranks_can_have_several_cores() {
    let mut job = Command::new(installed().join("bin/mpiexec"));
    job.args(["-bind-to", "core:2", "-n", "2", "echo", "started"]);
    assert_eq!(run(&mut job), "started\nstarted\n");
}
