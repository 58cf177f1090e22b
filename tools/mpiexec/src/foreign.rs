//! Options of other launchers that are accepted and ignored, with a warning if something is lost.
//! Options of other launchers with a meaning in Weft are in [`crate::options`].

use netmod_kit::variables::distance;

/// An ignored option of another launcher.
pub struct Foreign {
    name: &'static str,
    /// Number of its values.
    pub values: usize,
    /// The warning; empty if nothing is lost.
    note: &'static str,
}

const fn foreign(name: &'static str, values: usize, note: &'static str) -> Foreign {
    Foreign { name, values, note }
}

const PLACING: &str = "ranks are placed by -map-by and bound by -bind-to";
const HERE: &str = "use -info and -v to see what this launcher does";
const OPEN_MPI: &str =
    "it sets Open MPI's own parameters; docs/from-openmpi.md has Weft's variables for them";
const CHECKPOINTS: &str = "there are no checkpoints";
const GPUS: &str = "GPUs are not assigned to ranks";
const RECOVERY: &str = "ranks are not started again; -disable-auto-cleanup has the others go on";
const TOOLS: &str = "write the tool before the program: mpiexec -n 1 TOOL ./a : -n 3 ./a";
const SERVICE: &str = "there are no daemons that outlive a job";

const ALL: &[Foreign] = &[
    // Hydra's.
    foreign("enable-x", 0, "X is forwarded by -bootstrap-exec-args -X"),
    foreign("disable-x", 0, ""),
    foreign("demux", 1, ""),
    foreign("profile", 0, HERE),
    foreign("disable-hostname-propagation", 0, ""),
    foreign("enable-hostname-propagation", 0, ""),
    foreign(
        "order-nodes",
        1,
        "hosts are taken in the order in which they are named",
    ),
    foreign("localhost", 1, ""),
    foreign("umask", 1, "programs inherit ours"),
    foreign("soft", 1, "as many ranks as -n says are started"),
    foreign("arch", 1, "hosts are chosen by -host"),
    foreign("prefork", 0, ""),
    foreign("eac", 0, ""),
    foreign("debug", 0, HERE),
    foreign("dbg", 0, HERE),
    foreign("binding", 1, PLACING),
    foreign("bindlib", 1, ""),
    foreign("ckpointlib", 1, CHECKPOINTS),
    foreign("ckpoint-prefix", 1, CHECKPOINTS),
    foreign("ckpoint-num", 1, CHECKPOINTS),
    foreign("ckpoint-interval", 1, CHECKPOINTS),
    foreign("hostname-propagation", 0, ""),
    foreign("gpu-subdevs-per-proc", 1, GPUS),
    foreign("pmi-port", 0, "ranks inherit a socket (PMI_FD)"),
    foreign("enable-auto-cleanup", 0, ""),
    // Intel MPI's.
    foreign("ordered-output", 0, ""),
    foreign("use-app-topology", 1, PLACING),
    foreign("silent-abort", 0, ""),
    foreign("prot", 0, "WEFT_INFO=1 prints the transports"),
    foreign("cpu-bind", 1, PLACING),
    foreign("aps", 0, TOOLS),
    foreign("mps", 0, TOOLS),
    foreign("gdb-args", 1, TOOLS),
    foreign("gtool", 1, TOOLS),
    foreign("gtoolfile", 1, TOOLS),
    // Open MPI's.
    foreign("allow-run-as-root", 0, ""),
    foreign("mca", 2, OPEN_MPI),
    foreign("gmca", 2, OPEN_MPI),
    foreign("pmixmca", 2, OPEN_MPI),
    foreign("gpmixmca", 2, OPEN_MPI),
    foreign("prtemca", 2, OPEN_MPI),
    foreign("omca", 2, OPEN_MPI),
    foreign("tune", 1, OPEN_MPI),
    foreign("am", 1, OPEN_MPI),
    foreign("rank-by", 1, PLACING),
    foreign("use-hwthread-cpus", 0, PLACING),
    foreign("cpu-set", 1, PLACING),
    foreign("cpu-list", 1, PLACING),
    foreign("cartofile", 1, PLACING),
    foreign("cf", 1, PLACING),
    foreign("noprefix", 0, ""),
    foreign(
        "preload-binary",
        0,
        "programs are not copied to other hosts",
    ),
    foreign("preload-files", 1, "files are not copied to other hosts"),
    foreign(
        "set-cwd-to-session-dir",
        0,
        "ranks run in the folder that -wdir names",
    ),
    foreign("quiet", 0, ""),
    foreign("q", 0, ""),
    foreign("merge-stderr-to-stdout", 0, "write 2>&1 in a shell"),
    foreign("stream-buffering", 1, ""),
    foreign("xml", 0, "output is text"),
    foreign("xml-file", 1, "output is text"),
    foreign("xterm", 1, TOOLS),
    foreign("debugger", 1, TOOLS),
    foreign("tv", 0, TOOLS),
    foreign("get-stack-traces", 0, ""),
    foreign("report-state-on-timeout", 0, ""),
    foreign("continuous", 0, RECOVERY),
    foreign("disable-recovery", 0, ""),
    foreign("enable-recovery", 0, RECOVERY),
    foreign("max-restarts", 1, RECOVERY),
    foreign("with-ft", 1, ""),
    foreign("do-not-resolve", 0, ""),
    foreign("index-argv-by-rank", 0, ""),
    foreign("leave-session-attached", 0, ""),
    foreign("personality", 1, ""),
    foreign("ompi-server", 1, "names are published by -nameserver"),
    foreign("report-child-jobs-separately", 0, ""),
    foreign("report-events", 1, ""),
    foreign("report-pid", 1, "the shell's $! is it"),
    foreign("report-uri", 1, SERVICE),
    foreign("dvm", 0, SERVICE),
    foreign("dvm-uri", 1, SERVICE),
    foreign("hnp", 1, SERVICE),
    foreign("novm", 0, ""),
    foreign("max-vm-size", 1, ""),
    foreign("show-progress", 0, HERE),
    foreign("terminate", 0, ""),
    foreign("use-regexp", 0, ""),
    foreign("output-proctable", 0, HERE),
    foreign("d", 0, HERE),
    foreign("debug-devel", 0, HERE),
    foreign("debug-daemons", 0, HERE),
    foreign("debug-daemons-file", 0, HERE),
    foreign("display-devel-allocation", 0, HERE),
    foreign("display-diffable-map", 0, HERE),
    foreign("display-topo", 0, HERE),
    foreign(
        "launch-agent",
        1,
        "-prefix says where Weft is on other hosts",
    ),
    foreign("runtime-options", 1, OPEN_MPI),
    foreign(
        "forward-signals",
        1,
        "all signals that can be are passed on",
    ),
];

