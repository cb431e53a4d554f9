//! A scatter chart with lines, as SVG.

use super::Row;
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
/// Left, top, right, bottom.
const MARGIN: [f64; 4] = [64.0, 44.0, 120.0, 52.0];
/// Means below 1 ns are drawn at 1 ns.
const MEAN_MIN_NS: f64 = 1.0;
/// Labels closer than this are pushed apart.
const LABEL_LINE: f64 = 13.0;
/// Told apart also by those who do not see all colours (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// See [`super::chart()`].
pub(super) fn draw(title: &str, rows: &[Row]) -> String {
    let top = rows.iter().map(|row| row.added_ns[0]).fold(10.0, f64::max);
    let decades = top.log10().ceil();
    let x = |mean: f64| MARGIN[0] + (WIDTH - MARGIN[0] - MARGIN[2]) * mean.max(MEAN_MIN_NS).log10() / decades;
    let y = |duty: f64| HEIGHT - MARGIN[3] - (HEIGHT - MARGIN[1] - MARGIN[3]) * duty;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{}\" y=\"24\" font-size=\"15\">{}</text>\n",
        MARGIN[0],
        escape(title)
    );
    grid(&mut svg, decades as u32, &x, &y);
    let mut curves: Vec<&str> = rows.iter().filter_map(|row| row.curve.as_deref()).collect();
    curves.dedup();
    for (number, curve) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let on_it: Vec<&Row> = rows.iter().filter(|row| row.curve.as_deref() == Some(curve)).collect();
        let points: Vec<String> =
            on_it.iter().map(|row| format!("{:.1},{:.1}", x(row.added_ns[0]), y(row.duty))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{}\" y=\"{}\" fill=\"{colour}\" font-weight=\"bold\">{}</text>",
            points.join(" "),
            MARGIN[0] + 10.0,
            MARGIN[1] + 16.0 + 16.0 * number as f64,
            escape(curve)
        );
    }
    let mut points: Vec<&Row> = rows.iter().filter(|row| row.curve.is_none()).collect();
    points.sort_by(|a, b| b.duty.total_cmp(&a.duty));
    let mut free_from = 0.0;
    for (number, row) in points.iter().enumerate() {
        let colour = COLOURS[(number + 1) % COLOURS.len()];
        let (at_x, at_y) = (x(row.added_ns[0]), y(row.duty));
        let label_y = (at_y + 4.0).max(free_from);
        free_from = label_y + LABEL_LINE;
        let label_x = WIDTH - MARGIN[2] + 12.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{at_x:.1}\" y1=\"{at_y:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"0.5\"/>\n\
             <circle cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"4\" fill=\"{colour}\"/>\n\
             <text x=\"{label_x:.1}\" y=\"{label_y:.1}\" fill=\"{colour}\">{}</text>",
            label_x - 3.0,
            label_y - 4.0,
            escape(&row.policy)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Axes, decades and tenths.
fn grid(svg: &mut String, decades: u32, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) {
    for decade in 0..=decades {
        let mean = 10_f64.powi(decade as i32);
        let label = if decade < 3 { format!("{mean:.0} ns") } else { format!("{:.0} us", mean / 1e3) };
        let _ = writeln!(
            svg,
            "<line x1=\"{0:.1}\" y1=\"{1:.1}\" x2=\"{0:.1}\" y2=\"{2:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{0:.1}\" y=\"{3:.1}\" text-anchor=\"middle\">{label}</text>",
            x(mean),
            y(0.0),
            y(1.0),
            y(0.0) + 16.0
        );
    }
    for fifth in 0..=5 {
        let duty = f64::from(fifth) / 5.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{0:.1}\" y1=\"{2:.1}\" x2=\"{1:.1}\" y2=\"{2:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{5:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{4:.0} %</text>",
            x(1.0),
            WIDTH - MARGIN[2],
            y(duty),
            y(duty) + 4.0,
            100.0 * duty,
            x(1.0) - 6.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">mean latency added to tight polling</text>\n\
         <text x=\"16\" y=\"{:.1}\" transform=\"rotate(-90 16 {3:.1})\" text-anchor=\"middle\">idle time given away</text>",
        (x(1.0) + WIDTH - MARGIN[2]) / 2.0,
        HEIGHT - 14.0,
        y(0.5),
        y(0.5)
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
