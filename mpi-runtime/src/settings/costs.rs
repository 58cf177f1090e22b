//! The file of measured RDMA write costs on this host (`WEFT_COLL_COSTS_FILE`).

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::OnceLock;

use mpi_sched::costs::{Measured, usual_file};

/// The origin of the costs in use.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// No file is configured, and the default one does not exist.
    BuiltIn,
    /// The file at this path.
    File(PathBuf),
    /// An unusable file, with the reason.
    Bad(String),
}

impl Source {
    /// Returns a line for `WEFT_INFO`'s report.
    pub fn describe(&self) -> String {
        match self {
            Source::BuiltIn => {
                "costs of writes, which decide on the degrees of trees: guessed; osu-bench tune \
                                --costs measures them"
                    .to_string()
            }
            Source::File(path) => format!("costs of writes: from {}", path.display()),
            Source::Bad(why) => format!(
                "costs of writes: {why}; the built-in costs are used. Write the file again with \
                 osu-bench tune --costs"
            ),
        }
    }
}

/// The costs and their origin, read once by [`find`].
static IN_USE: OnceLock<(Measured, Source)> = OnceLock::new();

/// Reads the costs on the first call; later calls return the same costs.
pub fn find(asked: Option<&str>) -> &'static (Measured, Source) {
    IN_USE.get_or_init(|| read(asked))
}

/// Returns the value of a cost variable that is not set: the file's path, or its contents.
pub fn unset_value(variable: &str, asked: Option<&str>) -> Option<String> {
    let (measured, source) = match IN_USE.get() {
        Some(found) => found.clone(),
        None => read(asked),
    };
    match (variable, source) {
        ("WEFT_COLL_COSTS_FILE", Source::File(path)) => Some(path.display().to_string()),
        ("WEFT_COLL_COSTS", Source::File(_)) => {
            Some(measured.to_string().trim_end().replace('\n', "; "))
        }
        _ => None,
    }
}

/// Reads the configured file, or the default file of this host if it exists.
fn read(asked: Option<&str>) -> (Measured, Source) {
    let path = match asked {
        Some(path) => Some(PathBuf::from(path)),
        None => usual_file(&crate::bootstrap::host::name(), |name| {
            std::env::var_os(name)
        }),
    };
    let none = |source| (Measured::default(), source);
    let Some(path) = path else {
        return none(Source::BuiltIn);
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if asked.is_none() && error.kind() == ErrorKind::NotFound => {
            return none(Source::BuiltIn);
        }
        Err(error) => return none(Source::Bad(format!("{}: {error}", path.display()))),
    };
    match text.parse() {
        Ok(measured) => (measured, Source::File(path)),
        Err(why) => none(Source::Bad(format!("{}: {why}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_sched::model::GUESSED;

    #[test]
    fn a_guess_names_the_command_that_measures() {
        let text = Source::BuiltIn.describe();
        assert!(
            text.contains("guessed") && text.contains("osu-bench tune --costs"),
            "{text}"
        );
    }

    #[test]
    fn an_unusable_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("costs");
        let name = path.to_str().unwrap();
        let bad = |why: &str| match read(Some(name)) {
            (measured, Source::Bad(text)) => {
                assert_eq!(measured, Measured::default());
                assert!(text.contains(name) && text.contains(why), "{text}");
            }
            other => panic!("{other:?}"),
        };
        bad("No such file");
        std::fs::write(&path, "tcp 1,2 8\n").unwrap();
        bad("line 1: 2 numbers");
        std::fs::write(&path, b"tcp \xff").unwrap();
        bad("UTF-8");
        std::fs::write(&path, format!("# costs\ntcp {GUESSED} 4096\n")).unwrap();
        let (measured, source) = read(Some(name));
        assert_eq!(source, Source::File(path.clone()));
        assert_eq!(
            measured
                .of("tcp")
                .unwrap()
                .quick
                .of(mpi_sched::Collective::Bcast),
            Some(4096)
        );
    }
}
