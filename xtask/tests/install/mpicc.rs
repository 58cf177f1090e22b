//! Tests the compiler wrapper for C.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::{Dir, PROGRAM, attempt, installed, mpicc, run};

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

    // The compiler reports errors in the source.
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
fn mpicc_shows_its_command() {
    let prefix = installed().display();
    let show = |options: &[&str]| run(Command::new(mpicc()).args(options).env("WEFT_CC", "cc"));
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
    let echoed = show(&["-echo", "-E", "-x", "c", "/dev/null"]);
    assert!(echoed.starts_with("cc -E -x c /dev/null"), "{echoed}");
    // Queries to the compiler get no linker options.
    assert!(run(Command::new(mpicc()).arg("-v")).contains("version"));
    assert!(show(&["-help"]).contains("WEFT_CC"));
}

#[test]
fn a_missing_compiler_is_named() {
    for (wrapper, variable) in [
        ("mpicc", "WEFT_CC"),
        ("mpicxx", "WEFT_CXX"),
        ("mpifort", "WEFT_FC"),
    ] {
        let mut command = Command::new(installed().join("bin").join(wrapper));
        command
            .env(variable, "absent -O2")
            .args(["-c", "program.f"]);
        let (success, text) = attempt(&mut command);
        let expected = format!("{wrapper}: no compiler 'absent' is in PATH; ");
        assert!(!success && text.contains(&expected), "{text}");
        assert!(text.contains(variable), "{text}");
    }
}

/// Build systems recognize the compiler by the wrapper's output: Charm++'s searches `g++` in that of
/// `mpicxx -V` and `mpicxx -show`.
#[test]
fn mpicc_calls_the_compiler_by_its_own_name() {
    let dir = Dir::new("mpicc name");
    let path = format!(
        "{}:{}",
        dir.0.display(),
        std::env::var("PATH").expect("a PATH")
    );
    let command = |wrapper: &str| {
        run(Command::new(installed().join("bin").join(wrapper))
            .arg("--showme:command")
            .env("PATH", &path))
    };
    let compiler = |name: &str| {
        let file = dir.0.join(name);
        let _ = fs::remove_file(&file);
        fs::write(&file, "#!/bin/sh\n").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
    };
    for name in ["gcc", "g++", "clang", "clang++", "cc", "c++"] {
        compiler(name);
    }
    // An unknown compiler.
    assert_eq!(command("mpicc"), "cc\n");
    assert_eq!(command("mpicxx"), "c++\n");
    for (generic, names, wrapper) in [
        ("cc", ["gcc", "clang"], "mpicc"),
        ("c++", ["g++", "clang++"], "mpicxx"),
    ] {
        for name in names {
            let link = dir.0.join(generic);
            fs::remove_file(&link).expect("a file");
            symlink(name, &link).expect("a link");
            assert_eq!(command(wrapper), format!("{name}\n"));
        }
    }
}
