//! The grid of workers of a stencil, closed to a ring in each dimension.

/// A grid.
pub struct Grid {
    dims: Vec<usize>,
}

impl Grid {
    /// Creates a grid of `workers` workers, as near to equal sides as their number allows.
    pub fn new(workers: usize, dimensions: usize) -> Grid {
        let mut dims = vec![1; dimensions];
        let mut left = workers.max(1);
        let mut factors = Vec::new();
        let mut factor = 2;
        while left > 1 {
            while left.is_multiple_of(factor) {
                factors.push(factor);
                left /= factor;
            }
            factor += 1;
        }
        for factor in factors.into_iter().rev() {
            if let Some(least) = dims.iter_mut().min() {
                *least *= factor;
            }
        }
        Grid { dims }
    }

    fn at(&self, mut worker: usize) -> Vec<usize> {
        let mut place = Vec::with_capacity(self.dims.len());
        for side in &self.dims {
            place.push(worker % side);
            worker /= side;
        }
        place
    }

    fn step(&self, place: &[usize], step: &[isize]) -> usize {
        let mut worker = 0;
        for ((at, by), side) in place.iter().zip(step).zip(&self.dims).rev() {
            let there = (*at as isize + by).rem_euclid(*side as isize) as usize;
            worker = worker * side + there;
        }
        worker
    }

    /// The steps to the neighbours: along the axes in two dimensions, all around in three.
    fn steps(&self) -> Vec<Vec<isize>> {
        let mut steps = vec![Vec::new()];
        for _ in &self.dims {
            let longer = |step: &Vec<isize>| {
                [-1, 0, 1].map(|by| {
                    let mut step = step.clone();
                    step.push(by);
                    step
                })
            };
            steps = steps.iter().flat_map(longer).collect();
        }
        let wanted = |step: &Vec<isize>| {
            let moved = step.iter().filter(|by| **by != 0).count();
            moved > 0 && (self.dims.len() > 2 || moved == 1)
        };
        steps.into_iter().filter(wanted).collect()
    }

    /// Returns the length of a row: the side along which workers are numbered.
    pub fn row(&self) -> usize {
        self.dims[0]
    }

    /// Returns the messages between processes of `threads` workers each: sender, kind, receiver, and
    /// whether it goes up in the last dimension.
    pub fn messages(&self, threads: usize) -> Vec<(usize, usize, usize, bool)> {
        let steps = self.steps();
        let mut messages = Vec::new();
        for from in 0..self.dims.iter().product() {
            for (kind, (to, _)) in self.neighbours(from).enumerate() {
                if from / threads != to / threads {
                    messages.push((from, kind, to, steps[kind].last() == Some(&1)));
                }
            }
        }
        messages
    }

    /// Returns for each direction the worker ahead and the worker behind.
    pub fn neighbours(&self, worker: usize) -> impl Iterator<Item = (usize, usize)> {
        let place = self.at(worker);
        self.steps().into_iter().map(move |step| {
            let back: Vec<isize> = step.iter().map(|by| -by).collect();
            (self.step(&place, &step), self.step(&place, &back))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_neighbour_sees_this_one_from_the_other_side() {
        for (workers, dimensions, count) in [(1, 2, 4), (6, 2, 4), (8, 3, 26), (12, 3, 26)] {
            let grid = Grid::new(workers, dimensions);
            assert_eq!(grid.dims.iter().product::<usize>(), workers);
            for worker in 0..workers {
                assert_eq!(grid.neighbours(worker).count(), count);
                for (kind, (to, _)) in grid.neighbours(worker).enumerate() {
                    assert_eq!(grid.neighbours(to).nth(kind).unwrap().1, worker);
                }
            }
        }
    }

    #[test]
    fn threads_leave_fewer_messages() {
        // Workers on each side, and the share of the messages of processes.
        for (threads, share) in [(2, 0.5), (4, 0.5), (8, 0.25), (16, 0.25)] {
            let grid = Grid::new(2 * threads, 2);
            let between = grid.messages(threads).len() as f64;
            let all = (2 * threads * 4) as f64;
            assert_eq!(between / all, share, "{threads}");
        }
    }
}
