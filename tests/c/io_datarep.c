/* Sets and gets file views, and uses data representations: external32 and user-defined ones (MPI-3.1 sections
 * 13.3 and 13.5).
 * ranks: 1 3
 * local: views of files
 */
#include "io.h"

static int state = 4711, calls[3];

static int same_extent(MPI_Datatype type, MPI_Aint *extent, void *extra) {
    MPI_Aint lb;
    CHECK(extra == &state);
    calls[2]++;
    return MPI_Type_get_extent(type, &lb, extent);
}

/* Ints take eight bytes in the file, as text in base 16. */
static int wide_extent(MPI_Datatype type, MPI_Aint *extent, void *extra) {
    CHECK(extra == &state);
    calls[2]++;
    *extent = type == MPI_INT ? 8 : 1;
    return MPI_SUCCESS;
}

static int to_text(void *user, MPI_Datatype type, int count, void *filebuf, MPI_Offset position,
                   void *extra) {
    CHECK(extra == &state);
    CHECK(type == MPI_INT);
    calls[0]++;
    for (int i = 0; i < count; i++) {
        char text[9];
        snprintf(text, sizeof text, "%08x", (unsigned)((int *)user)[position + i]);
        memcpy((char *)filebuf + 8 * i, text, 8);
    }
    return MPI_SUCCESS;
}

static int from_text(void *user, MPI_Datatype type, int count, void *filebuf, MPI_Offset position,
                     void *extra) {
    CHECK(extra == &state);
    CHECK(type == MPI_INT);
    calls[1]++;
    for (int i = 0; i < count; i++) {
        char text[9] = "";
        memcpy(text, (char *)filebuf + 8 * i, 8);
        ((int *)user)[position + i] = (int)strtoul(text, NULL, 16);
    }
    return MPI_SUCCESS;
}

static int refuse(void *user, MPI_Datatype type, int count, void *filebuf, MPI_Offset position,
                  void *extra) {
    (void)user, (void)type, (void)count, (void)filebuf, (void)position, (void)extra;
    return MPI_ERR_CONVERSION;
}

