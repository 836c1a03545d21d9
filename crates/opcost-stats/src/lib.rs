//! Statistics of comparisons: pure functions of numbers and seeds; no clock, no file, no unsafe.
//!
//! Runs come in blocks of drawn order ([`schedule`]): for two variants AB or BA where runs are few,
//! mirrored, ABBA or BAAB, where they are many, either order with probability 1/2. If the variants
//! do not differ, the other order of the same runs would have been as likely, so the block's
//! difference is symmetric around 0 and a test over its signs is exact whatever the noise: drifting,
//! skewed or spiked (Fisher, The Design of Experiments, 1935, chapter 3; Lehmann & Romano, Testing
//! Statistical Hypotheses, 3rd ed., section 15.2). The block, not the run, is the unit of every test
//! here.
//!
//! | module | what it answers |
//! |---|---|
//! | [`mod@effect`] | one metric of two variants: change, interval, p, what would have been found |
//! | [`rank`] | signed-rank test, Hodges-Lehmann estimate, its interval: what [`mod@effect`] uses |
//! | [`mod@exact`] | totals that never vary: an exact change, no test |
//! | [`sign`] | the interval of a median, of which nothing but the order is asked |
//! | [`relevance`] | how much seeds and layouts alone shift a count |
//! | [`early`] | whether a few exact counts already lie farther apart than that |
//! | [`power`] | how many blocks are needed; what shift would have been found |
//! | [`multiple`] | p-values of many metrics; one error rate per report |
//! | [`binomial`] | the exact interval of a share: how often something happens |
//! | [`counts`] | two counts of samples: which side has the higher rate |
//! | [`mod@welch`], [`rank_sum`] | figures of others, whose order of runs nobody knows |
//! | [`mod@change_point`] | where a series of recordings changed |
//! | [`step`] | where one step lies among points whose figures vary, for bisection |
//! | [`bootstrap`], [`summary`] | figures for display, whole units of the highest random level drawn |
//! | [`mod@drift`], [`mod@autocorrelation`], [`mod@first_runs`], [`mod@outliers`] | what to know of a series of runs; changes no verdict |
//! | [`schedule`], [`random`] | the order of runs, and the generator behind every draw |
//!
//! The caller's duty: every number given is finite, except where a function says that it checks
//! ([`effect::Paired::new`], [`summary::check_finite`]). The crate's duty: the same input and the
//! same seed give the same output. What is drawn is the same on every machine; figures that pass
//! through a logarithm may differ in their last digit from one mathematics library to another.

#![forbid(unsafe_code)]

pub mod autocorrelation;
pub mod binomial;
mod block;
pub mod bootstrap;
pub mod change_point;
pub mod counts;
pub mod drift;
pub mod early;
pub mod effect;
pub mod exact;
pub mod first_runs;
pub mod multiple;
mod normal;
pub mod outliers;
pub mod power;
pub mod random;
pub mod rank;
pub mod rank_sum;
pub mod relevance;
pub mod schedule;
pub mod sign;
pub mod step;
pub mod summary;
mod walsh;
pub mod welch;

pub use effect::{Block, EffectError, Paired, Scale};
pub use exact::{Exactness, Total, exact};
pub use multiple::{Budget, Family};
pub use random::Random;
