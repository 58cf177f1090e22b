//! Variables in the environment that Weft does not read: misspelt control variables, and those of
//! other MPI libraries that have a counterpart in Weft.

use netmod_kit::variables::distance;

use super::variables;

/// The control variable that turns the lines of [`lines`] off.
pub const SWITCH: &str = "WEFT_WARN";

/// Variables that Weft's tools and wrappers read, beside the library's.
const OF_TOOLS: &[&str] = &[
    "WEFT_CC",
    "WEFT_CHECK",
    "WEFT_CXX",
    "WEFT_FC",
    "WEFT_LOCAL_RANK",
    "WEFT_NODE_MEMORY",
    "WEFT_STATS",
    "WEFT_TOP",
    "WEFT_TRACE",
];

/// A variable of another MPI library.
struct Foreign {
    /// Its name, in which one `*` stands for any letters.
    name: &'static str,
    /// The library.
    owner: &'static str,
    /// What to use in Weft: variables and options, or nothing.
    instead: &'static str,
}

const fn foreign(name: &'static str, owner: &'static str, instead: &'static str) -> Foreign {
    Foreign {
        name,
        owner,
        instead,
    }
}

const MPICH: &str = "MPICH's";
const INTEL: &str = "Intel MPI's";
const OPEN_MPI: &str = "Open MPI's";
const MVAPICH: &str = "MVAPICH's";

/// What the names in [`FOREIGN`] begin with.
const FOREIGN_STARTS: [&str; 6] = ["MPIR_CVAR_", "I_MPI_", "OMPI_MCA_", "MV2_", "UCX_", "FI_"];

/// The variables that docs/from-mpich.md, docs/from-intel-mpi.md and docs/from-openmpi.md map. The
/// first that fits a name counts.
const FOREIGN: &[Foreign] = &[
    foreign("MPIR_CVAR_NOLOCAL", MPICH, "WEFT_SHM=0 says the same"),
    foreign(
        "MPIR_CVAR_DEBUG_SUMMARY",
        MPICH,
        "WEFT_INFO=1 says the same",
    ),
    foreign(
        "MPIR_CVAR_ASYNC_PROGRESS",
        MPICH,
        "WEFT_ASYNC_PROGRESS=1 serves windows to other nodes",
    ),
    foreign(
        "MPIR_CVAR_CH4_NUM_VCIS",
        MPICH,
        "VCIs are opened as they are asked for, up to WEFT_NUM_VCIS",
    ),
    foreign("MPIR_CVAR_*_ALGORITHM", MPICH, "WEFT_COLL says the same"),
    foreign(
        "FI_PROVIDER",
        "libfabric's",
        "WEFT_OFI_PROVIDER names it for WEFT_NETMOD=ofi",
    ),
    foreign(
        "UCX_TLS",
        "UCX's",
        "it counts with WEFT_NETMOD=ucx only, as WEFT_UCX_TLS does",
    ),
    foreign(
        "UCX_NET_DEVICES",
        "UCX's",
        "it counts with WEFT_NETMOD=ucx only, as WEFT_UCX_DEVICES does",
    ),
    foreign("I_MPI_DEBUG", INTEL, "WEFT_INFO=1 says the same"),
    foreign(
        "I_MPI_FABRICS",
        INTEL,
        "WEFT_SHM and WEFT_NETMOD choose the transports",
    ),
    foreign(
        "I_MPI_OFI_PROVIDER",
        INTEL,
        "WEFT_OFI_PROVIDER says the same",
    ),
    foreign("I_MPI_PIN*", INTEL, "mpiexec -bind-to says the same"),
    foreign("I_MPI_ADJUST_*", INTEL, "WEFT_COLL says the same"),
    foreign(
        "I_MPI_EAGER_THRESHOLD",
        INTEL,
        "WEFT_EAGER_LIMIT says the same",
    ),
    foreign("I_MPI_THREAD_SPLIT", INTEL, "nothing is needed in Weft"),
    foreign(
        "I_MPI_ASYNC_PROGRESS",
        INTEL,
        "WEFT_ASYNC_PROGRESS=1 serves windows to other nodes",
    ),
    foreign("I_MPI_STATS", INTEL, "mpiexec -stats says the same"),
    foreign("I_MPI_JOB_TIMEOUT", INTEL, "MPIEXEC_TIMEOUT says the same"),
    foreign(
        "I_MPI_SPIN_COUNT",
        INTEL,
        "WEFT_SPIN and WEFT_YIELD say the same",
    ),
    foreign("OMPI_MCA_pml", OPEN_MPI, "WEFT_NETMOD says the same"),
    foreign("OMPI_MCA_mtl", OPEN_MPI, "WEFT_NETMOD says the same"),
    foreign("OMPI_MCA_btl", OPEN_MPI, "WEFT_NETMOD says the same"),
    foreign(
        "OMPI_MCA_btl_tcp_if_include",
        OPEN_MPI,
        "WEFT_TCP_INTERFACE says the same",
    ),
    foreign(
        "OMPI_MCA_btl_vader_single_copy_mechanism",
        OPEN_MPI,
        "WEFT_SHM_SINGLE_COPY=0 says the same as none",
    ),
    foreign(
        "OMPI_MCA_btl_*_eager_limit",
        OPEN_MPI,
        "WEFT_EAGER_LIMIT says the same",
    ),
    foreign(
        "OMPI_MCA_coll_tuned_*_algorithm",
        OPEN_MPI,
        "WEFT_COLL says the same",
    ),
    foreign(
        "OMPI_MCA_mpi_yield_when_idle",
        OPEN_MPI,
        "nothing is needed in Weft",
    ),
    foreign(
        "OMPI_MCA_mpi_show_handle_leaks",
        OPEN_MPI,
        "mpiexec -check says the same",
    ),
    foreign(
        "OMPI_MCA_mpi_param_check",
        OPEN_MPI,
        "nothing is needed in Weft",
    ),
    foreign(
        "MV2_ENABLE_AFFINITY",
        MVAPICH,
        "mpiexec -bind-to none says the same as 0",
    ),
    foreign("MV2_USE_SHARED_MEM", MVAPICH, "WEFT_SHM says the same"),
    foreign(
        "MV2_IBA_EAGER_THRESHOLD",
        MVAPICH,
        "WEFT_EAGER_LIMIT says the same",
    ),
    foreign(
        "MV2_SMP_EAGERSIZE",
        MVAPICH,
        "WEFT_EAGER_LIMIT says the same",
    ),
];

