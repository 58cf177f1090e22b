//! Generates `docs/tuning.md` from the tables of control and performance variables.

use std::fmt::Write as _;

use crate::settings::{self, Variable};

use crate::tool::pvars;

/// Returns the text of `docs/tuning.md`.
pub fn document() -> String {
    let mut text = String::from(
        "# Tuning: control and performance variables\n\n\
         This page is generated from the code (`cargo xtask docs`).\n\n\
         ## Control variables\n\n\
         Weft reads these from the environment at MPI_Init. An invalid value is an error that names\n\
         the variable. They are control variables of the tool interface as well: before MPI_Init a\n\
         tool can set them with MPI_T_cvar_write, which overrides the environment; afterwards it can\n\
         read the values in use. There an unset number reads as -1 and an unset text as empty.\n\n\
         | variable | value | default | what it does |\n| --- | --- | --- | --- |\n",
    );
    for Variable {
        name,
        kind,
        default,
        help,
    } in settings::variables()
    {
        let _ = writeln!(text, "| `{name}` | {kind} | {default} | {help} |");
    }
    text.push_str(
        "\n## Performance variables\n\n\
         Each process counts these over all its VCIs; tools read them with MPI_T_pvar_read. All have\n\
         type MPI_UNSIGNED_LONG and are bound to no object. Levels can be read at any time; the others\n\
         count while the tool's handle is started, and can be reset and written.\n\n\
         | variable | class | what it counts |\n| --- | --- | --- |\n",
    );
    for variable in pvars::VARIABLES {
        let (name, class, help) = (variable.name, variable.class.name(), variable.help);
        let _ = writeln!(text, "| `{name}` | {class} | {help} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use crate::settings;

    /// Collects the string literals that name variables in sources below `folder`, without tests.
    fn named_in(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                // The conformance suite of transports is not part of the library.
                if !path.ends_with("conformance") {
                    named_in(&path, names);
                }
                continue;
            }
            let is_source = path
                .extension()
                .is_some_and(|end| end == "rs" || end == "cpp");
            // Categories are defined by prefixes of names; the tools' variables are known, not read.
            let others = ["tool/categories.rs", "settings/unread.rs", "src/tests.rs"];
            if !is_source || others.iter().any(|file| path.ends_with(file)) {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a readable source");
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for rest in text.split("\"WEFT_").skip(1) {
                let name = rest.split('"').next().unwrap_or_default();
                // An error text may begin with a name, too.
                let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                // A name that ends with `_` is the prefix of the keys that a process passes to
                // spawned ones.
                let of_a_key = name.starts_with("TEST_") || name.ends_with('_');
                if name.chars().all(is_name) && !of_a_key {
                    names.insert(format!("WEFT_{name}"));
                }
            }
        }
    }

    /// The crates that make up the library.
    const CRATES: &[&str] = &[
        "libmpi",
        "mpicxx",
        "mpi-core",
        "mpi-sched",
        "mpi-coll",
        "mpi-comm",
        "mpi-runtime",
        "mpi-rma",
        "mpi-types",
        "mpifort",
        "netmod",
        "pmi",
        "shmmod",
    ];

    #[test]
    fn every_variable_that_the_library_reads_is_on_the_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(root).expect("the workspace").flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            if name.starts_with("netmod-") || CRATES.contains(&name.as_str()) {
                named_in(&entry.path().join("src"), &mut names);
            }
        }
        assert!(names.contains("WEFT_OFI_RMA") && names.contains("WEFT_SINGLETON"));
        // No user's: mpiexec sets it for its ranks.
        assert!(names.remove("WEFT_NODE_MEMORY"));
        for name in &names {
            let known = settings::variables().iter().any(|it| it.name == *name);
            assert!(known, "{name} is read, but settings::variables() lacks it");
        }
    }

    #[test]
    fn the_page_is_that_of_the_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/tuning.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == super::document(),
            "docs/tuning.md is not what the tables give: run `cargo xtask docs`"
        );
    }
}
