//! A throw-away virtual machine with RDMA devices, in which one command runs.
//!
//! The host's kernel needs no RDMA: a Debian kernel is downloaded and booted under QEMU,
//! by software emulation where there is no KVM, and given Soft-RoCE devices. Root is not needed. The
//! command sees the whole file system of this machine; it may write anywhere, but what it writes is
//! lost, except below folders named with `--rw`. It runs as root with an empty standard input.
//!
//! The devices are rxe0 (10.77.0.1) and rxe1 (10.77.0.2), the two ends of one virtual cable, so
//! that what they send each other goes through the real packet path.

mod kernel;
pub mod tests;

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::Result;
use kernel::Kernel;

/// The exit status when the machine itself failed.
const FAILED: u8 = 125;
/// The exit status when time was up.
const TIMED_OUT: u8 = 124;

/// Debian packages that the machine needs, each with a program that proves that it is installed.
pub const PACKAGES: &[(&str, &str)] = &[
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    ("busybox-static", "/usr/bin/busybox"),
    ("cpio", "/usr/bin/cpio"),
    ("kmod", "/usr/sbin/modprobe"),
    ("xz-utils", "/usr/bin/xz"),
    ("zstd", "/usr/bin/zstd"),
    ("iproute2", "/usr/bin/rdma"),
    ("libibverbs1", "/usr/lib/*/libibverbs.so.1"),
    ("ibverbs-providers", "/etc/libibverbs.d/rxe.driver"),
];

/// Options of `cargo xtask rdma-vm`.
#[derive(Args, Clone, Default)]
pub struct Options {
    /// Virtual processors, by default as many as this machine has, from 2 to 4.
    #[arg(long)]
    cpus: Option<usize>,
    /// Memory in MiB, which also holds the files that the command writes.
    #[arg(long, default_value_t = 2048)]
    memory: usize,
    /// Time limit in seconds, after which the machine ends with exit status 124.
    #[arg(long, default_value_t = 600)]
    timeout: u64,
    /// A folder in which the command's changes are kept; may be repeated.
    #[arg(long = "rw", value_name = "DIR")]
    writable: Vec<PathBuf>,
    /// Only download and build the parts that later runs need.
    #[arg(long)]
    prepare: bool,
    /// Show the kernel's messages and times.
    #[arg(long)]
    verbose: bool,
    /// The command and its arguments. Its exit status is that of the runner; 125 means that the
    /// machine failed.
    #[arg(last = true)]
    command: Vec<String>,
}

/// Runs the command and returns the exit status for this process.
pub fn run(options: &Options) -> ExitCode {
    match status(options) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// Runs the command and returns its exit status, or 124 if the time was up.
fn status(options: &Options) -> Result<u8> {
    if options.command.is_empty() && !options.prepare {
        return Err(
            "no command for the virtual machine: cargo xtask rdma-vm -- COMMAND".to_owned(),
        );
    }
    require_packages()?;
    let kernel = Kernel::prepare()?;
    if options.prepare {
        return Ok(0);
    }
    Job::new(options, &kernel)?.run(options, &kernel)
}

/// Downloads and builds the parts of the machine, except its packages.
pub fn prepare() -> Result {
    Kernel::prepare().map(drop)
}

/// Checks that all packages are installed. The error names missing ones.
fn require_packages() -> Result {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(_, file)| !crate::packages::exists(file))
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the virtual machine needs packages that are not installed: run `apt-get install \
         --no-install-recommends {}` as root",
        missing.join(" ")
    ))
}

/// The temporary folder with the machine's script and result.
struct Job {
    dir: PathBuf,
    writable: Vec<PathBuf>,
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Quotes a word for the shell.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            _ => text.push(byte),
        }
    }
    text.push(b'\'');
    text
}

impl Job {
    fn new(options: &Options, kernel: &Kernel) -> Result<Job> {
        let dir = env::temp_dir().join(format!("weft-rdma-vm-{}", std::process::id()));
        let fail = |error: std::io::Error| format!("{}: {error}", dir.display());
        fs::create_dir(&dir).map_err(fail)?;
        let writable = options
            .writable
            .iter()
            .map(|path| fs::canonicalize(path).map_err(|e| format!("{}: {e}", path.display())));
        let job = Job {
            writable: writable.collect::<Result<_>>()?,
            dir: dir.clone(),
        };

        let mut settings = Vec::new();
        settings.extend(b"kernel=");
        settings.extend(quoted(OsStr::new(&kernel.version)));
        settings.extend(b"\nmodules=");
        settings.extend(quoted(kernel.modules().as_os_str()));
        settings.extend(b"\nwritable=(");
        for path in &job.writable {
            settings.push(b' ');
            settings.extend(quoted(path.as_os_str()));
        }
        settings.extend(b" )\n");
        fs::write(dir.join("settings"), settings).map_err(fail)?;

        let mut command = Vec::new();
        for (name, value) in env::vars_os() {
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            if name.as_bytes().iter().all(plain) {
                command.extend(b"export ");
                command.extend(name.as_bytes());
                command.push(b'=');
                command.extend(quoted(&value));
                command.push(b'\n');
            }
        }
        let here = env::current_dir().map_err(|error| format!("the current folder: {error}"))?;
        command.extend(b"cd ");
        command.extend(quoted(here.as_os_str()));
        command.extend(b" || exit 125\nulimit -l unlimited\nexec");
        for word in &options.command {
            command.push(b' ');
            command.extend(quoted(OsStr::new(word)));
        }
        command.push(b'\n');
        fs::write(dir.join("command"), command).map_err(fail)?;
        fs::write(dir.join("guest"), include_str!("../../files/vm/guest")).map_err(fail)?;
        Ok(job)
    }

