//! The functions that another library of this ABI exports, by their names: `names.txt` has those of MPICH
//! 5.0.2's `libmpi.so.12`. What is not here yet is listed, so that nothing is forgotten.

use std::collections::BTreeSet;

use mpi_table::Table;

const NAMES: &str = include_str!("names.txt");

/// What is missing: extensions for streams of graphics processors.
/// Of the standard's functions none is.
const MISSING: &str = "
    MPIX_Allreduce_enqueue MPIX_Allreduce_enqueue_c
    MPIX_Irecv_enqueue MPIX_Irecv_enqueue_c MPIX_Isend_enqueue MPIX_Isend_enqueue_c
    MPIX_Recv_enqueue MPIX_Recv_enqueue_c MPIX_Send_enqueue MPIX_Send_enqueue_c
    MPIX_Wait_enqueue MPIX_Waitall_enqueue
";

#[test]
fn what_is_missing_of_the_functions_of_others_is_listed() {
    let table = Table::load().expect("a good table");
    let present: BTreeSet<&str> = table
        .functions
        .present()
        .map(|function| function.name.as_str())
        .collect();
    let listed: BTreeSet<&str> = MISSING.split_whitespace().collect();
    let names: BTreeSet<&str> = NAMES.split_whitespace().collect();
    assert_eq!(names.len(), 758);
    let missing: BTreeSet<&str> = names.difference(&present).copied().collect();
    let forgotten: Vec<_> = missing.difference(&listed).collect();
    assert!(
        forgotten.is_empty(),
        "missing, and not listed: {forgotten:?}"
    );
    let there: Vec<_> = listed.difference(&missing).collect();
    assert!(there.is_empty(), "listed as missing, but there: {there:?}");
    let standard: Vec<_> = missing
        .iter()
        .filter(|name| name.starts_with("MPI_"))
        .collect();
    assert!(standard.is_empty(), "missing of the standard: {standard:?}");
}
