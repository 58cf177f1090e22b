/* Tells Weft how a program that knows nothing of VCIs uses tags, as docs/vcis.md shows: bit 0 has the
 * sending thread, bit 1 the receiving one, and nobody receives from MPI_ANY_TAG. */
#include <mpi.h>

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int code = PMPI_Init_thread(argc, argv, required, provided);
    MPI_Info info;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    PMPI_Info_set(info, "weft_tag_sender_bits", "0:1");
    PMPI_Info_set(info, "weft_tag_receiver_bits", "1:1");
    PMPI_Comm_set_info(MPI_COMM_WORLD, info);
    PMPI_Info_free(&info);
    return code;
}
