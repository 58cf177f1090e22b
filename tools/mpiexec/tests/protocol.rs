//! Ranks that speak PMI: Weft's own client and programs of MPICH.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pmi::Client;
use support::{Outcome, mpiexec, start};

/// Runs ranks of this test's own executable, each of which plays `role`.
fn play(args: &[&str], role: &str) -> Outcome {
    let mut command = mpiexec();
    command.args(args).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "rank", "--nocapture"]);
    start(command.env("WEFT_TEST_ROLE", role)).finish()
}

/// Not a test, but what the ranks do; without a role it passes at once.
#[test]
fn rank() {
    let Ok(role) = std::env::var("WEFT_TEST_ROLE") else {
        return;
    };
    if role == "silent" && std::env::var("PMI_RANK").as_deref() == Ok("1") {
        std::process::exit(0);
    }
    let client = Client::from_env().unwrap_or_else(|e| panic!("{e}"));
    let (me, size) = (client.rank(), client.size());
    client
        .put(&format!("key-{me}"), &format!("value {me}"))
        .unwrap();
    client.fence().unwrap();
    for other in 0..size {
        let value = client.get(other, &format!("key-{other}")).unwrap();
        assert_eq!(value, Some(format!("value {other}")));
    }
    match (&role[..], me) {
        ("facts", _) => {
            let mapping = client.process_mapping().unwrap();
            assert_eq!(mapping, Some(vec![0; size as usize]));
            println!(
                "\nrank {me}/{size} appnum {:?} universe {:?}",
                client.appnum().unwrap(),
                client.universe_size().unwrap()
            );
        }
        ("abort", 1) => {
            client.abort(42, "out of luck").unwrap();
            std::thread::sleep(support::LIMIT);
        }
        ("abort and leave", 1) => {
            client.abort(256, "").unwrap();
            std::process::exit(3);
        }
        ("leave", 1) => std::process::exit(0),
        ("leave with 5", 1) => std::process::exit(5),
        ("all leave", _) => std::process::exit(0),
        ("early leave", 1) => std::process::exit(0),
        ("early leave", _) => {
            std::thread::sleep(Duration::from_millis(300));
            println!("not disturbed");
            std::process::exit(0);
        }
        ("killed", 1) => {
            let pid = i32::try_from(std::process::id()).unwrap_or(0);
            // SAFETY: touches no memory; the process is this one.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        ("killed", _) => {
            client.fence().unwrap();
            println!("gone on");
        }
        ("finalize, then 6", 1) => {
            client.finalize().unwrap();
            std::process::exit(6);
        }
        ("finalize, then 6", _) => {
            std::thread::sleep(Duration::from_millis(300));
            println!("not disturbed");
            client.finalize().unwrap();
            return;
        }
        ("abort" | "abort and leave" | "leave" | "leave with 5", _) => {
            drop(client.fence());
            std::thread::sleep(support::LIMIT);
        }
        _ => {}
    }
    client.fence().ok();
    client.finalize().unwrap();
}

#[test]
fn ranks_exchange_and_learn_facts() {
    let outcome = play(&["-n", "4"], "facts");
    outcome.expect(0);
    for rank in 0..4 {
        let line = format!("rank {rank}/4 appnum Some(0) universe Some(4)");
        assert!(outcome.out.contains(&line), "{}", outcome.out);
    }
}

#[test]
fn sections_are_numbered() {
    let exe = std::env::current_exe().unwrap();
    let mut command = mpiexec();
    for section in ["-n", ":", ":"] {
        match section {
            "-n" => command.args(["-n", "2"]),
            _ => command.arg(":"),
        };
        command.arg(&exe).args(["--exact", "rank", "--nocapture"]);
    }
    let outcome = start(command.env("WEFT_TEST_ROLE", "facts")).finish();
    outcome.expect(0);
    for line in [
        "rank 1/4 appnum Some(0)",
        "rank 2/4 appnum Some(1)",
        "rank 3/4 appnum Some(2)",
    ] {
        assert!(outcome.out.contains(line), "{}", outcome.out);
    }
}

