/* Causes an error that the initial error handler makes fatal; output before it must not be lost. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    int length;
    printf("before");
    MPI_Error_string(12345, NULL, &length);
    printf("after");
    return 0;
}
