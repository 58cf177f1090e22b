//! The benchmarks by name.

use clap::ValueEnum;

use crate::mpi::Shape;

/// The unit of the first number of a benchmark's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds, less is better.
    Microseconds,
    /// Milliseconds, less is better.
    Milliseconds,
    /// Millions of bytes per second, more is better.
    MegabytesPerSecond,
}

/// A function and the arguments of a collective benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub function: &'static str,
    pub shape: Shape,
}

/// Defines the benchmarks: first those with a program of their own (the unit of their value,
/// whether it depends on a message size, what OSU's name stands for), then collective functions.
macro_rules! benchmarks {
    (programs { $($(#[$attribute:meta])* $name:ident: $unit:expr, $has_sizes:literal,
                  $meaning:literal;)* }
     collectives { $($form:ident: $function:literal, $shape:ident;)* }) => {
        /// A benchmark, by OSU's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
        #[value(rename_all = "snake_case")]
        pub enum Name {
            $($(#[$attribute])* $name,)*
            $($form,)*
        }

        impl Name {
            /// Returns the unit of the first value; `None` where there is no number to compare.
            pub fn unit(self) -> Option<Unit> {
                match self {
                    $(Self::$name => $unit,)*
                    _ => Some(Unit::Microseconds),
                }
            }

            /// Returns whether the result depends on a message size.
            pub fn has_sizes(self) -> bool {
                match self {
                    $(Self::$name => $has_sizes,)*
                    _ => !matches!(self, Self::Barrier | Self::Ibarrier),
                }
            }

            /// Returns what OSU's name stands for.
            pub fn explanation(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                    _ => "time of a call",
                }
            }

            /// Returns the function of a collective benchmark.
            pub fn form(self) -> Option<Form> {
                let (function, shape) = match self {
                    $(Self::$form => ($function, Shape::$shape),)*
                    _ => return None,
                };
                Some(Form { function, shape })
            }
        }
    };
}

const US: Option<Unit> = Some(Unit::Microseconds);
const MS: Option<Unit> = Some(Unit::Milliseconds);
const RATE: Option<Unit> = Some(Unit::MegabytesPerSecond);

benchmarks! {
    programs {
        Latency: US, true, "half the time of a ping-pong";
        Bw: RATE, true, "bandwidth, windows of messages one way";
        Bibw: RATE, true, "bandwidth in both directions at once";
        MbwMr: RATE, true, "bandwidth of pairs of ranks";
        MbwMrMt: RATE, true, "bandwidth of pairs of threads";
        MultiLat: US, true, "half the time of ping-pongs of several pairs";
        PutLatency: US, true, "MPI_Put and flush";
        GetLatency: US, true, "MPI_Get and flush";
        PutBw: RATE, true, "windows of MPI_Put, then a flush";
        GetBw: RATE, true, "windows of MPI_Get, then a flush";
        AccLatency: US, true, "MPI_Accumulate and flush";
        GetAccLatency: US, true, "MPI_Get_accumulate and flush";
        FopLatency: US, false, "MPI_Fetch_and_op and flush";
        CasLatency: US, false, "MPI_Compare_and_swap and flush";
        NotifyLatency: US, true, "half the time of a ping-pong of MPIX_Put_notify";
        Partitioned: US, true, "64 partitions that threads mark ready, until they are acknowledged";
        Init: MS, false, "time of MPI_Init";
        Hello: None, false, "MPI_Init and MPI_Finalize only";
        Locks: None, false, "locks of VCIs in calls with MPI_THREAD_MULTIPLE";
        CommDup: None, false, "time of MPI_Comm_dup by number of VCIs";
        #[value(name = "rma-model")]
        RmaModel: None, false, "cost models of one-sided calls: functions of bytes, ranks, neighbours";
        Breakdown: None, false, "time of sends, receives and puts by layer, and models made of it; needs \
                                 a library with the feature breakdown";
        BreakdownMt: None, false, "time of windows of messages by layer and by number of threads";
        #[value(name = "rma-patterns")]
        RmaPatterns: None, false, "queues and a hash table at a rank that computes";
        #[value(name = "rma-random")]
        RmaRandom: None, false, "put, get, atomics and a Bloom filter at random places of all ranks";
        #[value(name = "rma-sort")]
        RmaSort: None, false, "a bucket sort of random keys by atomics and puts";
        Writes: None, false, "collectives by writes beside messages, over a network (WEFT_SHM=0)";
    }
    collectives {
        Barrier: "MPI_Barrier", Barrier;
        Bcast: "MPI_Bcast", Bcast;
        Allreduce: "MPI_Allreduce", Allreduce;
        Reduce: "MPI_Reduce", Reduce;
        Allgather: "MPI_Allgather", Exchange;
        Alltoall: "MPI_Alltoall", Exchange;
        Gather: "MPI_Gather", Rooted;
        Scatter: "MPI_Scatter", Rooted;
        ReduceScatter: "MPI_Reduce_scatter", ReduceScatter;
        Allgatherv: "MPI_Allgatherv", Allgatherv;
        Alltoallv: "MPI_Alltoallv", Alltoallv;
        Alltoallw: "MPI_Alltoallw", Alltoallw;
        Gatherv: "MPI_Gatherv", Gatherv;
        Scatterv: "MPI_Scatterv", Scatterv;
        Ibarrier: "MPI_Ibarrier", Barrier;
        Ibcast: "MPI_Ibcast", Bcast;
        Iallgather: "MPI_Iallgather", Exchange;
        Iallgatherv: "MPI_Iallgatherv", Allgatherv;
        Iallreduce: "MPI_Iallreduce", Allreduce;
        Ialltoall: "MPI_Ialltoall", Exchange;
        Ialltoallv: "MPI_Ialltoallv", Alltoallv;
        Ialltoallw: "MPI_Ialltoallw", Alltoallw;
        Igather: "MPI_Igather", Rooted;
        Igatherv: "MPI_Igatherv", Gatherv;
        Ireduce: "MPI_Ireduce", Reduce;
        IreduceScatter: "MPI_Ireduce_scatter", ReduceScatter;
        Iscatter: "MPI_Iscatter", Rooted;
        Iscatterv: "MPI_Iscatterv", Scatterv;
        NeighborAllgather: "MPI_Neighbor_allgather", Exchange;
        NeighborAllgatherv: "MPI_Neighbor_allgatherv", Allgatherv;
        NeighborAlltoall: "MPI_Neighbor_alltoall", Exchange;
        NeighborAlltoallv: "MPI_Neighbor_alltoallv", Alltoallv;
        NeighborAlltoallw: "MPI_Neighbor_alltoallw", NeighborAlltoallw;
        IneighborAllgather: "MPI_Ineighbor_allgather", Exchange;
        IneighborAllgatherv: "MPI_Ineighbor_allgatherv", Allgatherv;
        IneighborAlltoall: "MPI_Ineighbor_alltoall", Exchange;
        IneighborAlltoallv: "MPI_Ineighbor_alltoallv", Alltoallv;
        IneighborAlltoallw: "MPI_Ineighbor_alltoallw", NeighborAlltoallw;
    }
}

impl Name {
    /// Returns whether it takes a round trip between the ranks at least: data and its completion.
    pub fn is_round_trip(self) -> bool {
        self.is_one_sided() && self.unit() == US && self != Self::NotifyLatency
    }

    /// Returns whether it measures one-sided communication.
    pub fn is_one_sided(self) -> bool {
        matches!(
            self,
            Self::PutLatency
                | Self::GetLatency
                | Self::PutBw
                | Self::GetBw
                | Self::AccLatency
                | Self::GetAccLatency
                | Self::FopLatency
                | Self::CasLatency
                | Self::NotifyLatency
        )
    }

    /// Returns whether each rank has several threads that communicate.
    pub fn has_threads(self) -> bool {
        matches!(
            self,
            Self::MbwMrMt | Self::Partitioned | Self::BreakdownMt | Self::CommDup | Self::Locks
        )
    }

    /// Returns the line of the command's help.
    pub fn about(self) -> String {
        match self.form() {
            Some(form) => form.about(),
            None => self.explanation().to_owned(),
        }
    }

    /// Returns the name as it is written on the command line.
    pub fn text(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Form {
    /// Returns whether the function is blocking.
    pub fn waits(&self) -> bool {
        !self.function.starts_with("MPI_I")
    }

    /// Returns whether ranks communicate with their neighbours in a ring alone.
    pub fn is_neighbour(&self) -> bool {
        self.function.contains("eighbor")
    }

    fn about(&self) -> String {
        let root = match self.shape {
            Shape::Bcast | Shape::Rooted | Shape::Reduce | Shape::Gatherv | Shape::Scatterv => {
                ", root rank 0"
            }
            _ => "",
        };
        let what = match self.shape {
            Shape::Barrier | Shape::Bcast => "",
            Shape::ReduceScatter => " of floats, sum, of which the size is the whole vector",
            Shape::Allreduce | Shape::Reduce => " of floats, sum",
            _ if self.is_neighbour() => " in a ring; the size is one block",
            _ => "; the size is one block",
        };
        let overlap = match self.waits() {
            true => "",
            false => "; with the overlap of communication and computation",
        };
        format!("{}{root}{what}{overlap}", self.function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_osus() {
        let names: Vec<String> = Name::value_variants()
            .iter()
            .map(|name| name.text())
            .collect();
        for name in ["latency", "mbw_mr", "multi_lat", "reduce_scatter", "bibw"] {
            assert!(
                names.iter().any(|known| known == name),
                "{name} is missing in {names:?}"
            );
        }
        for name in Name::value_variants() {
            if let Some(form) = name.form() {
                assert!(
                    form.function.to_lowercase().ends_with(&name.text()),
                    "{form:?}"
                );
            }
        }
    }
}
