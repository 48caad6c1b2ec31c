//! Transitions of any resource with a job: how it is stopped, what its next start restores, and what is recorded.

pub(crate) mod deletion;
pub mod etcd_restore;
pub(crate) mod failed_stop;
pub(crate) mod observe;
pub mod record;
pub(crate) mod redeploy;
pub mod restart;
pub mod restore;
pub mod restore_point;
pub mod rollback;
pub mod scale;
pub mod stable;
pub mod stop;
pub(crate) mod stopping;
pub(crate) mod takeover;
