/* Control variables and categories of the tool interface, before, while and after MPI is up.
 * ranks: 2
 * variants: shm
 * env: WEFT_SPIN=300
 * env: WEFT_COLL=barrier=tree
 */
#include "check.h"

enum { ROOM = 8192 };

typedef struct {
    char name[ROOM], desc[ROOM];
    int verbosity, bind, scope;
    MPI_Datatype datatype;
    MPI_T_enum enumeration;
} Info;

static void get_info(int index, Info *info) {
    int name = ROOM, desc = ROOM;
    OK(MPI_T_cvar_get_info(index, info->name, &name, &info->verbosity, &info->datatype,
                           &info->enumeration, info->desc, &desc, &info->bind, &info->scope));
    CHECK_EQ(name, strlen(info->name) + 1);
    CHECK_EQ(desc, strlen(info->desc) + 1);
}

static int index_of(const char *name) {
    int index = -1;
    OK(MPI_T_cvar_get_index(name, &index));
    return index;
}

static int read_int(const char *name) {
    MPI_T_cvar_handle handle;
    int count, value = -77;
    OK(MPI_T_cvar_handle_alloc(index_of(name), NULL, &handle, &count));
    CHECK_EQ(count, 1);
    OK(MPI_T_cvar_read(handle, &value));
    OK(MPI_T_cvar_handle_free(&handle));
    return value;
}

static int write_int(const char *name, int value) {
    MPI_T_cvar_handle handle;
    int count;
    OK(MPI_T_cvar_handle_alloc(index_of(name), NULL, &handle, &count));
    int code = MPI_T_cvar_write(handle, &value);
    OK(MPI_T_cvar_handle_free(&handle));
    CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
    return code;
}

static void read_text(const char *name, const char *expected) {
    MPI_T_cvar_handle handle;
    int count;
    OK(MPI_T_cvar_handle_alloc(index_of(name), NULL, &handle, &count));
    char *text = allocate((size_t)count + 1);
    memset(text, 'x', (size_t)count + 1);
    OK(MPI_T_cvar_read(handle, text));
    CHECK(text[count] == 'x' && strcmp(text, expected) == 0);
    OK(MPI_T_cvar_handle_free(&handle));
    free(text);
}

static int write_text(const char *name, const char *value) {
    MPI_T_cvar_handle handle;
    int count;
    OK(MPI_T_cvar_handle_alloc(index_of(name), NULL, &handle, &count));
    char *text = calloc((size_t)count, 1);
    strcpy(text, value);
    int code = MPI_T_cvar_write(handle, text);
    OK(MPI_T_cvar_handle_free(&handle));
    free(text);
    return code;
}

