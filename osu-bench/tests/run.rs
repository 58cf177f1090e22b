//! Runs the program under Debian's MPICH, if that is installed: benchmarks, a comparison of the
//! library with itself, and failures that must be reported.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PROGRAM: &str = env!("CARGO_BIN_EXE_osu-bench");

/// Where MPICH is, while no other test runs its jobs: waiting ranks spin, and jobs side by side
/// would keep each other from the processors.
struct Mpich {
    launcher: PathBuf,
    library: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

/// Debian's MPICH, or nothing where it may be left out.
fn mpich() -> Option<Mpich> {
    static ONE_JOB: Mutex<()> = Mutex::new(());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let launcher = std::env::split_paths(&path)
        .map(|dir| dir.join("mpiexec.hydra"))
        .find(|p| p.is_file());
    let library = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"]
        .map(PathBuf::from)
        .into_iter()
        .find(|dir| dir.join("libmpich.so.12").exists());
    match (launcher, library) {
        (Some(launcher), Some(library)) => {
            let _alone = ONE_JOB.lock().unwrap_or_else(PoisonError::into_inner);
            Some(Mpich {
                launcher,
                library,
                _alone,
            })
        }
        _ => {
            let why = "there is no mpiexec.hydra or no libmpich.so.12 (Debian: mpich)";
            weft_needs::leave_out(weft_needs::HYDRA.name, why);
            None
        }
    }
}

/// A command that is ended after a minute.
fn limited(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60"]).arg(program);
    // Only the library under test, whatever the caller's environment says.
    command
        .env_remove("LD_LIBRARY_PATH")
        .env("HYDRA_IFACE", "lo");
    command
}

/// Runs ranks of the program.
fn ranks(mpich: &Mpich, ranks: u32, arguments: &[&str]) -> Output {
    let mut command = limited(&mpich.launcher);
    command.env("LD_LIBRARY_PATH", &mpich.library);
    command
        .args(["-n", &ranks.to_string(), PROGRAM])
        .args(arguments)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The fields of the line of this size.
fn row(text: &str, size: usize) -> Vec<String> {
    let size = size.to_string();
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned));
    lines
        .map(Iterator::collect::<Vec<_>>)
        .find(|fields| fields.first() == Some(&size))
        .unwrap_or_else(|| panic!("no line for {size} bytes in:\n{text}"))
}

#[test]
fn latency_between_two_ranks() {
    let Some(mpich) = mpich() else { return };
    let output = ranks(
        &mpich,
        2,
        &["latency", "-m", "8:8", "-i", "100", "-f", "-c"],
    );
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(
        text.starts_with("# OSU MPI Latency Test (osu-bench of Weft"),
        "{text}"
    );
    let fields = row(&text, 8);
    let latency: f64 = fields[1].parse().unwrap();
    assert!(latency > 0.0, "{text}");
    assert_eq!(fields[2..], ["100", "Pass"], "{text}");
}

#[test]
fn two_sockets_show_the_floor_of_tcp() {
    let output = limited(Path::new(PROGRAM))
        .args(["tcp-floor", "--sizes", "8,65536", "--budget", "2"])
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    for size in [8, 65_536] {
        let latency: f64 = row(&text, size)[1].parse().unwrap();
        assert!(latency > 0.1, "{text}");
    }
}

#[test]
fn every_benchmark_moves_the_right_data() {
    let Some(mpich) = mpich() else { return };
    let names = [
        "latency",
        "bw",
        "bibw",
        "mbw_mr",
        "mbw_mr_mt",
        "multi_lat",
        "bcast",
        "allreduce",
        "reduce",
        "allgather",
        "alltoall",
        "gather",
        "scatter",
        "reduce_scatter",
        "put_latency",
        "get_latency",
        "put_bw",
        "get_bw",
        "acc_latency",
        "fop_latency",
        "cas_latency",
    ];
    for name in names {
        let arguments = [
            name,
            "--sizes",
            "8,1000,65536",
            "-i",
            "3",
            "-x",
            "1",
            "-W",
            "4",
            "-c",
        ];
        let output = ranks(&mpich, 2, &arguments);
        let text = stdout(&output);
        assert!(output.status.success(), "{name}: {text}{}", stderr(&output));
        let atomic = matches!(name, "fop_latency" | "cas_latency");
        for &size in if atomic { &[8][..] } else { &[8, 1000, 65536] } {
            assert_eq!(row(&text, size).last().unwrap(), "Pass", "{name}: {text}");
        }
    }
}

#[test]
fn a_wrong_number_of_ranks_is_said_once() {
    let Some(mpich) = mpich() else { return };
    let output = ranks(&mpich, 1, &["latency"]);
    assert!(!output.status.success());
    let text = stderr(&output);
    assert_eq!(
        text.matches("needs exactly 2 ranks and the job has 1")
            .count(),
        1,
        "{text}"
    );
}

