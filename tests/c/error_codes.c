/* ranks: 1 2
 * local: error codes and strings
 */
/* Codes tell what was wrong; classes and codes of the program (MPI-3.1 sections 8.3 to 8.5). */
#include "fails.h"

static int calls, last_code;
static MPI_Comm last_comm;

static void handler(MPI_Comm *comm, int *code, ...) {
    calls++, last_code = *code, last_comm = *comm;
}

static const char *text(int code) {
    static char string[MPI_MAX_ERROR_STRING];
    int length;
    OK(MPI_Error_string(code, string, &length));
    CHECK_EQ(length, strlen(string));
    return string;
}

static int last_used(void) {
    int *told, flag;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &told, &flag));
    CHECK(flag);
    return *told;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = world_rank(), value = 0;
    MPI_Errhandler errhandler, old;

    /* The text of a code says which function, which argument and what was wrong. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int one = MPI_Send(&value, -1, MPI_INT, rank, 0, MPI_COMM_WORLD);
    int two = MPI_Send(&value, 1, MPI_INT, rank, -7, MPI_COMM_WORLD);
    CHECK_EQ(class_of(one), MPI_ERR_COUNT);
    CHECK_EQ(class_of(two), MPI_ERR_TAG);
    CHECK(strstr(text(one), "count is -1") && strstr(text(one), "MPI_Send"));
    CHECK(strstr(text(two), "tag is -7") && strstr(text(two), "tag=-7"));
    /* After many others, the class is still told. */
    for (int i = 0; i < 3000; i++) {
        CHECK(MPI_Send(&value, 1, MPI_INT, -9, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    }
    CHECK_EQ(class_of(one), MPI_ERR_COUNT);
    CHECK(!strncmp(text(one), "MPI_ERR_COUNT", 13));
    CHECK(!strncmp(text(MPI_ERR_COUNT), "MPI_ERR_COUNT", 13));
    CHECK_EQ(class_of(MPI_SUCCESS), MPI_SUCCESS);

    /* Codes in statuses. */
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int pair[2] = {1, 2};
    OK(MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Isend(pair, 2, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]));
    CHECK_EQ(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK_EQ(class_of(statuses[0].MPI_ERROR), MPI_ERR_TRUNCATE);
    CHECK(statuses[0].MPI_ERROR != MPI_ERR_TRUNCATE);
    CHECK_EQ(statuses[1].MPI_ERROR, MPI_SUCCESS);
    int some, three = MPI_Waitsome(-1, requests, &some, pair, statuses);
    CHECK_EQ(class_of(three), MPI_ERR_COUNT);
    CHECK(strstr(text(three), "incount is -1"));

    /* A handler of the program's gets the code that is returned. */
    OK(MPI_Errhandler_create(handler, &errhandler));
    OK(MPI_Errhandler_set(MPI_COMM_WORLD, errhandler));
    int code = MPI_Comm_size(MPI_COMM_WORLD, NULL);
    CHECK_EQ(calls, 1);
    CHECK_EQ(last_code, code);
    CHECK_EQ(last_comm, MPI_COMM_WORLD);
    OK(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_NAME));
    CHECK_EQ(calls, 2);
    CHECK_EQ(last_code, MPI_ERR_NAME);
    OK(MPI_Errhandler_get(MPI_COMM_WORLD, &old));
    OK(MPI_Errhandler_free(&old));
    OK(MPI_Errhandler_free(&errhandler));
    CHECK_EQ(errhandler, MPI_ERRHANDLER_NULL);
    /* New communicators have the handler of their parent. */
    MPI_Comm dup;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    CHECK(MPI_Comm_rank(dup, NULL) != MPI_SUCCESS);
    CHECK_EQ(calls, 3);
    CHECK_EQ(last_comm, dup);
    OK(MPI_Comm_free(&dup));

    /* Classes and codes of the program. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_EQ(last_used(), MPI_ERR_LASTCODE);
    int own, detail, other;
    OK(MPI_Add_error_class(&own));
    CHECK(own > MPI_ERR_LASTCODE);
    CHECK_EQ(last_used(), own);
    OK(MPI_Add_error_code(own, &detail));
    OK(MPI_Add_error_code(MPI_ERR_BUFFER, &other));
    CHECK_EQ(last_used(), other);
    CHECK_EQ(class_of(own), own);
    CHECK_EQ(class_of(detail), own);
    CHECK_EQ(class_of(other), MPI_ERR_BUFFER);
    CHECK(!strcmp(text(detail), ""));
    OK(MPI_Add_error_string(own, "a class of mine"));
    OK(MPI_Add_error_string(detail, "a code of mine"));
    CHECK(!strcmp(text(own), "a class of mine") && !strcmp(text(detail), "a code of mine"));
    FAILS(MPI_Add_error_code(detail, &other), MPI_ERR_ARG);
    FAILS(MPI_Add_error_code(-1, &other), MPI_ERR_ARG);
    FAILS(MPI_Add_error_string(MPI_ERR_TAG, "not mine"), MPI_ERR_ARG);
    FAILS(MPI_Add_error_string(detail + 50, "not there"), MPI_ERR_ARG);
    FAILS(MPI_Add_error_class(NULL), MPI_ERR_ARG);
    int class_;
    FAILS(MPI_Error_class(detail + 50, &class_), MPI_ERR_ARG);
    FAILS(MPI_Error_class(-1, &class_), MPI_ERR_ARG);
    FAILS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    FAILS(MPI_Errhandler_free(&errhandler), MPI_ERR_ERRHANDLER);

    /* Memory. */
    int *memory = NULL;
    OK(MPI_Alloc_mem(1000 * sizeof(int), MPI_INFO_NULL, &memory));
    CHECK(memory && (MPI_Aint)memory % 64 == 0);
    memset(memory, 1, 1000 * sizeof(int));
    FAILS(MPI_Free_mem(memory + 1), MPI_ERR_BASE);
    void *freed = memory;
    OK(MPI_Free_mem(memory));
    FAILS(MPI_Free_mem(freed), MPI_ERR_BASE);
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096"));
    OK(MPI_Alloc_mem(1, info, &memory));
    CHECK_EQ((MPI_Aint)memory % 4096, 0);
    OK(MPI_Free_mem(memory));
    OK(MPI_Info_free(&info));
    OK(MPI_Alloc_mem(0, MPI_INFO_NULL, &memory));
    OK(MPI_Free_mem(memory));
    FAILS(MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory), MPI_ERR_ARG);
    FAILS(MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &memory), MPI_ERR_NO_MEM);
    OK(MPI_Pcontrol(1, "anything", 2));
    MPI_Finalize();
    return 0;
}