    fn run(&self, options: &Options, kernel: &Kernel) -> Result<u8> {
        let mut child =
            Machine(self.qemu(options, kernel).spawn().map_err(|error| {
                format!("setpriv and qemu-system-x86_64 can't be run: {error}")
            })?);
        let out = pass_on(child.0.stdout.take(), std::io::stdout());
        let err = pass_on(child.0.stderr.take(), std::io::stderr());
        let until = Instant::now() + Duration::from_secs(options.timeout);
        let ended = loop {
            match child.0.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() >= until => break None,
                Ok(None) => thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(format!("waiting for QEMU: {error}")),
            }
        };
        drop(child);
        // The pipes close when the machine ends.
        let _ = (out.join(), err.join());

        let console = fs::read(self.dir.join("console")).unwrap_or_default();
        let console = String::from_utf8_lossy(&console).replace('\r', "");
        if options.verbose {
            eprint!("{console}");
        }
        if let Ok(text) = fs::read_to_string(self.dir.join("complaints")) {
            eprintln!("xtask: the virtual machine's kernel complained:\n{text}");
        }
        let Some(ended) = ended else {
            eprintln!(
                "xtask: the virtual machine was ended after {} s (--timeout); its last messages:\n{}",
                options.timeout,
                tail(&console)
            );
            return Ok(TIMED_OUT);
        };
        let status = fs::read_to_string(self.dir.join("status")).unwrap_or_default();
        status.trim().parse().map_err(|_| {
            format!(
                "the virtual machine ended without a result (QEMU: {ended}); its last messages:\n{}",
                tail(&console)
            )
        })
    }

    fn qemu(&self, options: &Options, kernel: &Kernel) -> Command {
        let cores = thread::available_parallelism().map_or(2, usize::from);
        let cpus = options.cpus.unwrap_or(cores.clamp(2, 4));
        // The kernel kills QEMU when this process ends, however it ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        command.args(["-machine", "q35,hpet=off,usb=off,smbus=off,sata=off"]);
        if has_kvm() {
            command.args(["-accel", "kvm"]);
        }
        command.args(["-accel", "tcg,thread=multi", "-cpu", "max"]);
        command.args(["-smp", &cpus.to_string(), "-m", &options.memory.to_string()]);
        command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        command.args(["-display", "none", "-serial"]);
        command.arg(with_path("file:", &self.dir.join("console"), ""));
        command.arg("-kernel").arg(kernel.image());
        command.arg("-initrd").arg(kernel.initrd());
        command.args([
            "-append",
            "console=ttyS0 quiet panic=-1 nokaslr mitigations=off audit=0 apparmor=0 nowatchdog \
             no_timer_check tsc=reliable cryptomgr.notests random.trust_cpu=on 8250.nr_uarts=1 \
             rcupdate.rcu_cpu_stall_suppress=1",
        ]);
        command.args([
            "-virtfs",
            "local,id=host,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
        ]);
        let mut share = |name: &str, path: &Path| {
            let rest = format!(",mount_tag={name},security_model=none,multidevs=remap");
            let first = format!("local,id={name},path=");
            command.arg("-virtfs").arg(with_path(&first, path, &rest));
        };
        share("job", &self.dir);
        for (i, path) in self.writable.iter().enumerate() {
            share(&format!("rw{i}"), path);
        }
        command.args(["-device", "virtio-serial"]);
        for (name, path) in [("out", "/dev/stdout"), ("err", "/dev/stderr")] {
            command.args(["-chardev", &format!("file,id={name},path={path},append=on")]);
            let device = format!("virtserialport,chardev={name},name={name}");
            command.args(["-device", &device]);
        }
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Returns the last lines of a text.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn with_path(before: &str, path: &Path, after: &str) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(before);
    text.push(path);
    text.push(after);
    text
}

/// Returns whether KVM has the processor's support. A `/dev/kvm` that interprets unmodified guests
/// is much slower than QEMU.
fn has_kvm() -> bool {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let supported = flags.split_whitespace().any(|w| w == "vmx" || w == "svm");
    supported
        && File::options()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_ok()
}

/// A running machine, which is ended when dropped.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies a stream as it arrives.
fn pass_on(
    from: Option<impl Read + Send + 'static>,
    mut to: impl Write + Send + 'static,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let Some(mut from) = from else { return };
        let mut buffer = [0; 4096];
        loop {
            match from.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(len) => {
                    // An error means that this process's output is closed; it is ignored.
                    let _ = to.write_all(&buffer[..len]).and_then(|()| to.flush());
                }
            }
        }
    })
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_unchanged() {
        let hard = "a 'b' $c \"d\"\n*\\";
        let mut script = b"printf %s ".to_vec();
        script.extend(quoted(OsStr::new(hard)));
        let script = String::from_utf8(script).unwrap();
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), hard);
    }
}
