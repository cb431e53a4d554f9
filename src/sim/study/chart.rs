//! Lines over sizes or counts, as a table, CSV and SVG.

use std::fmt::Write as _;

/// One experiment's result. All of it says that it is a model's.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What is on the x axis (logarithmic), with its unit.
    pub x: &'static str,
    /// What is on the y axis, with its unit.
    pub y: &'static str,
    /// Whether y is logarithmic.
    pub y_log: bool,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is called.
    pub name: String,
    /// From left to right; x above 0, and y as well if it is logarithmic.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 460.0;
/// Left, top, right, bottom.
const MARGIN: [f64; 4] = [70.0, 56.0, 190.0, 52.0];
const LABEL_LINE: f64 = 17.0;
/// Ticks of a linear axis.
const TICKS: u32 = 5;
/// Told apart also by those who do not see all colours (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

impl Chart {
    /// A table to read: a row for each x, a column for each line.
    pub fn table(&self) -> String {
        let mut text = format!("model: {}\n{:>14}", self.title, self.x);
        self.lines.iter().for_each(|line| text.push_str(&format!("  {:>18}", line.name)));
        text.push('\n');
        for x in self.xs() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{:>14}", count(x));
            for line in &self.lines {
                let _ = match y_at(line, x) {
                    Some(y) => write!(text, "  {y:>18.3}"),
                    None => write!(text, "  {:>18}", "-"),
                };
            }
            text.push('\n');
        }
        let _ = writeln!(text, "y: {}", self.y);
        text
    }

    /// For programs: a header, then a line for each point; no field contains a comma.
    pub fn csv(&self) -> String {
        let plain = |text: &str| text.replace(',', ";");
        let mut text = format!("evidence,experiment,line,{},{}\n", plain(self.x), plain(self.y));
        for line in &self.lines {
            for (x, y) in &line.points {
                let _ = writeln!(text, "model,{},{},{x},{y:.6}", plain(&self.title), plain(&line.name));
            }
        }
        text
    }

    /// For people.
    pub fn svg(&self) -> String {
        let (x_scale, y_scale) = (self.x_scale(), self.y_scale());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{0}\" y=\"22\" font-size=\"15\">{1}</text>\n\
             <text x=\"{0}\" y=\"40\" fill=\"#b00\">model: published and fitted costs, no measurement of hardware</text>\n",
            MARGIN[0],
            escape(&self.title)
        );
        self.grid(&mut svg, &x_scale, &y_scale);
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let dashes = if number >= COLOURS.len() { " stroke-dasharray=\"5 3\"" } else { "" };
            let points: Vec<String> =
                line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", x_scale.at(*x), y_scale.at(*y))).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n\
                 <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>",
                points.join(" "),
                WIDTH - MARGIN[2] + 12.0,
                MARGIN[1] + 12.0 + LABEL_LINE * number as f64,
                escape(&line.name)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Every x of any line, ascending.
    fn xs(&self) -> Vec<f64> {
        let mut xs: Vec<f64> = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    fn x_scale(&self) -> Scale {
        let xs = self.xs();
        let (from, to) = (xs.first().copied().unwrap_or(1.0), xs.last().copied().unwrap_or(2.0));
        Scale { from, to: to.max(from * 2.0), log: true, start: MARGIN[0], end: WIDTH - MARGIN[2] }
    }

    fn y_scale(&self) -> Scale {
        let ys = || self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let top = ys().fold(f64::MIN_POSITIVE, f64::max);
        let (start, end) = (HEIGHT - MARGIN[3], MARGIN[1]);
        if self.y_log {
            let from = 10_f64.powf(ys().fold(top, f64::min).log10().floor());
            return Scale { from, to: 10_f64.powf(top.log10().ceil()).max(from * 10.0), log: true, start, end };
        }
        Scale { from: 0.0, to: top * 1.05, log: false, start, end }
    }

    fn grid(&self, svg: &mut String, x: &Scale, y: &Scale) {
        let mut vertical = |value: f64| {
            let _ = writeln!(
                svg,
                "<line x1=\"{0:.1}\" y1=\"{1:.1}\" x2=\"{0:.1}\" y2=\"{2:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{0:.1}\" y=\"{3:.1}\" text-anchor=\"middle\">{4}</text>",
                x.at(value),
                y.start,
                y.end,
                y.start + 16.0,
                count(value)
            );
        };
        // Every other power of two, from the left.
        let mut value = x.from;
        while value <= x.to {
            vertical(value);
            value *= if x.to / x.from > 100.0 { 4.0 } else { 2.0 };
        }
        for value in y.ticks() {
            let label = if value >= 10.0 { count(value) } else { format!("{value:.2}") };
            let _ = writeln!(
                svg,
                "<line x1=\"{0:.1}\" y1=\"{2:.1}\" x2=\"{1:.1}\" y2=\"{2:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{3:.1}\" y=\"{4:.1}\" text-anchor=\"end\">{label}</text>",
                x.start,
                x.end,
                y.at(value),
                x.start - 6.0,
                y.at(value) + 4.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text x=\"16\" y=\"{3:.1}\" transform=\"rotate(-90 16 {3:.1})\" text-anchor=\"middle\">{4}</text>",
            (x.start + x.end) / 2.0,
            HEIGHT - 14.0,
            escape(self.x),
            (y.start + y.end) / 2.0,
            escape(self.y)
        );
    }
}

/// An axis: values to places.
struct Scale {
    from: f64,
    to: f64,
    log: bool,
    start: f64,
    end: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + part * (self.end - self.start)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.log {
            return (0..=TICKS)
                .map(|tick| self.from + (self.to - self.from) * f64::from(tick) / f64::from(TICKS))
                .collect();
        }
        let decades = (self.to / self.from).log10().round() as i32;
        (0..=decades).map(|decade| self.from * 10_f64.powi(decade)).collect()
    }
}

