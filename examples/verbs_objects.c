/*
 * Sharing an RDMA adapter's objects between threads, without MPI: rates of small writes, memory, and a product of
 * matrices.
 *
 *     cc -O2 -pthread -o verbs_objects verbs_objects.c -libverbs && ./verbs_objects [THREADS [WRITES]]
 *
 * Chapter 3 of R. Zambre's thesis "Exascalable Communication for Modern Supercomputing" (2020): threads share buffers,
 * contexts, protection domains, memory regions, completion queues or queue pairs x-way, with all features of the verbs
 * and without one of them; six categories of channels move the tiles of a product. Writes go to a second device if
 * there is one. Memory is what the driver maps from the device, and other memory by which the process grows.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, DEPTH = 128, LIST = 32, EVERY = 64, BYTES = 2, SIDE = 16, TILE = SIDE * SIDE, TASKS = 64 };
enum { BUFFER, CONTEXT, DOMAIN, REGION, CQ, QP, OBJECTS };
static const char *const names[] = {"buffer", "context", "domain", "region", "cq", "qp"};

/* Posts of one list, the writes for a signalled one, and whether data is inlined. */
struct features {
    const char *name;
    int list, every, is_inline;
};
static const struct features all_features[] = {
    {"all", LIST, EVERY, 1},
    {"no postlist", 1, EVERY, 1},
    {"no inlining", LIST, EVERY, 0},
    {"all signalled", LIST, 1, 1},
};

struct thread {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    double *memory; /* three tiles */
    const struct features *features;
    atomic_long done;
    long writes;
    int is_product;
};

static struct ibv_device *devices[2];
static struct ibv_context *target;
static struct ibv_pd *target_pd;
static struct ibv_mr *target_mr;
static struct ibv_cq *target_cq;
static double *target_memory;
static pthread_barrier_t barrier;

static void fail(const char *what)
{
    fprintf(stderr, "verbs_objects: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *need(void *made, const char *what)
{
    if (!made)
        fail(what);
    return made;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

/* Bytes mapped from devices (index 0) and other memory in use. */
static void memory_in_use(double kib[2])
{
    char line[512];
    FILE *file = need(fopen("/proc/self/smaps", "r"), "smaps");
    int is_device = 0;
    long number;
    unsigned long from, to;
    kib[0] = kib[1] = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            is_device = strstr(line, "infiniband") != NULL;
            kib[0] += is_device ? (to - from) / 1024.0 : 0;
        } else if (!is_device && sscanf(line, "Rss: %ld", &number) == 1)
            kib[1] += number;
    }
    fclose(file);
}

/* The entry of the first port's table of addresses to use: an IPv4 one if there is one. */
static int gid_of(struct ibv_context *context, union ibv_gid *gid)
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
    for (int i = 0; i < 8; i++)
        if (!ibv_query_gid(context, 1, i, gid) && !memcmp(gid->raw, ipv4, 12))
            return i;
    return ibv_query_gid(context, 1, 0, gid) ? -1 : 0;
}

