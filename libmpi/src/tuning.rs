//! `docs/tuning.md`, from the tables of control and performance variables.

use std::fmt::Write as _;

use crate::settings::{self, Variable};
use crate::tool::pvars;

/// The text of `docs/tuning.md`.
pub fn document() -> String {
    let mut text = String::from(
        "# Tuning: control and performance variables\n\n\
         This page is generated from the code (`cargo xtask docs`).\n\n\
         ## Control variables\n\n\
         Weft reads these from the environment at MPI_Init. A value that can't be understood is an\n\
         error that names it. They are control variables of the tool interface, too: before MPI_Init\n\
         a tool can set them (MPI_T_cvar_write), which takes the place of the environment, and later\n\
         it can read what was chosen. There a number that is not set is -1, and a text empty.\n\n\
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
         What each process counts, over all its VCIs; tools read it by MPI_T_pvar_read. All are of\n\
         type MPI_UNSIGNED_LONG and bound to no object. Levels can be read at any time; the others\n\
         tell of the time in which the tool's handle was started, and can be reset and written.\n\n\
         | variable | class | what it tells |\n| --- | --- | --- |\n",
    );
    for variable in pvars::VARIABLES {
        let (name, class, help) = (variable.name, variable.class.name(), variable.help);
        let _ = writeln!(text, "| `{name}` | {class} | {help} |");
    }
    text
}

#[cfg(test)]
mod tests {
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
