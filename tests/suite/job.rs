//! A run of a program, with its number of ranks, transport and launcher.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use weft_needs::{HYDRA, LIBFABRIC, MOUNTS, NAMESPACES, Need, UCX};

use crate::hosts::Hosts;
use crate::outcome::Outcome;
use crate::program::{Case, Program};
use crate::room::Room;
use crate::{Result, patience};

/// The launcher's exit status if a job has exceeded its time limit.
pub const TIMED_OUT: i32 = 124;

/// How ranks are started and reach each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Shared memory, large messages copied once by the kernel.
    Shm,
    /// Shared memory, all messages copied twice.
    ShmTwoCopy,
    /// libfabric over the loopback interface.
    Ofi,
    /// Plain sockets over the loopback interface.
    Tcp,
    /// `Shm`, started by MPICH's launcher.
    Hydra,
    /// UCX over the loopback interface, by TCP.
    Ucx,
    /// libfabric between two emulated hosts.
    Hosts,
    /// libfabric between four emulated hosts.
    FourHosts,
    /// UCX between two emulated hosts, by TCP.
    UcxHosts,
    /// Plain sockets between two emulated hosts.
    TcpHosts,
    /// Verbs, with ranks alternating between two devices.
    Verbs,
    /// Verbs between two emulated hosts with a device each; ranks of a host share memory.
    VerbsHosts,
    /// libfabric over verbs, with ranks alternating between two devices.
    OfiVerbs,
    /// UCX over verbs, with ranks alternating between two devices.
    UcxVerbs,
    /// A single rank without a launcher.
    Single,
}

/// The RDMA devices of `cargo xtask rdma-vm`, between which ranks alternate.
const DEVICES: [&str; 2] = ["rxe0", "rxe1"];

