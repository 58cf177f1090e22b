/* What is particular about the standard ABI (MPI-5.0 chapter 21), and holds in the other one as well:
 * handles, wildcards and constants are those of the header everywhere, also in callbacks.
 * build: standard -abi=standard
 * build: mpich -abi=mpich
 * ranks: 2
 * variants: shm
 */
#include "check.h"
#include <limits.h>

enum { MANY = 100 };

static int rank, size, copied, deleted, reduced, handled;
static MPI_Comm seen_comm, parent;
static MPI_Datatype seen_type, element;
static MPI_Win seen_win;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)keyval, (void)extra;
    CHECK(comm == parent);
    copied++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)keyval, (void)value, (void)extra;
    seen_comm = comm;
    deleted++;
    return MPI_SUCCESS;
}

static int type_delete(MPI_Datatype type, int keyval, void *value, void *extra) {
    (void)keyval, (void)value, (void)extra;
    seen_type = type;
    return MPI_SUCCESS;
}

static int win_delete(MPI_Win win, int keyval, void *value, void *extra) {
    (void)keyval, (void)value, (void)extra;
    seen_win = win;
    return MPI_SUCCESS;
}

static void sum(void *in, void *inout, int *len, MPI_Datatype *type) {
    CHECK(*type == element);
    for (int i = 0; i < *len; i++) {
        ((int *)inout)[i] += ((int *)in)[i];
    }
    reduced++;
}

static void on_comm(MPI_Comm *comm, int *code, ...) {
    seen_comm = *comm;
    handled = class_of(*code);
}

static void on_win(MPI_Win *win, int *code, ...) {
    seen_win = *win;
    handled = class_of(*code);
}

static void attributes(void) {
    int key, predefined, flag, value = 7;
    void *got;
    OK(MPI_Comm_create_keyval(copy, delete, &key, NULL));
    parent = MPI_COMM_WORLD;
    OK(MPI_Comm_set_attr(parent, key, &value));
    MPI_Comm dup;
    OK(MPI_Comm_dup(parent, &dup));
    CHECK_EQ(copied, 1);
    OK(MPI_Comm_get_attr(dup, key, &got, &flag));
    CHECK(flag && got == &value);
    MPI_Comm was = dup;
    OK(MPI_Comm_free(&dup));
    CHECK(dup == MPI_COMM_NULL && seen_comm == was && deleted == 1);
    OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
    CHECK(seen_comm == MPI_COMM_WORLD);
    OK(MPI_Comm_free_keyval(&key));
    CHECK_EQ(key, MPI_KEYVAL_INVALID);

    /* Predefined callbacks. */
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &predefined, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &value));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, predefined, &value));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &dup));
    OK(MPI_Comm_get_attr(dup, key, &got, &flag));
    CHECK(flag && got == &value);
    OK(MPI_Comm_get_attr(dup, predefined, &got, &flag));
    CHECK(!flag);
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Comm_free_keyval(&predefined));

    int *bound;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag));
    CHECK(flag && *bound >= 32767);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &bound, &flag));
    CHECK(flag && *bound >= MPI_ERR_LASTCODE);
    CHECK_EQ(class_of(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value)), MPI_ERR_KEYVAL);

    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, type_delete, &key, NULL));
    OK(MPI_Type_set_attr(MPI_DOUBLE_INT, key, &value));
    OK(MPI_Type_delete_attr(MPI_DOUBLE_INT, key));
    CHECK(seen_type == MPI_DOUBLE_INT);
    OK(MPI_Type_free_keyval(&key));
}

