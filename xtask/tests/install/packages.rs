//! Tests the archive, the wheel, and the packages for dpkg and rpm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{Dir, PROGRAM, run};

/// Returns the folder of the packages, which are made once.
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

/// Returns the only package with this ending.
fn package(ending: &str) -> PathBuf {
    let entries = fs::read_dir(packed()).expect("a folder");
    let mut found = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(ending));
    let package = found.next().expect("a package");
    assert!(found.next().is_none(), "several packages *{ending}");
    package
}

/// Returns the packages for running programs and for compiling them.
fn both(names: [&str; 2]) -> [PathBuf; 2] {
    names.map(|name| {
        let architecture = std::env::consts::ARCH;
        let debian = if architecture == "x86_64" {
            "amd64"
        } else {
            "arm64"
        };
        let version = env!("CARGO_PKG_VERSION");
        let name = name.replace("ARCH", architecture).replace("DEBIAN", debian);
        packed().join(name.replace("VERSION", version))
    })
}

/// Compiles a program with the wrapper in `bin` and runs it.
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
fn packages_name_the_glibc_that_their_files_need() {
    let dir = Dir::new("needs");
    let (wheel, unpack) = (package(".whl"), ["-m", "zipfile", "-e"]);
    let mut python = Command::new("python3");
    run(python.args(unpack).arg(&wheel).arg(&dir.0));
    let data = format!("weft-{}.data/data", env!("CARGO_PKG_VERSION"));
    let (mut newest, mut count) = ((2, 17), 0);
    let mut folders = ["bin", "lib"]
        .map(|name| dir.0.join(&data).join(name))
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::read(&path).expect("a file").starts_with(b"\x7fELF") {
                count += 1;
                let symbols = run(Command::new("objdump").arg("-T").arg(&path));
                let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
                    let mut parts = rest.split(|c: char| !c.is_ascii_digit());
                    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
                });
                newest = versions.fold(newest, |a: (u32, u32), b| a.max(b));
            }
        }
    }
    // Libraries for C, C++ and Fortran, those of tools, and programs.
    assert!(count >= 12, "{count} programs and libraries");
    let tag = format!("-manylinux_{}_{}_", newest.0, newest.1);
    assert!(wheel.to_string_lossy().contains(&tag), "{wheel:?}: {tag}");
    if weft_needs::RPM.met() {
        let [runtime, _] = both(["weft-VERSION-1.ARCH.rpm", ""]);
        let needs = run(Command::new("rpm").args(["-qp", "--requires"]).arg(runtime));
        assert!(
            needs.contains(&format!("glibc >= {}.{}\n", newest.0, newest.1)),
            "{needs}"
        );
    }
}

#[test]
fn pip_installs_the_wheel_and_removes_it() {
    if !weft_needs::PYTHON.met() {
        return;
    }
    let dir = Dir::new("wheel");
    // pip's scripts name their interpreter by path, which must not have a blank.
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

    // Hang reports need function names for their stacks; -top must exist.
    let names = run(Command::new("nm").arg(venv.join("lib/libmpi.so.12")));
    assert!(
        names.contains("MPI_Recv_long"),
        "the wheel's library has no symbol names"
    );
    let watched = run(Command::new(venv.join("bin/mpiexec"))
        .args(["-top", "-timeout", "30", "-n", "2"])
        .arg(dir.0.join("program")));
    assert!(
        watched.contains("option -top: standard output is not a terminal")
            && watched.ends_with("\n5.0\n5.0\n"),
        "{watched}"
    );

    run(pip().args(["uninstall", "--yes", "weft"]));
    for name in [
        "bin/mpiexec",
        "bin/mpicc",
        "lib/libmpi.so.12",
        "include/mpi.h",
    ] {
        assert!(!venv.join(name).exists(), "{name} is left behind");
    }
}