const ALL: [Variant; 15] = [
    Variant::Shm,
    Variant::ShmTwoCopy,
    Variant::Ofi,
    Variant::Tcp,
    Variant::Ucx,
    Variant::Hydra,
    Variant::Hosts,
    Variant::FourHosts,
    Variant::UcxHosts,
    Variant::TcpHosts,
    Variant::Verbs,
    Variant::VerbsHosts,
    Variant::OfiVerbs,
    Variant::UcxVerbs,
    Variant::Single,
];

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Variant::Shm => "shm",
            Variant::ShmTwoCopy => "shm-2copy",
            Variant::Ofi => "ofi",
            Variant::Tcp => "tcp",
            Variant::Ucx => "ucx",
            Variant::Hydra => "hydra",
            Variant::Hosts => "hosts",
            Variant::FourHosts => "hosts4",
            Variant::UcxHosts => "ucx-hosts",
            Variant::TcpHosts => "tcp-hosts",
            Variant::Verbs => "verbs",
            Variant::VerbsHosts => "verbs-hosts",
            Variant::OfiVerbs => "ofi-verbs",
            Variant::UcxVerbs => "ucx-verbs",
            Variant::Single => "single",
        }
    }

    pub fn named(name: &str) -> Result<Variant> {
        let found = ALL.into_iter().find(|variant| variant.name() == name);
        found.ok_or_else(|| format!("there is no variant {name}"))
    }

    fn env(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Variant::Shm | Variant::Hydra | Variant::Single => &[],
            Variant::ShmTwoCopy => &[("WEFT_SHM_SINGLE_COPY", "0")],
            Variant::Ofi => &[
                ("WEFT_SHM", "0"),
                ("WEFT_NETMOD", "ofi"),
                ("WEFT_OFI_INTERFACE", "lo"),
            ],
            Variant::Tcp => &[
                ("WEFT_SHM", "0"),
                ("WEFT_NETMOD", "tcp"),
                ("WEFT_TCP_INTERFACE", "lo"),
            ],
            Variant::TcpHosts => &[("WEFT_NETMOD", "tcp")],
            Variant::Ucx => &[
                ("WEFT_SHM", "0"),
                ("WEFT_NETMOD", "ucx"),
                ("WEFT_UCX_TLS", "tcp"),
                ("WEFT_UCX_DEVICES", "lo"),
            ],
            Variant::Hosts | Variant::FourHosts => &[("WEFT_NETMOD", "ofi")],
            Variant::UcxHosts => &[("WEFT_NETMOD", "ucx"), ("WEFT_UCX_TLS", "tcp")],
            Variant::Verbs => &[("WEFT_SHM", "0"), ("WEFT_NETMOD", "verbs")],
            Variant::VerbsHosts => &[("WEFT_NETMOD", "verbs")],
            Variant::OfiVerbs => &[
                ("WEFT_SHM", "0"),
                ("WEFT_NETMOD", "ofi"),
                ("WEFT_OFI_PROVIDER", "verbs;ofi_rxm"),
                // With more, the completion queue exceeds Soft-RoCE's limit.
                ("FI_UNIVERSE_SIZE", "8"),
            ],
            Variant::UcxVerbs => &[
                ("WEFT_SHM", "0"),
                ("WEFT_NETMOD", "ucx"),
                ("WEFT_UCX_TLS", "rc_verbs,ud_verbs:aux"),
                ("UCX_IB_GID_INDEX", "0"),
            ],
        }
    }

    /// Returns whether it needs the RDMA devices of a virtual machine.
    pub fn needs_devices(self) -> bool {
        matches!(
            self,
            Variant::Verbs | Variant::VerbsHosts | Variant::OfiVerbs | Variant::UcxVerbs
        )
    }

    /// Returns whether this number of ranks runs over it. A virtual machine has few processors: more
    /// ranks run there only with `WEFT_TEST_ALL_VERBS`.
    pub fn takes(self, ranks: usize) -> bool {
        let all = || std::env::var_os("WEFT_TEST_ALL_VERBS").is_some();
        match self {
            Variant::Single => ranks == 1,
            Variant::VerbsHosts => matches!(ranks, 2..=4) || all(),
            _ if self.needs_devices() => ranks == 2 || all(),
            _ => true,
        }
    }

    /// Returns the variable that names a rank's device, and the device's name in it.
    fn device(self, rank: usize) -> Option<(&'static str, String)> {
        let device = DEVICES[rank % DEVICES.len()];
        match self {
            Variant::Verbs | Variant::VerbsHosts => Some(("WEFT_VERBS_DEVICE", device.into())),
            Variant::OfiVerbs => Some(("WEFT_OFI_INTERFACE", device.into())),
            Variant::UcxVerbs => Some(("WEFT_UCX_DEVICES", format!("{device}:1"))),
            _ => None,
        }
    }

    /// Returns its needs of the machine besides the RDMA devices.
    pub fn needs(self) -> Vec<&'static Need> {
        match self {
            Variant::Shm
            | Variant::ShmTwoCopy
            | Variant::Tcp
            | Variant::Single
            | Variant::Verbs => vec![],
            Variant::Ofi | Variant::OfiVerbs => vec![&LIBFABRIC],
            Variant::Hydra => vec![&HYDRA],
            Variant::Ucx | Variant::UcxVerbs => vec![&UCX],
            Variant::Hosts | Variant::FourHosts => vec![&LIBFABRIC, &MOUNTS, &NAMESPACES],
            Variant::UcxHosts => vec![&UCX, &MOUNTS, &NAMESPACES],
            Variant::TcpHosts => vec![&MOUNTS, &NAMESPACES],
            Variant::VerbsHosts => vec![&MOUNTS],
        }
    }

    /// Returns whether it runs only in the virtual machine, whose tests set `WEFT_TEST_VERBS`.
    pub fn is_elsewhere(self) -> bool {
        let there = |device: &&str| Path::new("/sys/class/infiniband").join(device).exists();
        self.needs_devices()
            && !DEVICES.iter().all(there)
            && std::env::var_os("WEFT_TEST_VERBS").is_none()
    }
}

/// A run to be made.
pub struct Job<'a> {
    pub binary: &'a Path,
    pub ranks: usize,
    pub variant: Variant,
    pub program: &'a Program,
    pub case: &'a Case,
    /// Adds an environment variable.
    pub setting: Option<(&'static str, &'static str)>,
    /// A program that runs the launcher.
    pub under: Option<&'a Path>,
}