/// Options of other launchers without which the job would be another one, and what to write instead.
pub const REFUSED: &[(&str, &str)] = &[
    (
        "rankmap",
        "-rankfile FILE places each rank, -map-by node places them in turn",
    ),
    (
        "hybrid-hosts",
        "name all hosts by -hosts H:N,... or -f FILE; hosts may differ",
    ),
    (
        "gpus-per-proc",
        "start a script that sets CUDA_VISIBLE_DEVICES (or ROCR_VISIBLE_DEVICES) from \
         MPI_LOCALRANKID, and then the program",
    ),
];

/// Returns the error for an option of [`REFUSED`].
pub fn refused(name: &str) -> Option<String> {
    let (_, instead) = REFUSED.iter().find(|(refused, _)| *refused == name)?;
    Some(format!("option -{name} is not supported; {instead}"))
}

/// Finds the option of this name.
pub fn find(name: &str) -> Option<&'static Foreign> {
    ALL.iter().find(|option| option.name == name)
}

impl Foreign {
    /// Its name.
    #[cfg(test)]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the warning for the user, if something is lost.
    pub fn note(&self) -> Option<String> {
        let Foreign { name, note, .. } = self;
        (!note.is_empty()).then(|| format!("option -{name} is ignored: {note}"))
    }
}

/// Returns all ignored options.
#[cfg(test)]
pub fn all() -> &'static [Foreign] {
    ALL
}

fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|option| option.name)
}

/// Returns the error for an unknown option, which suggests the nearest name of `own` or [`ALL`].
pub fn unknown(name: &str, own: &[&'static [&'static str]]) -> String {
    let near = own
        .iter()
        .copied()
        .flatten()
        .copied()
        .chain(names())
        .map(|known| (distance(name, known), known))
        .filter(|(d, known)| *d <= 2 && *d < known.len().max(2))
        .min();
    match near {
        Some((_, known)) => format!("unknown option -{name}; did you mean -{known}?"),
        None => format!("unknown option -{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ() {
        for (index, name) in names().enumerate() {
            assert!(!names().take(index).any(|other| other == name), "{name}");
        }
    }
}
