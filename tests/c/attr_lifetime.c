/* Lifetime of attribute keys and of objects in their callbacks (MPI-3.1 sections 6.7.2 and 8.7.1). A freed key stays
 * valid while attributes use it. A callback that frees its own object is wrong, but nothing may be used after it is
 * freed.
 *
 * ranks: 1
 * local: attributes
 * case: keys
 * case: frees
 * case: finalize
 */
#include "fails.h"

static int deleted, copied, again;

static int drop(int object, int keyval, void *value, void *extra) {
    (void)object, (void)value, (void)extra;
    CHECK(keyval != MPI_KEYVAL_INVALID);
    deleted++;
    return MPI_SUCCESS;
}

static int copy(int object, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)object, (void)keyval, (void)extra;
    copied++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void keys_of_comms(void) {
    int key, saved, other, flag;
    void *value;
    MPI_Comm one, two;
    OK(MPI_Comm_create_keyval(copy, drop, &key, NULL));
    saved = key;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &one));
    OK(MPI_Comm_set_attr(one, key, &one));
    OK(MPI_Comm_free_keyval(&key));
    CHECK_EQ(key, MPI_KEYVAL_INVALID);

    /* It isn't given again, and still finds the value. */
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other, NULL));
    CHECK(other != saved);
    OK(MPI_Comm_get_attr(one, saved, &value, &flag));
    CHECK(flag && value == (void *)&one);
    OK(MPI_Comm_get_attr(one, other, &value, &flag));
    CHECK(!flag);

    /* Copied and deleted with callbacks, also on others. */
    OK(MPI_Comm_dup(one, &two));
    CHECK_EQ(copied, 1);
    OK(MPI_Comm_get_attr(two, saved, &value, &flag));
    CHECK(flag && value == (void *)&one);
    OK(MPI_Comm_delete_attr(one, saved));
    CHECK_EQ(deleted, 1);
    OK(MPI_Comm_get_attr(one, saved, &value, &flag));
    CHECK(!flag);
    int twice = saved;
    OK(MPI_Comm_free_keyval(&twice));
    CHECK_EQ(twice, MPI_KEYVAL_INVALID);
    OK(MPI_Comm_set_attr(one, saved, &two));
    OK(MPI_Comm_free(&two));
    CHECK_EQ(deleted, 2);
    OK(MPI_Comm_free(&one));
    CHECK_EQ(deleted, 3);

    /* Nobody uses it any more: it is gone. */
    FAILS(MPI_Comm_get_attr(MPI_COMM_WORLD, saved, &value, &flag), MPI_ERR_KEYVAL);
    twice = saved;
    FAILS(MPI_Comm_free_keyval(&twice), MPI_ERR_KEYVAL);
    OK(MPI_Comm_free_keyval(&other));
}

static void keys_of_types(void) {
    int key, saved, flag;
    void *value;
    MPI_Datatype one, two;
    deleted = copied = 0;
    OK(MPI_Type_create_keyval(copy, drop, &key, NULL));
    saved = key;
    OK(MPI_Type_contiguous(3, MPI_INT, &one));
    OK(MPI_Type_set_attr(one, key, &saved));
    OK(MPI_Type_free_keyval(&key));
    OK(MPI_Type_dup(one, &two));
    CHECK_EQ(copied, 1);
    OK(MPI_Type_free(&one));
    OK(MPI_Type_get_attr(two, saved, &value, &flag));
    CHECK(flag && value == (void *)&saved);
    OK(MPI_Type_free(&two));
    CHECK_EQ(deleted, 2);
    FAILS(MPI_Type_get_attr(MPI_INT, saved, &value, &flag), MPI_ERR_KEYVAL);
}

static void keys_of_windows(void) {
    int key, saved, flag;
    void *value;
    MPI_Win win;
    deleted = 0;
    OK(MPI_Win_create_keyval(copy, drop, &key, NULL));
    saved = key;
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_set_attr(win, key, &saved));
    OK(MPI_Win_free_keyval(&key));
    OK(MPI_Win_get_attr(win, saved, &value, &flag));
    CHECK(flag && value == (void *)&saved);
    OK(MPI_Win_delete_attr(win, saved));
    CHECK_EQ(deleted, 1);
    FAILS(MPI_Win_get_attr(win, saved, &value, &flag), MPI_ERR_KEYVAL);
    OK(MPI_Win_free(&win));
}

/* Callbacks that free the object, its key, and make another communicator in its place. */
static MPI_Comm made = MPI_COMM_NULL;

