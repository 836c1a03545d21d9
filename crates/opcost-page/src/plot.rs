//! A plot as lines of text.

use crate::document::Plot;
use unicode_width::UnicodeWidthStr;

/// Lines of the area between the axes.
const HEIGHT: usize = 9;
/// The largest width of the area, in columns.
const WIDTH_MAX: usize = 64;
/// The least width of the area.
const WIDTH_MIN: usize = 8;

const POINT: char = '●';
const CURVE: char = '·';
/// A point above or below what is shown.
const ABOVE: char = '▲';
const BELOW: char = '▼';

/// The share of an axis at which a value stands; beyond 0 to 1 for a value that is not shown.
fn share(value: f64, (low, high): (f64, f64), logarithmic: bool) -> f64 {
    if high <= low {
        return 0.5;
    }
    match logarithmic {
        true => (value / low).ln() / (high / low).ln(),
        false => (value - low) / (high - low),
    }
}

/// The plot in lines of at most `width` columns. Points beyond the values that are shown stand at the edge as arrows.
pub fn lines(plot: &Plot, width: usize) -> Vec<String> {
    let [left, right, low, high] = &plot.ends;
    let margin = low.width().max(high.width()) + 1;
    let columns = width.saturating_sub(margin + 2).clamp(WIDTH_MIN, WIDTH_MAX);
    let across = plot.points.iter().map(|(x, _)| *x);
    let range = (across.clone().fold(f64::MAX, f64::min), across.fold(f64::MIN, f64::max));
    let mut area = vec![vec![' '; columns]; HEIGHT];
    let column = |x: f64| {
        let share = share(x, range, plot.logarithmic[0]).clamp(0.0, 1.0);
        (share * (columns - 1) as f64).round() as usize
    };
    let line = |share: f64| ((1.0 - share) * (HEIGHT - 1) as f64).round() as usize;
    for (x, y) in &plot.curve {
        let at = share(*y, plot.shown, plot.logarithmic[1]);
        if (0.0..=1.0).contains(&at) {
            area[line(at)][column(*x)] = CURVE;
        }
    }
    for (x, y) in &plot.points {
        let at = share(*y, plot.shown, plot.logarithmic[1]);
        let sign = match at {
            at if at > 1.0 + 1e-9 => ABOVE,
            at if at < -1e-9 => BELOW,
            _ => POINT,
        };
        area[line(at.clamp(0.0, 1.0))][column(*x)] = sign;
    }
    let label = |number: usize| match number {
        0 => high.as_str(),
        last if last == HEIGHT - 1 => low,
        _ => "",
    };
    let padded = |text: &str| format!("{}{text} ", " ".repeat(margin - 1 - text.width()));
    let scale = |logarithmic: bool| if logarithmic { ", logarithmic" } else { "" };
    let mut lines = vec![format!("{}{}", plot.upwards, scale(plot.logarithmic[1]))];
    for (number, cells) in area.into_iter().enumerate() {
        let cells: String = cells.into_iter().collect();
        lines.push(format!("{}│{cells}", padded(label(number))).trim_end().to_string());
    }
    let name = format!("{}{}", plot.across, scale(plot.logarithmic[0]));
    let gap = columns.saturating_sub(left.width() + right.width());
    let name = if name.width() + 2 <= gap { name } else { String::new() };
    let before = gap.saturating_sub(name.width()) / 2;
    let after = gap.saturating_sub(name.width() + before);
    lines.push(format!("{}└{}", " ".repeat(margin), "─".repeat(columns)));
    let (before, after) = (" ".repeat(before), " ".repeat(after));
    lines.push(format!("{} {left}{before}{name}{after}{right}", " ".repeat(margin)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        Plot {
            across: "n".into(),
            upwards: "wall".into(),
            points: vec![(1.0, 1.0), (2.0, 5.0), (3.0, 9.0), (3.0, 99.0)],
            curve: vec![(1.0, 1.0), (1.5, 3.0), (2.5, 7.0)],
            shown: (1.0, 9.0),
            ends: ["1", "3", "1 ms", "9 ms"].map(String::from),
            logarithmic: [false, false],
        }
    }

    #[test]
    fn points_lie_on_their_places_and_outliers_at_the_edge() {
        let shown = lines(&plot(), 15);
        assert_eq!(
            shown,
            [
                "wall",
                "9 ms │       ▲",
                "     │",
                "     │     ·",
                "     │",
                "     │    ●",
                "     │",
                "     │  ·",
                "     │",
                "1 ms │●",
                "     └────────",
                "      1  n   3",
            ]
        );
    }

    #[test]
    fn a_logarithmic_axis_says_so_and_every_line_fits() {
        let mut plot = plot();
        plot.points = vec![(1.0, 1.0), (10.0, 3.0), (100.0, 9.0)];
        plot.curve.clear();
        plot.logarithmic = [true, true];
        plot.ends[1] = "100".into();
        for width in [20, 60, 200] {
            let shown = lines(&plot, width);
            let widest = shown.iter().map(|line| line.width()).max().unwrap();
            assert!(widest <= width.clamp(18, WIDTH_MAX + 6), "{width}: {shown:?}");
        }
        let shown = lines(&plot, 60);
        assert_eq!(shown[0], "wall, logarithmic");
        // The middle of three decades, and of two values.
        assert_eq!(shown[5].find(POINT), Some("     │".len() + 26));
        assert!(shown[11].contains("n, logarithmic"));
    }

    #[test]
    fn one_value_stands_in_the_middle() {
        let one = Plot { points: vec![(7.0, 3.0)], shown: (3.0, 3.0), ..plot() };
        assert!(lines(&one, 40)[5].contains(POINT), "{:?}", lines(&one, 40));
    }
}
