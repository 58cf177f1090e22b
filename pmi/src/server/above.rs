//! A server for the ranks of one host, below another one that knows all.
//!
//! Values that ranks put are kept here and sent to the server above when all local ranks have come
//! to a fence; the others' values arrive with the fence's end. Questions about the key-value space
//! are answered here. Names and other requests that concern other hosts are passed on unchanged.

use super::{Action, Server};

/// A key and its value, as they travelled.
pub type Pair = (Vec<u8>, Vec<u8>);

/// State of a server below another one.
#[derive(Debug)]
pub(super) struct Above {
    /// Values put since the last fence.
    fresh: Vec<Pair>,
    /// Whether the fence has been reported to the server above.
    is_reported: bool,
    /// Lines of the current block, for each rank.
    blocks: Vec<Vec<u8>>,
}

/// Longest block of lines (a spawn request), in bytes.
pub const LONGEST_BLOCK: usize = 16 << 20;

/// Commands that are passed to the server above.
const PASSED_UP: &[&[u8]] = &[
    b"publish_name",
    b"unpublish_name",
    b"lookup_name",
    b"spawn",
    b"weft_still",
    b"weft_spawn_end",
];

impl Server {
    /// Makes this the server of a part of a job.
    pub fn below(mut self) -> Server {
        self.above = Some(Above {
            fresh: Vec::new(),
            is_reported: false,
            blocks: vec![Vec::new(); self.ranks.len()],
        });
        self
    }

    /// Records a value for the server above.
    pub(super) fn keep_for_above(&mut self, key: &[u8], value: &[u8]) {
        if let Some(above) = &mut self.above {
            above.fresh.push((key.to_vec(), value.to_vec()));
        }
    }

    /// Passes a line on if it is for the server above. Returns whether it is.
    pub(super) fn pass_on(
        &mut self,
        rank: usize,
        command: &[u8],
        line: &[u8],
        actions: &mut Vec<Action>,
    ) -> bool {
        let its = self.above.is_some() && PASSED_UP.contains(&command);
        if its {
            let line = [line, b"\n"].concat();
            actions.push(Action::Up { rank, line });
        }
        its
    }

    /// Collects the lines of a block, and passes it on at its end. Returns `false` if there is no
    /// server above.
    pub(super) fn pass_block_on(
        &mut self,
        rank: usize,
        line: &[u8],
        ends: bool,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(above) = &mut self.above else {
            return false;
        };
        let block = &mut above.blocks[rank];
        if block.len() + line.len() >= LONGEST_BLOCK {
            block.clear();
            actions.push(Action::Violation {
                rank,
                detail: format!("a block of more than {LONGEST_BLOCK} bytes"),
            });
            return true;
        }
        block.extend_from_slice(line);
        block.push(b'\n');
        if ends {
            let line = std::mem::take(block);
            actions.push(Action::Up { rank, line });
        }
        true
    }

    /// Reports once to the server above that all local ranks have come to the fence. Returns
    /// `false` if there is none.
    pub(super) fn report_fence_above(&mut self, actions: &mut Vec<Action>) -> bool {
        let Some(above) = &mut self.above else {
            return false;
        };
        if !std::mem::replace(&mut above.is_reported, true) {
            let pairs = std::mem::take(&mut above.fresh);
            actions.push(Action::Fence { pairs });
        }
        true
    }

    /// Ends a fence to which all ranks of the job have come, with the values that they have put.
    pub fn release(&mut self, pairs: impl IntoIterator<Item = Pair>, actions: &mut Vec<Action>) {
        self.keys.extend(pairs);
        if let Some(above) = &mut self.above
            && std::mem::take(&mut above.is_reported)
        {
            self.release_barrier(actions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(server: &mut Server, rank: usize, text: &str) -> Vec<Action> {
        let mut actions = Vec::new();
        server.receive(rank, text.as_bytes(), &mut actions);
        actions
    }

    fn answer(rank: usize, text: &str) -> Action {
        Action::Send {
            rank,
            line: format!("{text}\n").into_bytes(),
        }
    }

    #[test]
    fn a_fence_goes_up_once_and_ends_with_what_others_put() {
        let mut server = Server::new("k", &[0, 0]).below();
        let put = say(&mut server, 0, "cmd=put kvsname=k key=a value=x\\ y\n");
        assert_eq!(put, [answer(0, "cmd=put_result rc=0 msg=success")]);
        assert_eq!(say(&mut server, 0, "cmd=barrier_in\n"), []);
        let pairs = vec![(b"a".to_vec(), b"x\\ y".to_vec())];
        assert_eq!(
            say(&mut server, 1, "cmd=barrier_in\n"),
            [Action::Fence { pairs }]
        );
        assert_eq!(server.waiting(), 2);
        let mut actions = Vec::new();
        server.release([(b"b".to_vec(), b"z".to_vec())], &mut actions);
        let out = |rank| answer(rank, "cmd=barrier_out rc=0");
        assert_eq!(actions, [out(0), out(1)]);
        let got = say(&mut server, 1, "cmd=get kvsname=k key=b\n");
        assert_eq!(got, [answer(1, "cmd=get_result rc=0 msg=success value=z")]);
        // The next fence does not repeat earlier values.
        say(&mut server, 0, "cmd=barrier_in\n");
        let pairs = vec![];
        assert_eq!(
            say(&mut server, 1, "cmd=barrier_in\n"),
            [Action::Fence { pairs }]
        );
    }

    #[test]
    fn a_rank_that_is_gone_is_not_waited_for() {
        let mut server = Server::new("k", &[0, 0]).below();
        say(&mut server, 0, "cmd=barrier_in\n");
        let mut actions = Vec::new();
        server.lose(1, &mut actions);
        assert_eq!(actions, [Action::Fence { pairs: vec![] }]);
    }

    #[test]
    fn names_and_blocks_go_up() {
        let mut server = Server::new("k", &[0]).below();
        server.set_universe(Some(7));
        let line = "cmd=publish_name service=s port=p\n";
        let up = |line: &str| Action::Up {
            rank: 0,
            line: line.into(),
        };
        assert_eq!(say(&mut server, 0, line), [up(line)]);
        let block = "mcmd=spawn\nnprocs=2\nendcmd\n";
        assert_eq!(say(&mut server, 0, block), [up(block)]);
        let size = say(&mut server, 0, "cmd=get_universe_size\n");
        assert_eq!(size, [answer(0, "cmd=universe_size rc=0 size=7")]);
    }
}
