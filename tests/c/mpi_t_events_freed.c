/* ranks: 1
 * variants: shm
 * cflags: -pthread
 */
/* Registrations for events that are freed during an event's callbacks (MPI-4.1 section 15.3.8): by a callback of another
 * registration, by their own, and by another thread. The function that is called for the end comes when no callback of
 * the registration is running and none will be called. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "fails.h"

static MPI_T_event_registration registrations[2];
static int told[2], ended[2], running[2];
static atomic_int inside, freed_by_other, free_returned;

static void at_end(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data) {
    int which = (int)((int *)user_data - told);
    CHECK(registration == registrations[which] && safety == MPI_T_CB_REQUIRE_NONE);
    CHECK_EQ(running[which], 0);
    ended[which]++;
}

/* The callback that runs first frees both registrations. */
static void frees(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                  void *user_data) {
    int which = (int)((int *)user_data - told), other = 1 - which;
    (void)event, (void)safety;
    CHECK(registration == registrations[which]);
    CHECK_EQ(ended[which], 0);
    running[which] = 1;
    told[which]++;
    OK(MPI_T_event_handle_free(registrations[other], &told[other], at_end));
    CHECK_EQ(ended[other], 1);
    OK(MPI_T_event_handle_free(registrations[which], &told[which], at_end));
    CHECK_EQ(ended[which], 0);
    CHECK_EQ(MPI_T_event_handle_free(registrations[which], NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
    running[which] = 0;
}

/* Waits until another thread has freed the registration. */
static void waits(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                  void *user_data) {
    (void)event, (void)registration, (void)safety, (void)user_data;
    inside = 1;
    while (!free_returned) {
        usleep(100);
    }
    usleep(1000);
    CHECK_EQ(freed_by_other, 0);
}

static void at_other_end(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data) {
    (void)safety, (void)user_data;
    CHECK(registration == registrations[0]);
    freed_by_other++;
}

static void *other_thread(void *nothing) {
    while (!inside) {
        usleep(100);
    }
    OK(MPI_T_event_handle_free(registrations[0], NULL, at_other_end));
    free_returned = 1;
    return nothing;
}

int main(int argc, char **argv) {
    int provided, index;
    pthread_t thread;
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_T_event_get_index("weft_error_raised", &index));

    for (int i = 0; i < 2; i++) {
        OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registrations[i]));
        OK(MPI_T_event_register_callback(registrations[i], MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &told[i], frees));
    }
    MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
    CHECK_EQ(told[0] + told[1], 1);
    CHECK(ended[0] == 1 && ended[1] == 1);

    OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registrations[0]));
    OK(MPI_T_event_register_callback(registrations[0], MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, waits));
    CHECK_EQ(pthread_create(&thread, NULL, other_thread, NULL), 0);
    MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(freed_by_other, 1);

    MPI_Finalize();
    OK(MPI_T_finalize());
    return 0;
}
