/* Control variables of which a tool learns after MPI_Init are read-only, and can't be written.
 * ranks: 1
 * variants: shm
 */
#include "check.h"

int main(int argc, char **argv) {
    int level, count = 0;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    OK(MPI_T_cvar_get_num(&count));
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        int verbosity, bind, scope, elements;
        MPI_Datatype datatype;
        MPI_T_enum values;
        MPI_T_cvar_handle handle;
        OK(MPI_T_cvar_get_info(i, NULL, NULL, &verbosity, &datatype, &values, NULL, NULL, &bind, &scope));
        CHECK_EQ(scope, MPI_T_SCOPE_READONLY);
        OK(MPI_T_cvar_handle_alloc(i, NULL, &handle, &elements));
        char *value = calloc((size_t)elements, sizeof(int));
        OK(MPI_T_cvar_read(handle, value));
        CHECK_EQ(MPI_T_cvar_write(handle, value), MPI_T_ERR_CVAR_SET_NEVER);
        OK(MPI_T_cvar_handle_free(&handle));
        free(value);
    }
    OK(MPI_T_finalize());
    OK(MPI_Finalize());
    return 0;
}
