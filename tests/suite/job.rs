//! One run of a program: so many ranks, over this transport, started by that launcher.

use std::path::Path;
use std::process::Command;

use crate::hosts::Hosts;
use crate::outcome::Outcome;
use crate::program::{Case, Program};
use crate::room::{Room, can_mount};
use crate::{Result, patience};

/// How ranks are started and reach each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Shared memory, large messages copied once by the kernel.
    Shm,
    /// Shared memory, all messages copied twice.
    ShmTwoCopy,
    /// libfabric over the loopback interface.
    Ofi,
    /// As `Shm`, but started by MPICH's launcher.
    Hydra,
    /// libfabric between two network namespaces, which play two hosts.
    Hosts,
    /// Without a launcher; for one rank only.
    Single,
}

const ALL: [Variant; 6] = [
    Variant::Shm,
    Variant::ShmTwoCopy,
    Variant::Ofi,
    Variant::Hydra,
    Variant::Hosts,
    Variant::Single,
];

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Variant::Shm => "shm",
            Variant::ShmTwoCopy => "shm-2copy",
            Variant::Ofi => "ofi",
            Variant::Hydra => "hydra",
            Variant::Hosts => "hosts",
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
            Variant::Ofi => &[("WEFT_SHM", "0"), ("WEFT_OFI_INTERFACE", "lo")],
            Variant::Hosts => &[("WEFT_NETMOD", "ofi")],
        }
    }

    /// Whether this machine lacks something for it.
    pub fn missing(self) -> bool {
        let libfabric = || {
            ["x86_64", "aarch64"].iter().all(|machine| {
                !Path::new(&format!("/usr/lib/{machine}-linux-gnu/libfabric.so.1")).exists()
            })
        };
        match self {
            Variant::Shm | Variant::ShmTwoCopy | Variant::Single => false,
            Variant::Ofi => libfabric(),
            Variant::Hydra => !Path::new("/usr/bin/mpiexec.hydra").exists(),
            Variant::Hosts => libfabric() || !can_mount() || !Hosts::possible(),
        }
    }
}

/// A run to be made.
pub struct Job<'a> {
    pub binary: &'a Path,
    pub ranks: usize,
    pub variant: Variant,
    pub program: &'a Program,
    pub case: &'a Case,
}

impl Job<'_> {
    /// Runs and compares with what is expected.
    pub fn run(&self, prefix: &Path) -> Result {
        let room = Room::new()?;
        let hosts = match self.variant {
            Variant::Hosts => Some(Hosts::new()?),
            _ => None,
        };
        let preloaded = self.program.preloaded(prefix, self.case)?;
        let limit = patience(self.program.timeout);
        let seconds = limit.as_secs_f64().ceil().to_string();
        let mut command = match self.variant {
            Variant::Hydra => room.command(Path::new("/usr/bin/mpiexec.hydra")),
            Variant::Single => room.command(self.binary),
            _ => room.command(&prefix.join("bin/mpiexec")),
        };
        clear(&mut command);
        match self.variant {
            // It knows no option for it.
            Variant::Hydra => {
                command.env("MPIEXEC_TIMEOUT", &seconds);
            }
            Variant::Single => {
                command.args(&self.case.name);
            }
            _ => {
                command.args(["-timeout", &seconds]);
            }
        }
        command.envs(self.variant.env().iter().copied());
        command.envs(self.program.env.iter().cloned());
        if self.program.is_foreign() {
            command.env("LD_LIBRARY_PATH", self.program.libraries(prefix)?);
        }
        match &hosts {
            Some(hosts) => hosts.arguments(&mut command, self.ranks, |command| {
                self.program(command, preloaded.as_deref());
            }),
            None if self.variant == Variant::Single => {}
            None => {
                command.args(["-n", &self.ranks.to_string()]);
                self.program(&mut command, preloaded.as_deref());
            }
        }
        let outcome = Outcome::of(&mut command, limit + patience(10.0))?;
        let leftovers = room.leftovers();
        outcome.judge(self.case, &leftovers)
    }

    fn program(&self, command: &mut Command, preloaded: Option<&Path>) {
        if let Some(library) = preloaded {
            // For the ranks alone: the launcher is no MPI program.
            command.args(["-env", "LD_PRELOAD"]).arg(library);
        }
        command.arg(self.binary);
        command.args(&self.case.name);
    }
}

/// Removes what a launcher around the tests, or the developer's own settings, would change.
pub fn clear(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = text.starts_with("WEFT_") && !text.starts_with("WEFT_TEST_");
        if ours || text.starts_with("PMI") || text.starts_with("MPI") {
            command.env_remove(&name);
        }
    }
}
