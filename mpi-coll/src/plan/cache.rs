//! The plan cache of a communicator: how its calls are executed, for calls that come again.
//!
//! A plan of one phase is a few words and needs no schedule. The program's handles find it in one
//! comparison ([`PlanCache::find`]), which also stands for the checks of datatype, operation and
//! count. Any other plan owns a schedule and the state of its run, so a call takes it out and gives
//! it back.
//!
//! Invariant: members of a communicator may hit and miss at different calls, since they may name
//! their data by different datatypes and so evict different plans. A plan follows from the call's
//! arguments, from the algorithms and slots that all members share, and from nothing else; so a plan
//! that is made again equals the one that was evicted.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Message;
use crate::exec::phase::{PhaseArguments, PhasePlan};
use crate::plan::shape::{OwnedShape, Shape};
use mpi_core::lock::Guarded;
use mpi_core::process::Process;
use mpi_sched::{Collective, Run};

/// Plans with a schedule that a communicator keeps.
pub(crate) const SCHEDULED_PLANS: usize = 16;
/// Bytes of scratch memory that they keep together, but for the one used last.
const MAX_SCRATCH: usize = 64 << 20;
/// Bytes of scratch memory of a plan from which on they are counted.
const LARGE_SCRATCH: usize = 1 << 20;
/// Binary logarithm of the number of plans of one phase that it keeps.
const PHASE_PLANS_LOG2: u32 = 4;
const PHASE_PLANS: usize = 1 << PHASE_PLANS_LOG2;

/// How a schedule is executed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Executor {
    /// By messages.
    #[default]
    Messages,
    /// By slots that all members share, possibly with direct copies.
    SharedSlots,
    /// By slots that all members share, where several calls are in progress together.
    NonblockingSlots,
    /// By slots of each node and, between the nodes' leaders, messages or writes.
    NodeSlots,
    /// By writes to slots over a network.
    Network,
}

/// A plan with a schedule.
#[derive(Default)]
pub(crate) struct ScheduledPlan {
    pub run: Run<Message>,
    pub executor: Executor,
    /// What all members must agree on.
    pub signature: CallSignature,
    /// The calls that it is for; `None` if it is for one call.
    shape: Option<OwnedShape>,
    /// The cache's generation when the schedule was built.
    generation: u32,
}

impl ScheduledPlan {
    /// Whether its scratch memory is too long to be kept without need.
    fn is_large(&self) -> bool {
        self.run.schedule().scratch_len() >= LARGE_SCRATCH
    }
}

/// The handles of a call's datatype and operation.
///
/// Only predefined handles stand for themselves: others can be freed and made again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Handles {
    /// A predefined datatype; 0 if there is none.
    pub datatype: i32,
    /// A predefined operation; 0 if there is none.
    pub op: i32,
}

impl Handles {
    /// No handles: the plan is found by the call's arguments only.
    pub const NONE: Handles = Handles { datatype: 0, op: 0 };
}

/// Identifies a plan of one phase by arguments as the program passes them.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PlanKey {
    pub count: i64,
    pub handles: Handles,
    /// `None`: the key of an empty entry.
    pub kind: Option<Collective>,
}

impl PlanKey {
    /// The entry in which a plan with this key is kept.
    #[inline(always)]
    fn home(&self) -> usize {
        let Handles { datatype, op } = self.handles;
        let mixed = (datatype ^ op ^ self.count as i32) as u32
            ^ self.kind.map_or(0, |kind| kind as u32 + 1) << 16;
        // A multiplicative hash (Fibonacci hashing): the product's upper bits depend on all bits.
        (mixed.wrapping_mul(0x9e37_79b1) >> (u32::BITS - PHASE_PLANS_LOG2)) as usize
    }
}

/// Plans of one phase, each in the entry that its key says.
#[derive(Default)]
struct PhasePlans([(PlanKey, Option<PhasePlan>); PHASE_PLANS]);