/* What there is of variables holds together. */
static void table(void) {
    static Info info;
    int num = 0, same, count;
    OK(MPI_T_cvar_get_num(&num));
    CHECK(num >= 13);
    for (int i = 0; i < num; i++) {
        get_info(i, &info);
        CHECK(strncmp(info.name, "WEFT_", 5) == 0 && strlen(info.desc) > 20);
        OK(MPI_T_cvar_get_index(info.name, &same));
        CHECK_EQ(same, i);
        CHECK(info.verbosity >= MPI_T_VERBOSITY_USER_BASIC &&
              info.verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
        CHECK_EQ(info.bind, MPI_T_BIND_NO_OBJECT);
        CHECK(info.scope == MPI_T_SCOPE_LOCAL || info.scope == MPI_T_SCOPE_ALL_EQ);
        CHECK(info.datatype == MPI_INT || info.datatype == MPI_CHAR);
        if (info.enumeration != MPI_T_ENUM_NULL) {
            CHECK_EQ(info.datatype, MPI_INT);
            char name[64];
            int items = 0, length = sizeof name, value = read_int(info.name), seen = 0;
            OK(MPI_T_enum_get_info(info.enumeration, &items, name, &length));
            CHECK(items >= 2 && length == (int)strlen(name) + 1);
            for (int j = 0; j < items; j++) {
                int item = -1;
                length = sizeof name;
                OK(MPI_T_enum_get_item(info.enumeration, j, &item, name, &length));
                CHECK(length == (int)strlen(name) + 1 && length > 1);
                seen += item == value;
            }
            CHECK_EQ(seen, 1);
            length = sizeof name;
            OK(MPI_T_enum_get_item(info.enumeration, 0, NULL, name, &length));
            const int full = length;
            length = full - 1; /* room for one character less */
            OK(MPI_T_enum_get_item(info.enumeration, 0, NULL, name, &length));
            CHECK_EQ(length, full);
            CHECK_EQ((int)strlen(name), full - 2);
            CHECK_EQ(MPI_T_enum_get_item(info.enumeration, items, &count, name, &length),
                     MPI_T_ERR_INVALID_INDEX);
            CHECK_EQ(MPI_T_enum_get_item(info.enumeration, -1, &count, name, &length),
                     MPI_T_ERR_INVALID_INDEX);
        }
    }
    CHECK_EQ(MPI_T_cvar_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
             MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
             MPI_T_ERR_INVALID_INDEX);
    get_info(index_of("WEFT_COLL"), &info);
    CHECK(info.scope == MPI_T_SCOPE_ALL_EQ && info.datatype == MPI_CHAR);
    get_info(index_of("WEFT_SPIN"), &info);
    CHECK(info.scope == MPI_T_SCOPE_LOCAL && info.datatype == MPI_INT);
    CHECK(info.enumeration == MPI_T_ENUM_NULL);
    get_info(index_of("WEFT_NETMOD"), &info);
    CHECK(info.enumeration != MPI_T_ENUM_NULL);

    /* Strings: NULL for what isn't wanted, lengths of what didn't fit. */
    char name[16];
    int length, full = (int)strlen("WEFT_NETMOD") + 1, i = index_of("WEFT_NETMOD");
    OK(MPI_T_cvar_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    length = 0;
    memset(name, 'x', sizeof name);
    OK(MPI_T_cvar_get_info(i, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK(length == full && name[0] == 'x');
    length = 16;
    OK(MPI_T_cvar_get_info(i, NULL, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_EQ(length, full);
    OK(MPI_T_cvar_get_info(i, name, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK(name[0] == 'x');
    length = 5;
    OK(MPI_T_cvar_get_info(i, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK(length == full && strcmp(name, "WEFT") == 0 && name[5] == 'x');
}

/* All can be written before MPI_Init and none after it; what a query says of a variable stays as it is. */
static void scopes(int up) {
    static Info info;
    int num = 0, count;
    OK(MPI_T_cvar_get_num(&num));
    for (int i = 0; i < num; i++) {
        get_info(i, &info);
        CHECK(info.scope != MPI_T_SCOPE_READONLY);
        MPI_T_cvar_handle handle;
        OK(MPI_T_cvar_handle_alloc(i, NULL, &handle, &count));
        char *value = calloc((size_t)count, sizeof(int)), *again = calloc((size_t)count, sizeof(int));
        OK(MPI_T_cvar_read(handle, value));
        CHECK_EQ(MPI_T_cvar_write(handle, value), up ? MPI_T_ERR_CVAR_SET_NEVER : MPI_SUCCESS);
        OK(MPI_T_cvar_read(handle, again));
        CHECK(!memcmp(value, again, (size_t)count * (info.datatype == MPI_INT ? sizeof(int) : 1)));
        OK(MPI_T_cvar_handle_free(&handle));
        free(value);
        free(again);
    }
}

static void wrong(void) {
    int number = 0;
    MPI_T_cvar_handle handle, copy;
    CHECK_EQ(MPI_T_cvar_get_num(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_get_index("WEFT_NOTHING", &number), MPI_T_ERR_INVALID_NAME);
    CHECK_EQ(MPI_T_cvar_get_index(NULL, &number), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_get_index("WEFT_SPIN", NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_handle_alloc(-1, NULL, &handle, &number), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_cvar_handle_alloc(9999, NULL, &handle, &number), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_cvar_handle_alloc(0, NULL, NULL, &number), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_handle_alloc(0, NULL, &handle, NULL), MPI_T_ERR_INVALID);
    OK(MPI_T_cvar_handle_alloc(index_of("WEFT_SPIN"), NULL, &handle, &number));
    CHECK_EQ(MPI_T_cvar_read(handle, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_write(handle, NULL), MPI_T_ERR_INVALID);
    copy = handle;
    OK(MPI_T_cvar_handle_free(&handle));
    CHECK_EQ(MPI_T_cvar_handle_free(&handle), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_cvar_handle_free(&copy), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_cvar_handle_free(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_read(copy, &number), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_cvar_write(copy, &number), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_cvar_read(MPI_T_CVAR_HANDLE_NULL, &number), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &number, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_enum_get_item(MPI_T_ENUM_NULL, 0, &number, NULL, NULL),
             MPI_T_ERR_INVALID_HANDLE);
}

/* Every variable is in one category; categories contain others. */
static void categories(void) {
    int num, cvars, pvars, total_cvars, total_pvars, seen[256] = {0}, parts = 0, update = -1;
    OK(MPI_T_category_get_num(&num));
    OK(MPI_T_cvar_get_num(&total_cvars));
    OK(MPI_T_pvar_get_num(&total_pvars));
    CHECK(num >= 5 && total_cvars < 128 && total_pvars < 128);
    for (int i = 0; i < num; i++) {
        char name[64], desc[256];
        int name_len = sizeof name, desc_len = sizeof desc, inner, same, indices[128];
        OK(MPI_T_category_get_info(i, name, &name_len, desc, &desc_len, &cvars, &pvars, &inner));
        CHECK(name_len == (int)strlen(name) + 1 && desc_len == (int)strlen(desc) + 1);
        OK(MPI_T_category_get_index(name, &same));
        CHECK_EQ(same, i);
        OK(MPI_T_category_get_cvars(i, 128, indices));
        for (int j = 0; j < cvars; j++) {
            CHECK(indices[j] >= 0 && indices[j] < total_cvars);
            seen[indices[j]]++;
        }
        OK(MPI_T_category_get_pvars(i, 128, indices));
        for (int j = 0; j < pvars; j++) {
            CHECK(indices[j] >= 0 && indices[j] < total_pvars);
            seen[128 + indices[j]]++;
        }
        OK(MPI_T_category_get_categories(i, 128, indices));
        for (int j = 0; j < inner; j++) {
            CHECK(indices[j] >= 0 && indices[j] < num && indices[j] != i);
        }
        parts += inner;
        if (cvars > 1) { /* room for one */
            indices[1] = -5;
            OK(MPI_T_category_get_cvars(i, 1, indices));
            CHECK_EQ(indices[1], -5);
        }
        OK(MPI_T_category_get_cvars(i, 0, NULL));
        OK(MPI_T_category_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    }
    CHECK(parts > 0);
    for (int i = 0; i < total_cvars; i++) {
        CHECK_EQ(seen[i], 1);
    }
    for (int i = 0; i < total_pvars; i++) {
        CHECK_EQ(seen[128 + i], 1);
    }
    OK(MPI_T_category_changed(&update));
    CHECK_EQ(update, 0);
    CHECK_EQ(MPI_T_category_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
             MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_category_get_cvars(-1, 1, &num), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_category_get_pvars(0, 1, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_category_get_categories(0, -1, &num), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_category_get_index("nothing", &num), MPI_T_ERR_INVALID_NAME);
    CHECK_EQ(MPI_T_category_changed(NULL), MPI_T_ERR_INVALID);
}

int main(int argc, char **argv) {
    int provided = -1, number;
    CHECK_EQ(MPI_T_cvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_EQ(MPI_T_category_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_EQ(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_EQ(MPI_T_init_thread(MPI_THREAD_SINGLE, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_init_thread(-3, &provided), MPI_T_ERR_INVALID);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_SINGLE);
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_T_finalize()); /* once of two */

    table();
    scopes(0);
    wrong();
    categories();

    /* From the environment, and as they are without it. */
    CHECK_EQ(read_int("WEFT_SPIN"), 300);
    CHECK_EQ(read_int("WEFT_YIELD"), -1);
    CHECK_EQ(read_int("WEFT_EAGER_LIMIT"), -1);
    CHECK_EQ(read_int("WEFT_SHM_SINGLE_COPY"), 2); /* auto */
    CHECK_EQ(read_int("WEFT_NETMOD"), 0);
    read_text("WEFT_COLL", "barrier=tree");
    read_text("WEFT_OFI_PROVIDER", "");

    /* Changed before MPI_Init. */
    OK(write_int("WEFT_EAGER_LIMIT", 1000));
    CHECK_EQ(read_int("WEFT_EAGER_LIMIT"), 1000);
    OK(write_int("WEFT_SPIN", -1));
    OK(write_int("WEFT_APP_SIZE", 1));
    CHECK_EQ(read_int("WEFT_SPIN"), -1);
    OK(write_int("WEFT_SHM_SINGLE_COPY", 0));
    OK(write_int("WEFT_NETMOD", 1));
    OK(write_text("WEFT_COLL", "barrier=dissemination"));
    CHECK_EQ(write_int("WEFT_EAGER_LIMIT", -2), MPI_T_ERR_INVALID);
    CHECK_EQ(write_int("WEFT_SHM", 7), MPI_T_ERR_INVALID);
    CHECK_EQ(write_int("WEFT_NETMOD", 99), MPI_T_ERR_INVALID);
    CHECK_EQ(write_text("WEFT_COLL", "barrier=wrong"), MPI_T_ERR_INVALID);
    for (int up = 0; up < 2; up++) {
        CHECK_EQ(read_int("WEFT_EAGER_LIMIT"), 1000);
        CHECK_EQ(read_int("WEFT_SPIN"), -1);
        CHECK_EQ(read_int("WEFT_SHM_SINGLE_COPY"), 0);
        CHECK_EQ(read_int("WEFT_NETMOD"), 1);
        read_text("WEFT_COLL", "barrier=dissemination");
        if (!up) {
            OK(MPI_Init(&argc, &argv));
            setenv("WEFT_YIELD", "5", 1); /* too late */
        }
    }
    CHECK_EQ(read_int("WEFT_YIELD"), -1);
    CHECK_EQ(write_int("WEFT_EAGER_LIMIT", 2000), MPI_T_ERR_CVAR_SET_NEVER);
    scopes(1);
    CHECK_EQ(write_text("WEFT_COLL", ""), MPI_T_ERR_CVAR_SET_NEVER);
    CHECK_EQ(read_int("WEFT_EAGER_LIMIT"), 1000);

    char maxprocs[16];
    int flag;
    OK(MPI_Info_get(MPI_INFO_ENV, "maxprocs", 15, maxprocs, &flag));
    CHECK(flag && !strcmp(maxprocs, "1"));

    /* What was set is in use: a message beyond the limit goes by rendezvous. */
    int rank = world_rank(), index, count;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned long sent = 99;
    char data[2000] = {0};
    OK(MPI_T_pvar_get_index("rendezvous_sent", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_start(session, handle));
    OK(MPI_Sendrecv_replace(data, 2000, MPI_CHAR, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE));
    OK(MPI_T_pvar_read(session, handle, &sent));
    CHECK_EQ(sent, 1);
    OK(MPI_Finalize());

    CHECK_EQ(read_int("WEFT_EAGER_LIMIT"), 1000);
    OK(MPI_T_pvar_read(session, handle, &sent));
    OK(MPI_T_finalize());
    CHECK_EQ(MPI_T_cvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_EQ(MPI_T_pvar_read(session, handle, &sent), MPI_T_ERR_INVALID_SESSION);
    OK(MPI_T_finalize());
    return 0;
}