#[test]
fn abort_ends_the_job_with_its_code() {
    let outcome = play(&["-n", "3"], "abort");
    outcome
        .expect(42)
        .says("rank 1 on ")
        .says("aborted with code 42: out of luck")
        .says("the 2 other ranks were ended");
    assert!(outcome.took < Duration::from_secs(10));
    // Failure stays failure though 256 is 0 in eight bits, and its exit doesn't overtake it.
    play(&["-n", "3"], "abort and leave")
        .expect(1)
        .says("code 256");
}

#[test]
fn leaving_without_finalize_ends_the_job() {
    let outcome = play(&["-n", "3"], "leave");
    outcome
        .expect(1)
        .says("rank 1 on ")
        .says("exited with code 0 without calling MPI_Finalize");
    assert!(outcome.took < Duration::from_secs(10));
    play(&["-n", "3"], "leave with 5").expect(5).says("code 5");
    // There is nobody whom it could hurt.
    play(&["-n", "1"], "all leave").expect(0);
    let outcome = play(&["-n", "3"], "early leave");
    outcome
        .expect(0)
        .says("warning: rank 1 on ")
        .says("without calling MPI_Finalize, and so did 2 more");
    assert_eq!(outcome.out.matches("not disturbed").count(), 2);
}

#[test]
fn without_cleanup_the_others_go_on() {
    let outcome = play(&["-disable-auto-cleanup", "-n", "3"], "killed");
    outcome
        .expect(137)
        .says("rank 1 on ")
        .says("SIGKILL")
        .says("the others go on");
    assert_eq!(outcome.out.matches("gone on").count(), 2, "{}", outcome.out);
}

#[test]
fn a_code_after_finalize_hurts_nobody() {
    let outcome = play(&["-n", "2"], "finalize, then 6");
    outcome.expect(6);
    assert!(outcome.out.contains("not disturbed"), "{}", outcome.out);
    assert_eq!(outcome.err, "");
}

#[test]
fn nonsense_ends_the_job() {
    for line in ["nonsense", "cmd=frobnicate", "\\0\\377="] {
        let script = format!("printf '{line}\\n' >&$PMI_FD; sleep 50");
        let mut command = mpiexec();
        let outcome = start(command.args(["-n", "2", "bash", "-c", &script])).finish();
        outcome.expect(1).says("makes no sense");
        assert!(outcome.took < Duration::from_secs(10));
    }
}

/// Options that put three ranks on one host, on two and on three.
const PLACES: [&[&str]; 3] = [
    &[],
    &["-bootstrap", "fork", "-hosts", "a:2,b:1"],
    &["-bootstrap", "fork", "-hosts", "a,b,c"],
];

#[test]
fn waiting_for_a_rank_that_never_comes_is_noticed() {
    for place in PLACES {
        let outcome = play(&[place, &["-n", "3"]].concat(), "silent");
        outcome
            .expect(1)
            .says("rank 1 on ")
            .says("ended without calling MPI_Init, but others wait for it")
            .says(" of 3 ranks\n");
        assert!(outcome.took < Duration::from_secs(10));
    }
}

#[test]
fn without_cleanup_nobody_waits_for_a_rank_that_never_comes() {
    for place in PLACES {
        let options = [place, &["-disable-auto-cleanup", "-n", "3"]].concat();
        let outcome = play(&options, "silent");
        outcome
            .expect(1)
            .says("rank 1 on ")
            .says("the others go on");
        let said = outcome.err.matches("but others wait").count();
        assert_eq!(said, 1, "{place:?}: {}", outcome.err);
    }
}

/// Runs a rank that waits in MPI without progress, and one that does `other`.
fn stand_still(place: &[&str], other: &str) -> Outcome {
    let script = format!(
        "ask() {{ echo \"$1\" >&$PMI_FD; read -r answer <&$PMI_FD; }}; \
         if test $PMI_RANK = 1; then {other} sleep 5; exit; fi; \
         ask 'cmd=init pmi_version=1 pmi_subversion=1'; for i in $(seq 20); do \
         ask 'cmd=weft_still seconds=1'; case $answer in *report=1*) \
         echo 'Weft: process 0 is waiting in MPI_Recv. Pending operations:' >&2; \
         echo '  VCI 0: receive, not matched: rank 1, tag 7, context 0x0, room for 4 bytes' >&2;; \
         esac; sleep 0.25; done; ask 'cmd=finalize'"
    );
    let mut command = mpiexec();
    start(command.args(place).args(["-n", "2", "bash", "-c", &script])).finish()
}