impl PhasePlans {
    #[inline(always)]
    fn find(&self, key: PlanKey) -> Option<PhasePlan> {
        match &self.0[key.home()] {
            (known, plan) if *known == key => *plan,
            _ => None,
        }
    }

    /// Keeps a plan in the entry that its arguments and handles say. Without handles, no key finds it.
    fn keep(&mut self, plan: PhasePlan, handles: Handles) {
        let mut key = PlanKey {
            count: plan.arguments.count as i64,
            handles,
            kind: Some(plan.arguments.kind),
        };
        let home = key.home();
        if handles == Handles::NONE {
            key.kind = None;
        }
        self.0[home] = (key, Some(plan));
    }
}

/// Plans with a schedule.
#[derive(Default)]
struct ScheduledPlans {
    /// The one used last is the last.
    #[allow(
        clippy::vec_box,
        reason = "they are large, and taken out and put back by every call"
    )]
    kept: Vec<Box<ScheduledPlan>>,
    /// One that fits no call any more, whose memory the next plan uses.
    spare: Option<Box<ScheduledPlan>>,
}

impl ScheduledPlans {
    /// Drops the plans used first while all have more than [`MAX_SCRATCH`] bytes of scratch memory.
    #[cold]
    fn bound_scratch(&mut self) {
        let mut before_last = self.kept.len() - 1;
        let bytes = |plan: &ScheduledPlan| plan.run.schedule().scratch_len();
        let earlier = self.kept[..before_last].iter();
        let mut sum: usize = earlier.map(|plan| bytes(plan)).sum();
        while sum > MAX_SCRATCH && before_last > 0 {
            sum -= bytes(&self.kept.remove(0));
            before_last -= 1;
        }
    }
}

/// The plans of a communicator.
#[derive(Default)]
pub(crate) struct PlanCache {
    /// The signature of a barrier of one phase; 0 if there was none.
    barrier: AtomicU64,
    phases: Guarded<PhasePlans>,
    scheduled: Guarded<ScheduledPlans>,
    /// Generation of what plans depend on; those of an older generation are not kept.
    generation: AtomicU32,
}

impl PlanCache {
    /// Returns the signature of barriers, if they have one phase.
    #[inline(always)]
    pub fn barrier(&self) -> Option<CallSignature> {
        match self.barrier.load(Ordering::Relaxed) {
            0 => None,
            word => Some(CallSignature::from_word(word)),
        }
    }

    /// Finds a plan of one phase by the program's handles.
    #[inline(always)]
    pub fn find(&self, process: &Process, key: PlanKey) -> Option<PhasePlan> {
        // SAFETY: the plan is copied before anything is locked, and calls on a process that is not
        // threaded don't overlap.
        match unsafe { self.phases.peek_as(!process.is_threaded()) } {
            Some(plans) => plans.find(key),
            None => self.phases.lock_by_word().find(key),
        }
    }

    /// Finds a plan of one phase by the call's arguments.
    ///
    /// Keeps it for `handles`, too, if equal calls came with others or none.
    pub fn find_phase(&self, arguments: PhaseArguments, handles: Handles) -> Option<PhasePlan> {
        if arguments.kind == Collective::Barrier {
            return self.barrier().map(PhasePlan::barrier);
        }
        let mut plans = self.phases.lock();
        let mut kept = plans.0.iter().filter_map(|(_, plan)| *plan);
        let plan = kept.find(|plan| plan.arguments == arguments)?;
        if handles != Handles::NONE {
            plans.keep(plan, handles);
        }
        Some(plan)
    }

    /// Keeps a plan of one phase.
    pub fn keep_phase(&self, plan: PhasePlan, handles: Handles) {
        match plan.arguments.kind {
            Collective::Barrier => self.barrier.store(plan.signature.word(), Ordering::Relaxed),
            _ => self.phases.lock().keep(plan, handles),
        }
    }

    /// Takes a plan with a schedule for calls of this shape.
    pub fn take(&self, shape: &Shape<'_>) -> Option<Box<ScheduledPlan>> {
        let fits =
            |plan: &ScheduledPlan| plan.shape.as_ref().is_some_and(|known| known.fits(shape));
        let mut plans = self.scheduled.lock();
        let index = plans.kept.iter().rposition(|plan| fits(plan))?;
        Some(plans.kept.remove(index))
    }

