//! `weft-info`: shows the installed Weft and how it would start here.
//!
//! Called as `mpichversion`, as configure scripts do, it prints the versions only.

mod library;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use library::{Facts, Variable};
use serde_json::{Value, json};

/// The libraries of a prefix with their descriptions.
const LIBRARIES: [(&str, &str); 5] = [
    ("libmpi.so.12", "C, the MPICH ABI"),
    ("libmpi_abi.so.1", "C, the standard ABI of MPI-5.0"),
    (
        "weft/compat/libmpi.so.40",
        "C, the ABI of Open MPI, for programs under mpiexec",
    ),
    ("libmpifort.so.12", "Fortran: mpif.h, mpi, mpi_f08"),
    ("libmpicxx.so.12", "the C++ bindings of MPI-2.2"),
];

/// Shows the installed Weft: version, libraries, transports, control variables.
#[derive(Parser)]
#[command(name = "weft-info", version)]
struct Options {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Print also what each control variable does.
    #[arg(long, short)]
    all: bool,
    /// Don't start MPI to find its transports.
    #[arg(long)]
    no_start: bool,
    /// The prefix of the Weft to show, instead of this program's.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

/// The features that `mpichversion` lists, by MPICH's names.
const FEATURES: &str = "threadcomm";

/// The facts to print.
struct Report {
    prefix: PathBuf,
    facts: Facts,
    libraries: Vec<(&'static str, &'static str)>,
    /// The lines of `mpiexec -info`.
    start: Vec<String>,
}

fn main() -> ExitCode {
    let name = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let result = if name.file_name().is_some_and(|name| name == "mpichversion") {
        versions()
    } else {
        let options = Options::parse();
        report(&options).map(|report| match options.json {
            true => format!("{:#}\n", report.json()),
            false => report.text(options.all),
        })
    };
    match result {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("weft-info: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the prefix that this program is installed in.
fn prefix() -> Result<PathBuf, String> {
    let program = env::current_exe()
        .map_err(|error| format!("weft-info can't find its own file: {error}"))?;
    let prefix = program.parent().and_then(Path::parent);
    prefix.map(Path::to_owned).ok_or_else(|| {
        format!(
            "{} is not in the bin folder of a prefix; name one with --prefix",
            program.display()
        )
    })
}

fn ask(prefix: &Path) -> Result<Facts, String> {
    let path = prefix.join("lib").join(LIBRARIES[0].0);
    if path.exists() {
        return library::ask(&path);
    }
    Err(format!(
        "{} does not exist; name the prefix of an installed Weft with --prefix",
        path.display()
    ))
}

/// Returns the output of `mpichversion`.
fn versions() -> Result<String, String> {
    let facts = ask(&prefix()?)?;
    let (major, minor) = facts.standard;
    Ok(format!(
        "{}\nMPI standard: {major}.{minor}\nMPICH features: {FEATURES}\n",
        facts.version
    ))
}

fn report(options: &Options) -> Result<Report, String> {
    let prefix = match &options.prefix {
        Some(prefix) => prefix.clone(),
        None => prefix()?,
    };
    let facts = ask(&prefix)?;
    let there = |name: &str| prefix.join("lib").join(name).exists();
    let libraries = LIBRARIES.into_iter().filter(|(name, _)| there(name));
    let start = match options.no_start {
        true => Vec::new(),
        false => start(&prefix)?,
    };
    Ok(Report {
        libraries: libraries.collect(),
        facts,
        start,
        prefix,
    })
}

/// Runs `mpiexec -info`.
fn start(prefix: &Path) -> Result<Vec<String>, String> {
    let launcher = prefix.join("bin/mpiexec");
    let output = Command::new(&launcher)
        .arg("-info")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", launcher.display()))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`mpiexec -info` failed: {}", error.trim_end()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(str::to_owned).collect())
}

/// Returns the source of a variable's value.
fn origin(variable: &Variable) -> &'static str {
    let set = env::var_os(&variable.name).is_some_and(|value| !value.is_empty());
    match set {
        true => "environment",
        // The file of costs that were measured on this host.
        false if variable.name.starts_with("WEFT_COLL_COSTS") && variable.value.is_some() => "file",
        false => "default",
    }
}

/// Returns what the library uses for a variable that is not set, from the end of its description.
fn default(variable: &Variable) -> &str {
    let (_, default) = variable.help.rsplit_once("Default: ").unwrap_or_default();
    default.trim_end_matches(".)")
}

impl Report {
    fn json(&self) -> Value {
        let libraries = self.libraries.iter();
        let libraries = libraries.map(|(name, what)| json!({"file": name, "what": what}));
        let variables = self.facts.variables.iter().map(|variable| {
            json!({
                "name": variable.name,
                "value": variable.value,
                "default": default(variable),
                "origin": origin(variable),
                "help": variable.help,
            })
        });
        json!({
            "version": self.facts.version,
            "standard": [self.facts.standard.0, self.facts.standard.1],
            "prefix": self.prefix.display().to_string(),
            "libraries": libraries.collect::<Vec<_>>(),
            "start": self.start,
            "variables": variables.collect::<Vec<_>>(),
        })
    }

    fn text(&self, all: bool) -> String {
        let (major, minor) = self.facts.standard;
        let mut text = format!(
            "{}\nMPI standard: {major}.{minor}\nprefix: {}\n\nlibraries\n",
            self.facts.version,
            self.prefix.display()
        );
        for (name, what) in &self.libraries {
            text += &format!("  {name:<25} {what}\n");
        }
        if !self.start.is_empty() {
            text += "\nhow MPI starts here\n";
            for line in &self.start {
                text += &format!("  {line}\n");
            }
        }
        text += "\ncontrol variables (docs/tuning.md; * set in the environment, + from a file)\n";
        let width = self
            .facts
            .variables
            .iter()
            .map(|variable| variable.name.len());
        let width = width.max().unwrap_or(0);
        for variable in &self.facts.variables {
            let mark = match origin(variable) {
                "environment" => '*',
                "file" => '+',
                _ => ' ',
            };
            let value = variable.value.as_deref().unwrap_or(default(variable));
            text += &format!("{mark} {:<width$}  {value}\n", variable.name);
            if all {
                text += &format!("    {}\n", variable.help);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_manual_page_names_all_options() {
        let page = include_str!("../../../docs/weft-info.1").replace('\\', "");
        for option in Options::command().get_opts() {
            let long = format!("--{}", option.get_long().expect("a long name"));
            assert!(page.contains(&long), "docs/weft-info.1 lacks {long}");
        }
    }
}
