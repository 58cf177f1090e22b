//! Writes the tutorial's files (docs/tutorial.md) to an empty folder and runs its commands there.

use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;

use crate::company::Company;
use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::Case;
use crate::room::Room;
use crate::{Result, patience, prefix, timed};

/// The test.
pub fn trials() -> Vec<Trial> {
    vec![timed("tutorial/4".to_owned(), Company::Any, run)]
}

/// A fenced block of the page.
enum Block {
    /// A file of this name.
    File(String, String),
    /// Commands of the shell.
    Commands(String),
}

/// Returns the fenced blocks of a page, marked with a language and a file's name, or `sh`. `sh` may be
/// followed by what the commands need; without it they are left out.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut parts = text.split("```");
    parts.next();
    while let (Some(block), _) = (parts.next(), parts.next()) {
        let Some((head, body)) = block.split_once('\n') else {
            continue;
        };
        match head.split_once(' ') {
            Some(("sh", need)) if has(need) => blocks.push(Block::Commands(body.to_owned())),
            Some(("c" | "f90" | "py", name)) => {
                blocks.push(Block::File(name.to_owned(), body.to_owned()))
            }
            None if head == "sh" => blocks.push(Block::Commands(body.to_owned())),
            _ => {}
        }
    }
    blocks
}

/// Returns whether this machine has gfortran or mpi4py.
fn has(need: &str) -> bool {
    let words = match need {
        "mpi4py" => vec!["python3", "-c", "import mpi4py"],
        need => vec![need, "--version"],
    };
    let status = Command::new(words[0]).args(&words[1..]).output();
    status.is_ok_and(|output| output.status.success())
}

fn run() -> Result {
    let prefix = prefix::get()?;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tutorial.md");
    let text = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let blocks = blocks(&text);
    if blocks.len() < 8 {
        return Err(format!("the tutorial has {} blocks only", blocks.len()));
    }
    let dir = prefix::target()?.join("test-tutorial");
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(failed)?;
    }
    fs::create_dir_all(&dir).map_err(failed)?;
    let bin = prefix.join("bin").display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    for block in blocks {
        match block {
            Block::File(name, text) => fs::write(dir.join(name), text).map_err(failed)?,
            Block::Commands(text) => {
                let room = Room::new()?;
                let mut command = room.command(Path::new("/bin/sh"));
                clear(&mut command);
                let log = dir.join("log.txt");
                command
                    .arg("-ec")
                    .arg(format!("exec > \"$0\" 2>&1; set -x\n{text}"));
                command.arg(&log).env("PATH", &path).current_dir(&dir);
                let outcome = Outcome::of(&mut command, patience(90.0))?;
                let said = fs::read_to_string(&log).unwrap_or_default();
                let judged = outcome.judge(&Case::default(), &room.leftovers());
                judged.map_err(|error| format!("{error}\n{said}"))?;
            }
        }
    }
    Ok(())
}