impl Foreign {
    fn fits(&self, name: &str) -> bool {
        match self.name.split_once('*') {
            None => self.name == name,
            Some((start, end)) => name
                .strip_prefix(start)
                .is_some_and(|rest| rest.ends_with(end)),
        }
    }

    /// Returns the control variables and options of [`Foreign::instead`].
    fn own(&self) -> impl Iterator<Item = &'static str> {
        let words = self.instead.split([' ', '=', ',']);
        words.filter(|word| word.starts_with("WEFT_") || word.starts_with('-'))
    }
}

/// Returns a line for each variable of an environment that has no effect but looks as if it should.
/// A variable of another library is left out if its counterpart in Weft is set, too.
pub fn lines(names: &[String]) -> Vec<String> {
    let is_set = |own: &str| names.iter().any(|name| name == own);
    names.iter().filter_map(|name| line(name, is_set)).collect()
}

fn line(name: &str, is_set: impl Fn(&str) -> bool) -> Option<String> {
    if let Some(own) = name.strip_prefix("WEFT_") {
        let known = variables().iter().map(|variable| variable.name);
        let known: Vec<&str> = known.chain(OF_TOOLS.iter().copied()).collect();
        if known.contains(&name) {
            return None;
        }
        let near = known
            .iter()
            .map(|known| (distance_of_names(name, known), known));
        // Two wrong letters in a short name make it another name.
        let near = near.filter(|(far, _)| *far <= 2.min(own.len() / 2));
        let (_, near) = near.min()?;
        return Some(format!("{name} is not read; did you mean {near}?"));
    }
    let is_foreign = FOREIGN_STARTS.iter().any(|start| name.starts_with(start));
    let mut all = FOREIGN.iter().filter(|_| is_foreign);
    let foreign = all.find(|foreign| foreign.fits(name))?;
    let Foreign { owner, instead, .. } = foreign;
    (!foreign.own().any(is_set)).then(|| format!("{name} is {owner}; {instead}"))
}

