//! Compares the functions with the names in `names.txt`, which MPICH 5.0.2's `libmpi.so.12` exports.
//! Missing functions must be listed here.

use std::collections::BTreeSet;

use mpi_table::Table;

const NAMES: &str = include_str!("names.txt");

/// Missing functions: extensions for GPU streams, none of the standard.
const MISSING: &str = "
    MPIX_Allreduce_enqueue MPIX_Allreduce_enqueue_c
    MPIX_Irecv_enqueue MPIX_Irecv_enqueue_c MPIX_Isend_enqueue MPIX_Isend_enqueue_c
    MPIX_Recv_enqueue MPIX_Recv_enqueue_c MPIX_Send_enqueue MPIX_Send_enqueue_c
    MPIX_Wait_enqueue MPIX_Waitall_enqueue
";

#[test]
fn missing_functions_are_listed() {
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
        "missing and not listed: {forgotten:?}"
    );
    let there: Vec<_> = listed.difference(&missing).collect();
    assert!(
        there.is_empty(),
        "listed as missing, but present: {there:?}"
    );
    let standard: Vec<_> = missing
        .iter()
        .filter(|name| name.starts_with("MPI_"))
        .collect();
    assert!(standard.is_empty(), "missing of the standard: {standard:?}");
}
