//! A simulated resource's part in the budget of its fleet's upgrades.

use std::cell::RefCell;
use std::rc::Rc;

use jiff::Timestamp;
use lifecycle::upgrade_budget::{Limits, Of, Record, ResourceKind, UpgradeBudget};
use lifecycle::wait::Waiting;
use lifecycle::world::Turn;

/// The budget of one operator, for all resources of a fleet.
pub type Budget = Rc<RefCell<UpgradeBudget>>;

/// A resource's part in the budget of its fleet.
#[derive(Clone)]
pub struct Seat {
    of: Of,
    limits: Limits,
    budget: Budget,
}

impl Seat {
    /// Returns the seat of a resource with a number, in one of three namespaces.
    pub fn new(kind: ResourceKind, number: usize, limits: Limits, budget: &Budget) -> Self {
        let of = Of {
            kind,
            uid: format!("u{number}"),
            namespace: format!("ns-{}", number % 3),
            name: format!("job-{number}"),
            parent: None,
        };
        Self { of, limits, budget: Rc::clone(budget) }
    }

    /// Returns the seat of a child of this blue/green deployment.
    pub fn of_child(&self, uid: &str) -> Self {
        let of = Of {
            kind: ResourceKind::FlinkDeployment,
            uid: uid.to_owned(),
            parent: Some(self.of.uid.clone()),
            ..self.of.clone()
        };
        Self { of, ..self.clone() }
    }

    pub fn ask(&self, generation: i64, now: Timestamp) -> Turn {
        self.budget.borrow_mut().ask(&self.of, generation, &self.limits, now)
    }

    /// Notes what a pass has decided. A resource that is woken would ask within a second anyway.
    pub fn decide(&self, record: Record, waits: Option<Waiting>, now: Timestamp) {
        let (mut budget, waits) = (self.budget.borrow_mut(), waits.map(|waits| waits.on));
        let _woken = budget.decided(&self.of, record, waits, &self.limits, now);
    }

    /// Shows what is stored through the watch.
    pub fn show(&self, record: Record, generation: i64, now: Timestamp) {
        let mut budget = self.budget.borrow_mut();
        let _woken = budget.seen(&self.of, generation, record.standing, &self.limits, now);
    }

    /// Lists what is stored to another process.
    pub fn list(&self, record: Record, generation: i64, now: Timestamp) {
        self.budget.borrow_mut().restore(&self.of, generation, record, now);
        self.show(record, generation, now);
    }

    /// The resource is gone.
    pub fn leave(&self, now: Timestamp) {
        let _woken = self.budget.borrow_mut().gone(&self.of.uid, &self.limits, now);
    }
}
