//! The buffers of a call.

use crate::abi::abi;
use crate::calls::{Call, ParamKind};

/// A buffer argument of a call.
pub struct Use {
    /// The address.
    pub buffer: usize,
    /// Number of elements.
    pub count: u64,
    /// The datatype's handle.
    pub datatype: usize,
    /// Whether the call writes to it.
    pub written: bool,
}

/// Returns the buffers of a call. `comm` is this process's rank, the size, and whether it is an
/// intercommunicator.
pub fn uses(call: Call<'_>, comm: Option<(i32, usize, bool)>) -> Vec<Use> {
    let name = call
        .base()
        .trim_start_matches("MPI_")
        .trim_end_matches("_init");
    let name = name.strip_prefix('I').unwrap_or(name).to_lowercase();
    let moves = [
        "send",
        "bsend",
        "ssend",
        "rsend",
        "recv",
        "mrecv",
        "sendrecv",
        "file_iread",
        "file_iwrite",
    ];
    let is_message = moves.contains(&name.as_str())
        || call.base().starts_with("MPI_File_i")
        || call.base() == "MPI_Mrecv";
    let (rank, size, inter) = comm.unwrap_or((0, 1, false));
    if inter && !is_message {
        return Vec::new();
    }
    let root = call.number("root");
    let is_root = root.is_none_or(|root| root == i64::from(rank));
    let blocks = |buffer: &str| match (name.as_str(), buffer) {
        ("gather" | "allgather", "recvbuf")
        | ("scatter", "sendbuf")
        | ("alltoall", _)
        | ("reduce_scatter_block", "sendbuf") => size as u64,
        _ => 1,
    };
    let significant = |buffer: &str| match (name.as_str(), buffer) {
        ("gather" | "reduce", "recvbuf") | ("scatter", "sendbuf") => is_root,
        _ => true,
    };
    let known = [
        "bcast",
        "reduce",
        "allreduce",
        "scan",
        "exscan",
        "gather",
        "scatter",
        "allgather",
        "alltoall",
        "reduce_scatter_block",
    ];
    if !is_message && !known.contains(&name.as_str()) {
        return Vec::new();
    }
    let triples = [
        ("buf", "count", "datatype"),
        ("buffer", "count", "datatype"),
        ("sendbuf", "sendcount", "sendtype"),
        ("recvbuf", "recvcount", "recvtype"),
        ("sendbuf", "count", "datatype"),
        ("recvbuf", "count", "datatype"),
        ("sendbuf", "recvcount", "datatype"),
        ("recvbuf", "recvcount", "datatype"),
    ];
    let nobody = |name: &str| call.number(name) == Some(i64::from(abi().proc_null));
    let mut uses: Vec<Use> = Vec::new();
    for (buffer, count, datatype) in triples {
        let unused = match buffer {
            "sendbuf" => nobody("dest"),
            "recvbuf" => nobody("source"),
            _ => nobody("dest") || nobody("source"),
        };
        if unused {
            continue;
        }
        let (Some(place), Some(number), Some(datatype)) = (
            call.function.place(buffer),
            call.number(count),
            call.handle(datatype),
        ) else {
            continue;
        };
        let param = &call.function.params[place];
        let address = call.args[place];
        let is_known = uses.iter().any(|other| other.buffer == address);
        if is_known
            || abi().is_in_place(address)
            || !significant(buffer)
            || param.kind != Some(ParamKind::Buffer)
        {
            continue;
        }
        uses.push(Use {
            buffer: address,
            count: u64::try_from(number).unwrap_or(0) * blocks(buffer),
            datatype,
            written: if name == "bcast" {
                !is_root
            } else {
                param.written
            },
        });
    }
    uses
}
