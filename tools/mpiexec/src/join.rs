//! Start without ssh: the same `mpiexec -join HOST:PORT -size N` runs in every machine or pod.
//!
//! The first one (index 0) is the root and listens ([`gather`]); the others are agents that connect
//! to it ([`call`]). Both ends prove the secret of a file. Once all have joined, the root places the
//! ranks, and the job goes on as with agents that a command has started.

mod call;
mod gather;

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use netmod_kit::admission::Secret;

use crate::agent;
use crate::children::{JOIN, interface_addresses};
use crate::hosts::Host;
use crate::options::{Join, Options};
use crate::program::{USAGE, Unfit, unfit};
use crate::root;
use crate::secret_file::SecretFile;

/// Seconds in which all machines have to join, unless `-bootstrap-timeout` says otherwise.
const PATIENCE: u32 = 300;
/// Time after which a waiting process prints what it waits for.
const LATE: Duration = Duration::from_secs(10);
/// The signals that end the wait; the first process of a container would ignore them.
const ENDING: &[i32] = &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The variable with the name of the file with the secret.
const SECRET_FILE: &str = "MPIEXEC_SECRET_FILE";
/// Variables with a machine's index, set by Kubernetes, Slurm and PALS.
const INDICES: [&str; 3] = ["JOB_COMPLETION_INDEX", "SLURM_PROCID", "PALS_RANKID"];

/// The file of `-secret`. Its group may read it, as Kubernetes lets the pod's group do.
const FILE: SecretFile = SecretFile {
    option: "-secret",
    purpose: "Weft 2026-11-29 secret of machines that join a job",
    copy: "copy it to all machines",
    forbidden: 0o027,
};

/// The machines that join.
struct Meeting {
    /// The address of the first one, as the user wrote it.
    place: String,
    size: usize,
    /// The index of this machine, if it is known.
    index: Option<usize>,
    secret: Secret,
    patience: u32,
}

/// Runs the part of this machine. Returns the exit code.
pub fn run(mut options: Options, join: Join) -> ExitCode {
    let refuse = |message: String| {
        eprintln!("mpiexec: {message}");
        ExitCode::from(USAGE)
    };
    let meeting = match Meeting::read(join, options.many.patience, |name| std::env::var_os(name)) {
        Ok(meeting) => meeting,
        Err(message) => return refuse(message),
    };
    let listeners = match meeting.listen(options.many.interface.as_deref()) {
        Ok(Some(listeners)) => listeners,
        Ok(None) => return call::run(&meeting),
        Err(message) => return refuse(message),
    };
    // The hosts' names are not known yet.
    let hosts = (0..meeting.size).map(|index| Host::named(&index.to_string()));
    options.many.hosts = hosts.collect();
    options.many.bootstrap = Some(JOIN.to_owned());
    root::run(options, move |placement| {
        let (used, size) = (placement.hosts.len(), meeting.size);
        if used < size {
            return Err(Unfit {
                code: USAGE,
                message: format!(
                    "{} ranks leave {} of {size} machines without one; start at least {size}, or fewer \
                     machines",
                    placement.node_of.len(),
                    size - used
                ),
            });
        }
        // A fork has all that this process has, so it comes before connections.
        let (own, listeners) = agent::fork(meeting.patience(), listeners)
            .map_err(|e| unfit("can't start a process that looks after the ranks", e))?;
        let (names, links) = gather::gather(&meeting, listeners)?;
        for (host, name) in placement.hosts.iter_mut().zip(names) {
            host.name = name;
        }
        Ok(root::Joined {
            own: Some(own),
            links,
        })
    })
}

impl Meeting {
    fn read(
        join: Join,
        patience: Option<u32>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Meeting, String> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let by_variable = || {
            let named = |name| Some((name, variable(name)?));
            INDICES.into_iter().find_map(named)
        };
        let index = match (join.index, by_variable()) {
            (Some(index), _) => Some((index, "-index")),
            (None, Some((name, value))) => {
                let index = value.to_str().and_then(|text| text.trim().parse().ok());
                Some((
                    index.ok_or_else(|| {
                        format!("{name} is '{}', which is no index", value.display())
                    })?,
                    name,
                ))
            }
            (None, None) => None,
        };
        if let Some((index, name)) = index.filter(|(index, _)| *index >= join.size) {
            return Err(format!(
                "{name} is {index}; with -size {} it is at most {}",
                join.size,
                join.size - 1
            ));
        }
        let Some(file) = join.secret.or_else(|| variable(SECRET_FILE)) else {
            return Err(format!(
                "option -join needs a secret that all machines share: name its file by -secret FILE or \
                 the variable {SECRET_FILE}"
            ));
        };
        Ok(Meeting {
            place: join.place,
            size: join.size,
            index: index.map(|(index, _)| index),
            secret: FILE.read(&file)?,
            patience: patience.unwrap_or(PATIENCE),
        })
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.patience.into())
    }

    /// Looks up the address of the first machine.
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(self.place.to_socket_addrs()?.collect())
    }

    /// Listens if this is the first machine: its index is 0, or it has none and the address is its own
    /// and free. Returns `None` for other machines.
    fn listen(&self, interface: Option<&str>) -> Result<Option<Vec<TcpListener>>, String> {
        if self.index.is_some_and(|index| index > 0) {
            return Ok(None);
        }
        let port = self.place.rsplit_once(':').and_then(|at| at.1.parse().ok());
        let port: u16 = port.unwrap_or_default();
        let wrong = |error: io::Error| format!("can't listen at {}: {error}", self.place);
        let at = |address: IpAddr| SocketAddr::new(address, port);
        let bind = |all: &[SocketAddr]| -> io::Result<Vec<TcpListener>> {
            let bound = all.iter().map(TcpListener::bind);
            bound.collect()
        };
        // The name of a service may stand for another address, and that of a pod be unknown yet.
        let mut named = self.addresses().unwrap_or_default();
        named.retain(|address| root::here::is_here(&address.ip().to_string()));
        if self.index.is_none() {
            return Ok(match named.is_empty() {
                true => None,
                // Another process of this machine may be the first.
                false => bind(&named).ok(),
            });
        }
        let listeners = match interface {
            Some(interface) => {
                let all = interface_addresses(interface).map_err(wrong)?;
                bind(&all.into_iter().map(at).collect::<Vec<_>>())
            }
            None if !named.is_empty() => bind(&named),
            None => {
                let any = [IpAddr::from([0u16; 8]), IpAddr::from([0u8; 4])].map(at);
                TcpListener::bind(&any[..]).map(|listener| vec![listener])
            }
        };
        listeners.map(Some).map_err(wrong)
    }
}
