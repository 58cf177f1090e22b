/* Names that are not UTF-8 round-trip byte for byte: of objects, infos, error codes, files, services, ports and data
 * representations. A too long name is cut between characters of UTF-8.
 *
 * ranks: 1 2
 * variants: shm
 */
#include "fails.h"

/* Latin-1, a cut character, one beyond the last, a surrogate, and characters that the library uses for itself. */
static const char *const NAMES[] = {
    "Stra\xdf"
    "e \xe4\xf6\xfc",
    "\xff",
    "\x80\xbf\xc3",
    "half a \xe2\x82",
    "\xf4\x90\x80\x80 beyond",
    "\xed\xa0\x80",
    "\xf4\x8f\xbe\x80 \xf4\x8f\xbf\xbf \xf4\x8f\xbd\xbf",
    "good \xc3\xa9 \xe2\x82\xac",
};
enum { COUNT = sizeof NAMES / sizeof *NAMES };

static void same(const char *found, int length, const char *wanted) {
    if (strcmp(found, wanted) != 0)
        fprintf(stderr, "'%s' is not '%s'\n", found, wanted);
    CHECK(strcmp(found, wanted) == 0);
    CHECK_EQ(length, strlen(wanted));
}

static void objects(const char *name) {
    char found[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm comm;
    MPI_Win win;
    MPI_Datatype type;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_name(comm, name));
    OK(MPI_Comm_get_name(comm, found, &length));
    same(found, length, name);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_set_name(win, name));
    OK(MPI_Win_get_name(win, found, &length));
    same(found, length, name);
    OK(MPI_Type_dup(MPI_INT, &type));
    OK(MPI_Type_set_name(type, name));
    OK(MPI_Type_get_name(type, found, &length));
    same(found, length, name);
    OK(MPI_Type_free(&type));
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&comm));
}

/* Longer ones than fit: as many bytes as there is room for, but no half of a character. */
static void cut(void) {
    char name[3 * MPI_MAX_OBJECT_NAME] = "", found[MPI_MAX_OBJECT_NAME];
    int length;
    memset(name, 0xe4, sizeof name - 1);
    OK(MPI_Type_set_name(MPI_INT, name));
    OK(MPI_Type_get_name(MPI_INT, found, &length));
    CHECK_EQ(length, MPI_MAX_OBJECT_NAME - 1);
    CHECK(all_bytes(found, length, 0xe4));
    for (int i = 0; i < MPI_MAX_OBJECT_NAME; i++)
        memcpy(name + 2 * i, "\xc3\xa9", 3);
    OK(MPI_Type_set_name(MPI_INT, name));
    OK(MPI_Type_get_name(MPI_INT, found, &length));
    CHECK_EQ(length, (MPI_MAX_OBJECT_NAME - 1) / 2 * 2);
    CHECK(memcmp(found, name, length) == 0);
    OK(MPI_Type_set_name(MPI_INT, "MPI_INT"));
}

static void infos(const char *name) {
    MPI_Info info;
    char found[MPI_MAX_INFO_KEY + 1];
    int flag, length = sizeof found;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, name, name));
    OK(MPI_Info_get_nthkey(info, 0, found));
    same(found, strlen(found), name);
    OK(MPI_Info_get_string(info, name, &length, found, &flag));
    CHECK_EQ(flag, 1);
    same(found, length - 1, name);
    OK(MPI_Info_free(&info));
}

static void errors(const char *name) {
    char found[MPI_MAX_ERROR_STRING], text[MPI_MAX_ERROR_STRING];
    int class_, code, length;
    OK(MPI_Add_error_class(&class_));
    OK(MPI_Add_error_code(class_, &code));
    OK(MPI_Add_error_string(code, name));
    OK(MPI_Error_string(code, found, &length));
    same(found, length, name);
    /* All the room there is. */
    memset(text, 0xe4, sizeof text - 1);
    text[sizeof text - 1] = 0;
    OK(MPI_Add_error_string(class_, text));
    OK(MPI_Error_string(class_, found, &length));
    same(found, length, text);
}

static void services(const char *name, int rank) {
    char service[64], port[64], found[MPI_MAX_PORT_NAME];
    snprintf(service, sizeof service, "%s %d", name, rank);
    snprintf(port, sizeof port, "port %d %s", rank, name);
    OK(MPI_Publish_name(service, MPI_INFO_NULL, port));
    OK(MPI_Lookup_name(service, MPI_INFO_NULL, found));
    same(found, strlen(found), port);
    OK(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
    FAILS(MPI_Lookup_name(service, MPI_INFO_NULL, found), MPI_ERR_NAME);
    FAILS(MPI_Close_port(port), MPI_ERR_PORT);
}

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *extra) {
    (void)extra;
    MPI_Aint lb;
    return MPI_Type_get_extent(type, &lb, bytes);
}

static void files(const char *name, int rank) {
    char path[64], found[MPI_MAX_DATAREP_STRING];
    MPI_File file;
    MPI_Offset at;
    MPI_Datatype etype, filetype;
    int value = 7;
    snprintf(path, sizeof path, "%s.%d", name, rank);
    OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK_EQ(access(path, F_OK), 0);
    OK(MPI_Register_datarep(name, MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent, NULL));
    FAILS(MPI_Register_datarep(name, MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent, NULL),
          MPI_ERR_DUP_DATAREP);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, name, MPI_INFO_NULL));
    OK(MPI_File_get_view(file, &at, &etype, &filetype, found));
    same(found, strlen(found), name);
    OK(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    OK(MPI_File_delete(path, MPI_INFO_NULL));
    FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; i < COUNT; i++) {
        objects(NAMES[i]);
        infos(NAMES[i]);
        errors(NAMES[i]);
        services(NAMES[i], rank);
        files(NAMES[i], rank);
    }
    cut();
    /* An error that tells such a name. */
    char text[MPI_MAX_ERROR_STRING];
    int length, code = MPI_Close_port("Stra\xdf"
                                      "e");
    OK(MPI_Error_string(code, text, &length));
    CHECK_EQ(length, strlen(text));
    OK(MPI_Finalize());
    return 0;
}
