/* ranks: 1
 * variants: shm
 */
/* Extensions that other libraries of the ABI have, too. */
#include "fails.h"

int main(int argc, char **argv) {
    int flag = -1;
    MPI_Init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(!MPIX_Query_cuda_support() && !MPIX_Query_hip_support() && !MPIX_Query_ze_support());
    CHECK(!MPIX_Query_rocm_support());
    OK(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &flag));
    CHECK_EQ(flag, 0);
    FAILS(MPIX_GPU_query_support(17, &flag), MPI_ERR_ARG);
    FAILS(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_ZE, NULL), MPI_ERR_ARG);

    MPI_Request request;
    int data = 0, out = 4;
    OK(MPI_Irecv(&data, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request));
    CHECK(!MPIX_Request_is_complete(request));
    OK(MPI_Send(&out, 1, MPI_INT, 0, 0, MPI_COMM_SELF));
    while (!MPIX_Request_is_complete(request)) {
        OK(MPI_Iprobe(0, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    }
    CHECK_EQ(data, 4);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(MPIX_Request_is_complete(MPI_REQUEST_NULL));
    CHECK(!MPIX_Request_is_complete(0x1234));

    MPI_Info info;
    unsigned char bytes[] = {0x00, 0x1f, 0xab};
    char value[16];
    int length = sizeof value;
    OK(MPI_Info_create(&info));
    OK(MPIX_Info_set_hex(info, "key", bytes, 3));
    OK(MPI_Info_get_string(info, "key", &length, value, &flag));
    CHECK(flag && !strcmp(value, "001fab"));
    FAILS(MPIX_Info_set_hex(info, "key", NULL, 3), MPI_ERR_ARG);
    FAILS(MPIX_Info_set_hex(info, "key", bytes, -1), MPI_ERR_ARG);
    FAILS(MPIX_Info_set_hex(MPI_INFO_NULL, "key", bytes, 1), MPI_ERR_INFO);
    OK(MPI_Info_free(&info));

    MPI_Datatype type;
    MPI_Count count, size, got;
    MPIX_Iov iov[8];
    OK(MPI_Type_vector(5, 2, 3, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPIX_Type_iov_len(type, -1, &count, &size));
    CHECK(count == 5 && size == 40);
    OK(MPIX_Type_iov_len(type, 17, &count, &size));
    CHECK(count == 2 && size == 16);
    OK(MPIX_Type_iov(type, 1, iov, 8, &got));
    CHECK_EQ(got, 4);
    for (int i = 0; i < 4; i++) {
        CHECK(iov[i].iov_len == 8 && (intptr_t)iov[i].iov_base == 12 * (i + 1));
    }
    OK(MPIX_Type_iov(type, 5, iov, 8, &got));
    CHECK_EQ(got, 0);
    FAILS(MPIX_Type_iov(type, -1, iov, 8, &got), MPI_ERR_ARG);
    FAILS(MPIX_Type_iov(type, 0, NULL, 8, &got), MPI_ERR_ARG);
    FAILS(MPIX_Type_iov(MPI_DATATYPE_NULL, 0, iov, 8, &got), MPI_ERR_TYPE);
    FAILS(MPIX_Type_iov_len(type, -2, &count, &size), MPI_ERR_ARG);
    OK(MPI_Type_free(&type));
    MPI_Finalize();
    return 0;
}
