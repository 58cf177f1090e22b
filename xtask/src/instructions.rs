//! Instruction counts of the fast paths, with bounds that are only lowered.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Result, handle_count, install, traced_count, workspace};

/// Instructions by which a count may exceed its bound: the C library's copy routines differ between
/// processors.
const SLACK: f64 = 2.0;

/// The bound of a count that depends on timing.
const ANY: &str = "any";

/// Counts with the fully optimized library. If `lower`, counts below their bounds become the bounds.
pub fn run(lower: bool) -> Result {
    let path = workspace::root().join("tests/instructions.txt");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut bounds = parse(&text)?;
    let mut counts = counts()?;
    let is_above = |(name, count): (&String, &f64)| {
        bounds.get(name).is_some_and(|bound| *count > bound + SLACK)
    };
    if counts.iter().any(is_above) {
        // On a busy machine a receiver may sleep, and its wakeup is counted, too.
        println!("xtask: counting again, to take the smaller counts");
        for (name, again) in self::counts()? {
            let count = counts.entry(name).or_insert(again);
            *count = count.min(again);
        }
    }
    let mut above = Vec::new();
    for (name, &count) in &counts {
        let Some(bound) = bounds.get_mut(name) else {
            above.push(format!("{name}: {count} instructions, but it has no bound"));
            continue;
        };
        println!(
            "xtask: {name}: {count} instructions, at most {}",
            shown(*bound)
        );
        if count > *bound + SLACK {
            above.push(format!("{name}: {count} instructions, above {bound}"));
        } else if lower && count < *bound && bound.is_finite() {
            *bound = count;
        }
    }
    for name in bounds.keys().filter(|name| !counts.contains_key(*name)) {
        above.push(format!("{name}: has a bound, but was not counted"));
    }
    if !above.is_empty() {
        return Err(format!(
            "{}; bounds are in {}",
            above.join("; "),
            path.display()
        ));
    }
    if lower {
        let comments = text.lines().take_while(|line| line.starts_with('#'));
        let mut new: String = comments.map(|line| format!("{line}\n")).collect();
        for (name, bound) in &bounds {
            new += &format!("{name}: {}\n", shown(*bound));
        }
        fs::write(&path, new).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn shown(bound: f64) -> String {
    match bound.is_finite() {
        true => bound.to_string(),
        false => ANY.to_owned(),
    }
}

/// Parses bounds from lines `name: number`; lines with `#` are comments.
fn parse(text: &str) -> Result<BTreeMap<String, f64>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let bound = line.rsplit_once(": ").and_then(|(name, value)| {
                let bound = match value.trim() {
                    ANY => f64::INFINITY,
                    number => number.parse().ok()?,
                };
                Some((name.to_owned(), bound))
            });
            bound.ok_or_else(|| format!("tests/instructions.txt: '{line}' is not 'name: number'"))
        })
        .collect()
}

/// Builds the libraries with the optimization of an installation.
pub fn libraries() -> Result {
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--package", "libmpi"]);
    command.args(["--package", "mpifort", "--package", "libmpi-abi"]);
    command.args(["--package", "weft-profile"]);
    workspace::run(&mut command, "building the optimized libraries")
}

/// An installation whose instructions are counted.
pub struct Counted {
    /// The folder of libmpi.so.12, libmpi_abi.so.1 and libweft_profile.so.
    pub libraries: PathBuf,
    /// The launcher.
    pub mpiexec: PathBuf,
    /// The osu-bench that counts.
    pub osu_bench: PathBuf,
    /// A folder for programs compiled with it.
    pub work: PathBuf,
}

/// Makes an installation of the development build with the optimized libraries, in a folder `name`.
pub fn optimized(name: &str) -> Result<PathBuf> {
    let target = workspace::target()?;
    let prefix = target.join(name);
    install::run(&prefix, true)?;
    libraries()?;
    for (built, installed) in [
        ("libmpi.so", "libmpi.so.12"),
        ("libmpi_abi.so", "libmpi_abi.so.1"),
    ] {
        let library = prefix.join("lib").join(installed);
        let copied = fs::copy(target.join("release").join(built), &library);
        copied.map_err(|error| format!("{}: {error}", library.display()))?;
    }
    Ok(prefix)
}

/// Returns the smallest counts of this source tree by name.
fn counts() -> Result<BTreeMap<String, f64>> {
    libraries()?;
    // Builds all packages, although two are needed: with fewer of them cargo unifies other features
    // and compiles the shared crates again.
    let programs = install::build(true)?;
    let target = workspace::target()?;
    let lib = target.join("counted");
    let failed = |error: std::io::Error| format!("{}: {error}", lib.display());
    fs::create_dir_all(&lib).map_err(failed)?;
    for (built, name) in [
        ("libmpi.so", "libmpi.so.12"),
        ("libmpi_abi.so", "libmpi_abi.so.1"),
        ("libweft_profile.so", "libweft_profile.so"),
    ] {
        let built = target.join("release").join(built);
        fs::copy(&built, lib.join(name)).map_err(failed)?;
    }
    counts_of(&Counted {
        libraries: lib.clone(),
        mpiexec: programs.join("mpiexec"),
        osu_bench: programs.join("osu-bench"),
        work: lib,
    })
}

/// Returns the smallest counts by name.
pub fn counts_of(counted: &Counted) -> Result<BTreeMap<String, f64>> {
    let failed = |error: std::io::Error| format!("{}: {error}", counted.work.display());
    fs::create_dir_all(&counted.work).map_err(failed)?;
    let mut counts: BTreeMap<String, f64> = handle_count::counts(counted)?.into_iter().collect();
    counts.extend(traced_count::counts(counted)?);
    for kind in ["isend-count", "isend-count --multiple", "put-count"] {
        println!("xtask: counting instructions by osu-bench {kind}");
        let output = Command::new(&counted.osu_bench)
            .args(kind.split(' '))
            .args(["--repeat", "2", "--timeout", "300", "--lib"])
            .arg(&counted.libraries)
            .arg("--launcher")
            .arg(&counted.mpiexec)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("osu-bench can't be run: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("osu-bench {kind} ended with {}", output.status));
        }
        let lines = text.lines().filter_map(line);
        counts.extend(lines.map(|(name, count)| (format!("{kind}, {name}"), count)));
    }
    Ok(counts)
}

/// Parses name and count from a line of osu-bench's table.
fn line(line: &str) -> Option<(&str, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let (name, rest) = line.split_at_checked(24)?;
    let count = rest.split_whitespace().next()?.parse().ok()?;
    Some((name.trim(), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tables_are_read() {
        let text = "Isend                            221.0  up to 225.0 in 2 runs";
        assert_eq!(line(text), Some(("Isend", 221.0)));
        assert_eq!(line("# 8 bytes, 2 ranks         Instructions"), None);
        assert_eq!(line(""), None);
    }

    #[test]
    fn bounds_are_read() {
        let bounds = parse("# text\nput-count, Put: 61.5\nWait: any\n").unwrap();
        assert_eq!(bounds["put-count, Put"], 61.5);
        assert_eq!(shown(bounds["Wait"]), "any");
        assert!(parse("Put 61").is_err());
    }
}