static void views(MPI_File file, int rank, int ranks) {
    MPI_Offset disp;
    MPI_Datatype etype, filetype, vector, got, raw, back;
    MPI_Aint extent;
    char name[MPI_MAX_DATAREP_STRING];
    OK(MPI_File_get_view(file, &disp, &etype, &filetype, name));
    CHECK(disp == 0 && etype == MPI_BYTE && filetype == MPI_BYTE && strcmp(name, "native") == 0);
    OK(MPI_Type_vector(3, 1, 4, MPI_INT, &vector));
    FAILS(MPI_File_set_view(file, 0, MPI_INT, vector, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    OK(MPI_Type_commit(&vector));
    OK(MPI_File_set_view(file, 40, MPI_INT, vector, "INTERNAL", MPI_INFO_NULL)); /* as MPICH takes it */
    OK(MPI_File_get_view(file, &disp, &etype, &got, name));
    CHECK(disp == 40 && etype == MPI_INT && strcmp(name, "internal") == 0);
    int ints, addresses, types, combiner;
    OK(MPI_Type_get_envelope(got, &ints, &addresses, &types, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_VECTOR);
    OK(MPI_Type_free(&got));
    OK(MPI_File_get_type_extent(file, vector, &extent));
    CHECK_EQ(extent, 36);
    FAILS(MPI_File_get_type_extent(file, MPI_DATATYPE_NULL, &extent), MPI_ERR_TYPE);
    FAILS(MPI_File_get_type_extent(file, vector, NULL), MPI_ERR_ARG);
    FAILS(MPI_File_get_view(file, NULL, &etype, &got, name), MPI_ERR_ARG);
    FAILS(MPI_File_set_view(file, -1, MPI_INT, vector, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    FAILS(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, vector, "native", MPI_INFO_NULL),
          MPI_ERR_ARG);
    FAILS(MPI_File_set_view(file, 0, MPI_DOUBLE, vector, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    FAILS(MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, vector, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "no such", MPI_INFO_NULL),
          MPI_ERR_UNSUPPORTED_DATAREP);
    char longest[MPI_MAX_DATAREP_STRING + 1];
    memset(longest, 'x', MPI_MAX_DATAREP_STRING);
    longest[MPI_MAX_DATAREP_STRING] = 0;
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, longest, MPI_INFO_NULL),
          MPI_ERR_UNSUPPORTED_DATAREP);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, NULL, MPI_INFO_NULL), MPI_ERR_ARG);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", 12345), MPI_ERR_INFO);
    FAILS(MPI_File_set_view(MPI_FILE_NULL, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_FILE);
    /* Displacements that fall, and data that overlaps in a file that is written. */
    int lens[2] = {1, 1}, falling[2] = {2, 0}, twice[2] = {0, 0};
    OK(MPI_Type_indexed(2, lens, falling, MPI_INT, &raw));
    OK(MPI_Type_commit(&raw));
    FAILS(MPI_File_set_view(file, 0, MPI_INT, raw, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    OK(MPI_Type_free(&raw));
    OK(MPI_Type_indexed(2, lens, twice, MPI_INT, &back));
    OK(MPI_Type_commit(&back));
    FAILS(MPI_File_set_view(file, 0, MPI_INT, back, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    OK(MPI_Type_free(&back));
    if (ranks > 1) {
        MPI_Datatype unit = rank ? MPI_INT : MPI_DOUBLE;
        FAILS(MPI_File_set_view(file, 0, unit, unit, "native", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
        FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, rank ? "native" : "external32", MPI_INFO_NULL),
              MPI_ERR_NOT_SAME);
        FAILS(MPI_File_set_view(file, rank == 1 ? -1 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL),
              MPI_ERR_ARG);
    }
    /* What was refused has changed nothing. */
    OK(MPI_File_get_view(file, &disp, &etype, &got, name));
    CHECK(disp == 40 && etype == MPI_INT && strcmp(name, "internal") == 0);
    OK(MPI_Type_free(&got));
    OK(MPI_Type_free(&vector));
}

static void external(MPI_File file, const char *path, int rank, int ranks) {
    MPI_Status status;
    MPI_Aint extent;
    long values[4], back[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++)
        values[i] = rank * 256 + i;
    OK(MPI_File_set_view(file, 4, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    CHECK_EQ(extent, 4);
    OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    CHECK_EQ(extent, 8);
    OK(MPI_File_write_at_all(file, 4 * rank, values, 4, MPI_LONG, &status));
    CHECK_EQ(io_count(&status, MPI_LONG), 4);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    unsigned char raw[64];
    CHECK_EQ(io_slurp(path, raw, 16, 4 + 16 * rank), 16);
    for (int i = 0; i < 4; i++) {
        unsigned char want[4] = {0, 0, (unsigned char)rank, (unsigned char)i};
        CHECK(memcmp(raw + 4 * i, want, 4) == 0);
    }
    OK(MPI_File_read_at(file, 4 * rank, back, 4, MPI_LONG, &status));
    CHECK_EQ(io_count(&status, MPI_LONG), 4);
    CHECK(memcmp(values, back, sizeof back) == 0);
    /* At the end of the file. */
    long last[4] = {-1, -1, -1, -1};
    OK(MPI_File_read_at_all(file, 4 * ranks - 1, last, 4, MPI_LONG, &status));
    CHECK_EQ(io_count(&status, MPI_LONG), 1);
    CHECK(last[0] == (ranks - 1) * 256 + 3 && last[1] == -1);
    /* Interleaved by a filetype, nonblocking too, in two phases too. */
    MPI_Datatype every, made;
    OK(MPI_Type_create_resized(MPI_LONG, 0, 8, &made)); /* sizes in bytes are the file's */
    OK(MPI_Type_create_resized(made, 0, 4 * ranks, &every));
    OK(MPI_Type_free(&made));
    OK(MPI_Type_commit(&every));
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    OK(MPI_Info_set(info, "romio_cb_read", "enable"));
    OK(MPI_File_set_view(file, 4 * rank, MPI_LONG, every, "external32", info));
    OK(MPI_Info_free(&info));
    OK(MPI_File_write_all(file, values, 4, MPI_LONG, &status));
    MPI_Request request;
    memset(back, 0, sizeof back);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_iread_at(file, 0, back, 4, MPI_LONG, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(io_count(&status, MPI_LONG), 4);
    CHECK(memcmp(values, back, sizeof back) == 0);
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at_all(file, 0, back, 4, MPI_LONG, &status));
    CHECK(memcmp(values, back, sizeof back) == 0);
    /* What does not fit. */
    long large = 1L << 40;
    FAILS(MPI_File_write_at(file, 0, &large, 1, MPI_LONG, &status), MPI_ERR_CONVERSION);
    FAILS(MPI_File_write_at_all(file, 0, &large, 1, MPI_LONG, &status), MPI_ERR_CONVERSION);
    OK(MPI_Type_free(&every));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void of_program(MPI_File file, const char *path, int rank) {
    FAILS(MPI_Register_datarep("native", NULL, NULL, same_extent, &state), MPI_ERR_DUP_DATAREP);
    FAILS(MPI_Register_datarep(NULL, NULL, NULL, same_extent, &state), MPI_ERR_ARG);
    FAILS(MPI_Register_datarep("text", from_text, to_text, NULL, &state), MPI_ERR_ARG);
    char name[MPI_MAX_DATAREP_STRING + 2];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    FAILS(MPI_Register_datarep(name, from_text, to_text, wide_extent, &state), MPI_ERR_ARG);
    OK(MPI_Register_datarep("text", from_text, to_text, wide_extent, &state));
    FAILS(MPI_Register_datarep("text", from_text, to_text, wide_extent, &state), MPI_ERR_DUP_DATAREP);
    OK(MPI_Register_datarep("plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, same_extent, &state));
    OK(MPI_Register_datarep("refuses", refuse, refuse, same_extent, &state));
    MPI_Aint extent;
    MPI_Status status;
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "text", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
    CHECK_EQ(extent, 8);
    CHECK(calls[2] > 0);
    int values[3] = {rank, 0xabcd, -1}, back[3] = {0, 0, 0};
    OK(MPI_File_write_at_all(file, 3 * rank, values, 3, MPI_INT, &status));
    CHECK_EQ(calls[0], 1);
    char text[25] = "", want[25];
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_EQ(io_slurp(path, text, 24, 24 * rank), 24);
    snprintf(want, sizeof want, "%08x0000abcdffffffff", (unsigned)rank);
    CHECK(strcmp(text, want) == 0);
    MPI_Request request;
    OK(MPI_File_iread_at(file, 3 * rank, back, 3, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(io_count(&status, MPI_INT), 3);
    CHECK_EQ(calls[1], 1);
    CHECK(memcmp(values, back, sizeof back) == 0);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "plain", MPI_INFO_NULL));
    OK(MPI_File_write_at(file, 3 * rank, values, 3, MPI_INT, &status));
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at(file, 3 * rank, back, 3, MPI_INT, &status));
    CHECK(memcmp(values, back, sizeof back) == 0);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "refuses", MPI_INFO_NULL));
    CHECK_EQ(MPI_File_write_at(file, 0, values, 3, MPI_INT, &status), MPI_ERR_CONVERSION);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int rank = world_rank(), ranks = world_size();
    const char *path = io_path("datarep");
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    views(file, rank, ranks);
    external(file, path, rank, ranks);
    of_program(file, path, rank);
    OK(MPI_File_close(&file));
    OK(MPI_Finalize());
    return 0;
}
