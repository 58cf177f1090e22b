//! Several pairs of ranks at once: bandwidth with message rate, and latency.

use super::pt2pt::{BANDWIDTH, LATENCY, Window, check_ping_pong, ping_pong};
use super::timing::Bench;
use crate::error::{Error, Result};
use crate::mpi::{Combine, World};
use crate::options::Options;
use crate::output::Field;
use crate::pages::Pages;

/// What a rank does: the first `pairs` ranks send to (or begin with) the next `pairs` ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    First { peer: usize },
    Second { peer: usize },
    Idle,
}

pub(super) fn role(rank: usize, pairs: usize) -> Role {
    if rank < pairs {
        Role::First { peer: rank + pairs }
    } else if rank < 2 * pairs {
        Role::Second { peer: rank - pairs }
    } else {
        Role::Idle
    }
}

pub(super) fn pairs(world: &World, options: &Options) -> Result<usize> {
    let most = world.size / 2;
    match options.pairs.unwrap_or(most) {
        0 => Err(Error::everywhere(
            "pairs need at least 2 ranks; start with mpiexec -n 2 or more",
        )),
        pairs if pairs > most => Err(Error::everywhere(format!(
            "{pairs} pairs need {} ranks and the job has {}; lower -p or start more ranks",
            pairs.saturating_mul(2),
            world.size
        ))),
        pairs => Ok(pairs),
    }
}

/// `mbw_mr`: bandwidth and message rate of all pairs together.
pub fn bandwidth_and_rate(world: &World, options: &Options) -> Result<bool> {
    let pairs = pairs(world, options)?;
    let role = role(world.rank, pairs);
    let bench = Bench {
        world,
        options,
        defaults: BANDWIDTH,
    };
    bench.say(&bench.world.title("Multiple Bandwidth / Message Rate Test"));
    bench.say(&format!(
        "# [ pairs: {pairs} ] [ window size: {} ]",
        options.window
    ));
    let mut all_valid = true;
    for size in bench.sizes(2)? {
        let mut window = Window::new(size, options.window, 0);
        let step = |window: &mut Window| match role {
            Role::First { peer } => window.send(world, peer),
            Role::Second { peer } => window.receive(world, peer),
            Role::Idle => Ok(()),
        };
        let (elapsed, iterations) = bench.time(size, || step(&mut window))?;
        let valid = bench.validate(|seed| {
            window.mark(seed);
            step(&mut window)?;
            Ok(!matches!(role, Role::Second { .. }) || window.received(seed))
        })?;
        all_valid &= valid != Some(false);
        let sends = matches!(role, Role::First { .. });
        let time = if sends { elapsed.as_secs_f64() } else { 0.0 };
        let mean = (world.combine(time, Combine::Sum)? / pairs as f64).max(1e-9);
        let messages = f64::from(options.window) * iterations as f64 * pairs as f64;
        let rate = messages / mean;
        let bandwidth = Field::Number(rate * size as f64 / 1e6);
        bench.row(size, &[bandwidth, Field::Number(rate)], valid);
    }
    Ok(all_valid)
}

/// `multi_lat`: ping-pongs of all pairs at once, mean latency.
pub fn latency(world: &World, options: &Options) -> Result<bool> {
    let pairs = pairs(world, options)?;
    let role = role(world.rank, pairs);
    let bench = Bench {
        world,
        options,
        defaults: LATENCY,
    };
    let mut columns = vec!["Latency (us)"];
    if options.full {
        columns.push("Iterations");
    }
    bench.header("Multi Latency Test", &columns);
    let place = match role {
        Role::First { peer } => Some((true, peer)),
        Role::Second { peer } => Some((false, peer)),
        Role::Idle => None,
    };
    let mut all_valid = true;
    for size in bench.sizes(2)? {
        let (mut send, mut receive) = (Pages::of(1_u8, size), Pages::of(0_u8, size));
        let (elapsed, iterations) = bench.time(size, || match place {
            Some((first, peer)) => ping_pong(world, first, peer, &send, &mut receive),
            None => Ok(()),
        })?;
        let valid = bench.validate(|seed| match place {
            Some((first, peer)) => {
                check_ping_pong(world, first, peer, &mut send, &mut receive, seed)
            }
            None => Ok(true),
        })?;
        all_valid &= valid != Some(false);
        let time = if place.is_some() {
            elapsed.as_secs_f64()
        } else {
            0.0
        };
        let mean = world.combine(time, Combine::Sum)? / (2 * pairs) as f64;
        let mut fields = vec![Field::Number(mean * 1e6 / (2 * iterations) as f64)];
        if options.full {
            fields.push(Field::Count(iterations));
        }
        bench.row(size, &fields, valid);
    }
    Ok(all_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_pair_up() {
        let roles: Vec<Role> = (0..5).map(|rank| role(rank, 2)).collect();
        assert_eq!(
            roles,
            [
                Role::First { peer: 2 },
                Role::First { peer: 3 },
                Role::Second { peer: 0 },
                Role::Second { peer: 1 },
                Role::Idle,
            ]
        );
    }
}
