/* ranks: 1 2
 * variants: shm
 */
/* Events of the tool interface (MPI-4.1 section 15.3.8). */
#include "fails.h"

#define T_FAILS(call, code) CHECK_EQ(call, code)

static int errors, comms, frees, class_, size, last[3];
static MPI_T_event_registration on_errors, on_comms;
static MPI_T_event_instance kept;

static void told(MPI_T_event_instance event, MPI_T_event_registration registration,
                 MPI_T_cb_safety safety, void *user_data) {
    MPI_Count time, now;
    int source = -1;
    CHECK_EQ(safety, MPI_T_CB_REQUIRE_NONE);
    OK(MPI_T_event_get_timestamp(event, &time));
    OK(MPI_T_event_get_source(event, &source));
    OK(MPI_T_source_get_timestamp(source, &now));
    CHECK(time >= 0 && now >= time);
    if (user_data == &errors) {
        CHECK(registration == on_errors);
        errors++;
        OK(MPI_T_event_read(event, 0, &class_));
        T_FAILS(MPI_T_event_read(event, 1, &class_), MPI_T_ERR_INVALID_INDEX);
        T_FAILS(MPI_T_event_read(event, 0, NULL), MPI_T_ERR_INVALID);
        T_FAILS(MPI_T_event_read(NULL, 0, &class_), MPI_T_ERR_INVALID_HANDLE);
    } else {
        CHECK(registration == on_comms && user_data == &comms);
        comms++;
        OK(MPI_T_event_copy(event, last));
        T_FAILS(MPI_T_event_copy(event, NULL), MPI_T_ERR_INVALID);
    }
    kept = event;
}

static void freed(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data) {
    CHECK(registration == on_comms && safety == MPI_T_CB_REQUIRE_NONE && user_data == &frees);
    frees++;
}

static void dropped(MPI_Count count, MPI_T_event_registration registration, int source,
                    MPI_T_cb_safety safety, void *user_data) {
    (void)count, (void)registration, (void)source, (void)safety, (void)user_data;
    CHECK(0);
}

/* Also for handles that are good in callbacks only. */
static void not_initialised(void) {
    MPI_Count time;
    int source, data[3];
    T_FAILS(MPI_T_event_read(kept, 0, data), MPI_T_ERR_NOT_INITIALIZED);
    T_FAILS(MPI_T_event_copy(kept, data), MPI_T_ERR_NOT_INITIALIZED);
    T_FAILS(MPI_T_event_get_timestamp(kept, &time), MPI_T_ERR_NOT_INITIALIZED);
    T_FAILS(MPI_T_event_get_source(kept, &source), MPI_T_ERR_NOT_INITIALIZED);
}

