/* As coll_trees.c, with nodes of two ranks for what goes by nodes.
 *
 * ranks: 4 5 8
 * variants: shm
 * timeout: 60
 * env: WEFT_COLL_NODE=2
 * env: WEFT_COLL=bcast=chain:1000,gather=linear,scatter=linear,allgather=ring,alltoall=pairwise:2
 */
#include "coll_data.c"
