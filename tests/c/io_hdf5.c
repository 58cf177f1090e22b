/* Debian's parallel HDF5, an unmodified binary, on our library: hyperslabs written and read, collectively and
 * by each rank alone, contiguous and in chunks, with filters. Each rank has blocks of a data set that are
 * interleaved with the others'; afterwards all read all.
 * ranks: 1 2 4 8
 * variants: shm tcp
 * compiler: mpicc.mpich
 * cflags: -Wl,--no-as-needed -I/usr/include/hdf5/mpich -lhdf5_mpich
 * timeout: 60
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NEED(x)                                                                                    \
    do {                                                                                           \
        if ((x) < 0) {                                                                             \
            fprintf(stderr, "%d: rank %d: %s\n", __LINE__, rank, #x);                              \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static int rank, size;

static int value(hsize_t row, hsize_t col) { return (int)(row * 10007 + col * 3); }

static void dataset(hid_t file, const char *name, int chunked, int filter, int collective) {
    hsize_t dims[2] = {64, (hsize_t)48 * (hsize_t)size};
    hid_t space = H5Screate_simple(2, dims, NULL), create = H5Pcreate(H5P_DATASET_CREATE);
    if (chunked) {
        hsize_t chunk[2] = {16, 20};
        NEED(H5Pset_chunk(create, 2, chunk));
    }
    if (filter) {
        NEED(H5Pset_shuffle(create));
        NEED(H5Pset_deflate(create, 4));
    }
    hid_t set = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, create, H5P_DEFAULT);
    NEED(set);
    /* Blocks of 4x6, every size-th of a row of blocks is this rank's. */
    hsize_t start[2] = {0, (hsize_t)rank * 6}, stride[2] = {4, (hsize_t)size * 6}, count[2] = {16, 8},
            block[2] = {4, 6};
    NEED(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block));
    hsize_t n = 16 * 8 * 24, mem = n;
    hid_t memory = H5Screate_simple(1, &mem, NULL);
    int *data = malloc(sizeof(int) * n), k = 0;
    /* In the order of the selection: by rows. */
    for (hsize_t r = 0; r < 64; r++)
        for (hsize_t b = 0; b < 8; b++)
            for (hsize_t c = 0; c < 6; c++)
                data[k++] = value(r, b * stride[1] + start[1] + c);
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    NEED(H5Pset_dxpl_mpio(transfer, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
    NEED(H5Dwrite(set, H5T_NATIVE_INT, memory, space, transfer, data));
    NEED(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    /* All read everything. */
    hsize_t all = dims[0] * dims[1];
    int *whole = malloc(sizeof(int) * all);
    NEED(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, transfer, whole));
    for (hsize_t r = 0; r < dims[0]; r++)
        for (hsize_t c = 0; c < dims[1]; c++)
            if (whole[r * dims[1] + c] != value(r, c)) {
                fprintf(stderr, "rank %d: %s at %d,%d: %d\n", rank, name, (int)r, (int)c,
                        whole[r * dims[1] + c]);
                MPI_Abort(MPI_COMM_WORLD, 2);
            }
    free(data);
    free(whole);
    H5Pclose(transfer);
    H5Sclose(memory);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(create);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char path[100];
    snprintf(path, sizeof path, "/tmp/weft-io-hdf5-%ld", (long)getpid());
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    NEED(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    NEED(file);
    for (int collective = 0; collective < 2; collective++) {
        char name[40];
        snprintf(name, sizeof name, "contiguous-%d", collective);
        dataset(file, name, 0, 0, collective);
        snprintf(name, sizeof name, "chunked-%d", collective);
        dataset(file, name, 1, 0, collective);
    }
    dataset(file, "filtered", 1, 1, 1); /* filters need collective writes */
    NEED(H5Fclose(file));
    /* Once more, read only. */
    file = H5Fopen(path, H5F_ACC_RDONLY, access);
    NEED(file);
    hid_t set = H5Dopen2(file, "filtered", H5P_DEFAULT);
    NEED(set);
    int *whole = malloc(sizeof(int) * 64 * 48 * (size_t)size);
    NEED(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, whole));
    for (hsize_t r = 0; r < 64; r++)
        for (hsize_t c = 0; c < (hsize_t)48 * (hsize_t)size; c++)
            if (whole[r * 48 * (hsize_t)size + c] != value(r, c))
                MPI_Abort(MPI_COMM_WORLD, 3);
    free(whole);
    NEED(H5Dclose(set));
    NEED(H5Fclose(file));
    H5Pclose(access);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        unlink(path);
    MPI_Finalize();
    return 0;
}