static void errors(void) {
    MPI_Errhandler handler, got;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    CHECK(got == MPI_ERRORS_RETURN);
    OK(MPI_Comm_create_errhandler(on_comm, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    int code = MPI_Send(NULL, 0, MPI_INT, size, 0, MPI_COMM_WORLD), class;
    CHECK(seen_comm == MPI_COMM_WORLD);
    CHECK_EQ(handled, MPI_ERR_RANK);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_RANK && code <= MPI_ERR_LASTCODE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&handler));
    CHECK(handler == MPI_ERRHANDLER_NULL);

    int added, other;
    OK(MPI_Add_error_class(&added));
    CHECK(added > MPI_ERR_LASTCODE);
    OK(MPI_Add_error_code(added, &other));
    OK(MPI_Error_class(other, &class));
    CHECK_EQ(class, added);

    /* Handles of another kind, none at all, and null ones. */
    int number;
    CHECK_EQ(class_of(MPI_Comm_rank((MPI_Comm)MPI_INT, &number)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPI_Comm_rank((MPI_Comm)0, &number)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPI_Comm_rank(MPI_COMM_NULL, &number)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPI_Type_size((MPI_Datatype)MPI_COMM_WORLD, &number)), MPI_ERR_TYPE);
    CHECK_EQ(class_of(MPI_Type_size(MPI_DATATYPE_NULL, &number)), MPI_ERR_TYPE);
    CHECK_EQ(class_of(MPI_Group_size((MPI_Group)MPI_SUM, &number)), MPI_ERR_GROUP);
    CHECK_EQ(class_of(MPI_Win_free(NULL)), MPI_ERR_ARG);
    CHECK_EQ(class_of(MPI_Comm_dup(MPI_COMM_WORLD, NULL)), MPI_ERR_ARG);
    MPI_Comm world = MPI_COMM_WORLD;
    CHECK_EQ(class_of(MPI_Comm_free(&world)), MPI_ERR_COMM);
    CHECK(world == MPI_COMM_WORLD);
}

static void messages(void) {
    int peer = 1 - rank, in[MANY], out[MANY], indices[MANY], count;
    MPI_Request requests[2 * MANY];
    MPI_Status statuses[2 * MANY], status;
    for (int i = 0; i < MANY; i++) {
        out[i] = rank * MANY + i;
        OK(MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : peer, i, MPI_COMM_WORLD,
                     &requests[2 * i]));
        OK(MPI_Isend(&out[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[2 * i + 1]));
    }
    OK(MPI_Waitall(2 * MANY, requests, statuses));
    for (int i = 0; i < MANY; i++) {
        CHECK(requests[2 * i] == MPI_REQUEST_NULL && requests[2 * i + 1] == MPI_REQUEST_NULL);
        CHECK(statuses[2 * i].MPI_SOURCE == peer && statuses[2 * i].MPI_TAG == i);
        CHECK_EQ(in[i], peer * MANY + i);
    }
    OK(MPI_Waitsome(2 * MANY, requests, &count, indices, MPI_STATUSES_IGNORE));
    CHECK_EQ(count, MPI_UNDEFINED);

    OK(MPI_Sendrecv(out, 3, MPI_INT, peer, 5, in, MANY, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                    MPI_COMM_WORLD, &status));
    CHECK(status.MPI_SOURCE == peer && status.MPI_TAG == 5);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 3);
    OK(MPI_Recv(in, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    MPI_Request null = MPI_REQUEST_NULL;
    OK(MPI_Wait(&null, &status));
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    CHECK_EQ(class_of(MPI_Recv(in, 1, MPI_INT, MPI_ROOT, 0, MPI_COMM_WORLD, &status)), MPI_ERR_RANK);
    CHECK_EQ(class_of(MPI_Recv(in, 1, MPI_INT, 0, MPI_UNDEFINED, MPI_COMM_WORLD, &status)), MPI_ERR_TAG);

    MPI_Message message;
    OK(MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(NULL, 0, MPI_INT, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
}

static void datatypes(void) {
    int lengths[2] = {1, 2}, numbers[8], given, addresses, types, combiner;
    MPI_Aint places[2] = {0, 8}, at[8];
    MPI_Datatype parts[2] = {MPI_DOUBLE, MPI_SHORT_INT}, made, got[8];
    OK(MPI_Type_create_struct(2, lengths, places, parts, &made));
    OK(MPI_Type_get_envelope(made, &given, &addresses, &types, &combiner));
    CHECK(combiner == MPI_COMBINER_STRUCT && types == 2);
    got[2] = MPI_BYTE;
    OK(MPI_Type_get_contents(made, given, addresses, 3, numbers, at, got));
    CHECK(got[0] == MPI_DOUBLE && got[1] == MPI_SHORT_INT && got[2] == MPI_BYTE);
    OK(MPI_Type_free(&made));
    CHECK(made == MPI_DATATYPE_NULL);
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &made));
    OK(MPI_Type_size(made, &given));
    CHECK_EQ(given, 8);

    MPI_Op op;
    int value = rank + 1, total = 0;
    OK(MPI_Op_create(sum, 1, &op));
    element = MPI_INT;
    OK(MPI_Allreduce(&value, &total, 1, element, op, MPI_COMM_WORLD));
    CHECK(total == 3 && reduced > 0);
    OK(MPI_Type_contiguous(1, MPI_INT, &element));
    OK(MPI_Type_commit(&element));
    OK(MPI_Reduce_local(&value, &total, 1, element, op));
    OK(MPI_Type_free(&element));
    OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL);
}

