// Prints the names of all control variables of the tool interface (MPI-4.1 section 15.3.6).

#include <mpi.h>
#include <stdio.h>

int main(void) {
    int provided, count;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) || MPI_T_cvar_get_num(&count))
        return 1;
    for (int index = 0; index < count; index++) {
        char name[100], text[10];
        int name_len = sizeof name, text_len = sizeof text, verbosity, bind, scope;
        MPI_Datatype type;
        MPI_T_enum values;
        if (MPI_T_cvar_get_info(index, name, &name_len, &verbosity, &type, &values, text, &text_len, &bind, &scope))
            return 1;
        puts(name);
    }
    return MPI_T_finalize();
}