/// Returns the distance of two names, in which swapped letters count once.
fn distance_of_names(a: &str, b: &str) -> usize {
    let sorted = |name: &str| {
        let mut letters: Vec<char> = name.chars().collect();
        letters.sort_unstable();
        letters
    };
    let is_swapped = sorted(a) == sorted(b);
    distance(a, b) - usize::from(is_swapped && a != b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        lines(&names)
    }

    #[test]
    fn misspelt_and_foreign_variables_are_named() {
        assert_eq!(
            of(&[
                "HOME",
                "WEFT_SMH",
                "WEFT_EAGERLIMIT",
                "WEFT_INFO",
                "WEFT_STATS",
                "WEFT_HOME"
            ]),
            [
                "WEFT_SMH is not read; did you mean WEFT_SHM?",
                "WEFT_EAGERLIMIT is not read; did you mean WEFT_EAGER_LIMIT?"
            ]
        );
        assert_eq!(
            of(&[
                "MPIR_CVAR_NOLOCAL",
                "MPIR_CVAR_BCAST_INTRA_ALGORITHM",
                "MPIR_CVAR_ODD_EVEN_CLIQUES"
            ]),
            [
                "MPIR_CVAR_NOLOCAL is MPICH's; WEFT_SHM=0 says the same",
                "MPIR_CVAR_BCAST_INTRA_ALGORITHM is MPICH's; WEFT_COLL says the same"
            ]
        );
        assert_eq!(
            of(&["I_MPI_PIN_DOMAIN"]),
            ["I_MPI_PIN_DOMAIN is Intel MPI's; mpiexec -bind-to says the same"]
        );
        assert_eq!(of(&["MPIR_CVAR_NOLOCAL", "WEFT_SHM"]), [""; 0]);
    }

    #[test]
    fn the_pages_have_each_row_and_no_other_variable() {
        let page = |name: &str| {
            let path = format!("{}/../docs/from-{name}.md", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(path).unwrap()
        };
        let pages = [page("mpich"), page("intel-mpi"), page("openmpi")];
        let rows: Vec<&str> = pages
            .iter()
            .flat_map(|page| page.lines())
            .filter(|line| line.starts_with("| "))
            .collect();
        // A page names Open MPI's parameters as `--mca` has them, and patterns by `…` or an example.
        let parts = |name: &'static str| name.strip_prefix("OMPI_MCA_").unwrap_or(name).split('*');
        for foreign in FOREIGN {
            assert!(
                line(foreign.name, |_| false).is_some(),
                "no start fits {}",
                foreign.name
            );
            let is_row = |row: &&&str| {
                parts(foreign.name).all(|part| row.contains(part))
                    && foreign.own().all(|own| row.contains(own))
            };
            assert!(
                rows.iter().any(|row| is_row(&row)),
                "no row has {} and its counterpart: {}",
                foreign.name,
                foreign.instead
            );
            for own in foreign.own().filter(|own| own.starts_with("WEFT_")) {
                assert!(
                    variables().iter().any(|variable| variable.name == own),
                    "{own}"
                );
            }
        }
        // Those that Weft's launcher, wrappers or transports read.
        let read = |name: &str| {
            let starts = [
                "I_MPI_HYDRA_",
                "I_MPI_PERHOST",
                "I_MPI_CC",
                "I_MPI_CXX",
                "I_MPI_FC",
                "I_MPI_OFFLOAD",
                "OMPI_MCA_plm_",
                "OMPI_MCA_orte_",
            ];
            starts.iter().any(|start| name.starts_with(start))
        };
        let mut count = 0;
        for row in &rows {
            for name in row.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if FOREIGN_STARTS
                    .iter()
                    .any(|prefix| name.starts_with(prefix) && name.len() > prefix.len())
                    && !read(name)
                {
                    count += 1;
                    let fits = |foreign: &Foreign| {
                        foreign.fits(name) || foreign.name.split('*').next() == Some(name)
                    };
                    assert!(FOREIGN.iter().any(fits), "{name} has a row, but no line");
                }
            }
        }
        assert!(count > 15, "only {count} names were found");
    }
}
