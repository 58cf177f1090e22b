/* ranks: 1 2 3
 * local: attributes
 */
/* Attributes of communicators: values, callbacks and their order, wrong uses (section 6.7). */
#include "fails.h"

static char log_[4096];
static int copies_fail, deletes_fail;
static MPI_Comm expected;

/* The extra state is the key's letter. */
static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    CHECK_EQ(comm, expected);
    CHECK(keyval != MPI_KEYVAL_INVALID);
    sprintf(log_ + strlen(log_), "c%c%d ", *(char *)extra, (int)(MPI_Aint)in);
    if (copies_fail) {
        return copies_fail;
    }
    *(void **)out = (char *)in + 1;
    *flag = (MPI_Aint)in != 13;
    return MPI_SUCCESS;
}

static int drop(MPI_Comm comm, int keyval, void *value, void *extra) {
    CHECK(comm != MPI_COMM_NULL);
    CHECK(keyval != MPI_KEYVAL_INVALID);
    sprintf(log_ + strlen(log_), "d%c%d ", *(char *)extra, (int)(MPI_Aint)value);
    return deletes_fail;
}

static void logged(const char *want) {
    if (strcmp(log_, want)) {
        fprintf(stderr, "callbacks were %s, not %s\n", log_, want);
        CHECK(0);
    }
    log_[0] = 0;
}

static long value(MPI_Comm comm, int keyval) {
    void *found = NULL;
    int flag = -1;
    OK(MPI_Comm_get_attr(comm, keyval, &found, &flag));
    return flag ? (long)(MPI_Aint)found : -1;
}

static void *number(long n) {
    return (void *)(MPI_Aint)n;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size = world_size();
    world_rank();
    int a, b, c, null, dup;
    OK(MPI_Comm_create_keyval(copy, drop, &a, "a"));
    OK(MPI_Comm_create_keyval(copy, drop, &b, "b"));
    OK(MPI_Keyval_create(copy, drop, &c, "c"));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &null, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup, NULL));

    MPI_Comm comm, other;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    expected = comm;
    CHECK_EQ(value(comm, a), -1);
    OK(MPI_Comm_set_attr(comm, b, number(10)));
    OK(MPI_Comm_set_attr(comm, a, number(11)));
    OK(MPI_Attr_put(comm, c, number(13)));
    OK(MPI_Comm_set_attr(comm, null, number(5)));
    OK(MPI_Comm_set_attr(comm, dup, number(6)));
    CHECK_EQ(value(comm, a), 11);
    logged("");
    OK(MPI_Comm_set_attr(comm, a, number(12)));
    logged("da11 ");

    OK(MPI_Comm_dup(comm, &other));
    CHECK_EQ(value(other, b), 11);
    CHECK_EQ(value(other, a), 13);
    CHECK_EQ(value(other, c), -1);
    CHECK_EQ(value(other, null), -1);
    CHECK_EQ(value(other, dup), 6);
    log_[0] = 0;
    OK(MPI_Comm_free(&other));
    logged("da13 db11 ");
    MPI_Request request;
    OK(MPI_Comm_idup(comm, &other, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(value(other, dup), 6);
    OK(MPI_Comm_free(&other));
    OK(MPI_Comm_split(comm, 0, 0, &other));
    CHECK_EQ(value(other, dup), -1);
    OK(MPI_Comm_free(&other));
    log_[0] = 0;

    /* Freed keys live on while they are in use. */
    OK(MPI_Comm_delete_attr(comm, b));
    logged("db10 ");
    CHECK_EQ(value(comm, b), -1);
    int freed = a;
    OK(MPI_Comm_free_keyval(&a));
    CHECK_EQ(a, MPI_KEYVAL_INVALID);
    OK(MPI_Comm_free(&comm));
    logged("da12 dc13 ");

    /* Callbacks that fail. */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    expected = comm;
    OK(MPI_Comm_set_attr(comm, b, number(1)));
    copies_fail = MPI_ERR_OTHER;
    FAILS(MPI_Comm_dup(comm, &other), MPI_ERR_OTHER);
    copies_fail = 0, deletes_fail = MPI_ERR_OTHER;
    log_[0] = 0;
    FAILS(MPI_Comm_free(&comm), MPI_ERR_OTHER);
    FAILS(MPI_Comm_delete_attr(comm, b), MPI_ERR_OTHER);
    FAILS(MPI_Comm_set_attr(comm, b, number(2)), MPI_ERR_OTHER);
    CHECK_EQ(value(comm, b), 1);
    deletes_fail = 0;

    /* Wrong uses. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int flag, of_type;
    void *found;
    FAILS(MPI_Comm_set_attr(comm, freed, NULL), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_set_attr(comm, MPI_KEYVAL_INVALID, NULL), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_set_attr(comm, MPI_TAG_UB, NULL), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_IO), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_get_attr(comm, a, &found, &flag), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_get_attr(comm, b, NULL, &flag), MPI_ERR_ARG);
    FAILS(MPI_Comm_get_attr(comm, b, &found, NULL), MPI_ERR_ARG);
    FAILS(MPI_Comm_get_attr(MPI_COMM_NULL, b, &found, &flag), MPI_ERR_COMM);
    FAILS(MPI_Comm_free_keyval(&a), MPI_ERR_KEYVAL);
    int io = MPI_IO;
    FAILS(MPI_Comm_free_keyval(&io), MPI_ERR_KEYVAL);
    OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &of_type, NULL));
    FAILS(MPI_Comm_set_attr(comm, of_type, NULL), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_free_keyval(&of_type), MPI_ERR_KEYVAL);

    /* Attributes of a datatype. */
    OK(MPI_Type_set_attr(MPI_INT, of_type, &found));
    OK(MPI_Type_get_attr(MPI_INT, of_type, &found, &flag));
    CHECK(flag && found == (void *)&found);
    OK(MPI_Type_delete_attr(MPI_INT, of_type));
    OK(MPI_Type_get_attr(MPI_INT, of_type, &found, &flag));
    CHECK_EQ(flag, 0);
    OK(MPI_Type_free_keyval(&of_type));
    FAILS(MPI_Type_set_attr(MPI_DATATYPE_NULL, b, NULL), MPI_ERR_TYPE);

    /* Predefined attributes. */
    int *told;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &told, &flag));
    CHECK(flag && *told >= 32767);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &told, &flag));
    CHECK(flag && *told == MPI_PROC_NULL);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &told, &flag));
    CHECK(flag && *told == MPI_ANY_SOURCE);
    OK(MPI_Attr_get(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &told, &flag));
    CHECK(flag && (*told == 0 || *told == 1));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &told, &flag));
    CHECK(!flag || *told >= size);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &told, &flag));
    CHECK(!flag || *told >= 0);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &told, &flag));
    CHECK(flag && *told == MPI_ERR_LASTCODE);

    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free_keyval(&b));
    OK(MPI_Keyval_free(&c));
    OK(MPI_Comm_free_keyval(&null));
    OK(MPI_Comm_free_keyval(&dup));
    MPI_Finalize();
    return 0;
}
