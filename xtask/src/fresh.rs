//! Runs the README's commands, or tries the packages (`packages.rs`), in a fresh Debian 12 or 13.
//!
//! The root file system is made by debootstrap and has only the packages that the README asks for.
//! The Debian mirror and the source of crates are those that apt and cargo of this machine are
//! configured for. The Rust toolchain is this machine's, mounted into the system.

mod packages;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, ValueEnum};

use crate::{Result, workspace};

pub use packages::tutorial;

/// A release of Debian.
#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// Debian 12.
    Bookworm,
    /// Debian 13.
    Trixie,
}

/// The names of a release.
struct Release {
    suite: &'static str,
    name: &'static str,
}

impl Suite {
    fn release(self) -> Release {
        let (suite, name) = match self {
            Suite::Bookworm => ("bookworm", "Debian 12"),
            Suite::Trixie => ("trixie", "Debian 13"),
        };
        Release { suite, name }
    }
}

/// A system that has been made.
struct System {
    root: PathBuf,
    release: Release,
    /// Folders of this machine that are mounted into it, separated by spaces.
    shared: String,
}

/// Packages that the README asks for besides Rust. (Installing rustup needs certificates.)
const BEFOREHAND: &str = "build-essential,ca-certificates";

/// Options of `cargo xtask fresh`.
#[derive(Args)]
pub struct Options {
    /// The system's folder, by default `fresh` in cargo's target folder. Its old content is removed.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Debian's release.
    #[arg(long, value_enum, default_value = "bookworm")]
    release: Suite,
    /// Instead of the README's commands install the wheel, the Debian packages and this source tree
    /// in turn, and run the tutorial with each.
    #[arg(long)]
    packages: bool,
    /// With --packages: build fast, without optimization.
    #[arg(long, requires = "packages")]
    dev: bool,
    /// After the README's commands run cargo xtask test --full.
    #[arg(long, conflicts_with = "packages")]
    full: bool,
    /// Only install the packages of the full run and print what is lacking.
    #[arg(long, requires = "full")]
    prepare: bool,
    /// Run the README's commands as user 1000 without capabilities, as in a container that has none.
    #[arg(long, conflicts_with_all = ["packages", "full"])]
    plain: bool,
    /// Keep the system at the end.
    #[arg(long)]
    keep: bool,
    /// Use the system that an earlier run with --keep has left.
    #[arg(long)]
    reuse: bool,
}

/// Makes the system and runs the commands.
pub fn run(options: &Options) -> Result {
    for program in ["debootstrap", "unshare", "chroot"] {
        if !["/usr/sbin", "/usr/bin"]
            .iter()
            .any(|dir| Path::new(dir).join(program).exists())
        {
            return Err(format!(
                "{program} is not installed: run `apt-get install {program}` as root"
            ));
        }
    }
    let commands = commands(&workspace::root())?;
    let release = options.release.release();
    let sources = sources(release.suite)?;
    let root = match &options.dir {
        Some(dir) => std::path::absolute(dir).map_err(|e| format!("{}: {e}", dir.display()))?,
        None => workspace::target()?.join("fresh"),
    };
    if !options.reuse {
        remove(&root)?;
        let began = Instant::now();
        let beforehand = match options.packages {
            true => packages::BEFOREHAND,
            false => BEFOREHAND,
        };
        make(&root, &release, beforehand, &sources)?;
        let seconds = began.elapsed().as_secs();
        println!("xtask: a fresh {} made in {seconds} s", release.name);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", root.display());
    certificates(&root).map_err(failed)?;
    let system = System {
        root: root.clone(),
        release,
        shared: match options.packages {
            true => packages::shared()?,
            false => String::new(),
        },
    };
    let result = match options.packages {
        true => packages::run(&system, options.dev),
        false => copy_sources(&root).and_then(|()| {
            let full = format!("{} --full", commands[1]);
            if options.prepare {
                return enter(&system, &format!("cd /weft && {full} --prepare"));
            }
            for command in commands.iter().chain(options.full.then_some(&full)) {
                let command = format!("cd /weft && {command}");
                match options.plain {
                    true => enter(&system, &without_rights(&command))?,
                    false => enter(&system, &command)?,
                }
            }
            Ok(())
        }),
    };
    if options.keep {
        println!("xtask: the system is left in {}", root.display());
        return result;
    }
    result.and(remove(&root))
}

/// Returns the commands of the README's part 'Try it'.
fn commands(source: &Path) -> Result<Vec<String>> {
    let path = source.join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let part = text.split("\n## ").find(|part| part.starts_with("Try it"));
    let lines = part.unwrap_or_default().lines();
    let found: Vec<String> = lines
        .filter_map(|line| line.strip_prefix("    cargo "))
        .map(|rest| format!("cargo {rest}"))
        .collect();
    match found.len() {
        2 => Ok(found),
        n => Err(format!(
            "{} has {n} commands, not 2, in 'Try it'",
            path.display()
        )),
    }
}

/// Returns address and suite of the Debian mirrors that apt is configured for, with the suites of
/// the release `wanted`.
fn sources(wanted: &str) -> Result<Vec<(String, String)>> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI) $(RELEASE)"])
        .args(["Created-By: Packages", "Component: main"])
        .output()
        .map_err(|error| format!("apt-get can't be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut sources: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let Some((address, suite)) = line.split_once(' ') else {
            continue;
        };
        let known = ["bookworm", "trixie"];
        let Some(rest) = known.iter().find_map(|known| suite.strip_prefix(known)) else {
            continue;
        };
        let source = (address.to_owned(), format!("{wanted}{rest}"));
        if ["", "-updates", "-security"].contains(&rest) && !sources.contains(&source) {
            sources.push(source);
        }
    }
    if sources.iter().any(|(_, suite)| suite == wanted) {
        return Ok(sources);
    }
    Err(
        "apt has no Debian mirror: add one to /etc/apt/sources.list and run `apt-get update`"
            .to_owned(),
    )
}