impl Job<'_> {
    /// Runs the program and compares the result with the expected one.
    pub fn run(&self, prefix: &Path) -> Result {
        let room = Room::new()?;
        let hosts = match self.variant {
            Variant::Hosts | Variant::UcxHosts | Variant::TcpHosts => Some(Hosts::new(2)?),
            Variant::FourHosts => Some(Hosts::new(4)?),
            _ => None,
        };
        let preloaded = self.program.preloaded(prefix, self.case)?;
        let mut limit = patience(self.program.timeout);
        if self.case.exit == TIMED_OUT {
            // The case runs into its own limit.
            limit = limit.min(Duration::from_secs_f64(2.0 * self.program.timeout));
        }
        let seconds = limit.as_secs_f64().ceil().to_string();
        let mut command = match self.variant {
            Variant::Hydra => room.command(Path::new("/usr/bin/mpiexec.hydra")),
            Variant::Single => room.command(self.binary),
            _ => {
                let mpiexec = prefix.join("bin/mpiexec");
                let mut command = room.command(self.under.unwrap_or(&mpiexec));
                command.args(self.under.map(|_| &mpiexec));
                command
            }
        };
        clear(&mut command);
        match self.variant {
            // Hydra has no option for it.
            Variant::Hydra => {
                command.env("MPIEXEC_TIMEOUT", &seconds);
            }
            Variant::Single => {
                command.args(&self.case.name);
            }
            _ => {
                command.args(["-timeout", &seconds]);
                command.args(&self.program.launcher);
            }
        }
        command.envs(self.variant.env().iter().copied());
        command.envs(self.program.env.iter().cloned());
        command.envs(self.setting);
        if self.setting == Some(("WEFT_OFI_PROVIDER", "shm")) {
            // libfabric's shm provider has no network interface.
            command.env_remove("WEFT_OFI_INTERFACE");
        }
        let finds =
            self.program.is_openmpi() && !matches!(self.variant, Variant::Hydra | Variant::Single);
        if self.program.is_foreign() && !finds {
            command.env("LD_LIBRARY_PATH", self.program.libraries(prefix)?);
        }
        match &hosts {
            Some(hosts) => hosts.arguments(&mut command, self.ranks, |command| {
                self.program(command, preloaded.as_deref());
            }),
            None if self.variant == Variant::Single => {}
            None if self.variant.needs_devices() => {
                self.ranks_on_devices(&mut command, preloaded.as_deref())
            }
            None => {
                command.args(["-n", &self.ranks.to_string()]);
                self.program(&mut command, preloaded.as_deref());
            }
        }
        let outcome = Outcome::of(&mut command, limit + patience(10.0))?;
        let leftovers = room.leftovers();
        outcome.judge(self.case, &leftovers)
    }

    /// Adds the arguments that start ranks alternating between devices.
    fn ranks_on_devices(&self, command: &mut Command, preloaded: Option<&Path>) {
        for rank in 0..self.ranks {
            if rank > 0 {
                command.arg(":");
            }
            command.args(["-n", "1"]);
            if let Some((name, device)) = self.variant.device(rank) {
                command.args(["-env", name, &device]);
            }
            if self.variant == Variant::VerbsHosts {
                // Ranks of a host have its name and share nothing with the other host, also no memory that mpiexec
                // has made for them.
                command.args(["unshare", "--uts", "--ipc", "sh", "-c"]);
                let host = format!("host{}", rank % DEVICES.len());
                let script = "hostname \"$1\" && shift && unset WEFT_NODE_MEMORY && exec \"$@\"";
                command.args([script, "sh", &host]);
            }
            self.program(command, preloaded);
        }
    }

    fn program(&self, command: &mut Command, preloaded: Option<&Path>) {
        if let Some(library) = preloaded {
            // Set for the ranks only, since the launcher is not an MPI program.
            command.args(["-env", "LD_PRELOAD"]).arg(library);
        }
        // `cargo xtask emulate` sets it for programs of other processors.
        let emulator = std::env::var("WEFT_TEST_EMULATOR").unwrap_or_default();
        command.args(emulator.split_whitespace());
        command.arg(self.binary);
        command.args(&self.case.name);
    }
}

/// Removes variables of a launcher around the tests and of the developer's settings.
pub fn clear(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = text.starts_with("WEFT_") && !text.starts_with("WEFT_TEST_");
        if ours || text.starts_with("PMI") || text.starts_with("MPI") {
            command.env_remove(&name);
        }
    }
}