static struct ibv_qp *queue_pair(struct ibv_pd *pd, struct ibv_cq *cq, int sharers)
{
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    init.cap = (struct ibv_qp_cap){DEPTH * sharers, 1, 1, 1, 32};
    return need(ibv_create_qp(pd, &init), "a queue pair");
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
    union ibv_gid own, other;
    struct ibv_port_attr port;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    int index = gid_of(qp->context, &own);
    if (gid_of(peer->context, &other) < 0 || ibv_query_port(peer->context, 1, &port))
        fail("the address of a port");
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer->qp_num;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr = (struct ibv_ah_attr){.port_num = 1, .is_global = 1, .dlid = port.lid};
    attr.ah_attr.grh.dgid = other;
    attr.ah_attr.grh.sgid_index = index;
    attr.ah_attr.grh.hop_limit = 64;
    if (errno || (errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
        fail("connecting");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 16;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    if ((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)))
        fail("connecting");
}

/* Takes ends of posts from the queue, of whichever thread. */
static void poll(struct thread *one)
{
    struct ibv_wc ends[16];
    int n = ibv_poll_cq(one->cq, 16, ends);
    for (int i = 0; i < n; i++) {
        struct thread *of = (struct thread *)(uintptr_t)ends[i].wr_id;
        if (ends[i].status)
            fail(ibv_wc_status_str(ends[i].status));
        atomic_fetch_add(&of->done, of->is_product ? 1 : of->features->every);
    }
}

static void post(struct thread *one, struct ibv_send_wr *first)
{
    struct ibv_send_wr *bad;
    if ((errno = ibv_post_send(one->qp, first, &bad)))
        fail("posting");
}

static void *write_all(void *argument)
{
    struct thread *one = argument;
    struct ibv_send_wr list[LIST];
    struct ibv_sge data = {(uintptr_t)one->memory, BYTES, one->mr->lkey};
    const struct features *how = one->features;
    memset(list, 0, sizeof list);
    for (int i = 0; i < how->list; i++) {
        list[i].wr_id = (uintptr_t)one;
        list[i].next = i + 1 < how->list ? &list[i + 1] : NULL;
        list[i].sg_list = &data;
        list[i].num_sge = 1;
        list[i].opcode = IBV_WR_RDMA_WRITE;
        list[i].wr.rdma.remote_addr = (uintptr_t)target_memory;
        list[i].wr.rdma.rkey = target_mr->rkey;
    }
    pthread_barrier_wait(&barrier);
    for (long sent = 0; sent < one->writes; sent += how->list) {
        while (sent + how->list - atomic_load(&one->done) > DEPTH)
            poll(one);
        for (int i = 0; i < how->list; i++)
            list[i].send_flags = ((sent + i + 1) % how->every ? 0 : IBV_SEND_SIGNALED) |
                                 (how->is_inline ? IBV_SEND_INLINE : 0);
        post(one, list);
    }
    while (atomic_load(&one->done) < one->writes)
        poll(one);
    return NULL;
}

static void move(struct thread *one, enum ibv_wr_opcode opcode, int tile, long of)
{
    struct ibv_sge data = {(uintptr_t)(one->memory + tile * TILE), TILE * 8, one->mr->lkey};
    struct ibv_send_wr work = {.wr_id = (uintptr_t)one, .sg_list = &data, .num_sge = 1, .opcode = opcode};
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.rdma.remote_addr = (uintptr_t)(target_memory + of * TILE);
    work.wr.rdma.rkey = target_mr->rkey;
    post(one, &work);
}

/* Reads two tiles, multiplies and writes the product, again and again. */
static void *multiply_all(void *argument)
{
    struct thread *one = argument;
    double *a = one->memory, *b = a + TILE, *c = b + TILE;
    pthread_barrier_wait(&barrier);
    for (long task = 0, moved = 0; task < one->writes; task++) {
        move(one, IBV_WR_RDMA_READ, 0, 0);
        move(one, IBV_WR_RDMA_READ, 1, 1);
        for (moved += 2; atomic_load(&one->done) < moved;)
            poll(one);
        memset(c, 0, TILE * 8);
        for (int i = 0; i < SIDE; i++)
            for (int k = 0; k < SIDE; k++)
                for (int j = 0; j < SIDE; j++)
                    c[i * SIDE + j] += a[i * SIDE + k] * b[k * SIDE + j];
        move(one, IBV_WR_RDMA_WRITE, 2, 2);
        for (moved++; atomic_load(&one->done) < moved;)
            poll(one);
    }
    return NULL;
}

/* A domain with a hardware doorbell of its own; NULL if the device has none. */
static struct ibv_pd *thread_domain(struct ibv_context *context, struct ibv_pd *pd)
{
    struct ibv_td_init_attr td = {0};
    struct ibv_parent_domain_init_attr parent = {.pd = pd};
    parent.td = ibv_alloc_td(context, &td);
    return parent.td ? ibv_alloc_parent_domain(context, &parent) : NULL;
}

/*
 * Runs threads that share each object by so many; returns the rate of a second, or 0 if the device has no thread
 * domains. Objects stay until the end of the process, which is one of its own for each measurement.
 */
static double run(int threads, const int shared[OBJECTS], int domains, const struct features *how, long writes,
                  int is_product, double kib[2])
{
    static struct thread all[MOST];
    pthread_t ids[MOST];
    double before[2];
    memory_in_use(before);
    for (int i = 0; i < threads; i++) {
        struct thread *one = &all[i];
        int first[OBJECTS];
        for (int o = 0; o < OBJECTS; o++)
            first[o] = i / shared[o] * shared[o];
        one->context = first[CONTEXT] < i ? all[first[CONTEXT]].context
                                          : need(ibv_open_device(devices[0]), "a context");
        one->pd = first[DOMAIN] < i ? all[first[DOMAIN]].pd : need(ibv_alloc_pd(one->context), "a domain");
        one->memory = first[BUFFER] < i ? all[first[BUFFER]].memory : aligned_alloc(4096, 8192);
        one->mr = first[REGION] < i ? all[first[REGION]].mr : ibv_reg_mr(one->pd, need(one->memory, "memory"), 8192,
                                                                         IBV_ACCESS_LOCAL_WRITE);
        one->cq = first[CQ] < i ? all[first[CQ]].cq : ibv_create_cq(one->context, 2 * DEPTH * shared[CQ], NULL, NULL, 0);
        need(one->mr, "a memory region");
        need(one->cq, "a completion queue");
        struct ibv_pd *pd = one->pd;
        for (int d = 0; d < domains; d++)
            if (!(pd = thread_domain(one->context, one->pd)))
                return 0;
        one->qp = first[QP] < i ? all[first[QP]].qp : queue_pair(pd, one->cq, shared[QP]);
        one->features = how;
        one->writes = writes;
        one->is_product = is_product;
    }
    memory_in_use(kib);
    for (int m = 0; m < 2; m++)
        kib[m] -= before[m];
    for (int i = 0; i < threads; i += shared[QP]) {
        struct ibv_qp *other = queue_pair(target_pd, target_cq, 1);
        connect_to(all[i].qp, other);
        connect_to(other, all[i].qp);
    }
    pthread_barrier_init(&barrier, NULL, threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, is_product ? multiply_all : write_all, &all[i]))
            fail("a thread");
    pthread_barrier_wait(&barrier);
    double start = now();
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    double took = now() - start;
    /* Element 0 of a product of ones. */
    if (is_product && target_memory[2 * TILE] != SIDE)
        fail("a wrong product");
    return threads * writes / took;
}

