//! Where in the program a call was made. Only addresses are taken down at once; they are looked up in the program's
//! symbols when somebody wants to know.

use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Frames that tell one place from another.
const FRAMES: usize = 10;

/// A call's place, and the function that was called.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    function: &'static str,
    key: u64,
}

enum Known {
    Stack(Box<Backtrace>),
    Text(String),
}

static KNOWN: LazyLock<Mutex<HashMap<u64, Known>>> = LazyLock::new(Mutex::default);

impl Place {
    /// That of the call which the program makes now.
    pub fn here(function: &'static str) -> Place {
        let mut frames = [ptr::null_mut(); FRAMES];
        // SAFETY: there is room for as many addresses.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES as c_int) };
        let mut hasher = DefaultHasher::new();
        frames[..usize::try_from(count).unwrap_or(0)].hash(&mut hasher);
        let key = hasher.finish();
        let known = KNOWN.lock().contains_key(&key);
        if !known {
            let stack = Known::Stack(Box::new(Backtrace::force_capture()));
            KNOWN.lock().insert(key, stack);
        }
        Place { function, key }
    }

    /// `MPI_Isend, called by main at a.c:12`, as far as that can be told.
    pub fn text(self) -> String {
        let mut known = KNOWN.lock();
        let Some(entry) = known.get_mut(&self.key) else {
            return self.function.to_owned();
        };
        if let Known::Stack(stack) = entry {
            *entry = Known::Text(caller(&stack.to_string()).unwrap_or_default());
        }
        match entry {
            Known::Text(text) if !text.is_empty() => {
                format!("{}, called by {text}", self.function)
            }
            _ => self.function.to_owned(),
        }
    }
}

/// Who called MPI, from a stack as the standard library prints it: a line ` 3: name`, and below it perhaps one
/// `at file:line:column`. Fortran's functions call those of C.
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
        // Without the column, which says nothing in C.
        Some(place) => {
            let line = place.rsplit_once(':').map_or(*place, |(line, _)| line);
            format!("{name} at {line}")
        }
        None => (*name).to_owned(),
    })
}
