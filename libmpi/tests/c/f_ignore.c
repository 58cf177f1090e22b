/* The library reads the address of Fortran's MPI_STATUS_IGNORE from a variable, which may be a copy
 * in the executable. Converting this status is an error, here a fatal one. */
#include <mpi.h>

int main(void)
{
    static MPI_Fint ignore[MPI_F_STATUS_SIZE], ordinary[MPI_F_STATUS_SIZE];
    MPI_Status status;
    MPI_F_STATUS_IGNORE = ignore;
    if (MPI_F08_STATUS_IGNORE != &MPIR_F08_MPI_STATUS_IGNORE_OBJ)
        return 1;
    if (MPI_Status_f2c(ordinary, &status) != MPI_SUCCESS)
        return 2;
    MPI_Status_f2c(ignore, &status);
    return 3;
}
