//! Tests that pkg-config, CMake, shells and environment modules find an installation.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Dir, PROGRAM, installed, run};

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
        // CMake searches near mpiexec and links a program that calls MPI_Init.
        println!("left out: this source tree lacks mpiexec or MPI_Init");
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
    // In other shells a sourced file can't find its own path.
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
