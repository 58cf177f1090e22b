/* A wrong use of each function that the other programs only use rightly, or hardly: null handles, negative counts, places
 * for results that aren't there. Each is an error of the right class, and nothing waits for anybody.
 *
 * ranks: 1 2
 * variants: shm
 */
#include "fails.h"

#include <stdint.h>

enum { N = 4 };

static int in[N], out[N], counts[N] = {1, 1, 1, 1}, displs[N] = {0, 1, 2, 3};
static MPI_Count large_counts[N] = {1, 1, 1, 1};
static MPI_Aint large_displs[N] = {0, 4, 8, 12};
static MPI_Request request;
static MPI_Comm world;
static MPI_Datatype made;

static void buffers(void) {
    static char room[MPI_BSEND_OVERHEAD + 100];
    MPI_Session none = MPI_SESSION_NULL;
    MPI_Count large;
    void *at;
    int size;
    FAILS(MPI_Buffer_detach(NULL, &size), MPI_ERR_ARG);
    FAILS(MPI_Buffer_detach(&at, NULL), MPI_ERR_ARG);
    FAILS(MPI_Buffer_detach_c(&at, NULL), MPI_ERR_ARG);
    FAILS(MPI_Buffer_iflush(NULL), MPI_ERR_ARG);
    FAILS(MPI_Comm_attach_buffer_c(MPI_COMM_NULL, room, sizeof room), MPI_ERR_COMM);
    FAILS(MPI_Comm_attach_buffer_c(world, room, -1), MPI_ERR_ARG);
    FAILS(MPI_Comm_detach_buffer(MPI_COMM_NULL, &at, &size), MPI_ERR_COMM);
    FAILS(MPI_Comm_detach_buffer_c(MPI_COMM_NULL, &at, &large), MPI_ERR_COMM);
    FAILS(MPI_Comm_flush_buffer(MPI_COMM_NULL), MPI_ERR_COMM);
    FAILS(MPI_Comm_iflush_buffer(MPI_COMM_NULL, &request), MPI_ERR_COMM);
    FAILS(MPI_Session_attach_buffer_c(none, room, sizeof room), MPI_ERR_SESSION);
    FAILS(MPI_Session_detach_buffer_c(none, &at, &large), MPI_ERR_SESSION);
    FAILS(MPI_Session_flush_buffer(none), MPI_ERR_SESSION);
    FAILS(MPI_Session_iflush_buffer(none, &request), MPI_ERR_SESSION);
    FAILS(MPI_Isendrecv_c(in, -1, MPI_INT, 0, 0, out, 1, MPI_INT, 0, 0, world, &request),
          MPI_ERR_COUNT);
    FAILS(MPI_Isendrecv_c(in, 1, MPI_INT, 0, 0, out, 1, MPI_INT, 99, 0, world, &request),
          MPI_ERR_RANK);
    FAILS(MPI_Isendrecv_replace_c(in, -1, MPI_INT, 0, 0, 0, 0, world, &request), MPI_ERR_COUNT);
}

static void statuses(void) {
    MPI_Status status;
    MPI_Count large;
    int flag, count;
    memset(&status, 0, sizeof status);
    FAILS(MPI_Test_cancelled(&status, NULL), MPI_ERR_ARG);
    FAILS(MPI_Test_cancelled(NULL, &flag), MPI_ERR_ARG);
    FAILS(MPI_Test_cancelled(MPI_STATUS_IGNORE, &flag), MPI_ERR_ARG);
    FAILS(MPI_Get_count(MPI_STATUS_IGNORE, MPI_INT, &flag), MPI_ERR_ARG);
    FAILS(MPI_Get_elements(&status, MPI_DATATYPE_NULL, &count), MPI_ERR_TYPE);
    FAILS(MPI_Get_elements_x(&status, MPI_DATATYPE_NULL, &large), MPI_ERR_TYPE);
    FAILS(MPI_Status_set_elements(&status, MPI_INT, -1), MPI_ERR_COUNT);
    FAILS(MPI_Status_set_elements_x(&status, MPI_INT, -1), MPI_ERR_COUNT);
    FAILS(MPI_Status_get_error(&status, NULL), MPI_ERR_ARG);
}

