//! Instruction counts of the fast paths, with bounds that are only lowered. The counted programs are
//! in tests/instructions.

pub mod calls;
mod handles;
mod traced;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::Args;

use crate::features::Features;
use crate::{Result, install, workspace};

/// Options of `cargo xtask instructions`.
#[derive(Args)]
pub struct Options {
    /// Lower the bounds to counts below them.
    #[arg(long)]
    lower: bool,
    /// Only print which functions of Weft's run between some calls and the lane.
    ///
    /// They are counted under callgrind in an unoptimized library in which nothing is inlined
    /// (RUSTFLAGS="-C no-prepopulate-passes"); with --lib, DIR has the one of another revision. The
    /// functions counted are those of Weft's crates above the lane, by name: neither closures, nor
    /// methods of traits' implementations (`<T as Trait>::method`), nor Rust's library, nor what the
    /// lane calls. Leaves call no other function of Weft's: accessors, look-ups, checks. All others
    /// are layers.
    #[arg(long, conflicts_with = "lower")]
    pub functions: bool,
    /// Only print the counts of another library of the MPICH ABI: the folder of its libmpi.so.12.
    #[arg(long, value_name = "DIR", conflicts_with = "lower")]
    pub lib: Option<PathBuf>,
    /// Its launcher; bin/mpiexec beside DIR by default.
    #[arg(long, value_name = "PATH", requires = "lib")]
    pub launcher: Option<PathBuf>,
}

/// Instructions by which a count may exceed its bound: the C library's copy routines differ between
/// processors.
const SLACK: f64 = 2.0;

/// The bound of a count that depends on timing.
const ANY: &str = "any";

/// Compares the counts of the fully optimized library with the bounds, or prints those of another
/// library.
pub fn run(options: &Options) -> Result {
    match &options.lib {
        Some(lib) => print(lib, options.launcher.as_deref()),
        None => compare(options.lower),
    }
}

fn print(lib: &Path, launcher: Option<&Path>) -> Result {
    for (name, count) in calls::counts(&Counted::installed(lib, launcher)?)? {
        println!("{name}: {count}");
    }
    Ok(())
}

/// Compares counts with the bounds. With `lower`, counts below their bounds become the bounds.
pub fn compare(lower: bool) -> Result {
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
    /// A folder for programs compiled with it.
    pub work: PathBuf,
}

impl Counted {
    /// Returns another installation, whose launcher is bin/mpiexec beside `lib` by default.
    pub fn installed(lib: &Path, launcher: Option<&Path>) -> Result<Counted> {
        let lib = fs::canonicalize(lib).map_err(|error| format!("{}: {error}", lib.display()))?;
        let beside = lib.join("../bin/mpiexec");
        Ok(Counted {
            mpiexec: launcher.unwrap_or(&beside).to_owned(),
            work: workspace::target()?.join("counted-other"),
            libraries: lib,
        })
    }

    /// Compiles tests/instructions/`name`.c with a header's folder in the source tree for one of the
    /// libraries, and returns the program.
    pub fn compile(&self, name: &str, include: &str, library: &str) -> Result<PathBuf> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.work.display());
        fs::create_dir_all(&self.work).map_err(failed)?;
        let program = self.work.join(format!("{name}-{library}"));
        let root = workspace::root();
        workspace::run(
            Command::new("cc")
                // A call in tail position would leave the counted function, and a function's address
                // that the program defines would lead through its table of procedures.
                .args(["-O2", "-fno-optimize-sibling-calls", "-fPIE", "-pie", "-o"])
                .arg(&program)
                .arg("-I")
                .arg(root.join(include))
                .arg(root.join(format!("tests/instructions/{name}.c")))
                .arg(self.libraries.join(library))
                .arg(format!("-Wl,-rpath,{}", self.libraries.display())),
            &format!("compiling tests/instructions/{name}.c"),
        )?;
        Ok(program)
    }
}

/// Runs a command under callgrind and returns the number of instructions that it prints.
fn collected(command: &mut Command) -> Result<f64> {
    let text = String::from_utf8_lossy(&output(command)?.stderr).into_owned();
    let number = text
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .and_then(|(_, number)| number.trim().parse().ok());
    number.ok_or_else(|| format!("{command:?} printed no count: {text}"))
}

fn output(command: &mut Command) -> Result<Output> {
    let output = command.output();
    output.map_err(|error| format!("{command:?} can't be run: {error}"))
}

/// Rounds to a tenth of an instruction.
fn rounded(count: f64) -> f64 {
    (count * 10.0).round() / 10.0
}

/// Makes an installation of the development build with the optimized libraries, in a folder `name`.
pub fn optimized(name: &str) -> Result<PathBuf> {
    let target = workspace::target()?;
    let prefix = target.join(name);
    install::run(&prefix, true, &Features::default())?;
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
    let programs = install::build(true, &Features::default())?;
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
        work: lib,
    })
}

/// Returns the smallest counts by name.
pub fn counts_of(counted: &Counted) -> Result<BTreeMap<String, f64>> {
    let mut counts = calls::counts(counted)?;
    counts.extend(handles::counts(counted)?);
    counts.extend(traced::counts(counted)?);
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read() {
        let bounds = parse("# text\nput-count, Put: 61.5\nWait: any\n").unwrap();
        assert_eq!(bounds["put-count, Put"], 61.5);
        assert_eq!(shown(bounds["Wait"]), "any");
        assert!(parse("Put 61").is_err());
    }
}
