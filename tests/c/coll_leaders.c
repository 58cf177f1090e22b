/* Runs coll_writes with ranks that share nodes: the nodes' leaders write to each other's memory, and messages within a
 * node use shared memory.
 *
 * ranks: 4 5 7
 * variants: hosts tcp-hosts verbs-hosts
 * env: WEFT_COLL=rdma=on
 * timeout: 40
 */
#define LEADERS
#include "coll_writes.c"
