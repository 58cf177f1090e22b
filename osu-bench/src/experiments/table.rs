//! The table: an entry for each figure, table or experiment of the documents.

use super::Need::{Breakdown, Intel, Rdma};
use super::summary::Summary::{self, Ends, Lines, Part, Ratios};
use super::{Experiment, Need, Run};

/// Letters of the documents and their titles.
pub const DOCUMENTS: &[(&str, &str)] = &[
    (
        "Z",
        "Zambre 2020: Exascalable Communication for Modern Supercomputing",
    ),
    (
        "F",
        "Gerstenberger, Besta, Hoefler: Enabling Highly Scalable RMA Programming with MPI-3 One Sided",
    ),
    (
        "G",
        "Gupta 2002: Efficient Collective Communication using Remote Memory Operations",
    ),
    (
        "D",
        "Brock 2022: RDMA-Based Distributed Data Structures, and BCL 2019",
    ),
];

/// The remark of experiments whose rates need a larger machine, and whose ratios do not.
const CORES: &str = "the document's rates, which need a core for each worker";
/// The remark of experiments with an application's communication alone.
const PATTERN: &str = "the application: this is its communication alone";
/// The remark of experiments with a ratio to something that Weft has in another form.
const OWN_LOCKS: &str = "locks of classes of objects: Weft's finest are those of VCIs";
/// The remark of experiments whose reference is a program that is not here.
const REFERENCE: &str = "the document's reference: the ratio is to the same by messages";
/// The remark of experiments over the software's RDMA device in the virtual machine.
const SOFTWARE: &str =
    "the document's times, which need an RDMA adapter and a core for each worker";
/// The remark of experiments whose algorithms run on processors here.
const GPUS: &str = "the document's rates, which are those of GPUs";
/// The remark of experiments whose rates show nothing on the software's RDMA device.
const ADAPTER: &str =
    "rates need an adapter and a core for each thread: Soft-RoCE posts by system calls";
/// Remarks that leave an experiment reproduced.
pub const REMARKS: &[&str] = &["", CORES, PATTERN, OWN_LOCKS, REFERENCE, SOFTWARE, GPUS];

/// Returns a command that runs everywhere.
const fn run(command: &'static str, summary: Summary) -> Run {
    with(&[], command, summary)
}

/// Returns a command that needs something of the machine.
const fn with(needs: &'static [Need], command: &'static str, summary: Summary) -> Run {
    Run {
        needs,
        command,
        summary,
    }
}

