/* As coll_writes, with ranks that share nodes: the ranks that lead nodes write to each other's memory, within
 * nodes messages go through shared memory.
 *
 * ranks: 4 5 7
 * variants: hosts tcp-hosts verbs-hosts
 * env: WEFT_COLL=rdma=on
 * timeout: 40
 */
#define LEADERS
#include "coll_writes.c"