fn y_at(line: &Line, x: f64) -> Option<f64> {
    line.points.iter().find(|point| point.0 == x).map(|point| point.1)
}

/// A count, in Ki and Mi where it is whole.
fn count(value: f64) -> String {
    const KI: f64 = 1024.0;
    match value {
        v if v >= KI * KI && v % (KI * KI) == 0.0 => format!("{:.0} Mi", v / (KI * KI)),
        v if v >= KI && v % KI == 0.0 => format!("{:.0} Ki", v / KI),
        v => format!("{v:.0}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(y_log: bool) -> Chart {
        let lines = vec![
            Line { name: "a & b".into(), points: vec![(64.0, 10.0), (4096.0, 1000.0)] },
            Line { name: "c, d".into(), points: vec![(4096.0, 20.0)] },
        ];
        Chart { title: "one < two".into(), x: "bytes", y: "ns", y_log, lines }
    }

    #[test]
    fn every_form_says_that_it_is_a_model() {
        let chart = chart(true);
        assert!(chart.table().starts_with("model: ") && chart.svg().contains("model: "));
        assert!(chart.csv().lines().skip(1).all(|line| line.starts_with("model,")));
    }

    #[test]
    fn tables_have_a_row_for_each_x_and_holes_where_a_line_has_none() {
        let table = chart(false).table();
        let rows: Vec<Vec<&str>> = table.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["64", "10.000", "-"]);
        assert_eq!(rows[1], ["4", "Ki", "1000.000", "20.000"]);
    }

    #[test]
    fn csv_has_as_many_fields_as_its_header() {
        let csv = chart(false).csv();
        assert!(csv.lines().all(|line| line.split(',').count() == 5), "{csv}");
        assert_eq!(csv.lines().count(), 4);
    }

    #[test]
    fn points_lie_inside_and_text_is_escaped() {
        for y_log in [false, true] {
            let chart = chart(y_log);
            let (x, y) = (chart.x_scale(), chart.y_scale());
            for (px, py) in chart.lines.iter().flat_map(|line| &line.points) {
                assert!((x.start..=x.end).contains(&x.at(*px)), "{px}");
                assert!((y.end..=y.start).contains(&y.at(*py)), "{py}");
            }
            let svg = chart.svg();
            assert!(svg.contains("one &lt; two") && svg.contains("a &amp; b") && !svg.contains("a & b"));
        }
    }
}