#[test]
fn a_library_that_does_not_load_is_not_replaced_by_another() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libmpi.so.12"), "no library").unwrap();
    let output = limited(Path::new(PROGRAM))
        .args(["compare", "--launcher", "A=true", "--lib"])
        .arg(format!("A={}", folder.path().display()))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("could not open an MPI library"), "{text}");
    assert!(
        text.contains("put the folder of a working libmpi.so.12"),
        "{text}"
    );
}

#[test]
fn a_library_compares_with_itself() {
    let Some(mpich) = mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let output = limited(Path::new(PROGRAM))
        .arg("compare")
        .args(["--lib", &format!("A={}", mpich.library.display())])
        .args(["--launcher", &format!("A={}", mpich.launcher.display())])
        .args([
            "--rounds",
            "2",
            "--budget",
            "5",
            "--sizes",
            "8",
            "--bench",
            "latency,barrier",
            // All runs count, however far the cores are from each other.
            "--line",
            "0..1000000000",
        ])
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(
        text.starts_with("| benchmark | bytes | unit | A | A again | A again/A |"),
        "{text}"
    );
    assert!(text.contains("| latency | 8 | µs |") && text.contains("| barrier | – | µs |"));
    assert!(
        text.contains("MPICH") && text.contains("load average"),
        "{text}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    for result in json["results"].as_array().unwrap() {
        for side in result["sides"].as_array().unwrap() {
            assert_eq!(side["values"].as_array().unwrap().len(), 2, "{json}");
        }
    }
}

#[test]
fn a_page_has_a_picture_of_each_benchmark_with_sizes() {
    let Some(mpich) = mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let output = limited(Path::new(PROGRAM))
        .args([
            "report", "--rounds", "1", "--budget", "2", "--sizes", "8,1024",
        ])
        .args(["--bench", "latency,barrier", "--over", "shm", "--output"])
        .arg(&page)
        .args(["--launcher", &format!("here={}", mpich.launcher.display())])
        .args(["--lib", &format!("a<b={}", mpich.library.display())])
        .args(["--launcher", &format!("a<b={}", mpich.launcher.display())])
        .env("LD_LIBRARY_PATH", &mpich.library)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    let text = std::fs::read_to_string(page).unwrap();
    // A line and its place in the legend for these two, and for what else is on the machine; bars.
    let lines = text.matches("<polyline").count();
    assert!(lines >= 2, "{text}");
    assert_eq!(text.matches("<span><svg").count(), lines, "{text}");
    assert_eq!(text.matches("<svg class='bars'").count(), 1, "{text}");
    assert!(text.contains("prefers-color-scheme:dark"), "{text}");
    assert!(text.contains("a&lt;b") && !text.contains("a<b"), "{text}");
    for part in [
        "<h3>latency ",
        "<h3>barrier ",
        ">1 Ki<",
        "MPICH",
        "load average",
        "ratio",
    ] {
        assert!(text.contains(part), "no {part}: {text}");
    }
    assert!(!text.contains("http"), "it needs nothing from elsewhere");
}

#[test]
fn a_page_of_results_says_first_who_is_ahead() {
    let Some(mpich) = mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    // The same library in another folder is another one.
    let other = folder.path().join("lib");
    std::fs::create_dir(&other).unwrap();
    let library = mpich.library.join("libmpich.so.12").canonicalize().unwrap();
    std::fs::copy(library, other.join("libmpich.so.12")).unwrap();
    let page = folder.path().join("results.md");
    let launcher = mpich.launcher.display();
    let output = limited(Path::new(PROGRAM))
        .args([
            "compare", "--rounds", "1", "--budget", "2", "--sizes", "8,64",
        ])
        .args([
            "--bench",
            "latency,barrier",
            "--line",
            "0..1000000000",
            "--page",
        ])
        .arg(&page)
        .args(["--lib", &format!("one={}", mpich.library.display())])
        .args(["--lib", &format!("two={}", other.display())])
        .args(["--launcher", &format!("one={launcher}")])
        .args(["--launcher", &format!("two={launcher}")])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    assert!(
        stdout(&output).contains("results.md with 3 pictures"),
        "{}",
        stdout(&output)
    );
    let text = std::fs::read_to_string(&page).unwrap();
    let summary = text.split("\n## ").next().unwrap();
    assert!(summary.lines().count() <= 12, "{summary}");
    assert!(
        summary.contains("one against the best of the others, at 3 points of 2 benchmarks"),
        "{summary}"
    );
    for bench in ["latency", "barrier"] {
        assert!(summary.contains(bench), "{bench}: {summary}");
        let name = format!("results-{bench}.svg");
        assert!(text.contains(&format!("![{bench}]({name})")), "{text}");
        let picture = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(
            picture.starts_with("<svg xmlns=") && picture.contains(">two<"),
            "{picture}"
        );
    }
    for part in [
        "| bytes | one | two | one is |",
        "| 64 |",
        "Spread in ± %",
        "osu-bench compare --rounds 1",
        "load average",
        "MPICH",
    ] {
        assert!(text.contains(part), "no {part}: {text}");
    }
}

