//! Maps ranks to nodes: the value of `PMI_process_mapping`.
//!
//! `(vector,(START,NODES,PPN),…)` places PPN ranks on each of NODES nodes, from START on; newer
//! launchers also write bare node numbers, one rank each, and `[…]xN` for N repetitions of a list.
//! When the ranks outnumber the vector, it starts again from its front (round-robin placement).

/// Deepest nesting of `[…]`; real ones nest once.
const MAX_DEPTH: u32 = 8;

/// Returns the mapping of `ranks` ranks that all run on node 0.
#[cfg(test)]
pub fn one_node(ranks: u32) -> String {
    format!("(vector,(0,1,{ranks}))")
}

/// Returns the node of each of `size` ranks, or `None` ("unknown") if `text` is empty, malformed or
/// places no rank. Never allocates more than `size` demands.
pub fn parse(text: &str, size: usize) -> Option<Vec<u32>> {
    let list = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let list = list.trim_start().strip_prefix("vector")?.trim_start();
    let list = list.strip_prefix(',')?;

    let mut nodes = Vec::new();
    let mut reader = Reader { rest: list, size };
    reader.list(&mut nodes, 0)?;
    if !reader.rest.is_empty() || nodes.is_empty() {
        return None;
    }
    let period = nodes.len();
    for rank in period..size {
        nodes.push(nodes[rank - period]);
    }
    Some(nodes)
}

struct Reader<'a> {
    rest: &'a str,
    /// Most ranks of interest.
    size: usize,
}

impl Reader<'_> {
    /// Reads `item,item,…`, up to the end of the list.
    fn list(&mut self, nodes: &mut Vec<u32>, depth: u32) -> Option<()> {
        loop {
            self.item(nodes, depth)?;
            if !self.eat(',') {
                return Some(());
            }
        }
    }

    fn item(&mut self, nodes: &mut Vec<u32>, depth: u32) -> Option<()> {
        if self.eat('(') {
            let start = self.number()?;
            let count = self.eat(',').then(|| self.number())??;
            let ppn = self.eat(',').then(|| self.number())??;
            self.eat(')').then_some(())?;
            for node in start..start.checked_add(count)? {
                if nodes.len() >= self.size || ppn == 0 {
                    break;
                }
                self.place(nodes, node, ppn as usize);
            }
        } else if self.eat('[') {
            if depth >= MAX_DEPTH {
                return None;
            }
            let from = nodes.len();
            self.list(nodes, depth + 1)?;
            self.eat(']').then_some(())?;
            let times = if self.eat('x') { self.number()? } else { 1 };
            let until = nodes.len();
            if times == 0 {
                nodes.truncate(from);
            }
            for _ in 1..times {
                let room = self.size.saturating_sub(nodes.len());
                if room == 0 || from == until {
                    break;
                }
                nodes.extend_from_within(from..until.min(from + room));
            }
        } else {
            let node = self.number()?;
            self.place(nodes, node, 1);
        }
        Some(())
    }

    fn place(&self, nodes: &mut Vec<u32>, node: u32, ranks: usize) {
        let room = self.size.saturating_sub(nodes.len());
        nodes.extend(std::iter::repeat_n(node, ranks.min(room)));
    }

    fn number(&mut self) -> Option<u32> {
        self.skip_blanks();
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        digits.parse().ok()
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fill_nodes_in_turn() {
        assert_eq!(parse("(vector,(0,1,4))", 4), Some(vec![0; 4]));
        assert_eq!(
            parse("(vector,(0,2,2),(2,1,1))", 5),
            Some(vec![0, 0, 1, 1, 2])
        );
        assert_eq!(parse(" (vector, (0,2,1)) ", 4), Some(vec![0, 1, 0, 1]));
        assert_eq!(parse("(vector,(0,9,9))", 3), Some(vec![0, 0, 0]));
        assert_eq!(parse(&one_node(3), 3), Some(vec![0; 3]));
    }

    #[test]
    fn newer_forms() {
        assert_eq!(parse("(vector,0,1,1,0)", 4), Some(vec![0, 1, 1, 0]));
        assert_eq!(
            parse("(vector,[0,1]x2,(5,1,2))", 6),
            Some(vec![0, 1, 0, 1, 5, 5])
        );
        assert_eq!(
            parse("(vector,[(0,2,1),[3]x2]x2)", 8),
            Some(vec![0, 1, 3, 3, 0, 1, 3, 3])
        );
    }

    #[test]
    fn unknown_stays_unknown() {
        for text in [
            "",
            "()",
            "(vector)",
            "(vector,)",
            "(vector,(0,1))",
            "(vector,(0,1,1)",
            "(vector,(0,0,1))",
            "(vector,(0,1,0))",
            "(vector,(0,1,1),)",
            "(vector,(4294967295,2,1))",
            "(vector,(0,-1,1))",
            "(vector,[0]x0)",
            "(vector,[[[[[[[[[[[[0]]]]]]]]]]]])",
            "(list,(0,1,1))",
            "(vector,(0,1,1))x",
        ] {
            assert_eq!(parse(text, 2), None, "{text}");
        }
    }

    #[test]
    fn huge_numbers_cost_nothing() {
        let text = "(vector,(0,4294967295,4294967295),[0]x4294967295)";
        assert_eq!(parse(text, 3), Some(vec![0; 3]));
        // Empty blocks may not be walked one node at a time either.
        assert_eq!(
            parse("(vector,(0,4294967295,0),[(0,9,0)]x4294967295)", 1),
            None
        );
    }
}