static void exchanges(void) {
    int in[2] = {-1, -1}, out[2] = {10 * rank, 10 * rank + 1};
    int counts[2] = {1, 1}, displs[2] = {0, sizeof(int)};
    MPI_Datatype sends[2] = {MPI_INT, MPI_UNSIGNED}, recvs[2] = {MPI_UNSIGNED, MPI_INT};
    OK(MPI_Alltoallw(out, counts, displs, sends, in, counts, displs, recvs, MPI_COMM_WORLD));
    CHECK(in[0] == rank && in[1] == 10 + rank);
    MPI_Request request;
    OK(MPI_Ialltoallw(MPI_IN_PLACE, NULL, NULL, NULL, in, counts, displs, recvs, MPI_COMM_WORLD,
                      &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(in[1 - rank], rank == 0 ? 1 : 10);

    MPI_Comm ring;
    int periodic = 1;
    MPI_Aint far[2] = {0, sizeof(int)};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring));
    OK(MPI_Neighbor_alltoallw(out, counts, far, sends, in, counts, far, recvs, ring));
    CHECK(in[0] == 10 * (1 - rank) + 1 && in[1] == 10 * (1 - rank));
    int kind;
    OK(MPI_Topo_test(ring, &kind));
    CHECK_EQ(kind, MPI_CART);
    OK(MPI_Comm_compare(ring, MPI_COMM_WORLD, &kind));
    CHECK(kind == MPI_CONGRUENT || kind == MPI_SIMILAR);
    OK(MPI_Comm_free(&ring));
}

static void windows(void) {
    int key, flag, *model, memory = rank, got = -1, value = 0;
    MPI_Win win;
    void *base;
    OK(MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    CHECK(flag && base == &memory);
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag));
    CHECK(flag && (*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 1 - rank, MPI_MODE_NOCHECK, win));
    OK(MPI_Get_accumulate(&got, 0, MPI_INT, &got, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, MPI_NO_OP, win));
    OK(MPI_Win_unlock(1 - rank, win));
    CHECK_EQ(got, 1 - rank);

    MPI_Errhandler handler;
    OK(MPI_Win_create_errhandler(on_win, &handler));
    OK(MPI_Win_set_errhandler(win, handler));
    CHECK(MPI_Win_lock(12345, 0, 0, win) != MPI_SUCCESS);
    CHECK(seen_win == win);
    CHECK_EQ(handled, MPI_ERR_LOCKTYPE);
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Win_create_keyval(MPI_WIN_DUP_FN, win_delete, &key, NULL));
    OK(MPI_Win_set_attr(win, key, &value));
    MPI_Win was = win;
    seen_win = MPI_WIN_NULL;
    OK(MPI_Win_free(&win));
    CHECK(win == MPI_WIN_NULL && seen_win == was);
    OK(MPI_Win_free_keyval(&key));
}

