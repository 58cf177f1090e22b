/* Attributes of datatypes: copied by MPI_Type_dup, deleted by MPI_Type_free (MPI-3.1 section 6.7.4).
 * ranks: 1
 * variants: shm
 */
#include "fails.h"

static int copies, deletes, copy_code, delete_code;

static int copy(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag) {
    CHECK(type != MPI_DATATYPE_NULL && keyval != MPI_KEYVAL_INVALID && extra == &copies);
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return copy_code;
}

static int drop(MPI_Datatype type, int keyval, void *value, void *extra) {
    CHECK(type != MPI_DATATYPE_NULL && keyval != MPI_KEYVAL_INVALID && extra == &copies);
    CHECK(value != NULL);
    deletes++;
    return delete_code;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int key, flag;
    char *value, place[4];
    MPI_Datatype type, dup;
    OK(MPI_Type_create_keyval(copy, drop, &key, &copies));
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    OK(MPI_Type_get_attr(type, key, &value, &flag));
    CHECK_EQ(flag, 0);
    OK(MPI_Type_set_attr(type, key, place));
    OK(MPI_Type_dup(type, &dup));
    CHECK_EQ(copies, 1);
    OK(MPI_Type_get_attr(dup, key, &value, &flag));
    CHECK(flag && value == place + 1);
    OK(MPI_Type_free(&dup));
    CHECK_EQ(deletes, 1);
    OK(MPI_Type_set_attr(type, key, place + 2));
    CHECK_EQ(deletes, 2);
    copy_code = MPI_ERR_OTHER;
    FAILS(MPI_Type_dup(type, &dup), MPI_ERR_OTHER);
    delete_code = MPI_ERR_OTHER;
    FAILS(MPI_Type_free(&type), MPI_ERR_OTHER);
    FAILS(MPI_Type_delete_attr(type, key), MPI_ERR_OTHER);
    delete_code = 0;
    OK(MPI_Type_free_keyval(&key));
    OK(MPI_Type_free(&type));
    CHECK_EQ(deletes, 5);
    MPI_Finalize();
    return 0;
}
