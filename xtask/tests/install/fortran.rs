//! Tests the compiler wrapper for Fortran and its library.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Dir, attempt, installed, run};

/// The program of `main.rs` in Fortran.
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
        println!("left out: gfortran is not installed");
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

    // Fortran's library works with Weft's handles only.
    let stranger = dir.0.join("stranger.c");
    let text = "#include <string.h>\nint PMPI_Get_library_version(char *text, int *length) {\n\
                strcpy(text, \"Stranger 1.0\");\n*length = 12;\nreturn 0;\n}\n";
    fs::write(&stranger, text).expect("a source");
    let library = dir.0.join("stranger.so");
    run(Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&stranger));
    // LD_PRELOAD separates paths by blanks.
    let mut command = Command::new(&program);
    command
        .env("LD_LIBRARY_PATH", &dir.0)
        .env("LD_PRELOAD", "stranger.so");
    let (success, text) = attempt(&mut command);
    let is_named = text.contains("libmpifort_abi.so.1") && text.contains("Stranger 1.0");
    assert!(!success && is_named, "{text}");

    // After a move, with a new compiler, and with an installation that can't be written.
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

/// Checks that each routine is exported under all names that compilers use, and nothing else.
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
        // Routines with large counts are only in `mpi_f08`, under the generic names.
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
