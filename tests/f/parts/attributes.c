/* How C sees attributes of Fortran, and sets one itself. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

void c_sees_(const int *key, const int *old, int *wrong) {
    void *value = NULL;
    int flag = 0;
    *wrong = 1;
    MPI_Comm_get_attr(MPI_COMM_WORLD, *key, &value, &flag);
    if (!flag || *(MPI_Aint *)value != -123456789012345) {
        return;
    }
    MPI_Comm_get_attr(MPI_COMM_WORLD, *old, &value, &flag);
    if (!flag || *(int *)value != -12345) {
        return;
    }
    /* In C keys of predefined attributes give addresses. */
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    *wrong = !(flag && *(int *)value >= 32767);
}

void c_sets_(const int *key, int *ierr) {
    *ierr = MPI_Comm_set_attr(MPI_COMM_WORLD, *key, (void *)(intptr_t)987654321098);
}

#ifdef MPI_ABI_VERSION
/* The standard ABI has nothing in C that depends on Fortran. */
void c_ignores_(const int *status, const int *statuses, int *wrong) {
    *wrong = status == statuses;
}

void c_ignores_f08_(const MPI_Status *status, const MPI_Status *statuses, int *wrong) {
    *wrong = status == statuses;
}
#else
/* Whether C knows Fortran's ignored statuses by their addresses. */
void c_ignores_(const MPI_Fint *status, const MPI_Fint *statuses, int *wrong) {
    *wrong = status != MPI_F_STATUS_IGNORE || statuses != MPI_F_STATUSES_IGNORE;
}

#ifndef OPEN_MPI /* Its version 4 has no statuses of Fortran 2008 in C. */
void c_ignores_f08_(const MPI_F08_status *status, const MPI_F08_status *statuses, int *wrong) {
    *wrong = status != MPI_F08_STATUS_IGNORE || statuses != MPI_F08_STATUSES_IGNORE;
}
#endif
#endif
