/* ranks: 1 2 */
/* Small functions of MPI-4.0 and 4.1: info strings and the start's environment, duplicates with hints,
 * looking at several requests, statuses by functions, errors that are removed, pairs of value and
 * index. */
#include "fails.h"

static void infos(void) {
    char value[16];
    int length, flag = -1;
    MPI_Info info, start;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "colour", "turquoise"));
    length = 0;
    OK(MPI_Info_get_string(info, "colour", &length, NULL, &flag));
    CHECK(flag && length == 10);
    memset(value, '#', sizeof value);
    OK(MPI_Info_get_string(info, "colour", &length, value, &flag));
    CHECK(flag && length == 10 && !memcmp(value, "turquoise\0#", 11));
    memset(value, '#', sizeof value);
    length = 5;
    OK(MPI_Info_get_string(info, "colour", &length, value, &flag));
    CHECK(flag && length == 10 && !memcmp(value, "turq\0#", 6));
    length = 7;
    OK(MPI_Info_get_string(info, "shape", &length, value, &flag));
    CHECK(!flag && length == 7 && !memcmp(value, "turq\0#", 6));
    length = -1;
    FAILS(MPI_Info_get_string(info, "colour", &length, value, &flag), MPI_ERR_ARG);
    FAILS(MPI_Info_get_string(info, "colour", NULL, value, &flag), MPI_ERR_ARG);
    length = 3;
    FAILS(MPI_Info_get_string(info, "colour", &length, NULL, &flag), MPI_ERR_INFO_VALUE);
    FAILS(MPI_Info_get_string(MPI_INFO_NULL, "colour", &length, value, &flag), MPI_ERR_INFO);
    FAILS(MPI_Info_get_string(info, NULL, &length, value, &flag), MPI_ERR_INFO_KEY);

    char *words[] = {"program", "one", "two", NULL};
    OK(MPI_Info_create_env(3, words, &start));
    length = sizeof value;
    OK(MPI_Info_get_string(start, "command", &length, value, &flag));
    CHECK(flag && !strcmp(value, "program"));
    length = sizeof value;
    OK(MPI_Info_get_string(start, "argv", &length, value, &flag));
    CHECK(flag && !strcmp(value, "one two"));
    length = sizeof value;
    OK(MPI_Info_get_string(start, "maxprocs", &length, value, &flag));
    CHECK(flag && atoi(value) == world_size());
    /* It is the program's own, to be changed and freed. */
    OK(MPI_Info_set(start, "command", "other"));
    OK(MPI_Info_free(&start));
    FAILS(MPI_Info_create_env(0, NULL, NULL), MPI_ERR_ARG);

    MPI_Comm copy;
    MPI_Request request;
    MPI_Info used;
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &copy, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_get_info(copy, &used));
    length = sizeof value;
    OK(MPI_Info_get_string(used, "mpi_assert_no_any_tag", &length, value, &flag));
    CHECK(flag && !strcmp(value, "true"));
    length = 0;
    OK(MPI_Info_get_string(used, "colour", &length, NULL, &flag));
    CHECK(!flag);
    OK(MPI_Info_free(&used));
    int sum, one = 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy));
    CHECK_EQ(sum, world_size());
    OK(MPI_Comm_free(&copy));
    OK(MPI_Info_free(&info));
    FAILS(MPI_Comm_idup_with_info(MPI_COMM_WORLD, 12345, &copy, &request), MPI_ERR_INFO);
    FAILS(MPI_Comm_idup_with_info(MPI_COMM_NULL, MPI_INFO_NULL, &copy, &request), MPI_ERR_COMM);
}

