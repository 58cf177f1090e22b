//! The datagram with a rank's state (sent by `tools/weft-profile/src/watch.rs`).

/// The state of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It is not in MPI.
    Computing,
    /// It is in this function, for these nanoseconds.
    In(String, u64),
    /// It has left `MPI_Finalize`.
    Finalized,
}

/// A rank's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub rank: u32,
    pub size: u32,
    /// Whether the job was spawned by another one, so that the rank is of another `MPI_COMM_WORLD`.
    pub spawned: bool,
    pub host: String,
    pub pid: u32,
    pub doing: Doing,
    /// The partner of the call: "from 3", "2 requests, first MPI_Irecv from 3".
    pub partner: String,
    /// The rank of `MPI_COMM_WORLD` that it waits for, if that is a single one.
    pub peer: Option<u32>,
    pub tag: String,
    pub comm: String,
    pub calls: u64,
    pub bytes: u64,
    /// Nanoseconds in MPI of all threads, including calls in progress.
    pub inside: u64,
    /// Nanoseconds since `MPI_Init`.
    pub elapsed: u64,
    /// Threads that have called MPI.
    pub threads: u64,
}

/// Parses a datagram. Returns `None` if it is malformed or has another job's token.
pub fn read(bytes: &[u8], token: &str) -> Option<Message> {
    let text = std::str::from_utf8(bytes).ok()?;
    // Any host may send datagrams: control characters must not reach the terminal.
    if text.chars().any(|one| one.is_control() && one != '\t') {
        return None;
    }
    let mut fields = text.split('\t');
    let mut next = || fields.next();
    if next()? != "weft-top 1" || next()? != token {
        return None;
    }
    let rank = next()?.parse().ok()?;
    let size = next()?.parse().ok()?;
    let spawned = next()? == "1";
    let host = next()?.to_owned();
    let pid = next()?.parse().ok()?;
    let (what, lasts) = (next()?, next()?.parse().ok()?);
    let doing = match what {
        "" => Doing::Computing,
        "finalized" => Doing::Finalized,
        name => Doing::In(name.to_owned(), lasts),
    };
    let partner = next()?.to_owned();
    let peer = next()?.parse().ok();
    let (tag, comm) = (next()?.to_owned(), next()?.to_owned());
    let mut number = || next()?.parse().ok();
    Some(Message {
        rank,
        size,
        spawned,
        host,
        pid,
        doing,
        partner,
        peer,
        tag,
        comm,
        calls: number()?,
        bytes: number()?,
        inside: number()?,
        elapsed: number()?,
        threads: number()?,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A rank in a function, or computing for an empty name.
    pub fn of(rank: u32, function: &str, seconds: u64, peer: Option<u32>) -> Message {
        let from = peer.map(|peer| format!("from {peer}")).unwrap_or_default();
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        let text = format!(
            "weft-top 1\tx\t{rank}\t4\t0\tnode\t{}\t{function}\t{}\t{from}\t{peer}\t7\tMPI_COMM_WORLD\t10\t80\t5\t9\t1",
            100 + rank,
            seconds * 1_000_000_000
        );
        read(text.as_bytes(), "x").unwrap()
    }

    #[test]
    fn only_what_is_ours_is_read() {
        let message = of(2, "MPI_Recv", 3, Some(1));
        assert_eq!(
            message.doing,
            Doing::In("MPI_Recv".to_owned(), 3_000_000_000)
        );
        assert_eq!((message.peer, message.tag.as_str()), (Some(1), "7"));
        assert_eq!(of(2, "", 0, None).doing, Doing::Computing);
        let text = "weft-top 1\tx\t0\t1\t0\tn\t5\t\t0\t\t\t\t\t1\t2\t3\t4\t1";
        assert!(read(text.as_bytes(), "x").is_some());
        assert_eq!(read(text.as_bytes(), "y"), None);
        assert_eq!(read(&text.as_bytes()[..30], "x"), None);
        let escape = text.replace("\tn\t", "\tn\x1b[2J\t");
        assert_eq!(read(escape.as_bytes(), "x"), None);
        assert_eq!(read(b"\xff\xfe", "x"), None);
    }
}
