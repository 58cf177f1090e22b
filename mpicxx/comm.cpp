/* Communicators: communication. */
#include "call.h"

using weft::Array;
using weft::check;

namespace MPI {

void Comm::Alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[],
    const Datatype sendtypes[], void *recvbuf, const int recvcounts[], const int rdispls[],
    const Datatype recvtypes[]) const
{
    int inter = 0, size = 0;
    if (handle != MPI_COMM_NULL) {
        if (!weft::asked(inter, PMPI_Comm_test_inter, handle))
            return;
        check(inter ? PMPI_Comm_remote_size(handle, &size) : PMPI_Comm_size(handle, &size));
    }
    Array<MPI_Datatype> sent(size, sendbuf == MPI_IN_PLACE ? NULL : sendtypes);
    Array<MPI_Datatype> received(size, recvtypes);
    check(MPI_Alltoallw(sendbuf, sendcounts, sdispls, sent, recvbuf, recvcounts, rdispls, received,
        handle));
}

} // namespace MPI
