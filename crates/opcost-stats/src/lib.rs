//! Statistics of comparisons: pure functions of numbers and seeds; no clock, no file, no unsafe.
//!
//! Runs come in blocks of drawn order ([`schedule`]): for two variants AB or BA if runs are few, mirrored, ABBA or BAAB, if they
//! are many, either order with probability 1/2. If the variants do not differ, the other order of the same runs was equally likely.
//! The block's difference is then symmetric around 0, and a test over its signs is exact whatever the noise: drifting, skewed or
//! spiked (Fisher, The Design of Experiments, 1935, chapter 3; Lehmann & Romano, Testing Statistical Hypotheses, 3rd ed., section
//! 15.2). The unit of every test here is the block, not the run.
//!
//! | module | contents |
//! |---|---|
//! | [`mod@effect`] | a metric of two variants: change, interval, p, detectable effect |
//! | [`rank`] | signed-rank test, Hodges-Lehmann estimate and its interval: used by [`mod@effect`] |
//! | [`mod@exact`] | totals that never vary: an exact change, no test |
//! | [`sign`] | the interval of a median, from the order alone |
//! | [`relevance`] | how far seeds and layouts alone shift a count |
//! | [`early`] | whether a few exact counts already lie farther apart than seeds and layouts shift them |
//! | [`power`] | the number of blocks needed; the shift that would have been found |
//! | [`multiple`] | p-values of many metrics; one error rate per report |
//! | [`binomial`] | the exact interval of a probability |
//! | [`counts`] | two counts of samples: which side has the higher rate |
//! | [`mod@welch`], [`rank_sum`] | figures that others measured, in an unknown order of runs |
//! | [`mod@change_point`] | where a series of recordings changed |
//! | [`mod@growth`] | how costs grow with a parameter: n, n log n, n² |
//! | [`step`] | the place of a step among points whose figures vary, for bisection |
//! | [`bootstrap`], [`summary`] | figures for display; whole units of the highest random level are drawn |
//! | [`mod@drift`], [`mod@autocorrelation`], [`mod@first_runs`], [`mod@outliers`] | observations on runs; they change no verdict |
//! | [`carry_over`] | whether runs cost more behind one variant than behind another; the change behind their own |
//! | [`schedule`], [`random`] | the order of runs, and the generator behind every draw |
//!
//! The caller must give finite numbers, except where a function says that it checks them ([`effect::Paired::new`],
//! [`summary::check_finite`]). The same input and the same seed give the same output. Draws are the same on every machine; figures
//! that pass through a logarithm may differ in their last digit between mathematics libraries.

#![forbid(unsafe_code)]

pub mod autocorrelation;
pub mod binomial;
mod block;
pub mod bootstrap;
pub mod carry_over;
pub mod change_point;
pub mod counts;
pub mod drift;
pub mod early;
pub mod effect;
pub mod exact;
pub mod first_runs;
pub mod growth;
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
