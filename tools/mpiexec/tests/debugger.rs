//! How debuggers and other shells get at a job: the process table, `-report`, `-completion`.

mod support;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::process::Command;
use std::time::Duration;

use support::{mpiexec, run, start, wait_until};

const LONG: Duration = Duration::from_secs(30);

/// Plays a debugger that has attached to a process: reads its memory at the places that its symbols say.
struct Debugger {
    memory: File,
    symbols: HashMap<String, u64>,
    base: u64,
}

impl Debugger {
    fn attach(pid: u32) -> Debugger {
        let program = env!("CARGO_BIN_EXE_mpiexec");
        let listed = Command::new("nm").arg(program).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let symbols = listed.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (place, _, name) = (words.next()?, words.next()?, words.next()?);
            let place = u64::from_str_radix(place, 16).ok()?;
            name.starts_with("MPIR_").then(|| (name.to_owned(), place))
        });
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let line = maps.lines().find(|line| line.contains("mpiexec")).unwrap();
        let base = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        Debugger {
            memory: File::open(format!("/proc/{pid}/mem")).unwrap(),
            symbols: symbols.collect(),
            base,
        }
    }

    fn read<const N: usize>(&mut self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.seek(SeekFrom::Start(at)).unwrap();
        self.memory.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn place(&self, name: &str) -> u64 {
        self.base + self.symbols[name]
    }

    fn number(&mut self, name: &str) -> i32 {
        i32::from_ne_bytes(self.read(self.place(name)))
    }

    fn address(&mut self, at: u64) -> u64 {
        u64::from_ne_bytes(self.read(at))
    }

    fn text(&mut self, at: u64) -> String {
        let mut text = String::new();
        for place in at.. {
            match self.read::<1>(place) {
                [0] => break,
                [byte] => text.push(byte.into()),
            }
        }
        text
    }
}

#[test]
fn a_debugger_finds_the_ranks() {
    let job = start(mpiexec().args([
        "-n", "2", "sleep", "60", ":", "-n", "1", "sh", "-c", "sleep 60",
    ]));
    let pid = job.child.id();
    let mut debugger = Debugger::attach(pid);
    for name in [
        "MPIR_being_debugged",
        "MPIR_Breakpoint",
        "MPIR_i_am_starter",
        "MPIR_partial_attach_ok",
    ] {
        assert!(debugger.symbols.contains_key(name), "{name}");
    }
    wait_until("the ranks run", LONG, || {
        debugger.number("MPIR_proctable_size") == 3
    });
    assert_eq!(debugger.number("MPIR_debug_state"), 1);
    let table = debugger.place("MPIR_proctable");
    let table = debugger.address(table);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for rank in 0..3 {
        let entry = table + rank * 24;
        let name = debugger.address(entry);
        assert_eq!(debugger.text(name), host.trim());
        let program = debugger.address(entry + 8);
        let program = debugger.text(program);
        assert!(
            program.ends_with(if rank < 2 { "sleep" } else { "sh" }),
            "{program}"
        );
        let process = i32::from_ne_bytes(debugger.read(entry + 16));
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap();
        let wanted = format!("PMI_RANK={rank}");
        assert!(
            environment
                .split(|byte| *byte == 0)
                .any(|one| one == wanted.as_bytes())
        );
    }
    job.signal("TERM");
    job.finish();
}

#[test]
fn another_shell_asks_for_a_report() {
    let job = start(mpiexec().args(["-n", "2", "sh", "-c", "trap '' QUIT; echo up; sleep 4"]));
    let pid = job.child.id().to_string();
    std::thread::sleep(Duration::from_secs(1));
    let asked = run(&["-report", &pid]);
    assert!(asked.expect(0).out.contains("asked mpiexec process"));
    job.finish()
        .expect(0)
        .says("mpiexec: no rank has said that it waits in MPI");
    let me = std::process::id().to_string();
    run(&["-report", &me]).expect(2).says("not an mpiexec");
    run(&["-report", "x"])
        .expect(2)
        .says("takes the process number");
}

#[test]
fn shells_take_the_completion() {
    let outcome = run(&["-completion", "bash"]);
    let script = &outcome.expect(0).out;
    let checked = Command::new("bash")
        .args(["-c", "eval \"$1\"; COMP_WORDS=(mpiexec -repo) COMP_CWORD=1; _weft_mpiexec; echo ${COMPREPLY[*]}"])
        .args(["bash", script])
        .output()
        .unwrap();
    let found = String::from_utf8(checked.stdout).unwrap();
    let mut found: Vec<&str> = found.split_whitespace().collect();
    found.sort_unstable();
    found.retain(|word| ["-report", "-report-bindings"].contains(word));
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert_eq!(found, ["-report", "-report-bindings"], "{errors}");
    run(&["-completion", "tcsh"])
        .expect(2)
        .says("bash, zsh, fish");
}
