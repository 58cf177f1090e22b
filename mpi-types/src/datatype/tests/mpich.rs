//! The same random datatypes in Debian's MPICH: sizes, bounds and packed bytes must agree.
//!
//! Needs `mpicc.mpich`.

#![allow(unsafe_code, reason = "buffers of the tests")]

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::naive::{NUMBERS, Tree, tree};
use crate::datatype::{Distribution, Marker, Order, Predefined};

const TYPES: usize = 1000;
/// How many of them one process makes.
const PER_RUN: usize = 100;

/// Whether MPICH and the standard agree on such types. They differ on type maps without data,
/// which MPICH takes for points with bounds or drops with their bounds, and on the alignment of
/// types that it does not know.
fn comparable(tree: &Tree) -> bool {
    match tree {
        Tree::Named(p) => !matches!(p, Predefined::Complex32),
        Tree::Marker(_) => true,
        Tree::Struct(blocks, _, types) => {
            // It also counts markers that appear no times.
            let marker = |(n, t): (&i64, &Tree)| *n == 0 && matches!(t, Tree::Marker(_));
            let absent = blocks.iter().zip(types).any(marker);
            has_data(tree) && !absent && types.iter().all(comparable)
        }
        Tree::Dup(t)
        | Tree::Contiguous(_, t)
        | Tree::Vector(_, _, _, t)
        | Tree::Hvector(_, _, _, t)
        | Tree::Indexed(_, _, t)
        | Tree::Hindexed(_, _, t)
        | Tree::IndexedBlock(_, _, t)
        | Tree::HindexedBlock(_, _, t)
        | Tree::Subarray(_, _, _, _, t)
        | Tree::Darray(_, t)
        | Tree::Resized(_, _, t) => has_data(tree) && comparable(t),
    }
}

fn has_data(tree: &Tree) -> bool {
    !tree.map().entries.is_empty()
}

/// Statements that build `tree`, and the variable it is in.
struct Source {
    text: String,
    /// Statements that free what was made.
    end: String,
    names: usize,
}

impl Source {
    fn list(&mut self, kind: &str, values: &[i64]) -> String {
        self.names += 1;
        let name = format!("l{}", self.names);
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        let values = values.join(",");
        writeln!(self.text, "{kind} {name}[] = {{{values}}};").unwrap();
        name
    }

    fn tree(&mut self, tree: &Tree) -> String {
        let call = match tree {
            Tree::Named(p) => return p.name().to_owned(),
            Tree::Marker(Marker::LowerBound) => return "MPI_LB".to_owned(),
            Tree::Marker(Marker::UpperBound) => return "MPI_UB".to_owned(),
            Tree::Dup(t) => format!("dup({}", self.tree(t)),
            Tree::Contiguous(n, t) => format!("contiguous({n}, {}", self.tree(t)),
            Tree::Vector(n, b, s, t) => format!("vector({n}, {b}, {s}, {}", self.tree(t)),
            Tree::Hvector(n, b, s, t) => {
                format!("create_hvector({n}, {b}, {s}, {}", self.tree(t))
            }
            Tree::Indexed(b, d, t) => {
                let (n, t) = (b.len(), self.tree(t));
                let (b, d) = (self.list("int", b), self.list("int", d));
                format!("indexed({n}, {b}, {d}, {t}")
            }
            Tree::Hindexed(b, d, t) => {
                let (n, t) = (b.len(), self.tree(t));
                let (b, d) = (self.list("int", b), self.list("MPI_Aint", d));
                format!("create_hindexed({n}, {b}, {d}, {t}")
            }
            Tree::IndexedBlock(b, d, t) => {
                let (n, t) = (d.len(), self.tree(t));
                let d = self.list("int", d);
                format!("create_indexed_block({n}, {b}, {d}, {t}")
            }
            Tree::HindexedBlock(b, d, t) => {
                let (n, t) = (d.len(), self.tree(t));
                let d = self.list("MPI_Aint", d);
                format!("create_hindexed_block({n}, {b}, {d}, {t}")
            }
            Tree::Struct(b, d, types) => {
                let n = b.len();
                let types: Vec<String> = types.iter().map(|t| self.tree(t)).collect();
                let (b, d) = (self.list("int", b), self.list("MPI_Aint", d));
                self.names += 1;
                let list = format!("l{}", self.names);
                let types = types.join(",");
                writeln!(self.text, "MPI_Datatype {list}[] = {{{types}}};").unwrap();
                format!("create_struct({n}, {b}, {d}, {list}")
            }
            Tree::Subarray(sizes, sub, start, order, t) => {
                let (n, t) = (sizes.len(), self.tree(t));
                let (sizes, sub) = (self.list("int", sizes), self.list("int", sub));
                let start = self.list("int", start);
                let order = order_name(*order);
                format!("create_subarray({n}, {sizes}, {sub}, {start}, {order}, {t}")
            }
            Tree::Darray(d, t) => {
                let (n, t) = (d.gsizes.len(), self.tree(t));
                let distributions = d.distributions.iter().map(|d| match d {
                    Distribution::Block => NUMBERS.distribute_block,
                    Distribution::Cyclic => NUMBERS.distribute_cyclic,
                    Distribution::None => NUMBERS.distribute_none,
                });
                let distributions: Vec<i64> = distributions.collect();
                let default = NUMBERS.distribute_default_argument;
                let arguments = d.arguments.iter().map(|a| a.unwrap_or(default));
                let arguments: Vec<i64> = arguments.collect();
                let lists = [&d.gsizes, &distributions, &arguments, &d.psizes];
                let lists = lists.map(|list| self.list("int", list)).join(", ");
                let (size, rank, order) = (d.size, d.rank, order_name(d.order));
                format!("create_darray({size}, {rank}, {n}, {lists}, {order}, {t}")
            }
            Tree::Resized(lb, extent, t) => {
                format!("create_resized({}, {lb}, {extent}", self.tree(t))
            }
        };
        self.names += 1;
        let name = format!("t{}", self.names);
        writeln!(self.text, "MPI_Datatype {name}; MPI_Type_{call}, &{name});").unwrap();
        writeln!(self.end, "MPI_Type_free(&{name});").unwrap();
        name
    }
}