    /// Returns a plan without a schedule, for calls of this shape or for one call.
    pub fn blank(&self, shape: Option<&Shape<'_>>) -> Box<ScheduledPlan> {
        let mut plan = self.scheduled.lock().spare.take().unwrap_or_default();
        plan.generation = self.generation.load(Ordering::Relaxed);
        plan.shape = shape.map(|shape| shape.owned());
        plan.executor = Executor::default();
        plan.signature = CallSignature::default();
        plan
    }

    /// Gives a plan back, for later calls if it may be kept.
    ///
    /// A plan whose operation is about to be freed is dropped, since its schedule owns the operation.
    pub fn give(&self, mut plan: Box<ScheduledPlan>) {
        if let Some(op) = plan.run.schedule().op()
            && !op.may_be_cached()
        {
            return;
        }
        let is_current = plan.generation == self.generation.load(Ordering::Relaxed);
        let mut plans = self.scheduled.lock();
        if plan.shape.is_some() && is_current {
            let is_large = plan.is_large();
            plans.kept.push(plan);
            if is_large {
                plans.bound_scratch();
            }
            if plans.kept.len() <= SCHEDULED_PLANS {
                return;
            }
            plan = plans.kept.remove(0);
        }
        plan.shape = None;
        plans.spare = (!plan.is_large()).then_some(plan);
    }

    /// Gives back a plan that no call needs, for its memory.
    pub fn discard(&self, mut plan: Box<ScheduledPlan>) {
        plan.shape = None;
        self.give(plan);
    }