static void datatypes(void) {
    MPI_Datatype none = MPI_DATATYPE_NULL, types[1] = {MPI_DATATYPE_NULL};
    MPI_Aint lb, extent, places[1] = {0};
    MPI_Count large, larger;
    int one[1] = {1}, minus[1] = {-1}, zero[1] = {0}, length;
    char name[MPI_MAX_OBJECT_NAME];
    FAILS(MPI_Type_contiguous(-1, MPI_INT, &made), MPI_ERR_COUNT);
    FAILS(MPI_Type_vector(1, -1, 1, MPI_INT, &made), MPI_ERR_ARG);
    FAILS(MPI_Type_create_hvector(-1, 1, 1, MPI_INT, &made), MPI_ERR_COUNT);
    FAILS(MPI_Type_indexed(1, minus, zero, MPI_INT, &made), MPI_ERR_ARG);
    FAILS(MPI_Type_create_hindexed(1, one, places, none, &made), MPI_ERR_TYPE);
    FAILS(MPI_Type_create_indexed_block(-1, 1, zero, MPI_INT, &made), MPI_ERR_COUNT);
    FAILS(MPI_Type_create_hindexed_block(-1, 1, places, MPI_INT, &made), MPI_ERR_COUNT);
    FAILS(MPI_Type_create_struct(1, one, places, types, &made), MPI_ERR_TYPE);
    /* A part that is larger than the whole. */
    FAILS(MPI_Type_create_subarray(1, one, (int[]){2}, zero, MPI_ORDER_C, MPI_INT, &made),
          MPI_ERR_ARG);
    FAILS(MPI_Type_create_subarray(1, one, one, zero, 12345, MPI_INT, &made), MPI_ERR_ARG);
    FAILS(MPI_Type_create_darray(1, 1, 1, one, (int[]){MPI_DISTRIBUTE_BLOCK},
                                 (int[]){MPI_DISTRIBUTE_DFLT_DARG}, one, MPI_ORDER_C, MPI_INT, &made),
          MPI_ERR_ARG);
    FAILS(MPI_Type_create_resized(none, 0, 4, &made), MPI_ERR_TYPE);
    FAILS(MPI_Get_address(&made, NULL), MPI_ERR_ARG);
    FAILS(MPI_Type_size_x(none, &large), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_extent(none, &lb, &extent), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_extent(MPI_INT, NULL, &extent), MPI_ERR_ARG);
    FAILS(MPI_Type_get_extent_x(none, &large, &larger), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_true_extent(none, &lb, &extent), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_true_extent_x(none, &large, &larger), MPI_ERR_TYPE);
    lb = 0;
    FAILS(MPI_Pack_external("external32", in, 1, MPI_INT, out, 2, &lb), MPI_ERR_TRUNCATE);
    FAILS(MPI_Pack_external("of nobody", in, 1, MPI_INT, out, 4, &lb), MPI_ERR_ARG);
    FAILS(MPI_Unpack_external("external32", in, 2, &lb, out, 1, MPI_INT), MPI_ERR_TRUNCATE);
    FAILS(MPI_Pack_external_size("external32", -1, MPI_INT, &lb), MPI_ERR_COUNT);
    FAILS(MPI_Type_set_name(none, "x"), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_name(MPI_INT, NULL, &length), MPI_ERR_ARG);
    FAILS(MPI_Type_get_name(MPI_INT, name, NULL), MPI_ERR_ARG);
    FAILS(MPI_Type_create_f90_real(10000, 10000, &made), MPI_ERR_ARG);
    FAILS(MPI_Type_create_f90_complex(10000, 10000, &made), MPI_ERR_ARG);
    FAILS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &made), MPI_ERR_ARG);
    FAILS(MPI_Type_match_size(12345, 4, &made), MPI_ERR_ARG);
}