int main(int argc, char **argv) {
    int provided, count, index, comm_index, length, elements, bind, verbosity, found = 0;
    char name[64];
    MPI_Datatype types[4];
    MPI_Aint displacements[4];
    MPI_T_enum enumtype;
    MPI_Info info;
    T_FAILS(MPI_T_event_get_num(&count), MPI_T_ERR_NOT_INITIALIZED);
    not_initialised();
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_event_get_num(&count));
    CHECK(count >= 2);
    for (int i = 0; i < count; i++) {
        length = sizeof name;
        elements = 4;
        OK(MPI_T_event_get_info(i, name, &length, &verbosity, types, displacements, &elements,
                                &enumtype, &info, NULL, NULL, &bind));
        OK(MPI_Info_free(&info));
        OK(MPI_T_event_get_index(name, &index));
        CHECK(index == i && elements >= 1 && types[0] == MPI_INT && displacements[0] == 0);
        CHECK(bind == MPI_T_BIND_NO_OBJECT && enumtype == MPI_T_ENUM_NULL);
    }
    OK(MPI_T_event_get_index("weft_error_raised", &index));
    OK(MPI_T_event_get_index("weft_comm_created", &comm_index));
    T_FAILS(MPI_T_event_get_index("nothing", &index), MPI_T_ERR_INVALID_NAME);
    T_FAILS(MPI_T_event_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                 NULL), MPI_T_ERR_INVALID_INDEX);
    OK(MPI_T_event_get_index("weft_error_raised", &index));

    MPI_T_source_order order;
    MPI_Count ticks, most;
    OK(MPI_T_source_get_num(&count));
    CHECK_EQ(count, 1);
    length = sizeof name;
    OK(MPI_T_source_get_info(0, name, &length, NULL, NULL, &order, &ticks, &most, NULL));
    CHECK(order == MPI_T_SOURCE_ORDERED && ticks == 1000000000 && most > ticks);
    T_FAILS(MPI_T_source_get_info(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_source_get_timestamp(-1, &ticks), MPI_T_ERR_INVALID_INDEX);

    int categories;
    OK(MPI_T_category_get_num(&categories));
    for (int i = 0; i < categories; i++) {
        int in_it, indices[8];
        OK(MPI_T_category_get_num_events(i, &in_it));
        CHECK(in_it <= 8);
        OK(MPI_T_category_get_events(i, 8, indices));
        for (int j = 0; j < in_it; j++) {
            found += indices[j] == index || indices[j] == comm_index;
        }
    }
    CHECK_EQ(found, 2);
    T_FAILS(MPI_T_category_get_num_events(categories, &found), MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_category_get_events(-1, 0, NULL), MPI_T_ERR_INVALID_INDEX);

    OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &on_errors));
    OK(MPI_T_event_handle_alloc(comm_index, NULL, MPI_INFO_NULL, &on_comms));
    T_FAILS(MPI_T_event_handle_alloc(77, NULL, MPI_INFO_NULL, &on_comms), MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, NULL), MPI_T_ERR_INVALID);
    OK(MPI_T_event_register_callback(on_errors, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, &errors,
                                     told));
    OK(MPI_T_event_register_callback(on_comms, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &comms, told));
    T_FAILS(MPI_T_event_register_callback(on_comms, 9, MPI_INFO_NULL, &comms, told), MPI_T_ERR_INVALID);
    T_FAILS(MPI_T_event_register_callback(NULL, 0, MPI_INFO_NULL, &comms, told),
            MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_event_set_dropped_handler(on_errors, dropped));
    T_FAILS(MPI_T_event_set_dropped_handler(NULL, dropped), MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_event_handle_set_info(on_errors, MPI_INFO_NULL));
    T_FAILS(MPI_T_event_handle_set_info(on_errors, 12345), MPI_T_ERR_INVALID);
    OK(MPI_T_event_handle_get_info(on_errors, &info));
    OK(MPI_Info_free(&info));
    OK(MPI_T_event_callback_set_info(on_errors, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL));
    T_FAILS(MPI_T_event_callback_set_info(on_errors, -1, MPI_INFO_NULL), MPI_T_ERR_INVALID);
    OK(MPI_T_event_callback_get_info(on_errors, MPI_T_CB_REQUIRE_NONE, &info));
    OK(MPI_Info_free(&info));
    T_FAILS(MPI_T_event_callback_get_info(NULL, 0, &info), MPI_T_ERR_INVALID_HANDLE);

    MPI_Init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    size = world_size();
    MPI_Comm copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(comms == 1 && last[0] == copy && last[1] == world_rank() && last[2] == size);
    FAILS(MPI_Send(NULL, 0, MPI_INT, 0, -3, copy), MPI_ERR_TAG);
    CHECK(errors == 1 && class_ == MPI_ERR_TAG);
    /* A handle of an event is good in its callback only. */
    T_FAILS(MPI_T_event_read(kept, 0, &class_), MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_Comm_free(&copy));
    OK(MPI_T_event_handle_free(on_comms, &frees, freed));
    CHECK_EQ(frees, 1);
    T_FAILS(MPI_T_event_handle_free(on_comms, &frees, freed), MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_free(&copy));
    CHECK(comms == 1 && frees == 1);
    OK(MPI_T_event_register_callback(on_errors, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL,
                                     NULL));
    FAILS(MPI_Send(NULL, 0, MPI_INT, 0, -3, MPI_COMM_WORLD), MPI_ERR_TAG);
    CHECK_EQ(errors, 1);
    OK(MPI_T_event_handle_free(on_errors, NULL, NULL));
    MPI_Finalize();
    OK(MPI_T_finalize());
    T_FAILS(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &on_comms), MPI_T_ERR_NOT_INITIALIZED);
    not_initialised();
    return 0;
}
