/* Prints whether MPI_Wtime is the library's own, and whether it advances. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    double start = PMPI_Wtime();
    double now = MPI_Wtime();
    double end = PMPI_Wtime();
    if (!(start <= end) || !(MPI_Wtick() > 0 && MPI_Wtick() < 1e-3))
        return 1;
    if (start <= now && now <= end)
        puts("own");
    else if (start <= now - 1e9 && now - 1e9 <= end + 1e-3)
        puts("wrapped");
    else
        return 2;
    return 0;
}
