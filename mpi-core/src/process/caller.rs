//! The MPI function that a waiting thread is in and its caller, from the thread's stack, for
//! reports of hangs.

#![deny(unsafe_code)]

use std::backtrace::Backtrace;

/// Formats ` in MPI_Recv, called by main at hang.c:4` as far as the stack shows it; otherwise
/// returns an empty string.
pub fn describe() -> String {
    let stack = Backtrace::force_capture().to_string();
    match outermost(&frames(&stack)) {
        Some((function, Some(caller))) => format!(" in {function}, called by {caller}"),
        Some((function, None)) => format!(" in {function}"),
        None => String::new(),
    }
}

/// A function on the stack, with its source location if known.
type Frame<'a> = (&'a str, Option<&'a str>);

/// Parses a stack as the standard library prints it, innermost frame first: a line ` 3: name`,
/// optionally followed by one `at file:line:column`. Inlined frames have no number.
fn frames(stack: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame> = Vec::new();
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
    frames
}

/// Returns the MPI function that a frame belongs to. A fast path may tail-call its slow path, named
/// like `mpi::PMPI_Wait::MPI_Wait_long`; the function itself is then no longer on the stack.
fn function_of<'a>((name, _): &Frame<'a>) -> Option<&'a str> {
    // The parameters of a generic function follow its name.
    let name = name.split('<').next().unwrap_or(name);
    let name = name.trim_end_matches("::").rsplit("::").next()?;
    let name = name.strip_prefix(['P', 'p']).unwrap_or(name);
    let name = name.strip_suffix("_long").unwrap_or(name);
    let is_mpi = name.starts_with("MPI_")
        || name.starts_with("MPIX_")
        || name.starts_with("mpi_") && name.ends_with('_');
    is_mpi.then_some(name)
}

/// Returns the outermost MPI function, by its C or Fortran name, and its caller.
fn outermost(frames: &[Frame]) -> Option<(String, Option<String>)> {
    let at = frames
        .iter()
        .rposition(|frame| function_of(frame).is_some())?;
    let function = function_of(&frames[at])?;
    let caller = frames.get(at + 1).filter(|(name, _)| *name != "<unknown>");
    let caller = caller.map(|(name, place)| match place {
        // Drops column 0, which C compilers write.
        Some(place) => format!("{name} at {}", place.strip_suffix(":0").unwrap_or(place)),
        None => (*name).to_owned(),
    });
    Some((function.to_owned(), caller))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_found_on_the_stack() {
        let stack = "   0: <mpi_core::process::Process>::report\n             at /weft/report.rs:36:9\n   \
            1: mpi_core::wait\n   2: mpi::api::pt2pt::recv\n   3: PMPI_Recv\n             at ./shims.rs:8:1\n   \
            4: exchange\n             at ./halo.c:42:5\n   5: main\n   6: <unknown>\n";
        let frames = frames(stack);
        assert_eq!(frames.len(), 7);
        let found = outermost(&frames);
        let expected = (
            "MPI_Recv".to_owned(),
            Some("exchange at ./halo.c:42:5".to_owned()),
        );
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn a_call_that_went_on_by_a_jump_is_found() {
        let stack =
            "   0: mpi_core::wait::sleep\n   1: mpi::PMPI_Wait::MPI_Wait_long\n   2: main\n";
        let expected = ("MPI_Wait".to_owned(), Some("main".to_owned()));
        assert_eq!(outermost(&frames(stack)), Some(expected));
        // Frames from debug information without paths.
        let stack = "   0: <mpi_core::process::Process>::wait\n   1: MPI_Send_long<false>\n";
        assert_eq!(
            outermost(&frames(stack)),
            Some(("MPI_Send".to_owned(), None))
        );
    }

    #[test]
    fn fortran_calls_through_c() {
        let stack = "   0: PMPI_Recv\n   1: pmpi_recv_\n   2: MAIN__\n             at a.f90:3:0\n";
        let expected = ("mpi_recv_".to_owned(), Some("MAIN__ at a.f90:3".to_owned()));
        assert_eq!(outermost(&frames(stack)), Some(expected));
        assert_eq!(outermost(&frames("   0: main\n")), None);
        let unknown = "   0: MPI_Barrier\n   1: <unknown>\n";
        assert_eq!(
            outermost(&frames(unknown)),
            Some(("MPI_Barrier".to_owned(), None))
        );
    }
}
