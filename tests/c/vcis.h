/* For tests of VCIs: hints as text, and what is in force of them. */
#ifndef VCIS_H
#define VCIS_H

#include "check.h"

/* From "key=value key=value". */
static UNUSED MPI_Info hints(const char *text) {
    char copy[200], *rest = copy;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value = 0;
        OK(MPI_Info_set(info, word, value + 1));
    }
    return info;
}

static UNUSED MPI_Comm dup_with(MPI_Comm comm, const char *text) {
    MPI_Info info = hints(text);
    MPI_Comm made;
    OK(MPI_Comm_dup_with_info(comm, info, &made));
    OK(MPI_Info_free(&info));
    return made;
}

/* Whether an info object has this value for a key, or no value where that is "". Frees it. */
static UNUSED int told(MPI_Info info, const char *key, const char *expected) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag;
    OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag));
    OK(MPI_Info_free(&info));
    int same = strcmp(flag ? value : "", expected) == 0;
    if (!same) {
        fprintf(stderr, "%s is \"%s\", not \"%s\"\n", key, flag ? value : "", expected);
    }
    return same;
}

static UNUSED int comm_has(MPI_Comm comm, const char *key, const char *expected) {
    MPI_Info info;
    OK(MPI_Comm_get_info(comm, &info));
    return told(info, key, expected);
}

static UNUSED int win_has(MPI_Win win, const char *key, const char *expected) {
    MPI_Info info;
    OK(MPI_Win_get_info(win, &info));
    return told(info, key, expected);
}

/* A performance variable that counts. */
static UNUSED unsigned long counted(const char *name) {
    int index, count, provided;
    unsigned long value;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_start(session, handle));
    OK(MPI_T_pvar_read(session, handle, &value));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    return value;
}

#endif
