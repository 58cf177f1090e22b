/* What libraries for other languages need: callbacks through proxies, attributes with their language.
 * ranks: 1
 * variants: shm
 * cflags: -Wno-cast-function-type
 */
#include "check.h"
#include <stdint.h>

/* Not in mpi.h: names and arguments of the ABI. */
int MPII_Comm_set_attr(MPI_Comm comm, int keyval, void *value, int form);
int MPII_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag, int form);
void MPII_Keyval_set_proxy(int keyval, void *copy, void *delete);
void MPII_Op_set_cxx(MPI_Op op, void (*call)(void));
void MPII_Errhandler_set_cxx(MPI_Errhandler errhandler, void (*call)(void));
void MPII_Grequest_set_lang_f77(MPI_Request request);

enum { POINTER = 0, ADDRESS = 1, INTEGER = 3 };

static int copies, deletes, reductions, errors, frees;

static int copy(MPI_Comm_copy_attr_function *function, int object, int keyval, void *extra, int form,
    void *value, void **new, int *flag) {
    (void)function, (void)object, (void)keyval;
    CHECK_EQ((intptr_t)extra, 11);
    CHECK_EQ(form, INTEGER);
    CHECK_EQ((intptr_t)value, -5);
    *new = (void *)(intptr_t)-6;
    *flag = 1;
    copies++;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm_delete_attr_function *function, int object, int keyval, int form, void *value,
    void *extra) {
    (void)function, (void)object, (void)keyval;
    CHECK_EQ((intptr_t)extra, 11);
    CHECK_EQ(form, INTEGER);
    CHECK((intptr_t)value == -5 || (intptr_t)value == -6);
    deletes++;
    return MPI_SUCCESS;
}

static int never_copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
    CHECK(!"called without its proxy");
    return 1;
}

static int never_delete(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)value, (void)extra;
    CHECK(!"called without its proxy");
    return 1;
}

static void reduce(const void *in, void *inout, int count, MPI_Datatype datatype,
    MPI_User_function *function) {
    CHECK(function != NULL);
    CHECK_EQ(datatype, MPI_INT);
    for (int i = 0; i < count; i++) {
        ((int *)inout)[i] -= ((const int *)in)[i];
    }
    reductions++;
}

static void never_reduce(void *in, void *inout, int *count, MPI_Datatype *datatype) {
    (void)in, (void)inout, (void)count, (void)datatype;
    CHECK(!"called without its proxy");
}

static void handle(int kind, int *handle, int *code, void (*function)(void)) {
    CHECK_EQ(kind, 0);
    CHECK_EQ(*handle, MPI_COMM_SELF);
    CHECK(*code != MPI_SUCCESS && function != NULL);
    errors++;
}

static void never_handle(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    CHECK(!"called without its proxy");
}

static void attributes(void) {
    int keyval, flag;
    intptr_t bits;
    void *value;
    MPI_Comm comm, dup;
    OK(MPI_Comm_create_keyval(never_copy, never_delete, &keyval, (void *)(intptr_t)11));
    MPII_Keyval_set_proxy(keyval, (void *)(intptr_t)copy, (void *)(intptr_t)delete);
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPII_Comm_set_attr(comm, keyval, (void *)(intptr_t)-5, INTEGER));
    OK(MPII_Comm_get_attr(comm, keyval, &bits, &flag, INTEGER));
    CHECK(flag && bits == -5);
    OK(MPII_Comm_get_attr(comm, keyval, &bits, &flag, ADDRESS));
    CHECK(flag && bits == -5);
    OK(MPI_Comm_get_attr(comm, keyval, &value, &flag));
    CHECK(flag && *(int *)value == -5);
    OK(MPII_Comm_get_attr(comm, keyval, &value, &flag, POINTER));
    CHECK(flag && *(int *)value == -5);
    OK(MPI_Comm_dup(comm, &dup));
    OK(MPII_Comm_get_attr(dup, keyval, &bits, &flag, INTEGER));
    CHECK(flag && bits == -6);
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free(&comm));
    CHECK_EQ(copies, 1);
    CHECK_EQ(deletes, 2);
    OK(MPI_Comm_free_keyval(&keyval));
    /* A predefined key by C's number and by Fortran's, which is one more. */
    OK(MPII_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bits, &flag, ADDRESS));
    CHECK(flag && bits >= 32767);
    OK(MPII_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB + 1, &bits, &flag, INTEGER));
    CHECK(flag && bits >= 32767);
}

static int query(void *extra, MPI_Status *status, int *code) {
    CHECK_EQ(*(int *)extra, 21);
    OK(MPI_Status_set_elements(status, MPI_INT, 2));
    OK(MPI_Status_set_cancelled(status, 0));
    *code = MPI_SUCCESS;
    return 77; /* A subroutine has no result: this is ignored. */
}

static int release(void *extra, int *code) {
    CHECK_EQ(*(int *)extra, 21);
    frees++;
    *code = MPI_SUCCESS;
    return 77;
}

static int cancel(void *extra, int *complete, int *code) {
    CHECK_EQ(*(int *)extra, 21);
    CHECK_EQ(*complete, 0);
    *code = MPI_SUCCESS;
    return 77;
}

int main(void) {
    OK(MPI_Init(NULL, NULL));
    attributes();

    MPI_Op op;
    int x = 3, y = 10;
    OK(MPI_Op_create(never_reduce, 1, &op));
    MPII_Op_set_cxx(op, (void (*)(void))reduce);
    OK(MPI_Reduce_local(&x, &y, 1, MPI_INT, op));
    CHECK(y == 7 && reductions == 1);
    OK(MPI_Op_free(&op));

    /* The handler has dealt with the error. */
    MPI_Errhandler handler;
    OK(MPI_Comm_create_errhandler(never_handle, &handler));
    MPII_Errhandler_set_cxx(handler, (void (*)(void))handle);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    OK(MPI_Send(&x, 1, MPI_INT, 5, 0, MPI_COMM_SELF));
    CHECK_EQ(errors, 1);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Errhandler_free(&handler));

    MPI_Request request;
    MPI_Status status;
    int state = 21, count;
    OK(MPI_Grequest_start((MPI_Grequest_query_function *)(void *)query,
        (MPI_Grequest_free_function *)(void *)release,
        (MPI_Grequest_cancel_function *)(void *)cancel, &state, &request));
    MPII_Grequest_set_lang_f77(request);
    OK(MPI_Cancel(&request));
    OK(MPI_Grequest_complete(request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 2 && frees == 1);
    return MPI_Finalize();
}
