//! Tests the installed tools.

use std::path::Path;
use std::process::Command;

use super::{Dir, attempt, installed, run};

/// Debian's MPICH, a library of the same ABI in the loader's path.
const MPICH: &str = "/usr/lib/x86_64-linux-gnu";

#[test]
fn weft_info_describes_the_installation() {
    let bin = installed().join("bin");
    let text = run(&mut Command::new(bin.join("mpichversion")));
    assert!(text.contains("MPI standard: "), "{text}");
    assert!(text.contains("\nMPICH features: threadcomm\n"), "{text}");

    let mut info = Command::new(bin.join("weft-info"));
    let text = run(info.env("WEFT_SPIN", "77").env_remove("WEFT_YIELD"));
    for part in [
        "libmpi_abi.so.1",
        "library:   ",
        " stores to far cores",
        "\n* WEFT_SPIN ",
        " 77\n",
    ] {
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
fn weft_info_names_a_missing_library() {
    let dir = Dir::new("weft-info");
    let mut info = Command::new(installed().join("bin/weft-info"));
    let (success, text) = attempt(info.arg("--prefix").arg(&dir.0));
    assert!(!success);
    assert!(
        text.contains("libmpi.so.12 does not exist; name the prefix"),
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

    // Studies start jobs with the library and launcher of their own installation.
    let dir = Dir::new("studies");
    let study = |name: &str| {
        let mut command = osu_bench();
        command
            .args([name, "-t", "1", "--repeat", "1", "--budget", "5", "-o"])
            .arg(dir.0.join("picture.svg"));
        command
    };
    let names = [
        "vci-rate",
        "stencil",
        "ebms",
        "bspmm",
        "vci-ablation",
        "wombat",
        "legion",
        "thread-allreduce",
        "busy-target",
    ];
    for name in names {
        let text = run(&mut study(name));
        let first = text.lines().next().unwrap_or_default();
        let named = format!("{}", library.parent().expect("a folder").display());
        assert!(first.starts_with(&format!("# {name}")), "{text}");
        assert!(first.contains("Weft") && first.contains(&named), "{text}");
    }

    // Two nodes share no memory: without an interface their ranks can't reach each other.
    let lacking = ["--netns", "--env", "WEFT_TCP_INTERFACE=lacking"];
    let (success, text) = attempt(study("vci-rate").args(lacking));
    let is_said = text.contains("lacking") || text.contains("cannot make network namespaces");
    assert!(!success && is_said, "{text}");

    // What a machine with RDMA devices prints is the value, but for commands that failed there.
    if !Path::new("/sys/class/infiniband").exists() {
        // Words of the command end at spaces, which the folder's name has.
        let machine = dir
            .0
            .with_file_name(format!("machine-{}", std::process::id()));
        std::fs::write(&machine, "printf '\\036barrier: 7 us\\037\\036failed'\n").expect("a file");
        let vm = format!("sh {}", machine.display());
        let names = ["G4.4", "G6.31", "--vm", &vm];
        let (success, text) = attempt(osu_bench().arg("experiments").args(names));
        std::fs::remove_file(machine).expect("a file");
        assert!(!success && text.contains("barrier: 7 us"), "{text}");
        assert!(text.contains("failed: G6.31, G4.4, G4.4"), "{text}");
    }

    // Compiles the examples, which check their results.
    let text = run(osu_bench().args(["experiments", "F5", "D6.2", "D7.5"]));
    for example in ["4 sites: puts", "k-mers in all: count", "gets "] {
        assert!(text.contains(example), "{text}");
    }

    // Threads of a process don't send to each other: half of the volume, and of the puts.
    for (name, part, volume) in [
        ("stencil", "# MPI bytes of a side in a round", 8192.0),
        ("wombat", "# MPI puts of a side in a round", 8.0),
    ] {
        let text = run(study(name).args(["-t", "2"]));
        let row = text
            .split_once(part)
            .and_then(|(_, table)| table.lines().nth(3));
        let cells = row.unwrap_or_default().split_whitespace().skip(1);
        let cells: Vec<f64> = cells.filter_map(|cell| cell.parse().ok()).collect();
        assert!(cells.len() >= 7 && cells[0] == volume, "{name}: {text}");
        assert!(
            cells[1..].iter().all(|cell| *cell == volume / 2.0),
            "{name}: {text}"
        );
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

/// Studies give each rank a core per thread if the machine has enough.
#[test]
fn ranks_can_have_several_cores() {
    let mut job = Command::new(installed().join("bin/mpiexec"));
    job.args(["-bind-to", "core:2", "-n", "2", "echo", "started"]);
    assert_eq!(run(&mut job), "started\nstarted\n");
}