static int free_comm(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)keyval, (void)extra;
    deleted++;
    if (again-- > 0) {
        int code = MPI_Comm_free(&comm);
        if (code == MPI_SUCCESS) {
            OK(MPI_Comm_dup(MPI_COMM_SELF, &made));
        }
    }
    int key = *(int *)value;
    MPI_Comm_free_keyval(&key);
    return MPI_SUCCESS;
}

static int free_type(MPI_Datatype type, int keyval, void *value, void *extra) {
    (void)keyval, (void)value, (void)extra;
    deleted++;
    if (again-- > 0) {
        MPI_Type_free(&type);
    }
    return MPI_SUCCESS;
}

static int free_window(MPI_Win win, int keyval, void *value, void *extra) {
    (void)keyval, (void)value, (void)extra;
    deleted++;
    if (again-- > 0) {
        MPI_Win_free(&win);
    }
    return MPI_SUCCESS;
}

static void frees(void) {
    for (int way = 0; way < 4; way++) {
        int key, saved;
        MPI_Comm comm;
        OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, free_comm, &key, NULL));
        saved = key;
        OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
        OK(MPI_Comm_set_attr(comm, key, &saved));
        deleted = 0, again = 1;
        if (way == 0) {
            MPI_Comm_delete_attr(comm, key);
        } else if (way == 1) {
            MPI_Comm_set_attr(comm, key, &saved);
        } else if (way == 2) {
            FAILS(MPI_Comm_free(&comm), MPI_ERR_COMM);
        } else {
            FAILS(MPI_Comm_disconnect(&comm), MPI_ERR_COMM);
        }
        CHECK(deleted >= 1);
        /* What was made in its place is still there. */
        int size;
        OK(MPI_Comm_size(made, &size));
        OK(MPI_Comm_free(&made));
    }
    for (int way = 0; way < 3; way++) {
        int key;
        MPI_Datatype type;
        OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, free_type, &key, NULL));
        OK(MPI_Type_contiguous(5, MPI_INT, &type));
        OK(MPI_Type_set_attr(type, key, NULL));
        deleted = 0, again = 1;
        if (way == 0) {
            MPI_Type_delete_attr(type, key);
        } else if (way == 1) {
            MPI_Type_set_attr(type, key, NULL);
        } else {
            FAILS(MPI_Type_free(&type), MPI_ERR_TYPE);
        }
        CHECK(deleted >= 1);
        OK(MPI_Type_free_keyval(&key));
    }
    for (int way = 0; way < 3; way++) {
        int key;
        MPI_Win win;
        OK(MPI_Win_create_keyval(MPI_WIN_DUP_FN, free_window, &key, NULL));
        OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
        OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
        OK(MPI_Win_set_attr(win, key, NULL));
        deleted = 0, again = 1;
        if (way == 0) {
            MPI_Win_delete_attr(win, key);
        } else if (way == 1) {
            MPI_Win_set_attr(win, key, NULL);
        } else {
            FAILS(MPI_Win_free(&win), MPI_ERR_WIN);
        }
        CHECK(deleted >= 1);
        OK(MPI_Win_free_keyval(&key));
    }
}

static MPI_Op freed_op;

static void free_op(void *in, void *inout, int *len, MPI_Datatype *type) {
    (void)len, (void)type;
    *(int *)inout += *(int *)in;
    if (freed_op != MPI_OP_NULL) {
        OK(MPI_Op_free(&freed_op));
    }
}

static void operations(void) {
    int a = 1, b = 2;
    OK(MPI_Op_create(free_op, 1, &freed_op));
    OK(MPI_Reduce_local(&a, &b, 1, MPI_INT, freed_op));
    CHECK_EQ(b, 3);
}

static int finalize(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)value, (void)extra;
    FAILS(MPI_Finalize(), MPI_ERR_OTHER);
    int flag;
    OK(MPI_Finalized(&flag));
    CHECK(!flag);
    OK(MPI_Initialized(&flag));
    CHECK(flag);
    deleted++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (strcmp(argv[1], "keys") == 0) {
        keys_of_comms();
        keys_of_types();
        keys_of_windows();
    } else if (strcmp(argv[1], "frees") == 0) {
        frees();
        operations();
    } else {
        int key;
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize, &key, NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL));
        deleted = 0;
    }
    OK(MPI_Finalize());
    if (strcmp(argv[1], "finalize") == 0) {
        CHECK_EQ(deleted, 2);
    }
    return 0;
}