#[test]
fn a_side_that_fails_is_reported_beside_one_that_works() {
    let Some(mpich) = mpich() else { return };
    let output = limited(Path::new(PROGRAM))
        .arg("compare")
        .args(["--lib", &format!("A={}", mpich.library.display())])
        .args(["--lib", &format!("B={}", mpich.library.display())])
        .args([
            "--launcher",
            &format!("A={}", mpich.launcher.display()),
            "--launcher",
            "B=false",
        ])
        .args([
            "--rounds", "2", "--budget", "5", "--sizes", "8", "--bench", "latency",
        ])
        .output()
        .unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("| failed | – | – |"), "{text}");
    assert!(
        text.contains("- FAILED: B, latency, round 2: exit code 1"),
        "{text}"
    );
    assert!(!text.contains("FAILED: A"), "{text}");
}

/// A launcher that never ends and leaves a process in a session of its own.
const HANGING: &str = "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n\
                       setsid sh -c 'echo $$ > PIDFILE; exec sleep 1000' & sleep 1000\n";

#[test]
fn a_hanging_run_is_ended_with_all_its_processes() {
    use std::os::unix::fs::PermissionsExt;
    let Some(mpich) = mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (launcher, pid) = (folder.path().join("mpiexec"), folder.path().join("pid"));
    std::fs::write(
        &launcher,
        HANGING.replace("PIDFILE", &pid.display().to_string()),
    )
    .unwrap();
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = limited(Path::new(PROGRAM))
        .arg("compare")
        .args(["--lib", &format!("A={}", mpich.library.display())])
        .args(["--launcher", &format!("A={}", launcher.display())])
        .args([
            "--rounds",
            "1",
            "--sizes",
            "8",
            "--bench",
            "latency",
            "--timeout",
            "1",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(
        text.contains("did not end within 1 s"),
        "{text}{}",
        stderr(&output)
    );
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(
        !Path::new("/proc").join(pid.trim()).exists(),
        "process {} is left",
        pid.trim()
    );
}

#[test]
fn files_are_read_and_written_by_turns() {
    let Some(mpich) = mpich() else { return };
    let folder = std::env::temp_dir().join(format!("osu-bench-io-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let library = format!("{}={}", mpich.library.display(), mpich.launcher.display());
    let output = limited(Path::new(PROGRAM))
        .args([
            "io",
            "-n",
            "2",
            "--megabytes",
            "4",
            "--rounds",
            "1",
            "--repeats",
            "1",
        ])
        .args([
            "--lib",
            &format!("one={library}"),
            "--lib",
            &format!("two={library}"),
        ])
        .args([
            "--patterns",
            "contiguous-write,interleaved-read,small-strided-write,append,overlap-idle",
        ])
        .arg("--plain")
        .arg("--dir")
        .arg(&folder)
        .output()
        .unwrap();
    let text = stdout(&output);
    let left = std::fs::read_dir(&folder).unwrap().count();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert_eq!(left, 0, "files were left behind");
    for pattern in [
        "contiguous-write",
        "interleaved-read",
        "small-strided-write",
        "append",
    ] {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("| {pattern}, MB/s |")))
            .unwrap_or_else(|| panic!("no line for {pattern} in:\n{text}"));
        // Name, the first library, the second one, plain calls, and how the first one stands to the others.
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for ratio in [cells[4], cells[6]] {
            let ratio: f64 = ratio.parse().unwrap();
            assert!(ratio > 0.0, "{line}");
        }
    }
    assert!(text.contains("| overlap-idle, % |"), "{text}");
}

#[test]
fn distributed_structures_are_right_and_timed() {
    let Some(mpich) = mpich() else { return };
    for (name, size) in [("rma-random", 1024), ("rma-sort", 4096)] {
        let output = ranks(&mpich, 2, &[name, "--budget", "1"]);
        let text = stdout(&output);
        assert!(output.status.success(), "{text}{}", stderr(&output));
        let fields = row(&text, size);
        let times = fields[1..].iter().map(|field| field.parse::<f64>());
        assert!(times.into_iter().all(|time| time.unwrap() > 0.0), "{text}");
    }
}

#[test]
fn trees_of_an_allreduce_are_compared() {
    let Some(mpich) = mpich() else { return };
    let output = ranks(&mpich, 5, &["writes", "--budget", "1", "--sizes", "4"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    for start in ["barrier: messages ", "bcast 4 B: ", "allreduce 4 B: "] {
        assert!(text.lines().any(|line| line.starts_with(start)), "{text}");
    }
    assert!(text.contains(" 1: ") && text.contains(" 3: "), "{text}");
    let output = ranks(
        &mpich,
        2,
        &["writes", "--blocks", "--budget", "1", "--sizes", "8"],
    );
    let text = stdout(&output);
    assert!(
        text.contains(", blocks of 4097 B ") && !text.contains("allreduce"),
        "{text}"
    );
    let output = ranks(&mpich, 2, &["writes", "--sizes", "6"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("multiples of 4"));
}