    /// Drops all plans, also those that collectives in progress give back later.
    pub fn clear(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.barrier.store(0, Ordering::Relaxed);
        *self.phases.lock() = PhasePlans::default();
        *self.scheduled.lock() = ScheduledPlans::default();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::plan::call::{Call, Root};
    use mpi_core::datatype::{Datatype, Predefined};
    use mpi_core::op::{Op, PredefinedOp};
    use mpi_sched::Part;

    const RANKS: u32 = 4;

    fn bcast(part: Part<'_>) -> Call<'_> {
        let root = Root::Rank(0);
        Call::Bcast(root, part)
    }

    /// Looks a call up as a blocking call does, and keeps its plan. Returns whether it was found.
    fn goes_by_kept_plan(cache: &PlanCache, call: &Call<'_>, handles: Handles) -> bool {
        let shape = call.shape(RANKS).expect("all ranks know the lengths");
        let arguments = PhaseArguments::of(&shape, RANKS).expect("the datatype is predefined");
        if cache.find_phase(arguments, handles).is_some() {
            return true;
        }
        let signature = CallSignature::of(call, RANKS as usize, 1);
        let plan = PhasePlan::of(&shape, arguments, signature).expect("the call is short");
        cache.keep_phase(plan, handles);
        false
    }

    #[test]
    fn plans_of_many_counts_are_bounded() {
        let cache = PlanCache::default();
        let int = Datatype::predefined(Predefined::Int);
        for count in 1..10_000 {
            let datatype = &int;
            let call = bcast(Part { count, datatype });
            let shape = call.shape(RANKS).expect("all blocks are equal");
            assert!(cache.take(&shape).is_none(), "{count}");
            cache.give(cache.blank(Some(&shape)));
            let kept = cache.take(&shape).expect("it was used last");
            cache.give(kept);
            assert!(cache.scheduled.lock().kept.len() <= SCHEDULED_PLANS);
            assert!(!goes_by_kept_plan(&cache, &call, Handles::NONE), "{count}");
            assert!(goes_by_kept_plan(&cache, &call, Handles::NONE), "{count}");
        }
        cache.clear();
        assert!(cache.scheduled.lock().kept.is_empty());
    }

    #[test]
    fn scratch_memory_of_long_calls_is_bounded() {
        let cache = PlanCache::default();
        let byte = Datatype::predefined(Predefined::Byte);
        for i in 0..40 {
            let (count, datatype) = ((i + 1) << 20, &byte);
            let call = bcast(Part { count, datatype });
            let mut plan = cache.blank(call.shape(RANKS).as_ref());
            plan.run.rebuild().scratch_bytes(count);
            cache.give(plan);
            let plans = cache.scheduled.lock();
            let bytes = |plan: &ScheduledPlan| plan.run.schedule().scratch_len();
            let (last, earlier) = plans.kept.split_last().expect("the last one is kept");
            assert_eq!(bytes(last), count);
            let sum: usize = earlier.iter().map(|plan| bytes(plan)).sum();
            assert!(sum <= MAX_SCRATCH, "{sum}");
            assert!(i == 0 || !earlier.is_empty() || count > MAX_SCRATCH);
        }
    }

    #[test]
    fn the_plans_used_last_are_kept() {
        let cache = PlanCache::default();
        let int = Datatype::predefined(Predefined::Int);
        let parts: Vec<Part<'_>> = (0..SCHEDULED_PLANS + 1)
            .map(|count| Part {
                count,
                datatype: &int,
            })
            .collect();
        let calls: Vec<Call<'_>> = parts.iter().map(|part| bcast(*part)).collect();
        let shapes: Vec<Shape<'_>> = calls.iter().filter_map(|call| call.shape(RANKS)).collect();
        for shape in &shapes {
            cache.give(cache.blank(Some(shape)));
        }
        assert!(cache.take(&shapes[0]).is_none());
        assert!(cache.take(&shapes[1]).is_some() && cache.take(&shapes[1]).is_none());
    }

    #[test]
    fn a_datatype_that_was_made_again_fits_no_old_plan() {
        let cache = PlanCache::default();
        let int = Datatype::predefined(Predefined::Int);
        for _ in 0..100 {
            // Freed at the end of each turn, so that the next may get its memory.
            let pair = int.contiguous(2).expect("a small datatype");
            let part = Part {
                count: 1,
                datatype: &pair,
            };
            let call = bcast(part);
            let shape = call.shape(RANKS).expect("all blocks are equal");
            assert!(cache.take(&shape).is_none());
            cache.give(cache.blank(Some(&shape)));
        }
    }

    #[test]
    fn handles_find_what_was_kept_for_them_only() {
        let cache = PlanCache::default();
        let int = Datatype::predefined(Predefined::Int);
        let sum = Op::predefined(PredefinedOp::Sum);
        let part = Part {
            count: 3,
            datatype: &int,
        };
        let call = Call::Allreduce(mpi_sched::Reduction::new(false, part, &sum));
        let handles = Handles {
            datatype: 77,
            op: 5,
        };
        let key = PlanKey {
            kind: Some(Collective::Allreduce),
            handles,
            count: 3,
        };
        let find = |key: PlanKey| cache.phases.lock().find(key).is_some();
        assert!(!goes_by_kept_plan(&cache, &call, Handles::NONE) && !find(key));
        // The same arguments with handles: the plan is found by them from now on.
        assert!(goes_by_kept_plan(&cache, &call, handles) && find(key));
        let others = [
            PlanKey { count: 4, ..key },
            PlanKey {
                kind: Some(Collective::Reduce),
                ..key
            },
            PlanKey {
                handles: Handles { op: 6, ..handles },
                ..key
            },
            PlanKey {
                handles: Handles::NONE,
                ..key
            },
        ];
        assert!(others.into_iter().all(|other| !find(other)));
        cache.clear();
        assert!(!find(key));
    }

    #[test]
    fn a_plan_of_an_older_generation_is_not_kept() {
        let cache = PlanCache::default();
        let call = Call::Barrier;
        let shape = call.shape(RANKS).expect("a barrier has no blocks");
        let taken = cache.blank(Some(&shape));
        cache.clear();
        cache.give(taken);
        assert!(cache.take(&shape).is_none());
    }
}