static void collectives(void) {
    MPI_Comm none = MPI_COMM_NULL;
    MPI_Datatype bad = MPI_DATATYPE_NULL;
    FAILS(MPI_Igather(in, 1, MPI_INT, out, 1, MPI_INT, 99, world, &request), MPI_ERR_ROOT);
    FAILS(MPI_Iscatter(in, 1, MPI_INT, out, 1, MPI_INT, 99, world, &request), MPI_ERR_ROOT);
    FAILS(MPI_Iscatterv(in, counts, displs, MPI_INT, out, 1, MPI_INT, 99, world, &request),
          MPI_ERR_ROOT);
    FAILS(MPI_Iallgather(in, -1, MPI_INT, out, 1, MPI_INT, world, &request), MPI_ERR_COUNT);
    FAILS(MPI_Iallgatherv(in, 1, bad, out, counts, displs, MPI_INT, world, &request), MPI_ERR_TYPE);
    FAILS(MPI_Ialltoall(in, 1, bad, out, 1, MPI_INT, world, &request), MPI_ERR_TYPE);
    FAILS(MPI_Ialltoallv(in, NULL, displs, MPI_INT, out, counts, displs, MPI_INT, world, &request),
          MPI_ERR_ARG);
    FAILS(MPI_Ireduce(in, out, 1, MPI_INT, MPI_OP_NULL, 0, world, &request), MPI_ERR_OP);
    FAILS(MPI_Ireduce_scatter_block(in, out, -1, MPI_INT, MPI_SUM, world, &request), MPI_ERR_COUNT);
    FAILS(MPI_Ireduce_scatter(in, out, counts, MPI_INT, MPI_OP_NULL, world, &request), MPI_ERR_OP);
    FAILS(MPI_Iscan(in, out, 1, MPI_FLOAT, MPI_BAND, world, &request), MPI_ERR_OP);
    FAILS(MPI_Iexscan(in, out, 1, bad, MPI_SUM, world, &request), MPI_ERR_TYPE);
    FAILS(MPI_Neighbor_allgatherv(in, 1, MPI_INT, out, counts, displs, MPI_INT, none), MPI_ERR_COMM);
    /* A communicator without a topology. */
    FAILS(MPI_Neighbor_alltoall(in, 1, MPI_INT, out, 1, MPI_INT, world), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, world),
          MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_allgatherv_c(in, 1, MPI_INT, out, large_counts, large_displs, MPI_INT, world),
          MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_alltoallv_c(in, large_counts, large_displs, MPI_INT, out, large_counts,
                                   large_displs, MPI_INT, none),
          MPI_ERR_COMM);
    FAILS(MPI_Ineighbor_allgather(in, 1, MPI_INT, out, 1, MPI_INT, world, &request),
          MPI_ERR_TOPOLOGY);
    FAILS(MPI_Ineighbor_allgatherv(in, 1, MPI_INT, out, counts, displs, MPI_INT, none, &request),
          MPI_ERR_COMM);
    FAILS(MPI_Ineighbor_alltoall(in, 1, MPI_INT, out, 1, MPI_INT, none, &request), MPI_ERR_COMM);
    FAILS(MPI_Ineighbor_alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, world,
                                  &request),
          MPI_ERR_TOPOLOGY);
}

static void groups_and_topologies(void) {
    MPI_Group none = MPI_GROUP_NULL, group, whole;
    int result, list[N], range[1][3] = {{0, 0, 0}};
    OK(MPI_Comm_group(world, &whole));
    FAILS(MPI_Group_compare(whole, none, &result), MPI_ERR_GROUP);
    FAILS(MPI_Group_intersection(none, whole, &group), MPI_ERR_GROUP);
    FAILS(MPI_Group_difference(whole, none, &group), MPI_ERR_GROUP);
    FAILS(MPI_Group_range_excl(whole, 1, range, &group), MPI_ERR_ARG);
    range[0][2] = 1;
    range[0][1] = 99;
    FAILS(MPI_Group_range_excl(whole, 1, range, &group), MPI_ERR_RANK);
    OK(MPI_Group_free(&whole));
    FAILS(MPI_Comm_test_inter(MPI_COMM_NULL, &result), MPI_ERR_COMM);
    FAILS(MPI_Topo_test(world, NULL), MPI_ERR_ARG);
    FAILS(MPI_Graph_neighbors_count(world, 0, &result), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Dist_graph_neighbors(world, N, list, list, N, list, list), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_map(world, 1, (int[]){99}, (int[]){0}, &result), MPI_ERR_DIMS);
    FAILS(MPI_Graph_map(world, 99, list, list, &result), MPI_ERR_ARG);
}

