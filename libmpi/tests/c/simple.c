/* Calls functions that need no MPI_Init. The exit code is the line of the failed check. */
#include <mpi.h>
#include <string.h>

#define CHECK(condition) do { if (!(condition)) return __LINE__ & 0xff; } while (0)

int main(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    char message[MPI_MAX_ERROR_STRING];
    int version = 0, subversion = 0, length = 0, class_of = -1, array[10];
    MPI_Aint first, last;
    MPI_Status status = { 1, 2, 3, 4, 5 }, back = { 0, 0, 0, 0, 0 };
    MPI_Fint f_status[MPI_F_STATUS_SIZE];
    MPI_F08_status f08_status;

    CHECK(MPI_Get_version(&version, &subversion) == MPI_SUCCESS);
    CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION);
    CHECK(MPI_Get_library_version(text, &length) == MPI_SUCCESS);
    CHECK((int)strlen(text) == length && strstr(text, "Weft") == text);

    CHECK(MPI_Get_address(&array[0], &first) == MPI_SUCCESS);
    CHECK(MPI_Get_address(&array[9], &last) == MPI_SUCCESS);
    CHECK(MPI_Aint_diff(last, first) == (MPI_Aint)(9 * sizeof(int)));
    CHECK(MPI_Aint_add(first, (MPI_Aint)(9 * sizeof(int))) == last);

    CHECK(MPI_Error_class(MPI_ERR_RMA_FLAVOR, &class_of) == MPI_SUCCESS);
    CHECK(class_of == MPI_ERR_RMA_FLAVOR);
    CHECK(MPI_Error_string(MPI_ERR_TRUNCATE, message, &length) == MPI_SUCCESS);
    CHECK((int)strlen(message) == length && strstr(message, "MPI_ERR_TRUNCATE"));

    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK((MPI_Type_c2f)(MPI_INT) == MPI_Type_c2f(MPI_INT));

    CHECK(MPI_Status_c2f(&status, f_status) == MPI_SUCCESS);
    CHECK(f_status[MPI_F_SOURCE] == 3 && f_status[MPI_F_TAG] == 4 && f_status[MPI_F_ERROR] == 5);
    CHECK(MPI_Status_f2f08(f_status, &f08_status) == MPI_SUCCESS);
    CHECK(MPI_Status_f082c(&f08_status, &back) == MPI_SUCCESS);
    CHECK(memcmp(&status, &back, sizeof status) == 0);
    CHECK(MPI_UNWEIGHTED != MPI_WEIGHTS_EMPTY && MPI_UNWEIGHTED && MPI_WEIGHTS_EMPTY);
    return 0;
}