static void requests(void) {
    int data[3] = {0, 0, 0}, flag, index, count, indices[3];
    MPI_Request all[3], sends[2];
    MPI_Status status, statuses[3];
    for (int i = 0; i < 3; i++) {
        OK(MPI_Irecv(&data[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &all[i]));
    }
    OK(MPI_Request_get_status_any(3, all, &index, &flag, &status));
    CHECK(!flag && index == MPI_UNDEFINED);
    OK(MPI_Request_get_status_all(3, all, &flag, statuses));
    CHECK(!flag);
    OK(MPI_Request_get_status_some(3, all, &count, indices, statuses));
    CHECK_EQ(count, 0);
    int seven = 7, eight = 8;
    OK(MPI_Isend(&seven, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &sends[0]));
    OK(MPI_Isend(&eight, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &sends[1]));
    OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
    do {
        OK(MPI_Request_get_status_some(3, all, &count, indices, statuses));
        CHECK(count >= 0 && count <= 2);
    } while (count < 2);
    CHECK(indices[0] == 0 && indices[1] == 2);
    CHECK(statuses[0].MPI_TAG == 0 && statuses[1].MPI_TAG == 2 && data[2] == 7);
    /* Nothing has been completed: it is there again. */
    OK(MPI_Request_get_status_any(3, all, &index, &flag, &status));
    CHECK(flag && index == 0 && status.MPI_SOURCE == 0 && status.MPI_TAG == 0);
    OK(MPI_Request_get_status_any(3, all, &index, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Request_get_status_all(3, all, &flag, statuses));
    CHECK(!flag && all[0] != MPI_REQUEST_NULL);
    OK(MPI_Send(&seven, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
    do {
        OK(MPI_Request_get_status_all(3, all, &flag, statuses));
    } while (!flag);
    CHECK_EQ(statuses[1].MPI_TAG, 1);
    OK(MPI_Waitall(3, all, MPI_STATUSES_IGNORE));
    OK(MPI_Request_get_status_any(3, all, &index, &flag, &status));
    CHECK(flag && index == MPI_UNDEFINED && status.MPI_SOURCE == MPI_ANY_SOURCE);
    OK(MPI_Request_get_status_some(3, all, &count, indices, statuses));
    CHECK_EQ(count, MPI_UNDEFINED);
    OK(MPI_Request_get_status_all(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    FAILS(MPI_Request_get_status_any(-1, all, &index, &flag, &status), MPI_ERR_COUNT);
    FAILS(MPI_Request_get_status_all(1, NULL, &flag, statuses), MPI_ERR_ARG);
    all[1] = 0x12345;
    FAILS(MPI_Request_get_status_some(3, all, &count, indices, statuses), MPI_ERR_REQUEST);
}

static void statuses(void) {
    MPI_Status status;
    int value;
    OK(MPI_Status_set_source(&status, 4));
    OK(MPI_Status_set_tag(&status, 5));
    OK(MPI_Status_set_error(&status, MPI_ERR_TRUNCATE));
    CHECK(status.MPI_SOURCE == 4 && status.MPI_TAG == 5 && status.MPI_ERROR == MPI_ERR_TRUNCATE);
    /* Whatever the program wants to tell itself. */
    OK(MPI_Status_set_source(&status, MPI_UNDEFINED));
    OK(MPI_Status_set_tag(&status, -77));
    OK(MPI_Status_set_error(&status, -1));
    CHECK(status.MPI_SOURCE == MPI_UNDEFINED && status.MPI_TAG == -77 && status.MPI_ERROR == -1);
    OK(MPI_Status_set_tag(&status, 5));
    OK(MPI_Status_set_error(&status, MPI_ERR_TRUNCATE));
    status.MPI_SOURCE = MPI_PROC_NULL;
    OK(MPI_Status_get_source(&status, &value));
    CHECK_EQ(value, MPI_PROC_NULL);
    OK(MPI_Status_get_tag(&status, &value));
    CHECK_EQ(value, 5);
    OK(MPI_Status_get_error(&status, &value));
    CHECK_EQ(value, MPI_ERR_TRUNCATE);
    FAILS(MPI_Status_get_tag(MPI_STATUS_IGNORE, &value), MPI_ERR_ARG);
    FAILS(MPI_Status_get_source(&status, NULL), MPI_ERR_ARG);
    FAILS(MPI_Status_set_source(NULL, 0), MPI_ERR_ARG);
    FAILS(MPI_Status_set_tag(MPI_STATUS_IGNORE, 0), MPI_ERR_ARG);
    FAILS(MPI_Status_set_error(NULL, MPI_SUCCESS), MPI_ERR_ARG);
}

static void errors(void) {
    int class_, code, other, length, *last, flag;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Add_error_class(&class_));
    OK(MPI_Add_error_code(class_, &code));
    OK(MPI_Add_error_string(code, "of ours"));
    FAILS(MPI_Remove_error_class(class_), MPI_ERR_ARG);
    FAILS(MPI_Remove_error_class(code), MPI_ERR_ARG);
    FAILS(MPI_Remove_error_code(class_), MPI_ERR_ARG);
    FAILS(MPI_Remove_error_string(class_), MPI_ERR_ARG);
    /* A code with a string stays until that is removed. */
    FAILS(MPI_Remove_error_code(code), MPI_ERR_ARG);
    OK(MPI_Error_string(code, text, &length));
    CHECK(!strcmp(text, "of ours"));
    OK(MPI_Remove_error_string(code));
    OK(MPI_Error_string(code, text, &length));
    CHECK(length == 0 && text[0] == 0);
    FAILS(MPI_Remove_error_string(code), MPI_ERR_ARG);
    OK(MPI_Remove_error_code(code));
    FAILS(MPI_Error_class(code, &other), MPI_ERR_ARG);
    FAILS(MPI_Remove_error_code(code), MPI_ERR_ARG);
    OK(MPI_Remove_error_class(class_));
    FAILS(MPI_Error_string(class_, text, &length), MPI_ERR_ARG);
    FAILS(MPI_Remove_error_class(class_), MPI_ERR_ARG);
    FAILS(MPI_Remove_error_class(MPI_ERR_TAG), MPI_ERR_ARG);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    CHECK(flag && *last >= MPI_ERR_LASTCODE);
    OK(MPI_Error_string(MPI_ERR_SESSION, text, &length));
    CHECK(!strncmp(text, "MPI_ERR_SESSION", 15));
}

static void pairs(void) {
    MPI_Datatype pair;
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair));
    CHECK_EQ(pair, MPI_DOUBLE_INT);
    OK(MPI_Type_get_value_index(MPI_INT, MPI_INT, &pair));
    CHECK_EQ(pair, MPI_2INT);
    struct {
        double value;
        int index;
    } mine = {-world_rank(), world_rank()}, best;
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair));
    OK(MPI_Allreduce(&mine, &best, 1, pair, MPI_MINLOC, MPI_COMM_WORLD));
    CHECK_EQ(best.index, world_size() - 1);
    OK(MPI_Type_get_value_index(MPI_BYTE, MPI_INT, &pair));
    CHECK_EQ(pair, MPI_DATATYPE_NULL);
    FAILS(MPI_Type_get_value_index(MPI_DATATYPE_NULL, MPI_INT, &pair), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_value_index(MPI_INT, MPI_INT, NULL), MPI_ERR_ARG);
}

int main(int argc, char **argv) {
    MPI_Info info;
    /* Allowed before MPI_Init. */
    OK(MPI_Info_create_env(argc, argv, &info));
    char value[512];
    int length = sizeof value, flag;
    OK(MPI_Info_get_string(info, "command", &length, value, &flag));
    CHECK(flag && strstr(value, "mpi4_small"));
    OK(MPI_Info_free(&info));
    MPI_Init(&argc, &argv);
    world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    infos();
    requests();
    statuses();
    errors();
    pairs();
    MPI_Finalize();
    return 0;
}