/// Spack itself is not installed; a script stands in for what the recipe takes from it, and another for
/// cargo.
#[test]
fn the_recipe_for_spack_installs() {
    use std::os::unix::fs::PermissionsExt as _;
    if !weft_needs::PYTHON.met() {
        return;
    }
    let dir = Dir::new("spack");
    let cargo = dir.0.join("cargo");
    let installed = super::installed().display();
    let script = format!(
        "#!/bin/sh\nset -e\n[ \"$1 $2 $3\" = 'xtask install --prefix' ] && [ $# = 4 ]\n\
         mkdir -p \"$4\"\ncp -r '{installed}/.' \"$4\"\n"
    );
    fs::write(&cargo, script).expect("a script");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("a script");
    let path = std::env::var("PATH").expect("a path");
    for old in ["1", "0"] {
        let prefix = dir.0.join(format!("prefix-{old}"));
        let mut python = Command::new("python3");
        python.args(["-c", include_str!("spack.py")]);
        python
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/spack/weft/package.py"));
        python.arg(&prefix).arg(old);
        let text = run(python.env("PATH", format!("{}:{path}", dir.0.display())));
        for line in [
            "provides=mpi@:5.0",
            "depends_on=rust@1.89:",
            "WEFT_CC=/cc",
            "WEFT_FC=/fc",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        // Each wrapper that programs are built by is installed.
        let wrappers = text.lines().filter_map(|line| {
            let (name, path) = line.split_once('=')?;
            (name.starts_with("MPI") || name.starts_with("spec.")).then_some(path)
        });
        let wrappers: Vec<&str> = wrappers.collect();
        assert_eq!(wrappers.len(), 8, "{text}");
        assert!(
            wrappers.iter().all(|path| Path::new(path).exists()),
            "{text}"
        );
        try_out(&prefix.join("bin"), &dir.0);
    }
}

#[test]
fn the_debian_package_installs_and_goes() {
    let has_dpkg = Command::new("dpkg-deb").arg("--version").output().is_ok();
    if !has_dpkg || run(Command::new("id").arg("-u")) != "0\n" {
        println!("left out: needs dpkg and root");
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
        // The new root lacks Debian's other packages; scripts run without chroot.
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", root.display()))
            .args(["--force-depends", "--force-script-chrootless"]);
        command
    };
    let [runtime, development] = both(["weft_VERSION_DEBIAN.deb", "weft-dev_VERSION_DEBIAN.deb"]);
    run(dpkg().arg("--install").arg(runtime));
    let prefix = root.join("usr/lib/weft");
    for name in ["bin/mpicc", "include", "lib/libmpi.so", "share/man/man3"] {
        assert!(!prefix.join(name).exists(), "{name} is for development");
    }
    run(&mut Command::new(prefix.join("bin/weft-info")));
    run(dpkg().arg("--install").arg(development));
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

    run(dpkg().args(["--remove", "weft-dev", "weft"]));
    for name in ["usr/bin/mpicc", "etc/alternatives/mpi", "usr/lib/weft"] {
        let left = fs::symlink_metadata(root.join(name)).is_ok();
        assert!(!left, "{name} was left behind");
    }
}

#[test]
fn the_packages_for_rpm_install() {
    if !weft_needs::RPM.met() || run(Command::new("id").arg("-u")) != "0\n" {
        println!("left out: needs rpm and root");
        return;
    }
    let files = both(["weft-VERSION-1.ARCH.rpm", "weft-devel-VERSION-1.ARCH.rpm"]);
    let told = |file: &Path, what: &str| run(Command::new("rpm").args(["-qp", what]).arg(file));
    let [runtime, development] = [0, 1].map(|at: usize| told(&files[at], "-l"));
    assert!(runtime.contains("/usr/lib/weft/lib/libmpi.so.12\n") && !runtime.contains("mpicc"));
    assert!(
        development.contains("/usr/lib/weft/bin/mpicc\n")
            && development.contains("man3/MPI_Send.3")
    );
    let needs = told(&files[1], "--requires");
    assert!(
        needs.contains(concat!("weft = ", env!("CARGO_PKG_VERSION"))),
        "{needs}"
    );

    let dir = Dir::new("rpm");
    let root = dir.0.join("root");
    fs::create_dir_all(&root).expect("a folder");
    let mut rpm = Command::new("rpm");
    rpm.args(["--install", "--nodeps", "--root"]).arg(&root);
    run(rpm.args(&files));
    try_out(&root.join("usr/lib/weft/bin"), &dir.0);
}
