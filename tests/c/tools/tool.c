/* A tool that counts. */
#include <mpi.h>

int tool_sends(void);
int tool_barriers(void);

static int sends, barriers;

int tool_sends(void) { return sends; }

int tool_barriers(void) { return barriers; }

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
    sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Barrier(MPI_Comm comm) {
    barriers++;
    return PMPI_Barrier(comm);
}
