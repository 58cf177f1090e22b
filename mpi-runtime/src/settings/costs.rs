//! The file with what writes over networks cost on this host.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::OnceLock;

use mpi_sched::costs::{Measured, usual_file};

/// What was found, and where.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// No file was asked for, and there is none.
    BuiltIn,
    /// That file.
    File(PathBuf),
    /// A file that can't be used, and why.
    Bad(String),
}

impl Source {
    /// A line for people.
    pub fn describe(&self) -> String {
        match self {
            Source::BuiltIn => "costs of writes: built in".to_string(),
            Source::File(path) => format!("costs of writes: from {}", path.display()),
            Source::Bad(why) => format!(
                "costs of writes: {why}; the file is ignored, and the costs are those built in. Write it anew with \
                 osu-bench tune --costs"
            ),
        }
    }
}

/// What was found when the library started.
static FOUND: OnceLock<(Measured, Source)> = OnceLock::new();

/// What a process that starts goes by, for good.
pub fn find(asked: Option<&str>) -> &'static (Measured, Source) {
    FOUND.get_or_init(|| read(asked))
}

/// What a variable about costs comes to where it isn't set: the file, or what it says.
pub fn found(variable: &str, asked: Option<&str>) -> Option<String> {
    let (measured, source) = match FOUND.get() {
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

/// Reads the file that is asked for, or the usual one of this host if there is one.
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
    use mpi_sched::model::FAST;

    #[test]
    fn what_cannot_be_used_is_said() {
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
        std::fs::write(&path, format!("# costs\ntcp {FAST} 4096\n")).unwrap();
        let (measured, source) = read(Some(name));
        assert_eq!(source, Source::File(path.clone()));
        assert_eq!(measured.of("tcp").unwrap().quick.of("bcast"), Some(4096));
    }
}