#[test]
fn a_hang_is_that_of_the_ranks_in_mpi() {
    let hang = "mpiexec: no rank has made progress for 1 second (WEFT_HANG)";
    let init = "ask 'cmd=init pmi_version=1 pmi_subversion=1'";
    for place in [&[][..], &["-bootstrap", "fork", "-hosts", "a,b"]] {
        let finalized = stand_still(place, &format!("{init}; ask 'cmd=finalize';"));
        finalized
            .expect(0)
            .says(hang)
            .says("mpiexec: rank 0 waits in MPI_Recv");
        let silent = stand_still(place, "");
        assert!(!silent.expect(0).err.contains(hang), "{}", silent.err);
        let active = stand_still(
            place,
            &format!("{init}; sleep 5; ask 'cmd=finalize'; exit;"),
        );
        assert!(!active.expect(0).err.contains(hang), "{}", active.err);
    }
}

#[test]
fn sixty_four_ranks_exchange_quickly() {
    let outcome = play(&["-n", "64"], "facts");
    outcome.expect(0);
    assert!(outcome.took < Duration::from_secs(20), "{:?}", outcome.took);
}

#[test]
fn weft_ranks_run_under_hydra() {
    let exe = std::env::current_exe().unwrap();
    if !weft_needs::HYDRA.met() {
        return;
    }
    let mut command = Command::new("mpiexec.hydra");
    command.args(["-n", "3"]).arg(exe);
    command.args(["--exact", "rank", "--nocapture"]);
    start(command.env("WEFT_TEST_ROLE", "plain"))
        .finish()
        .expect(0);
}

/// A program of MPICH, or `None` where it may be left out.
fn mpich(dir: &Path) -> Option<PathBuf> {
    if !weft_needs::MPICH.met() {
        return None;
    }
    let source = dir.join("program.c");
    let program = dir.join("program");
    std::fs::write(
        &source,
        r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    int rank, size, mine, sum, *appnum, flag;
    const char *role = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1 && !strcmp(role, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 17);
    if (rank == size - 1 && !strcmp(role, "exit"))
        exit(0);
    if (rank == size - 1 && !strcmp(role, "crash"))
        abort();
    mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag);
    printf("%d of %d: %d, %d\n", rank, size, sum, flag ? *appnum : -1);
    MPI_Finalize();
    return strcmp(role, "fail") ? 0 : 9;
}
"#,
    )
    .unwrap();
    let compiled = Command::new("mpicc.mpich")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    Some(program)
}

#[test]
fn programs_of_mpich_run() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = mpich(dir.path()) else {
        return;
    };
    let program = program.to_str().unwrap();
    for size in [1, 2, 4] {
        let outcome = support::run(&["-n", &size.to_string(), program]);
        outcome.expect(0);
        let sum = size * (size + 1) / 2;
        let expected: Vec<String> = (0..size)
            .map(|rank| format!("{rank} of {size}: {sum}, 0"))
            .collect();
        assert_eq!(outcome.sorted(), expected, "{}", outcome.err);
    }
    let outcome = support::run(&["-n", "1", program, ":", "-n", "2", program]);
    outcome.expect(0);
    assert_eq!(
        outcome.sorted(),
        ["0 of 3: 6, 0", "1 of 3: 6, 1", "2 of 3: 6, 1"]
    );

    let role = |role| support::run(&["-n", "3", program, role]);
    role("fail").expect(9);
    role("abort").expect(17).says("aborted with code 17");
    role("exit").expect(1).says("without calling MPI_Finalize");
    role("crash").expect(134).says("SIGABRT");
}