static void attributes(void) {
    int key = MPI_KEYVAL_INVALID, flag;
    void *value;
    FAILS(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, NULL, NULL),
          MPI_ERR_ARG);
    FAILS(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, NULL, NULL),
          MPI_ERR_ARG);
    FAILS(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, NULL, NULL),
          MPI_ERR_ARG);
    FAILS(MPI_Win_free_keyval(&key), MPI_ERR_KEYVAL);
    FAILS(MPI_Type_free_keyval(&key), MPI_ERR_KEYVAL);
    FAILS(MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, NULL, NULL), MPI_ERR_ARG);
    FAILS(MPI_Keyval_free(&key), MPI_ERR_KEYVAL);
    FAILS(MPI_Attr_put(world, key, NULL), MPI_ERR_KEYVAL);
    FAILS(MPI_Attr_get(world, key, &value, &flag), MPI_ERR_KEYVAL);
    FAILS(MPI_Attr_delete(world, key), MPI_ERR_KEYVAL);
}

static void handle_error(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
}

static void handlers(void) {
    MPI_Errhandler handler;
    MPI_Win no_win = MPI_WIN_NULL;
    FAILS(MPI_Comm_create_errhandler(NULL, &handler), MPI_ERR_ARG);
    FAILS(MPI_Comm_create_errhandler(handle_error, NULL), MPI_ERR_ARG);
    FAILS(MPI_Win_create_errhandler(NULL, &handler), MPI_ERR_ARG);
    FAILS(MPI_File_create_errhandler(NULL, &handler), MPI_ERR_ARG);
    FAILS(MPI_Comm_get_errhandler(MPI_COMM_NULL, &handler), MPI_ERR_COMM);
    FAILS(MPI_Win_get_errhandler(no_win, &handler), MPI_ERR_WIN);
    FAILS(MPI_Win_set_errhandler(no_win, MPI_ERRORS_RETURN), MPI_ERR_WIN);
    FAILS(MPI_Session_call_errhandler(MPI_SESSION_NULL, MPI_ERR_ARG), MPI_ERR_SESSION);
    FAILS(MPI_Comm_call_errhandler(MPI_COMM_NULL, MPI_ERR_ARG), MPI_ERR_COMM);
    FAILS(MPI_Win_call_errhandler(no_win, MPI_ERR_ARG), MPI_ERR_WIN);
}

static void environment(void) {
    char name[MPI_MAX_LIBRARY_VERSION_STRING], key[] = "key";
    MPI_Info none = MPI_INFO_NULL, info;
    int number, flag;
    FAILS(MPI_Get_version(NULL, &number), MPI_ERR_ARG);
    FAILS(MPI_Get_library_version(name, NULL), MPI_ERR_ARG);
    FAILS(MPI_Get_processor_name(NULL, &number), MPI_ERR_ARG);
    FAILS(MPI_Initialized(NULL), MPI_ERR_ARG);
    FAILS(MPI_Finalized(NULL), MPI_ERR_ARG);
    FAILS(MPI_Is_thread_main(NULL), MPI_ERR_ARG);
    FAILS(MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &number), MPI_ERR_OTHER);
    FAILS(MPI_Info_create(NULL), MPI_ERR_ARG);
    FAILS(MPI_Info_get_valuelen(none, key, &number, &flag), MPI_ERR_INFO);
    FAILS(MPI_Info_get_nkeys(none, &number), MPI_ERR_INFO);
    FAILS(MPI_Info_dup(none, &info), MPI_ERR_INFO);
    FAILS(MPI_Abi_get_info(NULL), MPI_ERR_ARG);
    FAILS(MPI_Abi_get_fortran_info(NULL), MPI_ERR_ARG);
}