static void integers(void) {
    int major, minor, flag, true_value = 5, false_value = 5;
    char value[MPI_MAX_INFO_VAL + 1];
    MPI_Info info;
    OK(MPI_Abi_get_version(&major, &minor));
#ifdef MPI_ABI_VERSION
    CHECK(major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION);
    CHECK(MPI_Comm_toint(MPI_COMM_WORLD) == 0x101 && MPI_Type_toint(MPI_INT) == 0x209);
    CHECK_EQ(MPI_File_toint(MPI_FILE_NULL), 0x118);
    /* Optional types that this library lacks have no size. */
    OK(MPI_Type_size(MPI_REAL2, &flag));
    CHECK(flag == MPI_UNDEFINED || flag == 2);
#else
    CHECK(major == -1 && minor == -1);
#endif
    CHECK_EQ(class_of(MPI_Abi_get_version(NULL, &minor)), MPI_ERR_ARG);
    OK(MPI_Abi_get_info(&info));
    OK(MPI_Info_get(info, "mpi_count_size", 8, value, &flag));
    CHECK(flag && atoi(value) == sizeof(MPI_Count));
    OK(MPI_Info_free(&info));
    OK(MPI_Abi_get_fortran_info(&info));
    OK(MPI_Info_get(info, "mpi_double_precision_size", 8, value, &flag));
    CHECK(flag && !strcmp(value, "8"));
    /* The types that are said to be there have a size, and the others none (MPI-5.0 section 21.4). */
    const struct {
        const char *key;
        MPI_Datatype type;
    } optional[] = {{"mpi_logical1_supported", MPI_LOGICAL1},   {"mpi_logical8_supported", MPI_LOGICAL8},
                    {"mpi_logical16_supported", MPI_LOGICAL16}, {"mpi_integer1_supported", MPI_INTEGER1},
                    {"mpi_integer8_supported", MPI_INTEGER8},   {"mpi_integer16_supported", MPI_INTEGER16},
                    {"mpi_real2_supported", MPI_REAL2},         {"mpi_real16_supported", MPI_REAL16},
                    {"mpi_complex4_supported", MPI_COMPLEX4},   {"mpi_complex32_supported", MPI_COMPLEX32}};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        int size;
        OK(MPI_Type_size(optional[i].type, &size));
        OK(MPI_Info_get(info, optional[i].key, 8, value, &flag));
        CHECK(flag && !strcmp(value, size == MPI_UNDEFINED ? "false" : "true"));
    }
    OK(MPI_Abi_get_fortran_booleans(4, &true_value, &false_value, &flag));
    CHECK(flag && true_value == 1 && false_value == 0);
    CHECK_EQ(class_of(MPI_Abi_get_fortran_booleans(3, &true_value, &false_value, &flag)), MPI_ERR_ARG);
    CHECK_EQ(class_of(MPI_Abi_set_fortran_booleans(4, &false_value, &true_value)), MPI_ERR_ABI);
    OK(MPI_Abi_set_fortran_booleans(4, &true_value, &false_value));
    CHECK_EQ(class_of(MPI_Abi_set_fortran_booleans(4, &true_value, &false_value)), MPI_ERR_ABI);
    OK(MPI_Info_set(info, "mpi_integer_size", "8"));
    CHECK_EQ(class_of(MPI_Abi_set_fortran_info(info)), MPI_ERR_ABI);
    OK(MPI_Info_set(info, "mpi_integer_size", "4"));
    OK(MPI_Abi_set_fortran_info(info));
    CHECK_EQ(class_of(MPI_Abi_set_fortran_info(info)), MPI_ERR_ABI);
    CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info);
    OK(MPI_Info_free(&info));

    MPI_Comm dup;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &dup));
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(dup)) == dup);
    CHECK(MPI_Comm_toint(dup) < 0 || MPI_Comm_toint(dup) > 0xfff);
    OK(MPI_Comm_free(&dup));
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_SELF)) == MPI_COMM_SELF);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_FLOAT_INT)) == MPI_FLOAT_INT);
    CHECK(MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_MAXLOC)) == MPI_MAXLOC);
    CHECK(MPI_Session_fromint(MPI_Session_toint(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
    CHECK(MPI_Request_fromint(MPI_Request_toint(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
    CHECK(MPI_Message_fromint(MPI_Message_toint(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
    CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
    /* What a variable of Fortran holds before it is set may be anything. */
    const int any[] = {INT_MIN, INT_MIN + 0xfff, -1, INT_MAX};
    for (int i = 0; i < 4; i++)
        CHECK(MPI_File_fromint(any[i]) == MPI_FILE_NULL);
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
    CHECK(provided >= MPI_THREAD_FUNNELED && provided <= MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    check_rank = rank;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    attributes();
    errors();
    messages();
    datatypes();
    exchanges();
    windows();
    integers();
    OK(MPI_Finalize());
    return 0;
}
