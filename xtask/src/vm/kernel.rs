//! The kernel of the virtual machine: downloaded with apt, unpacked and kept.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::{Result, workspace};

/// Files taken from the kernel's package.
const WANTED: &[&str] = &[
    "./boot/vmlinuz*",
    "*/modules.builtin*",
    "*/modules.order",
    "*/kernel/drivers/virtio/*",
    "*/kernel/drivers/char/virtio*",
    "*/kernel/drivers/infiniband/core/*",
    "*/kernel/drivers/infiniband/sw/*",
    "*/kernel/drivers/net/veth*",
    "*/kernel/drivers/net/dummy*",
    "*/kernel/net/9p/*",
    "*/kernel/net/802/*",
    "*/kernel/net/8021q/*",
    "*/kernel/net/llc/*",
    "*/kernel/net/bridge/bridge.*",
    "*/kernel/net/sched/*",
    "*/kernel/net/ipv?/*",
    "*/kernel/fs/9p/*",
    "*/kernel/fs/netfs/*",
    "*/kernel/fs/fscache/*",
    "*/kernel/fs/overlayfs/*",
    "*/kernel/fs/configfs/*",
    "*/kernel/lib/*",
    "*/kernel/crypto/*",
    "*/kernel/arch/x86/crypto/*",
];

/// Modules that the initial root file system needs to mount the real one.
const FIRST_MODULES: &[&str] = &[
    "virtio_pci",
    "9p",
    "9pnet_virtio",
    "overlay",
    "virtio_console",
];

/// A kernel ready to boot.
pub struct Kernel {
    dir: PathBuf,
    /// The version as `uname -r` prints it.
    pub version: String,
}

impl Kernel {
    /// Returns the kernel of Debian's `linux-image-amd64`, downloaded if needed. It is kept in the
    /// folder `WEFT_VM_CACHE`, by default `~/.cache/weft-rdma-vm`.
    pub fn prepare() -> Result<Kernel> {
        let cache = cache()?;
        let fail = |error: std::io::Error| format!("{}: {error}", cache.display());
        fs::create_dir_all(&cache).map_err(fail)?;
        // Another process may be preparing the same kernel.
        let lock = File::create(cache.join("lock")).map_err(fail)?;
        lock.lock().map_err(fail)?;
        let package = match package() {
            Some(package) => package,
            None => {
                run(
                    Command::new("apt-get").args(["update", "--quiet"]),
                    "looking for a kernel",
                )?;
                package().ok_or("apt knows no linux-image-amd64")?
            }
        };
        let dir = cache.join(&package);
        if !dir.join("version").exists() {
            build(&cache, &package, &dir)?;
        }
        let version = fs::read_to_string(dir.join("version")).map_err(fail)?;
        Ok(Kernel {
            version: version.trim().to_owned(),
            dir,
        })
    }

    /// Returns the path of the uncompressed kernel.
    pub fn image(&self) -> PathBuf {
        self.dir.join("kernel")
    }

    /// Returns the path of the initial root file system.
    pub fn initrd(&self) -> PathBuf {
        self.dir.join("initrd")
    }

    /// Returns the folder of modules.
    pub fn modules(&self) -> PathBuf {
        self.dir.join("lib/modules").join(&self.version)
    }
}

fn cache() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("WEFT_VM_CACHE") {
        return Ok(dir.into());
    }
    let dir = workspace::cache("weft-rdma-vm");
    dir.ok_or_else(|| "the kernel has no cache folder; set WEFT_VM_CACHE".to_owned())
}

/// Returns a command with the folders of system programs in its PATH.
fn system(program: &str) -> Command {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    let mut command = Command::new(program);
    command.env("PATH", path).stdin(Stdio::null());
    command
}

/// Runs a command described by `what` and returns its output.
fn run(command: &mut Command, what: &str) -> Result<Vec<u8>> {
    let output = command
        .output()
        .map_err(|error| format!("{what}: {command:?} can't be run: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{what}: {command:?} ended with {}:\n{text}",
        output.status
    ))
}

/// Returns the package that `linux-image-amd64` depends on.
fn package() -> Option<String> {
    let output = run(
        Command::new("apt-cache").args(["depends", "linux-image-amd64"]),
        "looking up the kernel's package",
    );
    let text = String::from_utf8(output.ok()?).ok()?;
    let name = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))?;
    name.starts_with("linux-image-").then(|| name.to_owned())
}