fn order_name(order: Order) -> &'static str {
    match order {
        Order::C => "MPI_ORDER_C",
        Order::Fortran => "MPI_ORDER_FORTRAN",
    }
}

const BUFFER: i64 = 1 << 18;

/// What both sides print: sizes, bounds, and a hash of two packed elements.
fn line(tree: &Tree, data: &[u8]) -> Option<String> {
    let t = tree.build().ok()?;
    let map = tree.map();
    let bytes = map.bytes(2);
    let middle = BUFFER / 2;
    if bytes.iter().any(|at| at.abs() >= middle) {
        return None;
    }
    let mut packed = vec![0; 2 * t.size()];
    // SAFETY: all offsets lie within the buffer.
    unsafe { t.pack(data.as_ptr().add(middle as usize), 2, 0, &mut packed) };
    let hash = packed.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Some(format!(
        "{} {} {} {} {} {hash:x}",
        t.size(),
        t.lb(),
        t.extent(),
        t.true_lb(),
        t.true_extent()
    ))
}

const HEAD: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static unsigned char *data, *packed;
static void show(MPI_Datatype t) {
    int size, position = 0;
    MPI_Aint lb, extent, true_lb, true_extent;
    unsigned long hash = 0xcbf29ce484222325ul;
    MPI_Type_commit(&t);
    MPI_Type_size(t, &size);
    MPI_Type_get_extent(t, &lb, &extent);
    MPI_Type_get_true_extent(t, &true_lb, &true_extent);
    MPI_Pack(data + BUFFER / 2, 2, t, packed, BUFFER, &position, MPI_COMM_SELF);
    for (int i = 0; i < position; i++) hash = (hash ^ packed[i]) * 0x100000001b3ul;
    printf("%d %ld %ld %ld %ld %lx\n", size, (long)lb, (long)extent, (long)true_lb,
           (long)true_extent, hash);
}
"#;

const MAIN: &str = r#"
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    data = malloc(BUFFER);
    packed = malloc(BUFFER);
    for (long i = 0; i < BUFFER; i++) data[i] = i * 7 + i / 256;
    for (int i = 0; i < atoi(argv[2]); i++) functions[atoi(argv[1]) + i]();
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn agrees_with_mpich() {
    if !weft_needs::MPICH.there_or_left_out() {
        return;
    }
    // The same types in every run: a difference is a finding, not chance.
    let mut runner = TestRunner::deterministic();
    let strategy = tree();
    let data: Vec<u8> = (0..BUFFER).map(|i| (i * 7 + i / 256) as u8).collect();
    let (mut trees, mut expected) = (Vec::new(), Vec::new());
    while trees.len() < TYPES {
        let tree = strategy.new_tree(&mut runner).unwrap().current();
        let small = tree.build().is_ok_and(|t| t.size() < 100_000);
        if small
            && !matches!(tree, Tree::Named(_))
            && comparable(&tree)
            && let Some(line) = line(&tree, &data)
        {
            expected.push(line);
            trees.push(tree);
        }
    }
    let mut text = format!("#define BUFFER {BUFFER}\n{HEAD}");
    for (index, tree) in trees.iter().enumerate() {
        let mut source = Source {
            text: String::new(),
            end: String::new(),
            names: 0,
        };
        let name = source.tree(tree);
        let body = source.text;
        writeln!(
            text,
            "static void f{index}(void) {{\n{body}show({name});\n}}"
        )
        .unwrap();
    }
    let functions = (0..trees.len()).map(|index| format!("f{index}"));
    let functions = functions.collect::<Vec<_>>().join(",");
    writeln!(
        text,
        "static void (*functions[])(void) = {{{functions}}};\n{MAIN}"
    )
    .unwrap();

    let directory = std::env::temp_dir().join(format!("weft-datatype-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (source, program) = (directory.join("types.c"), directory.join("types"));
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("mpicc.mpich")
        .args(["-w", "-O0", "-o"])
        .args([&program, &source])
        .status();
    assert!(
        compiled.unwrap().success(),
        "{} does not compile",
        source.display()
    );
    // MPICH 4.0 packs too few bytes of contiguous types after some hundred other types.
    let mut output = String::new();
    for first in (0..TYPES).step_by(PER_RUN) {
        output += &run(&program, &directory, first);
    }
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), trees.len(), "see {}", source.display());
    let mut differences = 0;
    for ((tree, ours), theirs) in trees.iter().zip(&expected).zip(lines) {
        if ours != theirs {
            eprintln!("{tree:?}\n  ours   {ours}\n  theirs {theirs}");
            differences += 1;
        }
    }
    assert_eq!(
        differences,
        0,
        "of {TYPES}; the program is {}",
        source.display()
    );
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Runs the program for some types, at most for a minute, and returns what it printed.
fn run(program: &std::path::Path, directory: &std::path::Path, first: usize) -> String {
    let output = directory.join("output");
    let mut child = Command::new(program)
        .args([first, PER_RUN].map(|n| n.to_string()))
        .stdout(std::fs::File::create(&output).unwrap())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("MPICH did not finish within a minute");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(output).unwrap()
}