/// Makes a system with the packages `beforehand`.
fn make(root: &Path, release: &Release, beforehand: &str, sources: &[(String, String)]) -> Result {
    let failed = |error: std::io::Error| format!("{}: {error}", root.display());
    fs::create_dir_all(root).map_err(failed)?;
    let mirror = sources.iter().find(|(_, suite)| suite == release.suite);
    let (mirror, _) = mirror.ok_or("no mirror")?;
    workspace::run(
        Command::new("unshare")
            // Mounts of debootstrap stay in its namespace and end with it.
            .args(["--mount", "debootstrap"])
            .args(["--variant=minbase", "--include", beforehand, release.suite])
            .arg(root)
            .arg(mirror)
            .stdout(Stdio::null()),
        "making a Debian (is the mirror of apt's sources reachable?)",
    )?;
    let lines: String = sources
        .iter()
        .map(|(address, suite)| format!("deb {address} {suite} main\n"))
        .collect();
    fs::write(root.join("etc/apt/sources.list"), lines).map_err(failed)?;
    // Settings by which the network is reached, such as proxies.
    let output = Command::new("apt-config")
        .args(["dump", "Acquire"])
        .output();
    let settings = output.map(|output| output.stdout).unwrap_or_default();
    fs::write(root.join("etc/apt/apt.conf.d/00machine"), settings).map_err(failed)?;
    for file in [
        "etc/resolv.conf",
        "etc/hosts",
        "etc/hostname",
        "etc/pip.conf",
    ] {
        let _ = fs::copy(Path::new("/").join(file), root.join(file));
    }
    let home = cargo_home();
    let inside = root.join("root/.cargo");
    fs::create_dir_all(&inside).map_err(failed)?;
    for name in ["config.toml", "config"] {
        let file = home.as_ref().map(|home| home.join(name));
        if let Some(file) = file.filter(|file| file.exists()) {
            fs::copy(&file, inside.join(name)).map_err(failed)?;
        }
    }
    for name in [
        "cargo",
        "rustc",
        "rustfmt",
        "cargo-fmt",
        "cargo-clippy",
        "clippy-driver",
        "rustdoc",
    ] {
        let place = root.join("usr/local/bin").join(name);
        symlink(Path::new("/opt/rust/bin").join(name), place).map_err(failed)?;
    }
    Ok(())
}

/// Makes a Debian 12 with these packages for other tasks. Its `cargo` links to /opt/rust, which the
/// caller must provide.
pub fn system(root: &Path, packages: &str) -> Result {
    let release = Suite::Bookworm.release();
    make(root, &release, packages, &sources(release.suite)?)?;
    certificates(root).map_err(|error| format!("{}: {error}", root.display()))
}

