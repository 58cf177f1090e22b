//! Options of other launchers that have no meaning here: what they would do is said once, and the job
//! runs. Those that have one are in [`crate::options`].

/// An option of another launcher.
pub struct Foreign {
    name: &'static str,
    /// How many words follow it.
    pub values: usize,
    /// What to know about it; empty if nothing is lost.
    note: &'static str,
}

const fn foreign(name: &'static str, values: usize, note: &'static str) -> Foreign {
    Foreign { name, values, note }
}

const ONE_MACHINE: &str =
    "it is about several machines, and this launcher starts ranks on its own only";
const PLACING: &str = "ranks are placed by -bind-to only";
const HERE: &str = "use -info to see what this launcher does";
const OPEN_MPI: &str =
    "it sets Open MPI's own parameters; Weft's are the variables in docs/tuning.md";
const CHECKPOINTS: &str = "there are no checkpoints";

const ALL: &[Foreign] = &[
    // Hydra's.
    foreign("enable-x", 0, ONE_MACHINE),
    foreign("disable-x", 0, ""),
    foreign("topolib", 1, ""),
    foreign("membind", 1, PLACING),
    foreign("demux", 1, ""),
    foreign("profile", 0, HERE),
    foreign("disable-hostname-propagation", 0, ""),
    foreign("enable-hostname-propagation", 0, ""),
    foreign("order-nodes", 1, ONE_MACHINE),
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
    foreign("gpu-subdevs-per-proc", 1, "GPUs are not assigned to ranks"),
    foreign("pmi-port", 0, "ranks inherit a socket (PMI_FD)"),
    foreign("gpus-per-proc", 1, "GPUs are not assigned to ranks"),
    foreign("enable-auto-cleanup", 0, ""),
    // Intel MPI's.
    foreign("ordered-output", 0, ""),
    foreign("hosts-group", 1, ONE_MACHINE),
    foreign("use-app-topology", 1, PLACING),
    // Open MPI's.
    foreign("allow-run-as-root", 0, ""),
    foreign("mca", 2, OPEN_MPI),
    foreign("gmca", 2, OPEN_MPI),
    foreign("pmixmca", 2, OPEN_MPI),
    foreign("prtemca", 2, OPEN_MPI),
    foreign("tune", 1, OPEN_MPI),
    foreign("am", 1, OPEN_MPI),
    foreign("rank-by", 1, PLACING),
    foreign("display-allocation", 0, "all ranks are on this machine"),
    foreign("use-hwthread-cpus", 0, PLACING),
    foreign("rankfile", 1, PLACING),
    foreign("rf", 1, PLACING),
    foreign("noprefix", 0, ""),
    foreign("preload-binary", 0, ""),
    foreign("quiet", 0, ""),
    foreign("q", 0, ""),
];

/// The option of this name.
pub fn find(name: &str) -> Option<&'static Foreign> {
    ALL.iter().find(|option| option.name == name)
}

impl Foreign {
    /// What people should know about it, if there is something.
    pub fn note(&self) -> Option<String> {
        let Foreign { name, note, .. } = self;
        (!note.is_empty()).then(|| format!("option -{name} is ignored: {note}"))
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|option| option.name)
}

/// What to say about an option that nobody knows, with the nearest of these and of the others'.
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

/// Insertions, deletions and replacements between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
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
