//! Call sites in the program. A site is a stack of addresses; symbols are looked up only for a
//! report.

use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Frames that identify a call site.
const FRAMES: usize = 10;

/// A call site with the called function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallSite {
    function: &'static str,
    key: u64,
}

enum Symbols {
    Stack(Box<Backtrace>),
    Text(String),
}

static KNOWN: LazyLock<Mutex<HashMap<u64, Symbols>>> = LazyLock::new(Mutex::default);

impl CallSite {
    /// Returns the site of the current call of `function`.
    pub fn here(function: &'static str) -> CallSite {
        let mut frames = [ptr::null_mut(); FRAMES];
        // SAFETY: `frames` has room for FRAMES addresses.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES as c_int) };
        let mut hasher = DefaultHasher::new();
        frames[..usize::try_from(count).unwrap_or(0)].hash(&mut hasher);
        let key = hasher.finish();
        let known = KNOWN.lock().contains_key(&key);
        if !known {
            let stack = Symbols::Stack(Box::new(Backtrace::force_capture()));
            KNOWN.lock().insert(key, stack);
        }
        CallSite { function, key }
    }

    /// Describes the site: `MPI_Isend, called by main at a.c:12`, as far as symbols are available.
    pub fn text(self) -> String {
        let mut known = KNOWN.lock();
        let Some(entry) = known.get_mut(&self.key) else {
            return self.function.to_owned();
        };
        if let Symbols::Stack(stack) = entry {
            *entry = Symbols::Text(caller(&stack.to_string()).unwrap_or_default());
        }
        match entry {
            Symbols::Text(text) if !text.is_empty() => {
                format!("{}, called by {text}", self.function)
            }
            _ => self.function.to_owned(),
        }
    }
}

/// Finds the caller of MPI in a backtrace of the standard library: lines ` 3: name`, some followed
/// by `at file:line:column`. Skips C functions that Fortran's wrappers call.
fn caller(stack: &str) -> Option<String> {
    let mut frames: Vec<(&str, Option<&str>)> = Vec::new();
    for line in stack.lines().map(str::trim) {
        if let Some(place) = line.strip_prefix("at ") {
            if let Some(frame) = frames.last_mut() {
                frame.1 = Some(place);
            }
        } else {
            let name = match line.split_once(": ") {
                Some((number, name)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
                _ => line,
            };
            frames.push((name, None));
        }
    }
    let is_mpi = |name: &str| {
        let name = name.strip_prefix(['P', 'p']).unwrap_or(name);
        name.starts_with("MPI_") || name.starts_with("mpi_") && name.ends_with('_')
    };
    let first = frames.iter().position(|(name, _)| is_mpi(name))?;
    let near = &frames[first..frames.len().min(first + 8)];
    let last = first + near.iter().rposition(|(name, _)| is_mpi(name))?;
    let (name, place) = frames.get(last + 1)?;
    if *name == "<unknown>" {
        return None;
    }
    Some(match place {
        // Without the column, which C compilers rarely provide.
        Some(place) => {
            let line = place.rsplit_once(':').map_or(*place, |(line, _)| line);
            format!("{name} at {line}")
        }
        None => (*name).to_owned(),
    })
}
