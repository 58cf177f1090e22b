//! Archive, wheel and Debian package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{Dir, PROGRAM, run};

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