/* A measurement. */
struct job {
    enum { WRITES, PRODUCT, COSTS } kind;
    int threads, shared[OBJECTS], domains;
    const struct features *how;
    long writes;
};

struct result {
    double rate, kib[3][2]; /* of all, or of a context, a completion queue, a queue pair */
};

static void open_target(void)
{
    target = need(ibv_open_device(devices[1]), "the target");
    target_pd = need(ibv_alloc_pd(target), "a domain");
    target_memory = need(aligned_alloc(4096, 8192), "memory");
    for (int i = 0; i < 2 * TILE; i++)
        target_memory[i] = 1;
    target_mr = need(ibv_reg_mr(target_pd, target_memory, 8192,
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
                     "a memory region");
    target_cq = need(ibv_create_cq(target, 16, NULL, NULL, 0), "a completion queue");
}

/* Makes some objects of each kind. */
static void count_memory(struct result *result)
{
    enum { COUNT = 8 };
    double before[2], after[2];
    struct ibv_context *context = NULL;
    struct ibv_cq *cq = NULL;
    struct ibv_pd *pd = NULL;
    for (int kind = 0; kind < 3; kind++) {
        memory_in_use(before);
        for (int i = 0; i < COUNT; i++)
            if (kind == 0)
                context = need(ibv_open_device(devices[0]), "a context");
            else if (kind == 1)
                cq = need(ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0), "a completion queue");
            else
                queue_pair(pd ? pd : (pd = need(ibv_alloc_pd(context), "a domain")), cq, 1);
        memory_in_use(after);
        for (int m = 0; m < 2; m++)
            result->kib[kind][m] = (after[m] - before[m]) / COUNT;
    }
}

