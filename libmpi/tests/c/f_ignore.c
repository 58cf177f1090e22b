/* Fortran's MPI_STATUS_IGNORE has an address that the library learns from a variable, which may be
 * a copy in the executable. To convert it is an error, which is fatal. */
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
