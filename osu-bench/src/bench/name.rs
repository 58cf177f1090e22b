//! The benchmarks by name.

use clap::ValueEnum;

/// A benchmark, by OSU's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Name {
    Latency,
    Bw,
    Bibw,
    MbwMr,
    MbwMrMt,
    MultiLat,
    Barrier,
    Bcast,
    Allreduce,
    Reduce,
    Allgather,
    Alltoall,
    Gather,
    Scatter,
    ReduceScatter,
    Allgatherv,
    Alltoallv,
    Alltoallw,
    Gatherv,
    Scatterv,
    Ibarrier,
    Ibcast,
    Iallgather,
    Iallgatherv,
    Iallreduce,
    Ialltoall,
    Ialltoallv,
    Ialltoallw,
    Igather,
    Igatherv,
    Ireduce,
    IreduceScatter,
    Iscatter,
    Iscatterv,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
    NeighborAlltoallw,
    IneighborAllgather,
    IneighborAllgatherv,
    IneighborAlltoall,
    IneighborAlltoallv,
    IneighborAlltoallw,
    PutLatency,
    GetLatency,
    PutBw,
    GetBw,
    AccLatency,
    GetAccLatency,
    FopLatency,
    CasLatency,
    Partitioned,
    Init,
    Hello,
    RmaModel,
}

/// What the first number of a benchmark's output means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds, less is better.
    Microseconds,
    /// Milliseconds, less is better.
    Milliseconds,
    /// Millions of bytes per second, more is better.
    MegabytesPerSecond,
}

impl Name {
    /// What the benchmark's first value means; `None` where there is no number to compare.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Self::Bw | Self::Bibw | Self::MbwMr | Self::MbwMrMt | Self::PutBw | Self::GetBw => {
                Some(Unit::MegabytesPerSecond)
            }
            Self::Init => Some(Unit::Milliseconds),
            Self::Hello | Self::RmaModel => None,
            _ => Some(Unit::Microseconds),
        }
    }

    /// Whether it takes a round trip between the ranks at least: data and the word that it is there.
    pub fn is_round_trip(self) -> bool {
        matches!(
            self,
            Self::PutLatency
                | Self::GetLatency
                | Self::AccLatency
                | Self::GetAccLatency
                | Self::FopLatency
                | Self::CasLatency
        )
    }

    /// Whether its result depends on a message size.
    pub fn has_sizes(self) -> bool {
        let fixed = matches!(
            self,
            Self::Barrier
                | Self::Ibarrier
                | Self::FopLatency
                | Self::CasLatency
                | Self::Init
                | Self::Hello
                | Self::RmaModel
        );
        !fixed
    }

    /// What OSU's name stands for.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Latency => "half the time of a ping-pong",
            Self::MultiLat => "half the time of ping-pongs of several pairs",
            Self::Bw => "bandwidth, windows of messages one way",
            Self::Bibw => "bandwidth in both directions at once",
            Self::MbwMr => "bandwidth of pairs of ranks",
            Self::MbwMrMt => "bandwidth of pairs of threads",
            Self::PutLatency => "MPI_Put and flush",
            Self::PutBw => "windows of MPI_Put, then a flush",
            Self::GetLatency => "MPI_Get and flush",
            Self::GetBw => "windows of MPI_Get, then a flush",
            Self::AccLatency => "MPI_Accumulate and flush",
            Self::GetAccLatency => "MPI_Get_accumulate and flush",
            Self::FopLatency => "MPI_Fetch_and_op and flush",
            Self::CasLatency => "MPI_Compare_and_swap and flush",
            Self::Init => "time of MPI_Init",
            _ => "time of a call",
        }
    }

    /// The name as it is written on the command line.
    pub fn text(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
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
    }
}