/* Runs in a process of its own, so that objects of other measurements don't count. */
static struct result measure(const struct job *job)
{
    struct result *result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status, count;
    fflush(stdout);
    pid_t child = fork();
    if (result == MAP_FAILED || child < 0)
        fail("a process");
    if (child == 0) {
        struct ibv_device **list = ibv_get_device_list(&count);
        if (!list || count == 0) {
            fprintf(stderr, "verbs_objects: there is no RDMA device\n");
            _exit(1);
        }
        devices[0] = list[0];
        devices[1] = list[count > 1];
        open_target();
        if (job->kind == COSTS)
            count_memory(result);
        else
            result->rate = run(job->threads, job->shared, job->domains, job->how, job->writes, job->kind == PRODUCT,
                               result->kib[0]);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status)
        exit(1);
    struct result found = *result;
    munmap(result, sizeof *result);
    return found;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    long writes = (argc > 2 ? atol(argv[2]) : 16384) / EVERY * EVERY;
    if (threads < 1 || threads > MOST || writes < EVERY) {
        fprintf(stderr, "usage: verbs_objects [THREADS (1 to %d) [WRITES (%d or more)]]\n", MOST, EVERY);
        return 2;
    }
    printf("# %d threads, %ld writes of %d bytes each; queues of %d, lists of %d, one of %d signalled; writes a second\n",
           threads, writes, BYTES, DEPTH, LIST, EVERY);
    for (int object = 0; object < OBJECTS; object++)
        for (int way = 1; way <= threads; way += way < threads ? threads - 1 : 1) {
            struct job job = {WRITES, threads, {1, 1, 1, 1, 1, 1}, 0, all_features, writes};
            struct result found = {0};
            job.shared[object] = way;
            /* Those who share a domain, region or queue have one context; a region is of one buffer. */
            if (object >= DOMAIN)
                job.shared[CONTEXT] = threads;
            if (object >= REGION)
                job.shared[DOMAIN] = threads;
            if (object == REGION)
                job.shared[BUFFER] = way;
            if (object == QP)
                job.shared[CQ] = way;
            printf("%s %d-way:", names[object], way);
            for (int f = 0; f < 4; f++) {
                job.how = &all_features[f];
                found = measure(&job);
                printf("%s %s %.0f", f ? "," : "", job.how->name, found.rate);
            }
            printf("; memory %.0f KiB of the device, %.0f others\n", found.kib[0][0], found.kib[0][1]);
        }
    struct job costs = {.kind = COSTS};
    struct result one = measure(&costs);
    for (int kind = 0; kind < 3; kind++)
        printf("memory of a %s: %.0f KiB of the device, %.0f others\n",
               (const char *[]){"context", "completion queue", "queue pair"}[kind], one.kib[kind][0], one.kib[kind][1]);
    for (int category = 0; category < 5; category++) {
        static const char *const categories[] = {"context each", "2xdynamic", "dynamic", "static", "one queue pair"};
        int all = category ? threads : 1, queue = category == 4 ? threads : 1;
        struct job job = {WRITES, threads, {1, all, all, 1, queue, queue}, 0, all_features, writes};
        job.domains = category == 1 ? 2 : category == 2;
        struct result found = measure(&job);
        job.kind = PRODUCT;
        job.writes = TASKS;
        double products = measure(&job).rate;
        if (found.rate == 0)
            printf("category %s: the device has no thread domains\n", categories[category]);
        else
            printf("category %s: %.0f writes/s, %.0f tile products/s, %.0f KiB of the device\n", categories[category],
                   found.rate, products, found.kib[0][0]);
    }
    return 0;
}
