//! The functions with large counts are those of the standard.

use std::collections::BTreeSet;

use mpi_table::Table;

/// What MPI-4.1 gives a form with large counts (its annex A.2), without `MPI_` and `_c`.
const STANDARD: &str = "
    Bsend Bsend_init Buffer_attach Buffer_detach Comm_attach_buffer Comm_detach_buffer Get_count Ibsend
    Imrecv Irecv Irsend Isend Isendrecv Isendrecv_replace Issend Mrecv Recv Recv_init Rsend Rsend_init
    Send Send_init Sendrecv Sendrecv_replace Session_attach_buffer Session_detach_buffer Ssend Ssend_init

    Get_elements Pack Pack_external Pack_external_size Pack_size Type_contiguous Type_create_darray
    Type_create_hindexed Type_create_hindexed_block Type_create_hvector Type_create_indexed_block
    Type_create_resized Type_create_struct Type_create_subarray Type_get_contents Type_get_envelope
    Type_get_extent Type_get_true_extent Type_indexed Type_size Type_vector Unpack Unpack_external

    Allgather Allgather_init Allgatherv Allgatherv_init Allreduce Allreduce_init Alltoall Alltoall_init
    Alltoallv Alltoallv_init Alltoallw Alltoallw_init Bcast Bcast_init Exscan Exscan_init Gather
    Gather_init Gatherv Gatherv_init Iallgather Iallgatherv Iallreduce Ialltoall Ialltoallv Ialltoallw
    Ibcast Iexscan Igather Igatherv Ireduce Ireduce_scatter Ireduce_scatter_block Iscan Iscatter
    Iscatterv Op_create Reduce Reduce_init Reduce_local Reduce_scatter Reduce_scatter_block
    Reduce_scatter_block_init Reduce_scatter_init Scan Scan_init Scatter Scatter_init Scatterv
    Scatterv_init

    Ineighbor_allgather Ineighbor_allgatherv Ineighbor_alltoall Ineighbor_alltoallv
    Ineighbor_alltoallw Neighbor_allgather Neighbor_allgather_init Neighbor_allgatherv
    Neighbor_allgatherv_init Neighbor_alltoall Neighbor_alltoall_init Neighbor_alltoallv
    Neighbor_alltoallv_init Neighbor_alltoallw Neighbor_alltoallw_init

    Accumulate Get Get_accumulate Put Raccumulate Rget Rget_accumulate Rput Win_allocate
    Win_allocate_shared Win_create Win_shared_query

    Status_set_elements

    File_get_type_extent File_iread File_iread_all File_iread_at File_iread_at_all File_iread_shared
    File_iwrite File_iwrite_all File_iwrite_at File_iwrite_at_all File_iwrite_shared File_read
    File_read_all File_read_all_begin File_read_at File_read_at_all File_read_at_all_begin
    File_read_ordered File_read_ordered_begin File_read_shared File_write File_write_all
    File_write_all_begin File_write_at File_write_at_all File_write_at_all_begin File_write_ordered
    File_write_ordered_begin File_write_shared Register_datarep
";

#[test]
fn every_function_has_the_form_with_large_counts_that_the_standard_gives_it() {
    let expected: BTreeSet<String> = STANDARD
        .split_whitespace()
        .map(|name| format!("MPI_{name}"))
        .collect();
    assert_eq!(expected.len(), 159);
    let table = Table::load().expect("a good table");
    let present: BTreeSet<&str> = table
        .functions
        .present()
        .map(|function| function.name.as_str())
        .collect();
    let mut problems = Vec::new();
    for name in &expected {
        let large = format!("{name}_c");
        if present.contains(name.as_str()) && !present.contains(large.as_str()) {
            problems.push(format!("{large} is missing, though {name} is there"));
        }
    }
    for function in table.functions.all() {
        if let Some(narrow) = function.name.strip_suffix("_c")
            && narrow.starts_with("MPI_")
            && !expected.contains(narrow)
        {
            problems.push(format!("{} is not in the standard", function.name));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
