//! Tests the installed pages, manuals and shell completions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;

use crate::company::Company;
use crate::{Result, prefix, timed};

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    vec![
        timed("installed/links".to_owned(), Company::Any, links),
        timed("installed/manuals".to_owned(), Company::Any, manuals),
    ]
}

/// Collects the pages below a folder.
fn pages(dir: &Path, found: &mut Vec<PathBuf>) -> Result {
    let failed = |error| format!("{}: {error}", dir.display());
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            pages(&path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// Checks that no link between the installed pages is dead.
fn links() -> Result {
    let mut found = Vec::new();
    pages(&prefix::get()?.join("share/doc/weft"), &mut found)?;
    let mut links = 0;
    let mut dead = Vec::new();
    for page in &found {
        let text =
            fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
        for part in text.split("](").skip(1) {
            let target = part.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains(' ') {
                continue;
            }
            links += 1;
            let folder = page.parent().unwrap_or(Path::new("/"));
            if !folder.join(target).exists() {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    if !dead.is_empty() {
        return Err(format!("links that lead nowhere:\n{}", dead.join("\n")));
    }
    if found.len() < 10 || links < 20 {
        return Err(format!("{} pages with {links} links only", found.len()));
    }
    Ok(())
}

/// Checks that manuals can be formatted and that the shells' files exist.
fn manuals() -> Result {
    let share = prefix::get()?.join("share");
    let pages = [
        "man1/mpiexec.1",
        "man1/mpicc.1",
        "man1/mpifort.1",
        "man1/mpichversion.1",
        "man1/osu-bench.1",
        "man1/weft-top.1",
        "man3/MPI_Send.3",
        "man3/MPI_Win_flush.3",
        "man3/MPI_T_cvar_read.3",
        "man3/MPI_Send_c.3",
    ];
    for page in pages {
        let path = share.join("man").join(page);
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let is_link = text.starts_with(".so man3/");
        if !is_link && (!text.contains("\n.SH NAME\n") || !text.contains("\n.SH SYNOPSIS\n")) {
            return Err(format!("{page} is no manual page:\n{text}"));
        }
    }
    for file in [
        "bash-completion/completions/mpiexec",
        "zsh/site-functions/_mpiexec",
        "fish/vendor_completions.d/mpiexec.fish",
    ] {
        let path = share.join(file);
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if !text.contains("report-bindings") {
            return Err(format!("{file} does not complete options:\n{text}"));
        }
    }
    let script = share.join("bash-completion/completions/mpiexec");
    let status = Command::new("bash").arg("-n").arg(&script).status();
    match status.map(|status| status.success()) {
        Ok(true) => Ok(()),
        _ => Err(format!("bash does not understand {}", script.display())),
    }
}
