/* Reads in external32 at the end of a file: the complete values of a datatype's last element are delivered and
 * counted; a partial value is not.
 *
 * ranks: 1 2
 * variants: shm
 */
#include "io.h"
#include <stddef.h>

#define N 10

static void found(MPI_File file, int way, MPI_Datatype type, int at) {
    int data[12], elements;
    memset(data, 0xff, sizeof data);
    MPI_Status status;
    MPI_Request request;
    switch (way) {
    case 0:
        OK(MPI_File_read_at(file, at, data, 3, type, &status));
        break;
    case 1:
        OK(MPI_File_read_at_all(file, at, data, 3, type, &status));
        break;
    case 2:
        OK(MPI_File_iread_at(file, at, data, 3, type, &request));
        OK(MPI_Wait(&request, &status));
        break;
    default:
        OK(MPI_File_seek(file, at, MPI_SEEK_SET));
        OK(MPI_File_read(file, data, 3, type, &status));
        MPI_Offset end;
        OK(MPI_File_get_position(file, &end));
        CHECK_EQ(end, N);
    }
    OK(MPI_Get_elements(&status, type, &elements));
    CHECK_EQ(elements, N - at);
    CHECK_EQ(io_count(&status, type), (N - at) % 4 ? MPI_UNDEFINED : (N - at) / 4);
    for (int i = 0; i < 12; i++) {
        CHECK_EQ(data[i], i < N - at ? 1000 + at + i : -1);
    }
}

static void mixed(MPI_File file) {
    struct both {
        int i;
        double d;
    } data[2] = {{1, 2.5}, {3, 4.5}}, back[3];
    int blocks[2] = {1, 1}, elements;
    MPI_Aint places[2] = {0, offsetof(struct both, d)};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, type;
    MPI_Status status;
    OK(MPI_Type_create_struct(2, blocks, places, types, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, 0, data, 2, type, MPI_STATUS_IGNORE));
    /* An int, a double, an int and all of a double but a byte. */
    OK(MPI_File_set_size(file, 23));
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at_all(file, 0, back, 3, type, &status));
    OK(MPI_Get_elements(&status, type, &elements));
    CHECK_EQ(elements, 3);
    CHECK(back[0].i == 1 && back[0].d == 2.5 && back[1].i == 3 && back[1].d == 0.0);
    OK(MPI_Type_free(&type));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    const char *path = io_path("end");
    int values[N];
    for (int i = 0; i < N; i++) {
        values[i] = 1000 + i;
    }
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, 0, values, N, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_set_size(file, 4 * N + 1));
    MPI_Datatype four;
    OK(MPI_Type_contiguous(4, MPI_INT, &four));
    OK(MPI_Type_commit(&four));
    for (int way = 0; way < 4; way++) {
        for (int at = 0; at <= N; at += way == 3 ? N : 1) {
            found(file, way, four, at);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Type_free(&four));
    mixed(file);
    OK(MPI_File_close(&file));
    OK(MPI_Finalize());
    return 0;
}