static void windows(void) {
    MPI_Win none = MPI_WIN_NULL, win;
    MPI_Group group;
    MPI_Info info;
    char name[MPI_MAX_OBJECT_NAME];
    int *base, length;
    FAILS(MPI_Win_allocate_shared(-1, 1, MPI_INFO_NULL, world, &base, &win), MPI_ERR_SIZE);
    FAILS(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    FAILS(MPI_Win_get_group(none, &group), MPI_ERR_WIN);
    FAILS(MPI_Win_set_info(none, MPI_INFO_NULL), MPI_ERR_WIN);
    FAILS(MPI_Win_get_info(none, &info), MPI_ERR_WIN);
    FAILS(MPI_Win_set_name(none, name), MPI_ERR_WIN);
    OK(MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    FAILS(MPI_Win_get_name(win, NULL, &length), MPI_ERR_ARG);
    FAILS(MPI_Win_delete_attr(win, MPI_KEYVAL_INVALID), MPI_ERR_KEYVAL);
    /* Outside of an epoch; and of a rank that there is not. */
    FAILS(MPI_Raccumulate(in, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win, &request),
          MPI_ERR_RMA_SYNC);
    FAILS(MPI_Rget_accumulate(in, 1, MPI_INT, out, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win,
                              &request),
          MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_local(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_sync(none), MPI_ERR_WIN);
    OK(MPI_Win_free(&win));
}

static void files(void) {
    MPI_File none = MPI_FILE_NULL;
    FAILS(MPI_File_iread_at_all_c(none, 0, in, 1, MPI_INT, &request), MPI_ERR_FILE);
    FAILS(MPI_File_iwrite_at_all_c(none, 0, in, 1, MPI_INT, &request), MPI_ERR_FILE);
    FAILS(MPI_File_iread_all_c(none, in, 1, MPI_INT, &request), MPI_ERR_FILE);
    FAILS(MPI_File_iwrite_all_c(none, in, 1, MPI_INT, &request), MPI_ERR_FILE);
    FAILS(MPI_File_read_at_all_begin_c(none, 0, in, 1, MPI_INT), MPI_ERR_FILE);
    FAILS(MPI_File_write_at_all_begin_c(none, 0, in, 1, MPI_INT), MPI_ERR_FILE);
    FAILS(MPI_File_read_all_begin_c(none, in, 1, MPI_INT), MPI_ERR_FILE);
    FAILS(MPI_File_write_all_begin_c(none, in, 1, MPI_INT), MPI_ERR_FILE);
    FAILS(MPI_File_read_ordered_begin_c(none, in, 1, MPI_INT), MPI_ERR_FILE);
    FAILS(MPI_File_write_ordered_begin_c(none, in, 1, MPI_INT), MPI_ERR_FILE);
}

static void extensions(void) {
    MPI_Status status;
    MPI_Comm none = MPI_COMM_NULL;
    MPI_Aint sizes[1] = {sizeof in};
    void *bases[1] = {in};
    MPI_Win win;
    FAILS(MPIX_Stream_send_c(in, 1, MPI_INT, 0, 0, none, 0, 0), MPI_ERR_COMM);
    FAILS(MPIX_Stream_isend_c(in, 1, MPI_INT, 0, 0, none, 0, 0, &request), MPI_ERR_COMM);
    FAILS(MPIX_Stream_recv_c(in, 1, MPI_INT, 0, 0, none, 0, 0, &status), MPI_ERR_COMM);
    FAILS(MPIX_Stream_irecv_c(in, 1, MPI_INT, 0, 0, none, 0, 0, &request), MPI_ERR_COMM);
    /* Without MPI_THREAD_MULTIPLE. */
    FAILS(MPIX_Win_create_endpoints(bases, sizes, 1, 1, MPI_INFO_NULL, world, &win), MPI_ERR_OTHER);
}

#ifndef MPI_ABI_VERSION
/* What MPI-3.0 removed, which the standard ABI doesn't have. */
static void removed(void) {
    MPI_Errhandler handler;
    MPI_Aint extent;
    FAILS(MPI_Address(&made, NULL), MPI_ERR_ARG);
    FAILS(MPI_Type_hindexed(-1, counts, large_displs, MPI_INT, &made), MPI_ERR_COUNT);
    FAILS(MPI_Type_hvector(-1, 1, 4, MPI_INT, &made), MPI_ERR_COUNT);
    FAILS(MPI_Type_struct(-1, counts, large_displs, &made, &made), MPI_ERR_COUNT);
    FAILS(MPI_Type_extent(MPI_DATATYPE_NULL, &extent), MPI_ERR_TYPE);
    FAILS(MPI_Type_lb(MPI_DATATYPE_NULL, &extent), MPI_ERR_TYPE);
    FAILS(MPI_Type_ub(MPI_DATATYPE_NULL, &extent), MPI_ERR_TYPE);
    FAILS(MPI_Errhandler_create(NULL, &handler), MPI_ERR_ARG);
    FAILS(MPI_Errhandler_set(MPI_COMM_NULL, MPI_ERRORS_RETURN), MPI_ERR_COMM);
    FAILS(MPI_Errhandler_get(MPI_COMM_NULL, &handler), MPI_ERR_COMM);
}

/* Conversions of statuses have errors, those of handles have none. */
static void conversions(void) {
    MPI_Fint integers[MPI_F_STATUS_SIZE] = {0};
    MPI_F08_status f08;
    MPI_Status status;
    FAILS(MPI_Status_f2c(NULL, &status), MPI_ERR_ARG);
    FAILS(MPI_Status_f2c(MPI_F_STATUS_IGNORE, &status), MPI_ERR_ARG);
    FAILS(MPI_Status_f082c(MPI_F08_STATUS_IGNORE, &status), MPI_ERR_ARG);
    FAILS(MPI_Status_f2f08(MPI_F_STATUSES_IGNORE, &f08), MPI_ERR_ARG);
    FAILS(MPI_Status_f082f(MPI_F08_STATUSES_IGNORE, integers), MPI_ERR_ARG);
    FAILS(MPI_Status_c2f08(MPI_STATUS_IGNORE, &f08), MPI_ERR_ARG);
    FAILS(MPI_Status_c2f(MPI_STATUS_IGNORE, integers), MPI_ERR_ARG);
    FAILS(MPI_Status_c2f(&status, NULL), MPI_ERR_ARG);
    FAILS(MPI_Status_f082c(NULL, &status), MPI_ERR_ARG);
    FAILS(MPI_Status_c2f08(&status, NULL), MPI_ERR_ARG);
    FAILS(MPI_Status_f2f08(integers, NULL), MPI_ERR_ARG);
    FAILS(MPI_Status_f082f(&f08, NULL), MPI_ERR_ARG);
}
#endif

static void tools(void) {
    MPI_Count time;
    int index;
    CHECK(MPI_T_pvar_get_num(&index) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_source_get_num(&index) == MPI_T_ERR_NOT_INITIALIZED);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &index));
    CHECK(MPI_T_pvar_get_num(NULL) == MPI_T_ERR_INVALID);
    CHECK(MPI_T_source_get_num(NULL) == MPI_T_ERR_INVALID);
    CHECK(MPI_T_event_get_timestamp(NULL, &time) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_get_source(NULL, &index) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_handle_get_info(NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_finalize());
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    buffers();
    statuses();
    datatypes();
    collectives();
    groups_and_topologies();
    attributes();
    handlers();
    environment();
    windows();
    files();
    extensions();
#ifndef MPI_ABI_VERSION
    removed();
    conversions();
#endif
    tools();
    OK(MPI_Comm_free(&world));
    OK(MPI_Finalize());
    return 0;
}
