/* Reductions within nodes of three ranks and between nodes.
 *
 * ranks: 4 7 8
 * variants: shm
 * timeout: 60
 * env: WEFT_COLL_NODE=3
 * env: WEFT_COLL=nodes=on
 */
#include "coll_reduce.c"