/// All experiments, in the documents' order.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "Z2.7",
        place: "figures 2.7, 2.10 to 2.12",
        shows: "Where the time to inject a message goes: MPI, protocol, driver",
        seed: "Post 202 ns of 265: MPI 24, UCP 2, driver 175; progress and rest 63",
        runs: &[
            with(
                &[Breakdown],
                "mpiexec -n 2 osu-bench breakdown --budget 100",
                Lines(&["Isend  ", "Wait, sent  "]),
            ),
            with(
                &[Breakdown],
                "mpiexec -genv WEFT_SHM 0 -n 2 osu-bench breakdown --budget 100",
                Lines(&["Isend  ", "Wait, sent  "]),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "Z2.8",
        place: "table 2.1, figure 2.8",
        shows: "Parts of the driver's post",
        seed: "descriptor 28 ns, barriers 38, PIO copy 94, other 15: 175",
        runs: &[],
        lacks: "needs a driver below verbs that can be instrumented (mlx5dv on a ConnectX)",
    },
    Experiment {
        name: "Z2.10",
        place: "table 2.2, figure 2.10",
        shows: "MPI_Isend and MPI_Wait by layer",
        seed: "Isend: MPI 24 ns, UCP 2; Wait of a receive: MPI 293, UCP 151",
        runs: &[
            with(
                &[Breakdown],
                "mpiexec -n 2 osu-bench breakdown --budget 100",
                Lines(&["Isend, alone", "Wait, received, alone"]),
            ),
            with(
                &[Breakdown],
                "mpiexec -genv WEFT_SHM 0 -n 2 osu-bench breakdown --budget 100",
                Lines(&["Isend, alone", "Wait, received, alone"]),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "Z2.5",
        place: "equations 2.1 to 2.6, figure 2.9",
        shows: "Model of the injection overhead against the measurement",
        seed: "264.97 ns modelled, 263.91 measured: 1 %; driver alone within 5 %",
        runs: &[
            with(
                &[Breakdown],
                "mpiexec -n 2 osu-bench breakdown --budget 100",
                Lines(&["injection", "in flight"]),
            ),
            with(
                &[Breakdown],
                "mpiexec -genv WEFT_SHM 0 -n 2 osu-bench breakdown --budget 100",
                Lines(&["injection", "in flight"]),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "Z2.14",
        place: "table 2.3, figures 2.14 to 2.16",
        shows: "Model of the latency against the measurement, by CPU, I/O and network",
        seed: "1387 ns modelled, 1336 measured: 4 %",
        runs: &[
            with(
                &[Breakdown],
                "mpiexec -bind-to none -n 2 osu-bench breakdown --budget 100",
                Lines(&["latency"]),
            ),
            with(
                &[Breakdown],
                "mpiexec -bind-to none -genv WEFT_SHM 0 -n 2 osu-bench breakdown --budget 100",
                Lines(&["latency"]),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "Z2.17",
        place: "figures 2.17 and 2.18",
        shows: "What a cheaper part would gain",
        seed: "a post that costs 84 % less in PIO: 25 % of injection, 5 % of latency",
        runs: &[
            with(
                &[Breakdown],
                "mpiexec -bind-to none -n 2 osu-bench breakdown --budget 100",
                Lines(&["what-if core", "what-if system"]),
            ),
            with(
                &[Breakdown],
                "mpiexec -bind-to none -genv WEFT_SHM 0 -n 2 osu-bench breakdown --budget 100",
                Lines(&["what-if core", "what-if system"]),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "Z2.0",
        place: "section 2.5, footnote 1",
        shows: "Message rate without the acknowledgement after each window",
        seed: "264 ns a message",
        runs: &[
            run(
                "mpiexec -n 2 osu-bench mbw_mr --sizes 8 --budget 100",
                Ends("Messages/s"),
            ),
            run(
                "mpiexec -n 2 osu-bench mbw_mr --no-ack --sizes 8 --budget 100",
                Ends("Messages/s"),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "Z2.20",
        place: "section 2.8",
        shows: "The model with several threads",
        seed: "named as future work",
        runs: &[
            with(
                &[Breakdown],
                "mpiexec -n 2 osu-bench breakdown_mt -t 4 --budget 100",
                Lines(&["injection"]),
            ),
            with(
                &[Breakdown],
                "mpiexec -genv WEFT_SHM 0 -n 2 osu-bench breakdown_mt -t 4 --budget 100",
                Lines(&["injection"]),
            ),
        ],
        lacks: CORES,
    },
    Experiment {
        name: "Z3.4",
        place: "figure 3.4",
        shows: "Rate and resources by number of threads, a context each",
        seed: "16 threads: 144 UARs, 288 uUARs, 1.39 MB",
        runs: &[with(
            &[Rdma],
            "osu-bench verbs-sharing -t 4 -i 20000 --level context",
            Lines(&["context"]),
        )],
        lacks: "rates need a core per thread and an adapter",
    },
    Experiment {
        name: "Z3.6",
        place: "figures 3.6 to 3.12",
        shows: "Objects shared x-way by 16 threads: buffer, context, domain, region, completion queue, queue pair",
        seed: "16-way: context 1.15 times slower, completion queue 18 times, queue pair worst; buffers only without inlining",
        runs: &[with(
            &[Rdma],
            "verbs_objects 4 2048",
            Lines(&[
                "buffer",
                "context 4",
                "domain 4",
                "region 4",
                "cq 4",
                "qp 4",
            ]),
        )],
        lacks: ADAPTER,
    },
    Experiment {
        name: "Z3.8",
        place: "figures 3.4, 3.6 to 3.12 (curves)",
        shows: "All features, and without postlist, inlining, unsignalled completions, BlueFlame",
        seed: "p = 32, q = 64 are fastest; without postlist the sharing shows",
        runs: &[with(
            &[Rdma],
            "verbs_objects 4 2048",
            Lines(&["context 1-", "qp"]),
        )],
        lacks: "BlueFlame is ConnectX's (MLX5_SHUT_UP_BF=1), and Soft-RoCE's times are the kernel's",
    },
    Experiment {
        name: "Z3.13",
        place: "table 3.2",
        shows: "Six categories of channels: rate and resources",
        seed: "2xDynamic 100 % of the rate with 31 % of the hardware resources; Dynamic 94 and 19; Static 64 and 6; one queue pair 3 and 6",
        runs: &[with(
            &[Rdma],
            "osu-bench verbs-sharing -t 4 -i 20000",
            Lines(&["context", "2x-domain", "domain", "uar", "qp"]),
        )],
        lacks: "no Shared Dynamic, which the verbs have no call for (needs mlx5dv); rates need an adapter with thread domains",
    },
    Experiment {
        name: "Z3.2",
        place: "table 3.1, figures 3.2 to 3.13 (right)",
        shows: "UARs, uUARs, queues and memory in use, and waste",
        seed: "a context 256 KiB, a queue pair 80, a completion queue 9; 93.75 % of the uUARs of a context are idle",
        runs: &[with(&[Rdma], "verbs_objects 4 2048", Lines(&["memory of"]))],
        lacks: "idle uUARs are shown on ConnectX adapters only, by osu-bench verbs-sharing",
    },
    Experiment {
        name: "Z3.12",
        place: "figure 3.13",
        shows: "Global-array DGEMM over the channels",
        seed: "as table 3.2",
        runs: &[with(&[Rdma], "verbs_objects 4 2048", Lines(&["category"]))],
        lacks: ADAPTER,
    },
    Experiment {
        name: "Z3.14",
        place: "figure 3.14",
        shows: "UCX: one context, a worker for each thread",
        seed: "a worker each is as fast as processes",
        runs: &[run(
            "osu-bench vci-rate --budget 50 --tcp --env WEFT_NETMOD=ucx",
            Ratios(&["each-on1", "each-on-n"], "processes"),
        )],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.2",
        place: "figures 4.2 and 4.3",
        shows: "Fine-grained locks against a global one",
        seed: "16.7 % slower with one thread, faster with 16",
        runs: &[run(
            "osu-bench vci-ablation --budget 100",
            Ratios(&["one-vci"], "one-vci-global"),
        )],
        lacks: OWN_LOCKS,
    },
    Experiment {
        name: "Z4.7",
        place: "figures 4.7 to 4.9",
        shows: "Rate without progress per VCI, requests per VCI, aligned VCIs",
        seed: "6.97, 39.98 and 1.49 times lower with 16 threads",
        runs: &[run(
            "osu-bench vci-ablation --budget 100",
            Ratios(&["no-vci-progress", "no-vci-requests"], "all"),
        )],
        lacks: "the alignment can't be switched off",
    },
    Experiment {
        name: "Z4.1",
        place: "table 4.1",
        shows: "Locks on the critical path",
        seed: "Isend 1, immediate 1, Put 1, Wait 2, immediate 0",
        runs: &[run("mpiexec -n 2 osu-bench locks", Lines(&["Isend"]))],
        lacks: "",
    },
    Experiment {
        name: "Z4.4",
        place: "figure 4.4",
        shows: "MPI_Init, and MPI_Comm_dup, by number of VCIs",
        seed: "grows with the number",
        runs: &[
            run(
                "mpiexec -genv WEFT_NUM_VCIS 1 -n 2 osu-bench init",
                Lines(&["nprocs"]),
            ),
            run(
                "mpiexec -genv WEFT_NUM_VCIS 64 -n 2 osu-bench init",
                Lines(&["nprocs"]),
            ),
            run("mpiexec -n 2 osu-bench comm_dup", Ends("first (us)")),
            run("mpiexec -n 2 osu-bench comm_dup", Ends("next (us)")),
        ],
        lacks: "",
    },
    Experiment {
        name: "Z4.10",
        place: "figures 4.5 and 4.10",
        shows: "8-byte MPI_Isend rate by number of workers",
        seed: "16 threads with a VCI each: 94 times the original, as fast as processes",
        runs: &[run(
            "osu-bench vci-rate --netns --budget 50 --repeat 2",
            Ratios(
                &["one-on1", "each-on1", "one-on-n", "each-on-n"],
                "processes",
            ),
        )],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.11",
        place: "figure 4.11",
        shows: "MPI_Isend rate by size",
        seed: "threads reach processes as messages grow",
        runs: &[run(
            "osu-bench vci-rate --netns --budget 50 --repeat 1 -t 1 --sizes 8,512,4096,32768",
            Ratios(&["one-on1", "each-on-n"], "processes"),
        )],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.12",
        place: "figures 4.12 and 4.13",
        shows: "MPI_Put rate by number of workers and by size",
        seed: "as fast as processes where the adapter puts by itself",
        runs: &[
            run(
                "osu-bench vci-rate --put --netns --budget 50 --repeat 2",
                Ratios(&["one-on1", "each-on-n"], "processes"),
            ),
            run(
                "osu-bench vci-rate --put --netns --budget 50 --repeat 1 -t 1 --sizes 8,512,4096,32768",
                Ratios(&["one-on1", "each-on-n"], "processes"),
            ),
        ],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.14",
        place: "figures 4.14 and 4.15",
        shows: "Puts to a busy target, and MPI_Win_free by all threads at once",
        seed: "the rate falls as the target computes longer",
        runs: &[
            run(
                "osu-bench busy-target -t 2 --netns --budget 50 --repeat 2",
                Ends("each-on-n"),
            ),
            run(
                "osu-bench busy-target -t 2 --netns --budget 50 --repeat 2",
                Part("MPI_Win_free, us", &["each-on-n", "endpoints"], "processes"),
            ),
        ],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.16",
        place: "figure 4.16",
        shows: "Cost of thread safety",
        seed: "without locks and atomics as fast as processes",
        runs: &[run(
            "osu-bench vci-ablation --budget 100",
            Ratios(&["all", "lockless"], "processes"),
        )],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.17",
        place: "figures 4.17 and 4.19",
        shows: "Halo exchange of a 2D 5-point stencil",
        seed: "threads with a VCI each as fast as processes",
        runs: &[run(
            "osu-bench stencil --netns --budget 50 --repeat 2",
            Ratios(&["each-on-n", "one-on-n", "endpoints"], "processes"),
        )],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.18",
        place: "figures 4.18 and 6.1, section 5.3.1",
        shows: "Odd and even, and ideal communicators of a stencil; many communicators on few VCIs",
        seed: "808 communicators for 3D",
        runs: &[
            run(
                "osu-bench stencil --netns --budget 50 --repeat 2",
                Ratios(&["odd-even", "ideal", "ideal-on2"], "each-on-n"),
            ),
            run(
                "osu-bench stencil --3d --netns --budget 50 --repeat 2",
                Ratios(&["ideal", "ideal-on2"], "each-on-n"),
            ),
        ],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.20",
        place: "figures 4.20 to 4.22",
        shows: "EBMS: MPI_Get and flush of bands",
        seed: "get as fast as processes, flush slower where the target must help",
        runs: &[
            run(
                "osu-bench ebms --netns --budget 50 --repeat 2",
                Ratios(&["one-on1", "one-on-n", "each-on-n"], "processes"),
            ),
            run(
                "osu-bench ebms --netns --budget 50 --repeat 2",
                Part(
                    "get, us",
                    &["one-on1", "one-on-n", "each-on-n"],
                    "processes",
                ),
            ),
            run(
                "osu-bench ebms --netns --budget 50 --repeat 2",
                Part(
                    "flush, us",
                    &["one-on1", "one-on-n", "each-on-n"],
                    "processes",
                ),
            ),
        ],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.23",
        place: "figures 4.23 to 4.25",
        shows: "BSPMM: get, multiply, accumulate",
        seed: "gets as fast as processes; accumulates only with accumulate_ordering=none",
        runs: &[
            run(
                "osu-bench bspmm --netns --budget 50 --repeat 2",
                Ratios(&["one-on1", "one-on-n", "each-on-n"], "processes"),
            ),
            run(
                "osu-bench bspmm --netns --budget 50 --repeat 2",
                Part(
                    "get, us",
                    &["one-on1", "one-on-n", "each-on-n"],
                    "processes",
                ),
            ),
            run(
                "osu-bench bspmm --netns --budget 50 --repeat 2",
                Part(
                    "accumulate, us",
                    &["one-on1", "one-on-n", "each-on-n"],
                    "processes",
                ),
            ),
        ],
        lacks: CORES,
    },
    Experiment {
        name: "Z4.26",
        place: "figure 4.26",
        shows: "VCIs against Intel MPI's endpoints: messages per second of threads with a communicator each",
        seed: "VCIs are faster",
        runs: &[
            run(
                "osu-bench vci-rate --tcp --budget 50 --repeat 2",
                Ends("each-on-n"),
            ),
            with(
                &[Intel],
                "osu-bench vci-rate --tcp --budget 50 --repeat 2 --lib INTEL --env I_MPI_THREAD_SPLIT=1 --env I_MPI_THREAD_RUNTIME=generic --env I_MPI_THREAD_MAX=2",
                Ends("each-on-n"),
            ),
        ],
        lacks: CORES,
    },
    Experiment {
        name: "Z5.1",
        place: "figures 5.1 and 5.2",
        shows: "All ways to show parallelism side by side",
        seed: "equal in a message rate benchmark",
        runs: &[run(
            "osu-bench vci-rate --netns --budget 50 --repeat 2",
            Ratios(
                &[
                    "one-on-n",
                    "each-on-n",
                    "endpoints",
                    "threadcomm",
                    "streams",
                ],
                "processes",
            ),
        )],
        lacks: CORES,
    },
    Experiment {
        name: "Z5.4",
        place: "figures 5.4 to 5.6",
        shows: "hypre with communicators, tags, endpoints",
        seed: "tags and endpoints best",
        runs: &[run(
            "osu-bench stencil --3d --netns --budget 50 --repeat 2",
            Ratios(&["one-on1", "ideal", "one-on-n", "endpoints"], "processes"),
        )],
        lacks: PATTERN,
    },
    Experiment {
        name: "Z5.3",
        place: "figures 5.3 and 5.7",
        shows: "Uintah by processes and threads",
        seed: "threads faster than processes with parallel communication",
        runs: &[run(
            "osu-bench stencil --3d --netns --budget 50 --repeat 2",
            Ratios(&["one-on1", "one-on-n"], "processes"),
        )],
        lacks: PATTERN,
    },
    Experiment {
        name: "Z5.8",
        place: "figures 5.8 to 5.12",
        shows: "WOMBAT: put, get and a signal",
        seed: "MPI time 90 % less with VCIs; 13 % faster in all",
        runs: &[
            run(
                "osu-bench wombat -t 2 --netns --budget 50 --repeat 1",
                Ratios(
                    &["one-on1", "one-on-n", "each-on-n", "endpoints"],
                    "processes",
                ),
            ),
            run(
                "osu-bench wombat -t 2 --netns --budget 50 --repeat 1",
                Part("put, us", &["one-on1", "each-on-n"], "processes"),
            ),
        ],
        lacks: PATTERN,
    },
    Experiment {
        name: "Z5.13",
        place: "figures 5.13 to 5.15",
        shows: "Legion, Circuit: time of the polling thread for an event",
        seed: "2.62 times faster",
        runs: &[run(
            "osu-bench legion --netns --budget 50 --repeat 2",
            Part(
                "receive, us",
                &["each-on-n", "overtaking", "endpoints"],
                "one-on1",
            ),
        )],
        lacks: PATTERN,
    },
    Experiment {
        name: "Z5.6",
        place: "figures 5.6 and 5.11",
        shows: "MPI volume of a node by processes and by threads",
        seed: "70 % less; 50 % fewer puts",
        runs: &[
            run(
                "osu-bench stencil -t 8 --budget 10 --repeat 1",
                Part(
                    "MPI bytes of a side in a round",
                    &["each-on-n"],
                    "processes",
                ),
            ),
            run(
                "osu-bench wombat -t 2 --budget 10 --repeat 1",
                Part("MPI puts of a side in a round", &["each-on-n"], "processes"),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "Z6.2",
        place: "figure 6.2",
        shows: "Collectives by endpoints against communicators with a reduction by hand (each-on-n)",
        seed: "left to be investigated",
        runs: &[run(
            "osu-bench thread-allreduce --netns --budget 50 --repeat 2",
            Ratios(&["each-on-n", "endpoints", "threadcomm"], "processes"),
        )],
        lacks: CORES,
    },
    Experiment {
        name: "F2",
        place: "section 3: P_put … P_sync",
        shows: "Costs as functions of bytes and ranks",
        seed: "put 1 us + 0.16 ns s, get 1.9 us + 0.17 ns s, lock 2.7 to 5.4 us, flush 76 ns, sync 17 ns",
        runs: &[run(
            "mpiexec -n 2 osu-bench rma-model",
            Lines(&["P_put", "P_get ", "P_lock", "P_flush", "P_sync"]),
        )],
        lacks: "",
    },
    Experiment {
        name: "F4c",
        place: "figure 4c, section 3.2",
        shows: "Post, start, complete and wait apart; where fence is cheaper",
        seed: "post = complete = 350 ns k, start 0.7 us, wait 1.8 us",
        runs: &[run(
            "mpiexec -n 2 osu-bench rma-model",
            Lines(&[
                "P_post",
                "P_start",
                "P_complete",
                "P_wait",
                "P_fence",
                "fence",
            ]),
        )],
        lacks: "",
    },
    Experiment {
        name: "F3a",
        place: "figure 3a",
        shows: "Put latency by size",
        seed: "1 us + 0.16 ns s",
        runs: &[run(
            "mpiexec -n 2 osu-bench put_latency -m 8:1048576 --budget 20",
            Ends(""),
        )],
        lacks: "",
    },
    Experiment {
        name: "F3b",
        place: "figure 3b",
        shows: "Overlap of computing with put",
        seed: "by size, to above 90 %",
        runs: &[
            run(
                "mpiexec -genv WEFT_SHM 0 -n 2 osu-bench rma-model",
                Lines(&["overlap"]),
            ),
            with(
                &[Rdma],
                "mpiexec -genv WEFT_SHM 0 -genv WEFT_NETMOD verbs -n 2 osu-bench rma-model --budget 20",
                Lines(&["overlap"]),
            ),
        ],
        lacks: "an adapter that writes while the origin computes: a socket is copied to in the call, and Soft-RoCE works on the same processors",
    },
    Experiment {
        name: "F3c",
        place: "figure 3c",
        shows: "1,000 puts without synchronization",
        seed: "416 ns a put of 8 bytes",
        runs: &[run(
            "mpiexec -n 2 osu-bench rma-model",
            Lines(&["puts, no flush"]),
        )],
        lacks: "",
    },
    Experiment {
        name: "F4a",
        place: "figure 4a",
        shows: "SUM, MIN and CAS by size",
        seed: "sum 2.4 us + 28 ns s, min 7.3 us + 0.8 ns s, CAS 2.4 us",
        runs: &[run(
            "mpiexec -n 2 osu-bench rma-model",
            Lines(&["P_accumulate", "P_acc, min", "P_compare_and_swap"]),
        )],
        lacks: "",
    },
    Experiment {
        name: "F4b",
        place: "figures 4b and 4c",
        shows: "Fence and a ring of PSCW by number of ranks",
        seed: "fence 2.9 us log2 p; PSCW constant",
        runs: &[
            run(
                "mpiexec -n 2 osu-bench rma-model",
                Lines(&["P_fence", "P_pscw"]),
            ),
            run(
                "mpiexec -n 4 osu-bench rma-model",
                Lines(&["P_fence", "P_pscw"]),
            ),
            run(
                "mpiexec -n 8 osu-bench rma-model",
                Lines(&["P_fence", "P_pscw"]),
            ),
        ],
        lacks: CORES,
    },
    Experiment {
        name: "F5",
        place: "section 4, figures 5 and 6",
        shows: "3-D FFT, MILC, hash table, sparse exchange",
        seed: "FFT and MILC more than 15 % faster than messages",
        runs: &[
            run("mpiexec -n 2 rma_fft 64", Lines(&["2 ranks"])),
            run("mpiexec -n 2 rma_halo", Lines(&["2 ranks"])),
            run("mpiexec -n 2 rma_hash", Lines(&["2 ranks"])),
            run("mpiexec -n 2 rma_exchange", Lines(&["2 ranks"])),
        ],
        lacks: "",
    },
    Experiment {
        name: "F3",
        place: "section 3",
        shows: "The same over RDMA between two devices",
        seed: "Gemini: put 1 us + 0.16 ns s, get 1.9 us + 0.17 ns s, fence 2.9 us log2 p",
        runs: &[with(
            &[Rdma],
            "mpiexec -genv WEFT_SHM 0 -genv WEFT_NETMOD verbs -n 1 -env WEFT_VERBS_DEVICE rxe0 osu-bench rma-model --budget 20 : -n 1 -env WEFT_VERBS_DEVICE rxe1 osu-bench rma-model --budget 20",
            Lines(&["P_put", "P_get ", "P_fence", "P_compare_and_swap", "P_lock"]),
        )],
        lacks: SOFTWARE,
    },
    Experiment {
        name: "G5.11",
        place: "figures 5.11 and 5.12",
        shows: "Broadcast by block size of 1025 to 4097 bytes",
        seed: "3073 is best, 20 % at 4 B, 14 % at 4608 B",
        runs: &[
            run(
                "mpiexec -genv WEFT_SHM 0 -n 4 osu-bench writes --blocks --budget 20 --sizes 4,1024,4608,8192",
                Lines(&["bcast"]),
            ),
            with(
                &[Rdma],
                "mpiexec -genv WEFT_SHM 0 -genv WEFT_NETMOD verbs -n 4 osu-bench writes --blocks --budget 20 --sizes 4,1024,4608,8192",
                Lines(&["bcast"]),
            ),
        ],
        lacks: SOFTWARE,
    },
    Experiment {
        name: "G5.8",
        place: "figure 5.8",
        shows: "Broadcast with the answer of the last leaf",
        seed: "root's time less the known one-way time",
        runs: &[run(
            "mpiexec -genv WEFT_SHM 0 -n 4 osu-bench writes --budget 20",
            Lines(&["bcast"]),
        )],
        lacks: "",
    },
    Experiment {
        name: "G6.16",
        place: "figures 6.16 and 6.30",
        shows: "Model of the degree-k tree and the degree that it chooses",
        seed: "16 ranks: 3 up to 1 KB, 1 above; 8 ranks: 7, 3, then 1",
        runs: &[run(
            "osu-bench degrees --costs thesis --sizes 4,128,1024,4096",
            Lines(&["| 16 |"]),
        )],
        lacks: "",
    },
    Experiment {
        name: "G6.22",
        place: "figures 6.22 to 6.29",
        shows: "Predicted beside measured time",
        seed: "error up to 8 %",
        runs: &[run(
            "osu-bench degrees --measure 2,3,4 --sizes 4,128,1024,4096",
            Lines(&["error with"]),
        )],
        lacks: CORES,
    },
    Experiment {
        name: "G6.31",
        place: "figures 6.31 to 6.36",
        shows: "Degree-k tree by send and receive: mechanism and algorithm apart",
        seed: "writes alone 24 to 27 % at 4 B, 9 % at 4 KB",
        runs: &[with(
            &[Rdma],
            "mpiexec -genv WEFT_SHM 0 -genv WEFT_NETMOD verbs -n 4 osu-bench writes --budget 20",
            Lines(&["allreduce 4 B", "allreduce 4096 B"]),
        )],
        lacks: SOFTWARE,
    },
    Experiment {
        name: "G4.4",
        place: "sections 4.4, 5.4, 6.5",
        shows: "Writes against messages: barrier, broadcast, allreduce",
        seed: "barrier 0.70, broadcast 0.80 and 0.86, allreduce 0.62 to 0.91",
        runs: &[
            with(
                &[Rdma],
                "mpiexec -genv WEFT_SHM 0 -genv WEFT_NETMOD verbs -n 2 osu-bench writes --budget 10 --sizes 4,4096",
                Lines(&[
                    "barrier",
                    "bcast 4 B",
                    "bcast 4096 B",
                    "allreduce 4 B",
                    "allreduce 4096 B",
                ]),
            ),
            with(
                &[Rdma],
                "mpiexec -genv WEFT_SHM 0 -genv WEFT_NETMOD verbs -n 3 osu-bench writes --budget 10 --sizes 4,4096",
                Lines(&[
                    "barrier",
                    "bcast 4 B",
                    "bcast 4096 B",
                    "allreduce 4 B",
                    "allreduce 4096 B",
                ]),
            ),
            with(
                &[Rdma],
                "mpiexec -genv WEFT_SHM 0 -genv WEFT_NETMOD verbs -n 4 osu-bench writes --budget 10 --sizes 4,4096",
                Lines(&[
                    "barrier",
                    "bcast 4 B",
                    "bcast 4096 B",
                    "allreduce 4 B",
                    "allreduce 4096 B",
                ]),
            ),
        ],
        lacks: SOFTWARE,
    },
    Experiment {
        name: "G4.5",
        place: "figures 4.4, 4.5, 6.17 to 6.21",
        shows: "Latency by number of ranks, powers of two and not",
        seed: "others need two steps more",
        runs: &[run(
            "osu-bench degrees --costs thesis --sizes 4 --most 16",
            Lines(&[
                "| 4 B", "| 2 |", "| 3 |", "| 4 |", "| 6 |", "| 8 |", "| 12 |", "| 16 |",
            ]),
        )],
        lacks: "",
    },
    Experiment {
        name: "D8.6",
        place: "figure 8.6; sections 5.3, 8.4",
        shows: "A push while the target computes: flat, or growing with its computing",
        seed: "active messages grow by half of the computing time, RDMA stays flat, a progress thread costs a constant",
        runs: &[
            run("mpiexec -n 2 osu-bench rma-patterns", Ends("Push")),
            run(
                "mpiexec -genv WEFT_SHM 0 -n 2 osu-bench rma-patterns",
                Ends("Push"),
            ),
            run(
                "mpiexec -genv WEFT_SHM 0 -genv WEFT_ASYNC_PROGRESS 1 -n 2 osu-bench rma-patterns",
                Ends("Push"),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "D8.3",
        place: "table 8.1, figure 8.3",
        shows: "Put, get, CAS and fetch-and-add from all to random places",
        seed: "3.0, 3.7, 3.8 and 3.9 us",
        runs: &[
            run(
                "mpiexec -n 2 osu-bench rma-random --budget 20",
                Ratios(&["Put", "Get", "CAS", "Persistent CAS"], "Fetch and add"),
            ),
            run(
                "mpiexec -genv WEFT_SHM 0 -n 2 osu-bench rma-random --budget 20",
                Ratios(&["Put", "Get", "CAS", "Persistent CAS"], "Fetch and add"),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "D5.4",
        place: "figures 5.4 to 5.6, 8.4",
        shows: "Queues: one or many, push or pop, atomic or not",
        seed: "phasal twice as fast as atomic; one queue 100 times slower",
        runs: &[run(
            "mpiexec -n 4 osu-bench rma-patterns",
            Ratios(&["Push, many", "Atomic push", "Pop", "Pop, many"], "Push"),
        )],
        lacks: CORES,
    },
    Experiment {
        name: "D6.5",
        place: "figures 6.5 and 8.5",
        shows: "Hash table and Bloom filter: insert, find",
        seed: "find of one get cheapest, atomic insert 10.7 us",
        runs: &[
            run("mpiexec -n 2 osu-bench rma-patterns", Ends("Insert")),
            run("mpiexec -n 2 osu-bench rma-patterns", Ends("Find")),
            run(
                "mpiexec -n 2 osu-bench rma-random --budget 20",
                Ratios(&["Bloom insert", "Bloom find"], "Get"),
            ),
        ],
        lacks: "",
    },
    Experiment {
        name: "D5.3",
        place: "figure 5.3",
        shows: "ISx: bucket sort",
        seed: "as fast as SHMEM's reference up to 512 nodes",
        runs: &[
            run("mpiexec -n 1 osu-bench rma-sort", Ends("Million keys/s")),
            run(
                "mpiexec -n 2 osu-bench rma-sort",
                Ratios(&["Million keys/s"], "By messages"),
            ),
        ],
        lacks: REFERENCE,
    },
    Experiment {
        name: "D6.2",
        place: "figures 6.2 to 6.4",
        shows: "Contig generation and k-mer counting",
        seed: "as fast as the UPC reference",
        runs: &[
            run("mpiexec -n 1 rma_kmers", Lines(&["1 ranks"])),
            run("mpiexec -n 2 rma_kmers", Lines(&["2 ranks"])),
        ],
        lacks: REFERENCE,
    },
    Experiment {
        name: "D7.5",
        place: "figures 7.3 to 7.7",
        shows: "Sparse matrices, work stealing",
        seed: "one-sided algorithms faster on GPUs",
        runs: &[
            run("mpiexec -n 2 rma_sparse", Lines(&["2 ranks"])),
            run("mpiexec -n 4 rma_sparse", Lines(&["4 ranks"])),
        ],
        lacks: GPUS,
    },
];
