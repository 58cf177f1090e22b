//! Tests that progress bars are shown on a terminal only.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use weft_needs::TERMINALS;

use crate::company::Company;
use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::Case;
use crate::room::Room;
use crate::terminal::Terminal;
use crate::{Result, lacks, patience, prefix, timed};

/// A command of osu-bench with the texts that must appear.
struct Bar {
    name: &'static str,
    /// `PREFIX` is replaced by Weft's prefix.
    words: &'static str,
    /// Shown while it runs.
    shown: [&'static str; 2],
    /// Printed at its end.
    printed: &'static str,
}

const BARS: [Bar; 7] = [
    Bar {
        name: "compare",
        words: "compare --lib Weft=PREFIX/lib --rounds 3 --bench latency --sizes 8 --budget 20",
        shown: [" of 6", "latency, Weft"],
        printed: "| latency | 8 |",
    },
    Bar {
        name: "report",
        words: "report --bench latency --sizes 8,64 --rounds 2 --budget 20 --over shm --output /dev/null",
        shown: ["round 1 of 2", "latency, Weft"],
        printed: "/dev/null: ",
    },
    Bar {
        name: "tune",
        words: "tune --lib PREFIX/lib --bench barrier --rounds 2 --budget 20 /dev/null",
        shown: [" of 6", "barrier by slots"],
        printed: "barrier 2 2 0 ",
    },
    Bar {
        name: "consistency",
        words: "consistency --lib PREFIX/lib --bench bcast --sizes 8,1048576 --rounds 4 --budget 20",
        shown: [" of 4", "bcast"],
        printed: "bcast: consistent",
    },
    Bar {
        name: "io",
        words: "io --lib Weft=PREFIX/lib --dir . -n 2 --megabytes 4 --rounds 4 --repeats 1 --patterns append",
        shown: [" of 4", "round 1 of 4, Weft"],
        printed: "| append, MB/s |",
    },
    Bar {
        name: "startup",
        words: "startup --lib Weft=PREFIX/lib -n 2 --rounds 4",
        shown: [" of 5", "2 ranks, Weft, round "],
        printed: "| 2 | Weft |",
    },
    Bar {
        name: "degrees",
        words: "degrees --sizes 8 --most 4096",
        shown: [" of 16", "8 bytes, "],
        printed: "| 4096 |",
    },
];

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |bar: &'static Bar| {
        let name = format!("bars/{}/2", bar.name);
        let left_out = lacks::any(&name, &[&TERMINALS]);
        timed(name, Company::Any, || run(bar)).with_ignored_flag(left_out)
    };
    BARS.iter().map(trial).collect()
}

fn command(room: &Room, prefix: &Path, bar: &Bar) -> Command {
    let mut command = room.command(&prefix.join("bin/osu-bench"));
    clear(&mut command);
    command.env_remove("LD_LIBRARY_PATH");
    let words = bar.words.replace("PREFIX", &prefix.display().to_string());
    command.args(words.split(' '));
    command
}

fn run(bar: &Bar) -> Result {
    let (prefix, room) = (prefix::get()?, Room::new()?);
    let mut terminal = Terminal::start(command(&room, prefix, bar), 60, 140)?;
    terminal.wait(&bar.shown)?;
    terminal.end(&room, 0)?;
    terminal.wait(&[bar.printed])?;
    let text = terminal.text();
    let is_bar = |line: &&str| line.contains(bar.shown[0]) || line.contains("---- ");
    if let Some(line) = text.lines().find(is_bar) {
        return Err(format!("'{line}' is left of the bar in\n{text}"));
    }
    let outcome = Outcome::of(&mut command(&room, prefix, bar), patience(60.0))?;
    let case = Case {
        // Standard error must be empty.
        stdout: vec![bar.printed.to_owned()],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())
}