/// Returns the folder of this machine's Rust toolchain.
pub fn sysroot() -> Result<String> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let output = output.map_err(|error| format!("rustc can't be run: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the folder in which cargo keeps fetched crates.
pub fn cargo_home() -> Option<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

/// Copies the certificates that this machine trusts into the system.
fn certificates(root: &Path) -> std::io::Result<()> {
    let bundle = "etc/ssl/certs/ca-certificates.crt";
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let ours = given.unwrap_or_else(|| Path::new("/").join(bundle));
    if ours.exists() {
        fs::copy(ours, root.join(bundle))?;
    }
    // Certificates added on this machine must survive when the system rebuilds its bundle.
    let added = "usr/local/share/ca-certificates";
    fs::create_dir_all(root.join(added))?;
    for entry in fs::read_dir(Path::new("/").join(added))
        .into_iter()
        .flatten()
    {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            fs::copy(&path, root.join(added).join(name))?;
        }
    }
    Ok(())
}

/// Copies the sources of Weft to the system's /weft.
fn copy_sources(root: &Path) -> Result {
    let weft = root.join("weft");
    fs::create_dir_all(&weft).map_err(|error| format!("{}: {error}", weft.display()))?;
    let copy = "git ls-files -z --cached --others --exclude-standard | \
                tar --create --null --files-from=- --ignore-failed-read | \
                tar --extract --no-same-owner --directory \"$0\"";
    workspace::run(
        Command::new("sh")
            .args(["-c", copy])
            .arg(&weft)
            .current_dir(workspace::root()),
        "copying the sources",
    )
}

/// Returns the variables that a system inherits: settings for downloads and for running tests.
pub fn passed() -> Vec<String> {
    let wanted = |name: &str| {
        ["WEFT_TEST_ALLOW_SKIP", "WEFT_TEST_PATIENCE", "TERM"].contains(&name)
            || name.to_ascii_lowercase().ends_with("_proxy")
            || (name.starts_with("PIP_") && name != "PIP_FIND_LINKS")
            || (name.starts_with("CARGO_") && !matches!(name, "CARGO_HOME" | "CARGO_TARGET_DIR"))
    };
    // Cargo sets these for this program only.
    let own = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
        "CARGO_PRIMARY_",
    ];
    let names = std::env::vars().map(|(name, _)| name);
    names
        .filter(|name| wanted(name) && !own.iter().any(|start| name.starts_with(start)))
        .collect()
}

/// Returns a script that runs a command in /weft as user 1000 without capabilities.
fn without_rights(command: &str) -> String {
    format!(
        "mkdir -p /home/weft && cp -r /root/.cargo /home/weft && chown -R 1000:1000 /home/weft /weft && \
         exec setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps=-all --bounding-set=-all \
         env HOME=/home/weft sh -c '{command}'"
    )
}

/// Runs a command as root in the system.
fn enter(system: &System, command: &str) -> Result {
    let rust = sysroot()?;
    // The system's processes are in a PID namespace, which ends with this process.
    let mut within = Command::new("setpriv");
    within.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid"]);
    within.args(["--fork", "--kill-child", "sh", "-c"]);
    within
        .arg(include_str!("../files/fresh.sh"))
        .arg("fresh")
        .arg(&system.root);
    within.arg(command);
    within.env_clear();
    within.envs(
        passed()
            .into_iter()
            .filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))),
    );
    within.env("RUST", rust).env("SHARED", &system.shared);
    if let Some(home) = cargo_home().filter(|_| !system.shared.is_empty()) {
        within.env("CARGO_HOME", home);
    }
    within.env("HOME", "/root");
    within.env(
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
    println!("xtask: in the fresh system: {command}");
    match within.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "in the fresh system, `{command}` ended with {status}"
        )),
        Err(error) => Err(format!("unshare can't be run: {error}")),
    }
}

/// Removes the system. Fails if something is mounted there.
fn remove(root: &Path) -> Result {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let below = format!(" {}/", root.display());
    if mounts.contains(&below) {
        return Err(format!(
            "something is mounted below {}; unmount it first",
            root.display()
        ));
    }
    if !root.exists() {
        return Ok(());
    }
    // A folder that this task has not made is not removed.
    let entries = fs::read_dir(root).into_iter().flatten().count();
    if entries > 0
        && !root.join("etc/debian_version").exists()
        && !root.join("debootstrap").exists()
    {
        return Err(format!(
            "{} is not a Debian system; name another folder or remove it",
            root.display()
        ));
    }
    fs::remove_dir_all(root).map_err(|error| format!("{}: {error}", root.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_two_commands() {
        let commands = commands(&workspace::root()).unwrap();
        assert!(commands[0].starts_with("cargo xtask demo --prefix"));
        assert_eq!(commands[1], "cargo xtask test");
    }
}
