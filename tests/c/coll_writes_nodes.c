/* Runs coll_writes_long with ranks that share nodes: the nodes' leaders write to each other's memory.
 *
 * ranks: 4 6
 * variants: hosts tcp-hosts verbs-hosts
 * timeout: 120
 */
#define LEADERS
#include "coll_writes_long.c"
