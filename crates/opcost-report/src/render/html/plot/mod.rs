//! Plots as SVG: pure functions of numbers. The style sheet sets colours and strokes.
//!
//! A plot without values is `None`; values that are not finite are left out, so that no path has a NaN.

mod axes;
mod fitted;
mod paired;
mod points;
mod scale;
mod series;
mod strip;

pub(super) use axes::{LARGE, SMALL, Size, Words};
pub(super) use fitted::fitted;
pub(super) use paired::paired;
pub(super) use points::{every, symbol};
pub(super) use scale::outside;
pub(super) use series::{Dot, Group, series};
pub(super) use strip::{Row, strip};