/// Makes the folder `dir` of a kernel.
fn build(cache: &Path, package: &str, dir: &Path) -> Result {
    eprintln!("xtask: downloading {package} for the virtual machine");
    let work = cache.join("new");
    let fail = |error: std::io::Error| format!("{}: {error}", work.display());
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(fail)?;
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["download", "--quiet", package]);
        run(command.current_dir(&work), "downloading a kernel")
    };
    if download().is_err() {
        // The package lists may be outdated.
        run(
            Command::new("apt-get").args(["update", "--quiet"]),
            "looking for packages",
        )?;
        download()?;
    }
    // tar fails if a pattern matches nothing; the files that are needed are checked below.
    let patterns: String = WANTED.iter().map(|p| format!(" '{p}'")).collect();
    let script = format!(
        "dpkg-deb --fsys-tarfile ./*.deb | tar --extract --wildcards {patterns} || true; rm ./*.deb; \
         [ -e lib ] || mv usr/lib lib"
    );
    run(
        system("sh").args(["-c", &script]).current_dir(&work),
        "unpacking the kernel",
    )?;
    let modules = work.join("lib/modules");
    let version = fs::read_dir(&modules)
        .ok()
        .and_then(|mut entries| entries.next()?.ok())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .ok_or_else(|| format!("{package} holds no modules"))?;
    let rxe = modules
        .join(&version)
        .join("kernel/drivers/infiniband/sw/rxe");
    if !rxe.exists() {
        return Err(format!("{package} has no Soft-RoCE module (rdma_rxe)"));
    }
    run(
        system("depmod").arg("-b").arg(&work).arg(&version),
        "listing the modules",
    )?;
    let image = work.join("boot").join(format!("vmlinuz-{version}"));
    let image = fs::read(&image).map_err(|error| format!("{}: {error}", image.display()))?;
    // An emulated machine boots an uncompressed kernel much faster.
    let kernel = uncompressed(&image).unwrap_or(image);
    fs::write(work.join("kernel"), kernel).map_err(fail)?;
    first_files(&work, &version)?;
    fs::remove_dir_all(work.join("boot")).map_err(fail)?;
    fs::write(work.join("version"), &version).map_err(fail)?;
    let _ = fs::remove_dir_all(dir);
    fs::rename(&work, dir).map_err(fail)
}

/// Returns the kernel in a bzImage, located by the boot protocol's header.
fn uncompressed(image: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?) as usize);
    let setup = (usize::from(*image.get(0x1f1)?) + 1) * 512;
    let start = setup + word(0x248)?;
    let payload = image.get(start..start + word(0x24c)?)?;
    let tool: &[&str] = match payload {
        [0xfd, b'7', b'z', b'X', ..] => &["xz", "-dc", "--single-stream"],
        [0x28, 0xb5, 0x2f, 0xfd, ..] => &["zstd", "-dcq"],
        [0x1f, 0x8b, ..] => &["gzip", "-dc"],
        _ => return None,
    };
    // The payload ends with its own length, which the tools report as trailing garbage, so their
    // exit status is ignored.
    let kernel = filter(tool, payload)?;
    kernel.starts_with(b"\x7fELF").then_some(kernel)
}

/// Returns the output of a filter program for an input.
fn filter(command: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            // A program that has read enough closes its input, so the error is ignored.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output()
    });
    Some(output.ok()?.stdout)
}

/// Makes the initial root file system.
fn first_files(work: &Path, version: &str) -> Result {
    let root = work.join("first");
    let fail = |error: std::io::Error| format!("{}: {error}", root.display());
    for dir in [
        "bin", "dev", "proc", "sys", "lower", "upper", "root", "modules",
    ] {
        fs::create_dir_all(root.join(dir)).map_err(fail)?;
    }
    fs::copy("/usr/bin/busybox", root.join("bin/busybox")).map_err(fail)?;
    for name in [
        "sh",
        "mount",
        "mkdir",
        "insmod",
        "cat",
        "switch_root",
        "sleep",
    ] {
        symlink("busybox", root.join("bin").join(name)).map_err(fail)?;
    }
    let mut order: Vec<String> = Vec::new();
    for module in FIRST_MODULES {
        let mut command = system("modprobe");
        command
            .arg("-d")
            .arg(work)
            .args(["-S", version, "--show-depends", module]);
        let text = run(&mut command, "looking up a module's dependencies")?;
        for line in String::from_utf8_lossy(&text).lines() {
            let Some(path) = line.strip_prefix("insmod ") else {
                continue;
            };
            let path = Path::new(path.trim());
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let plain = name.trim_end_matches(".xz").trim_end_matches(".zst");
            if order.iter().any(|other| other == plain) {
                continue;
            }
            let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
            let bytes = match path.extension().and_then(|e| e.to_str()) {
                Some("xz") => filter(&["xz", "-dc"], &bytes).unwrap_or_default(),
                Some("zst") => filter(&["zstd", "-dcq"], &bytes).unwrap_or_default(),
                _ => bytes,
            };
            fs::write(root.join("modules").join(plain), bytes).map_err(fail)?;
            order.push(plain.to_owned());
        }
    }
    fs::write(root.join("modules/order"), order.join("\n") + "\n").map_err(fail)?;
    let init = root.join("init");
    fs::write(&init, include_str!("../../files/vm/init")).map_err(fail)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).map_err(fail)?;
    let script = "find . | cpio --create --format=newc --owner=0:0 --quiet >../initrd";
    run(
        system("sh").args(["-c", script]).current_dir(&root),
        "making the initial root file system",
    )?;
    fs::remove_dir_all(&root).map_err(fail)
}
